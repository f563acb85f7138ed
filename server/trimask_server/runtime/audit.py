"""A node's audit log: an entry is written in the transaction it records, so neither exists without the other.

Entries name studies, blocks, counts and reasons. Nothing of a person (no submission id, address or invitation) and no
secret goes in. SQL triggers refuse changes and deletions; the hash chain reveals those made in the files directly. The
head is written beside the store once a second and told to collectors, so that a log cut short is noticed too.

The chain, and the first entry that does not fit it, are checked on an exported log with nothing but the node's public
identity. Every entry is signed, not only a batch's head, so that any stretch that ends in an entry proves itself; entries
are few (refusals are gathered for a second before they make one), so the signatures cost nothing that matters.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from trimask_core.basics.clock import Clock
from trimask_core.basics.encoding import read_json
from trimask_core.basics.errors import VerificationError
from trimask_core.crypto.keys import SigningKey, verify
from trimask_server.store.interface import Store, Transaction

GENESIS = bytes(32)
_CONTEXT = "audit-entry"


@dataclass(frozen=True)
class AuditHead:
    """The last entry's number, hash and signature, which fix the whole log."""

    sequence: int
    hash: bytes
    signature: bytes

    def verify(self, identity: bytes) -> None:
        """Raise `VerificationError` unless the node with this identity signed it."""
        if self.sequence:
            verify(identity, _CONTEXT, self.hash, self.signature, f"the audit head {self.sequence}")

    def to_json(self) -> str:
        """One line."""
        return json.dumps(
            {"sequence": self.sequence, "hash": self.hash.hex(), "signature": self.signature.hex()}
        )

    @classmethod
    def from_json(cls, text: str) -> AuditHead:
        """Read what `to_json` wrote."""
        try:
            data = read_json(text)
            return cls(int(data["sequence"]), bytes.fromhex(data["hash"]), bytes.fromhex(data["signature"]))
        except (ValueError, KeyError, TypeError) as error:
            raise VerificationError(f"this is not an audit head: {error}") from None


@dataclass(frozen=True)
class AuditEntry:
    """One entry. `details` is canonical JSON, kept as text so that what was hashed is what is read."""

    sequence: int
    time_ms: int
    kind: str
    details: str
    previous: bytes
    hash: bytes
    signature: bytes

    def to_json(self) -> str:
        """One line of an exported log."""
        return json.dumps(
            {
                "sequence": self.sequence,
                "time_ms": self.time_ms,
                "kind": self.kind,
                "details": self.details,
                "previous": self.previous.hex(),
                "hash": self.hash.hex(),
                "signature": base64.b64encode(self.signature).decode(),
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> AuditEntry:
        """Read what `to_json` wrote."""
        try:
            data = read_json(text)
            return cls(
                int(data["sequence"]),
                int(data["time_ms"]),
                str(data["kind"]),
                str(data["details"]),
                bytes.fromhex(data["previous"]),
                bytes.fromhex(data["hash"]),
                base64.b64decode(data["signature"], validate=True),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise VerificationError(f"this is not an audit entry: {error}") from None


def seal_entry(
    key: SigningKey, previous: bytes, sequence: int, time_ms: int, kind: str, details: str
) -> AuditEntry:
    """The entry that follows `previous`, hashed and signed."""
    found = _hash(previous, sequence, time_ms, kind, details)
    return AuditEntry(sequence, time_ms, kind, details, previous, found, key.sign(_CONTEXT, found))


@dataclass(frozen=True)
class ChainReport:
    """What checking a log found. `broken_at` is the number of the first entry that does not fit, None if all do."""

    entries: int
    last: AuditHead
    broken_at: int | None = None
    why: str = ""

    @property
    def whole(self) -> bool:
        """Whether every entry fits."""
        return self.broken_at is None


def verify_chain(
    entries: Iterable[AuditEntry], identity: bytes, heads: Iterable[AuditHead] = ()
) -> ChainReport:
    """Recompute every hash and check every signature, from the first entry on; then that the log reaches `heads`.

    A head is the word of somebody who saw the log earlier (the file beside the store, the collector): a log that ends
    before it was cut short, and one that has another entry in its place was rewritten.
    """
    witnesses = {head.sequence: head for head in heads}
    count, last = 0, AuditHead(0, GENESIS, b"")
    for entry in entries:
        why = _misfit(entry, last, identity, witnesses.get(entry.sequence))
        if why:
            # A gap is reported where the log should go on, which is the entry somebody removed.
            return ChainReport(count, last, last.sequence + 1, why)
        count, last = count + 1, AuditHead(entry.sequence, entry.hash, entry.signature)
    for head in sorted(witnesses.values(), key=lambda item: item.sequence):
        if head.sequence > last.sequence:
            why = f"the log ends at entry {last.sequence}, but entry {head.sequence} was there: it was cut short"
            return ChainReport(count, last, last.sequence + 1, why)
    return ChainReport(count, last)


def _misfit(entry: AuditEntry, last: AuditHead, identity: bytes, witness: AuditHead | None) -> str:
    if entry.sequence != last.sequence + 1:
        return f"entry {last.sequence + 1} is missing or out of order: entry {entry.sequence} stands in its place"
    if entry.previous != last.hash:
        return f"entry {entry.sequence} does not follow the entry before it"
    if _hash(entry.previous, entry.sequence, entry.time_ms, entry.kind, entry.details) != entry.hash:
        return f"entry {entry.sequence} was changed: its hash differs"
    try:
        verify(identity, _CONTEXT, entry.hash, entry.signature, f"entry {entry.sequence}")
    except VerificationError as error:
        return f"{error}: the node with this identity did not write it"
    if witness is not None and witness.hash != entry.hash:
        return f"entry {entry.sequence} was rewritten: an earlier head has another hash for it"
    return ""


def _hash(previous: bytes, sequence: int, time_ms: int, kind: str, details: str) -> bytes:
    word = kind.encode()
    parts = (
        b"trimask/v1/audit\0",
        previous,
        sequence.to_bytes(8, "big"),
        time_ms.to_bytes(8, "big", signed=True),
        len(word).to_bytes(2, "big"),
        word,
        details.encode(),
    )
    return hashlib.sha256(b"".join(parts)).digest()


HEAD_FILE = "audit-head.json"
_COLUMNS = "sequence, time_ms, kind, details, previous, hash, signature"
Detail = str | int | list[str] | dict[str, int] | None


class AuditLog:
    """Append-only, chained, signed."""

    def __init__(
        self, database: Store, identity: SigningKey, clock: Clock, folder: Path | None, log: logging.Logger
    ) -> None:
        self._database = database
        self._identity = identity
        self._clock = clock
        self._file = None if folder is None else folder / HEAD_FILE
        self._log = log
        self._saved = 0

    async def load(self) -> None:
        """Begin the log if there is none."""

        def begin(tx: Transaction) -> None:
            tx.run(
                "INSERT INTO audit_head (id, sequence, hash) VALUES (1, 0, ?) ON CONFLICT (id) DO NOTHING",
                (GENESIS,),
            )

        await self._database.write(begin)

    async def record_missing(self) -> None:
        """Record that entries are missing, if the head kept beside the store is ahead of the log.

        A store that was restored from a backup since is a new generation: what came after the backup is not in it, as
        its operator knows. In the same store nobody takes entries away but by hand.
        """
        kept, generation = self._read_file()
        if kept is None or not kept.sequence:
            return
        found = await self._database.read(
            lambda tx: tx.row("SELECT hash FROM audit WHERE sequence = ?", (kept.sequence,))
        )
        if found is not None and bytes(found[0]) == kept.hash:
            return
        missed: dict[str, Detail] = {"missed": kept.sequence, "hash": kept.hash.hex()}
        if generation != self._database.generation.hex():
            last = (await self.head()).sequence
            self._log.info(
                "restored from a backup: the audit log goes on after entry %d of %d", last, kept.sequence
            )
            await self.record("store_restored", **missed)
            await self.save_head()  # what was kept is of the store before: nothing here is held to it
        else:
            self._log.error("the audit log is not the one whose head %s keeps", self._file)
            await self.record("log_cut_short", **missed)

    def append(self, tx: Transaction, kind: str, **details: Detail) -> None:
        """Add an entry inside a running transaction: it is committed if and only if the rest is."""
        # The update comes first: on a store with several writers it holds the others back until this commits.
        tx.run("UPDATE audit_head SET sequence = sequence + 1 WHERE id = 1")
        row = tx.row("SELECT sequence, hash FROM audit_head WHERE id = 1")
        if row is None:
            raise VerificationError("the audit log has no head; the node was not loaded")
        text = json.dumps(details, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        entry = seal_entry(self._identity, bytes(row[1]), int(row[0]), self._clock.now_ms(), kind, text)
        tx.run(
            f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - names only
            (entry.sequence, entry.time_ms, kind, text, entry.previous, entry.hash, entry.signature),
        )
        tx.run("UPDATE audit_head SET hash = ? WHERE id = 1", (entry.hash,))

    def entry(self, kind: str, **details: Detail) -> Callable[[Transaction], None]:
        """`append` as a function, to be passed to the code that runs the transaction."""
        return lambda tx: self.append(tx, kind, **details)

    async def record(self, kind: str, **details: Detail) -> None:
        """Add an entry about something that has no transaction of its own."""
        await self._database.write(self.entry(kind, **details))

    async def read(self, after: int, limit: int) -> list[AuditEntry]:
        """Entries after a number, in order."""
        rows = await self._database.read(
            lambda tx: tx.rows(
                f"SELECT {_COLUMNS} FROM audit WHERE sequence > ? ORDER BY sequence LIMIT ?",  # noqa: S608
                (after, limit),
            )
        )
        return [AuditEntry(r[0], r[1], r[2], r[3], bytes(r[4]), bytes(r[5]), bytes(r[6])) for r in rows]

    async def last(self, kind: str) -> dict[str, Detail] | None:
        """The details of the last entry of a kind."""
        row = await self._database.read(
            lambda tx: tx.row(
                "SELECT details FROM audit WHERE kind = ? ORDER BY sequence DESC LIMIT 1", (kind,)
            )
        )
        return None if row is None else json.loads(row[0])

    async def head(self) -> AuditHead:
        """The last entry, by its hash."""
        row = await self._database.read(
            lambda tx: tx.row("SELECT sequence, hash, signature FROM audit ORDER BY sequence DESC LIMIT 1")
        )
        return AuditHead(0, GENESIS, b"") if row is None else AuditHead(row[0], bytes(row[1]), bytes(row[2]))

    async def save_head(self) -> None:
        """Write the head beside the store, if it moved."""
        head = await self.head()
        if self._file is None or head.sequence == self._saved:
            return
        self._file.parent.mkdir(
            parents=True, exist_ok=True
        )  # with a server's database nothing else is there yet
        draft = self._file.with_name(f".{HEAD_FILE}.{os.getpid()}")
        kept = json.loads(head.to_json()) | {"generation": self._database.generation.hex()}
        draft.write_text(json.dumps(kept) + "\n", encoding="ascii")
        draft.replace(self._file)
        self._saved = head.sequence

    def _read_file(self) -> tuple[AuditHead | None, str]:
        """The head kept beside the store, and the generation of the store it was of."""
        if self._file is None or not self._file.exists():
            return None, ""
        try:
            text = self._file.read_text(encoding="ascii")
            return AuditHead.from_json(text), str(json.loads(text).get("generation", ""))
        except (VerificationError, UnicodeDecodeError) as error:
            self._log.warning("%s cannot be read: %s", self._file, error)
            return None, ""
