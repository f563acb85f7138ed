"""What a right provider has delivered and been paid for, kept outside the store: a file beside its keys, one a study.

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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason

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
