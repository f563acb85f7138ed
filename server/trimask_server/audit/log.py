"""A node's audit log: an entry is written in the transaction it records, so neither exists without the other.

Entries name studies, blocks, counts and reasons. Nothing of a person (no submission id, address or invitation) and no
secret goes in. SQL triggers refuse changes and deletions; the hash chain reveals those made in the files directly. The
head is written beside the store once a second and told to collectors, so that a log cut short is noticed too.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

from trimask_core.clock import Clock
from trimask_core.errors import VerificationError
from trimask_core.identity import SigningKey
from trimask_server.audit.chain import GENESIS, AuditEntry, AuditHead, seal_entry
from trimask_server.store.interface import Store, Transaction

__all__ = ["HEAD_FILE", "AuditLog"]

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
