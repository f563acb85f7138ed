"""A right provider's batches on disk: what it decided about each, its share of each total, and what it delivers of them.

decided: which reports are accepted, signed, with their sum beside; the rows are still here. added: every right provider
signed the same; the rows were erased in the same transaction. disagreed: one of them signed something else; rows and sum
are erased. A batch is in one release at most, for ever.

What is delivered is noisy, blinded, and committed to before it is sent. A provider's values are its share of the totals
plus its noise plus masks that cancel over all providers, modulo P. The collector adds all providers' values up and reads
them as signed numbers; it learns the noisy totals and nothing else. Every value is a function of the provider's secret
and of what is asked, so that a repeat sends the same bytes.

What a right provider has delivered and been paid for, kept outside the store: a file beside its keys, one a study.

A store restored from a backup forgets; this file does not. It is read and written whole lines at a time under a lock,
forced to disk before anything is sent, and every line carries the hash of all before it. The store keeps the number of
lines and the last hash: a file shorter than the store says was lost or rolled back, and then nothing is delivered for
the study any more (docs/theory/verified-moments.md#noise-once).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.randomness import RoundedGaussian, Stream, derive_key
from trimask_core.basics.refusals import Reason
from trimask_core.moments.field import P, draw, pack, unpack
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.totals import EntryNoise
from trimask_server.right.rows import RowStore
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.metrics import add_counts
from trimask_server.store.data_keys import Vault, destroy_keys
from trimask_server.store.interface import Store, Transaction

_FOLDER = "moments"


@dataclass(frozen=True)
class LedgerHead:
    """How many entries there are, and the hash over all of them."""

    entries: int
    digest: bytes


class KeptLedger:
    """The file of one study. Entries are JSON objects with a `kind`."""

    def __init__(self, keys: Path, study_id: bytes) -> None:
        self._path = keys / _FOLDER / f"{study_id.hex()}.ledger"

    @contextmanager
    def locked(self) -> Iterator[LockedLedger]:
        """The ledger, for one process at a time."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield LockedLedger(descriptor, self._path)
        finally:
            os.close(descriptor)


class LockedLedger:
    """What may be done while the lock is held."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path
        self.entries: list[dict[str, Any]] = []
        self._digests = [hashlib.sha256(b"trimask/v1/moments ledger").digest()]
        with os.fdopen(os.dup(descriptor), "rb") as file:
            text = file.read()
        whole, _, torn = text.rpartition(b"\n")
        for line in whole.split(b"\n") if whole else ():
            self._take(line)
        if torn:  # a write that was cut off before it was forced to disk, so before anything was sent
            os.ftruncate(descriptor, len(text) - len(torn))

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            before = bytes.fromhex(entry.pop("before"))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise VerificationError(
                f"{self._path.name}: entry {len(self.entries) + 1} cannot be read"
            ) from None
        if before != self._digests[-1]:
            raise VerificationError(
                f"{self._path.name}: entry {len(self.entries) + 1} does not follow the one before"
            )
        self.entries.append(entry)
        self._digests.append(hashlib.sha256(line).digest())

    @property
    def head(self) -> LedgerHead:
        """Where the ledger ends."""
        return self.head_at(len(self.entries))

    def head_at(self, entries: int) -> LedgerHead:
        """Where it ended when it had so many entries."""
        return LedgerHead(entries, self._digests[entries])

    def append(self, entry: dict[str, Any]) -> None:
        """Add an entry; on disk when this returns."""
        line = json.dumps(entry | {"before": self._digests[-1].hex()}, sort_keys=True).encode()
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        # A disk on which there was some room takes a part.
        if os.write(self._descriptor, line + b"\n") != len(line) + 1:
            os.ftruncate(self._descriptor, end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path.name)
        try:
            self.force()
        except OSError:
            os.ftruncate(self._descriptor, end)
            raise
        self.entries.append(entry)
        self._digests.append(hashlib.sha256(line).digest())

    def force(self) -> None:
        """Have everything on disk, the file's name too. Also before a repeat: the first time may have ended at the write."""
        os.fsync(self._descriptor)
        for folder in (self._path.parent, self._path.parent.parent):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def require(self, seen: LedgerHead) -> None:
        """Refuse a file that is behind what the store has seen of it, or another one."""
        if seen.entries and (len(self.entries) < seen.entries or self.head_at(seen.entries) != seen):
            raise Refused(
                Reason.LEDGER_LOST,
                "this node's ledger of deliveries is older than its store: its keys were restored from an old copy. "
                "Nothing is delivered for this study until the file is back",
            )


BatchState = Literal["decided", "added", "disagreed"]
_SCOPE = "moments"
_COLUMNS = "batch_id, state, accepted_hash, accepted_count, accepted, refused, signature, release_number"


@dataclass(frozen=True)
class Decision:
    """What a provider found about a batch (a byte for each report, 1 or 0), and its share of the sum of what it accepted."""

    accepted_hash: bytes
    accepted: bytes
    refused: dict[str, int]
    signature: bytes
    total: Sequence[int] = field(repr=False)


@dataclass(frozen=True)
class StoredBatch:
    """A batch as it is kept, without its total."""

    batch_id: bytes
    state: BatchState
    accepted_hash: bytes
    accepted_count: int
    accepted: bytes
    refused: dict[str, int]
    signature: bytes
    release_number: int | None


@dataclass(frozen=True)
class BatchStore:
    """Batches of the moments suite, in the node's store."""

    database: Store
    vault: Vault
    rows: RowStore
    audit: AuditLog | None = None

    async def find(self, study_id: bytes, batch_id: bytes) -> StoredBatch | None:
        """A batch this provider has decided about."""
        return await self.database.read(lambda tx: _find(tx, study_id, batch_id))

    async def decide(self, study_id: bytes, batch_id: bytes, decision: Decision) -> StoredBatch:
        """Write a decision to disk before it is sent to anybody; the first one stays."""

        def write(tx: Transaction) -> StoredBatch:
            key = self.vault.obtain(tx, study_id, _SCOPE)
            tx.run(
                "INSERT INTO moments_batches (study_id, batch_id, state, accepted_hash, accepted_count, accepted,"
                " refused, signature, total) VALUES (?, ?, 'decided', ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (study_id, batch_id) DO NOTHING",
                (
                    study_id,
                    batch_id,
                    decision.accepted_hash,
                    sum(decision.accepted),
                    decision.accepted,
                    json.dumps(decision.refused, sort_keys=True),
                    decision.signature,
                    key.encrypt(pack(decision.total), batch_id),
                ),
            )
            stored = _find(tx, study_id, batch_id)
            if stored is None or stored.accepted_hash != decision.accepted_hash:
                raise Refused(
                    Reason.BATCH_DISAGREED, "this provider decided otherwise about that batch before"
                )
            return stored

        return await self.database.write(write)

    async def add(self, study_id: bytes, batch_id: bytes) -> bool:
        """Every provider signed the same: the sum counts, the rows go and refused ones are counted, in one transaction;
        False if it was done."""

        def write(tx: Transaction) -> bool:
            stored = _find(tx, study_id, batch_id)
            if stored is None or stored.state == "disagreed":
                raise Refused(Reason.BATCH_DISAGREED, "that batch cannot be added up here")
            if stored.state == "added":
                return False
            tx.run(
                "UPDATE moments_batches SET state = 'added' WHERE study_id = ? AND batch_id = ?",
                (study_id, batch_id),
            )
            self.rows.erase_block_in(tx, study_id, batch_id)
            add_counts(tx, stored.refused)
            self._record(
                tx,
                "batch_added",
                study=study_id.hex(),
                batch=batch_id.hex(),
                accepted=stored.accepted_count,
                refused=sum(stored.refused.values()),
            )
            return True

        done = await self.database.write(write)
        if done:
            await self.database.scrub()
            self.rows.scrubbed.add(batch_id)
        return done

    async def disagree(self, study_id: bytes, batch_id: bytes, role: str) -> None:
        """Another provider signed something else: erase this batch, rows and sum, and remember that it is void."""

        def write(tx: Transaction) -> None:
            tx.run(
                "UPDATE moments_batches SET state = 'disagreed', total = NULL WHERE study_id = ? AND batch_id = ?"
                " AND state = 'decided'",
                (study_id, batch_id),
            )
            self.rows.erase_block_in(tx, study_id, batch_id)
            self._record(tx, "batch_disagreed", study=study_id.hex(), batch=batch_id.hex(), **{"with": role})

        await self.database.write(write)
        await self.database.scrub()

    def _record(self, tx: Transaction, kind: str, **details: str | int) -> None:
        if self.audit is not None:
            self.audit.append(tx, kind, **details)

    async def totals(
        self, study_id: bytes, batch_ids: Sequence[bytes]
    ) -> list[tuple[StoredBatch, list[int]]]:
        """Added batches with this provider's share of their sums, in the order asked for."""

        def read(tx: Transaction) -> list[tuple[StoredBatch, list[int]]]:
            key = self.vault.find(tx, study_id, _SCOPE)
            found = []
            for batch_id in batch_ids:
                stored = _find(tx, study_id, batch_id)
                if stored is None or stored.state != "added" or key is None:
                    raise Refused(
                        Reason.BATCH_LOST, f"batch {batch_id.hex()[:12]} is not added up at this provider"
                    )
                row = tx.row(
                    "SELECT total FROM moments_batches WHERE study_id = ? AND batch_id = ?",
                    (study_id, batch_id),
                )
                if row is None or row[0] is None:
                    raise Refused(
                        Reason.BATCH_LOST, f"batch {batch_id.hex()[:12]} is erased at this provider"
                    )
                found.append((stored, unpack(key.decrypt(row[0], batch_id))))
            return found

        return await self.database.read(read)

    async def release(
        self, study_id: bytes, number: int, batch_ids: Sequence[bytes], head: LedgerHead
    ) -> None:
        """Bind batches to a release for ever, and note how far the kept ledger has come."""

        def write(tx: Transaction) -> None:
            for batch_id in batch_ids:
                tx.run(
                    "UPDATE moments_batches SET release_number = ? WHERE study_id = ? AND batch_id = ?"
                    " AND release_number IS NULL",
                    (number, study_id, batch_id),
                )
                stored = _find(tx, study_id, batch_id)
                if stored is None or stored.release_number != number:
                    raise Refused(Reason.BATCH_RELEASED, f"batch {batch_id.hex()[:12]} is in another release")
            _write_head(tx, study_id, head)
            self._record(tx, "totals_delivered", study=study_id.hex(), release=number, entries=head.entries)

        await self.database.write(write)

    async def erase_totals(self, study_id: bytes, head: LedgerHead) -> None:
        """Erase every total of a study with its key; what was decided about each batch stays, and how far the ledger is."""

        def write(tx: Transaction) -> None:
            erased = tx.run(
                "UPDATE moments_batches SET total = NULL WHERE study_id = ? AND total IS NOT NULL",
                (study_id,),
            )
            destroy_keys(tx, study_id, [_SCOPE])
            _write_head(tx, study_id, head)
            if erased:
                self._record(tx, "totals_erased", study=study_id.hex(), batches=erased)

        await self.database.write(write)
        await self.database.scrub()

    async def head(self, study_id: bytes) -> LedgerHead:
        """How far the kept ledger had come when this store last saw it."""
        row = await self.database.read(
            lambda tx: tx.row("SELECT entries, digest FROM moments_heads WHERE study_id = ?", (study_id,))
        )
        return LedgerHead(0, b"") if row is None else LedgerHead(int(row[0]), bytes(row[1]))

    async def ledger_lost(self, study_id: bytes) -> bool | None:
        """Whether the study came back in a restored store without its ledger; None if it did not come back."""
        row = await self.database.read(
            lambda tx: tx.row("SELECT lost FROM restored_ledgers WHERE study_id = ?", (study_id,))
        )
        return None if row is None else bool(row[0])

    async def ledger_compared(self, study_id: bytes) -> None:
        """Every other right provider has found nothing missing in the ledger."""
        await self.database.write(
            lambda tx: tx.run("DELETE FROM restored_ledgers WHERE study_id = ? AND lost = 0", (study_id,))
        )

    async def ledger_behind(self, study_id: bytes, role: str, missing: int) -> None:
        """Record that another right provider's ledger lacks what was delivered together with it."""
        await self.database.write(
            lambda tx: self._record(
                tx, "ledger_behind", study=study_id.hex(), missing=missing, **{"with": role}
            )
        )

    @staticmethod
    def erase_study(tx: Transaction, study_id: bytes) -> int:
        """Erase batches and their totals. The study cannot be registered again, so nothing is ever delivered for it."""
        destroy_keys(tx, study_id, [_SCOPE])
        tx.run("DELETE FROM moments_heads WHERE study_id = ?", (study_id,))
        tx.run("DELETE FROM restored_ledgers WHERE study_id = ?", (study_id,))
        tx.run("DELETE FROM moments_batches WHERE study_id = ?", (study_id,))
        return 0  # their reports were erased with their batches


def _write_head(tx: Transaction, study_id: bytes, head: LedgerHead) -> None:
    tx.run(
        "INSERT INTO moments_heads (study_id, entries, digest) VALUES (?, ?, ?)"
        " ON CONFLICT (study_id) DO UPDATE SET entries = excluded.entries, digest = excluded.digest"
        " WHERE excluded.entries > moments_heads.entries",  # a repeat may come here after a later delivery
        (study_id, head.entries, head.digest),
    )


def _find(tx: Transaction, study_id: bytes, batch_id: bytes) -> StoredBatch | None:
    row = tx.row(
        f"SELECT {_COLUMNS} FROM moments_batches WHERE study_id = ? AND batch_id = ?",  # noqa: S608 - names only
        (study_id, batch_id),
    )
    if row is None:
        return None
    return StoredBatch(
        bytes(row[0]), row[1], bytes(row[2]), int(row[3]), bytes(row[4]), json.loads(row[5]), bytes(row[6]),
        None if row[7] is None else int(row[7]),
    )  # fmt: skip


def verdict_message(study_id: bytes, batch_id: bytes, accepted: bytes) -> bytes:
    """What a provider signs (context "batch-verdict") before anything is added up."""
    return study_id + batch_id + accepted


def exchange_key_message(study_id: bytes, role: str, public: bytes) -> bytes:
    """What a provider signs (context "exchange-key") with its exchange key."""
    return study_id + public + role.encode()


def add_up(layout: MomentsLayout, shares: Sequence[Sequence[int]], reports: int, *, first: bool) -> list[int]:
    """A provider's share of the totals: those of x_0's row, then the products; `first` is R_1, who has the constants."""
    proof = [0] * (layout.elements - layout.products.stop)
    elements = [sum(column) % P for column in zip(*shares, strict=True)]
    if not elements:
        elements = [0] * layout.products.stop
    z, products = layout.totals_of([*elements, *proof], reports if first else 0)
    return [*z, *products]


def add_noise(totals: Sequence[int], noises: Sequence[EntryNoise], stream: Stream) -> list[int]:
    """The totals on each entry's grid, with one provider's rounded noise (docs/theory/verified-moments.md#noise)."""
    gaussian = RoundedGaussian(_StreamSource(stream))
    return [
        ((total << noise.shift) + (gaussian.sample(noise.sigma) if noise.sigma else 0)) % P
        for total, noise in zip(totals, noises, strict=True)
    ]


@dataclass(frozen=True)
class _StreamSource:
    """A stream where a source of randomness is asked for: noise that is the same at every repeat."""

    stream: Stream

    def read(self, count: int) -> bytes:
        return self.stream.read(count)

    def seed(self) -> bytes:
        return self.stream.read(32)


def blind(values: Sequence[int], provider: int, secrets: Mapping[int, bytes], context: bytes) -> list[int]:
    """The values plus this provider's pairwise masks, which cancel in the sum over all providers: `secrets[l]` is what it
    and R_l alone know (`Pairing`).

    Shares are uniform already; the masks keep a provider's delivery so whatever devices sent, and cost nothing.
    """
    blinded = list(values)
    for other, secret in secrets.items():
        low, high = sorted((provider, other))
        label = b"moments blinding" + context + low.to_bytes(2, "big") + high.to_bytes(2, "big")
        stream = Stream(derive_key(secret, label), b"moments blinding")
        sign = 1 if provider == low else -1
        blinded = [(value + sign * draw(stream)) % P for value in blinded]
    return blinded
