"""The records of a device on disk, of its queue and of a client's unfinished submissions: small, encrypted
(`trimask_core.crypto.records`), each whole or not there at all.

A record is written under a temporary name, synced, renamed, and the rename synced: whenever the power fails, the old record
or the new one is there. One folder a kind (docs/device.md). `recover` finishes what a crash cut off, so that the rules of
`trimask_client.queue` hold from the first call on. The few disk operations are a `Disk`'s; a crash may interrupt each, and
tests substitute their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from trimask_core.basics.errors import ConfigError, InvitationError, VerificationError
from trimask_core.basics.randomness import SEED_BYTES, RandomSource, SystemRandom
from trimask_core.crypto.records import RecordCipher
from trimask_core.submit.submission import SealedSubmission


class Disk(Protocol):
    """Files by name in one level of folders ("payloads/1f"), and locks that end with the process."""

    def names(self, folder: str) -> list[str]:
        """The files in a folder, sorted."""
        ...

    def read(self, path: str) -> bytes:
        """A file's bytes; `FileNotFoundError` if there is none."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """A file of these bytes, on disk when this returns (though its name may not be, before `sync`)."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Another name for a file of the same folder, in the place of what had it; at once or not at all."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if there is one."""
        ...

    def sync(self, folder: str) -> None:
        """Renames and removals in a folder are on disk when this returns."""
        ...

    def lock(self, name: str, *, wait: bool) -> contextlib.AbstractContextManager[bool]:
        """Hold a lock against every other thread and process; False if it is taken and `wait` is not asked for."""
        ...


class FileDisk:
    """A real folder, readable by its owner alone."""

    def __init__(self, root: Path) -> None:
        self._root = root
        if not root.exists():
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sync(root.parent)

    def _folder(self, folder: str) -> Path:
        path = self._root / folder
        if not path.exists():
            path.mkdir(mode=0o700, exist_ok=True)
            _sync(self._root)  # otherwise a power cut could lose the folder with everything synced inside it
        return path

    def names(self, folder: str) -> list[str]:
        return sorted(path.name for path in self._folder(folder).iterdir())

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        self._folder(os.path.dirname(path))  # noqa: PTH120 - a name, not yet a path
        descriptor = os.open(self._root / path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, old: str, new: str) -> None:
        (self._root / old).replace(self._root / new)

    def remove(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def sync(self, folder: str) -> None:
        _sync(self._folder(folder))

    @contextlib.contextmanager
    def lock(self, name: str, *, wait: bool) -> Iterator[bool]:
        descriptor = os.open(self._root / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)  # which also releases the lock


def write_private(path: Path, text: str) -> None:
    """A file that only its owner can read, in the place of what was there: a receipt has the key that withdraws."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_PASSING = ".new"
_NAME = re.compile(r"(?:[0-9a-f]{2})+")


def device_key(path: str | Path, source: RandomSource | None = None) -> bytes:
    """The key of this device from its file, which is made (mode 0600) if there is none."""
    path = Path(path)
    disk = FileDisk(path.parent)
    with disk.lock(path.name, wait=True):
        if not path.exists():
            disk.write(path.name + _PASSING, (source or SystemRandom()).seed().hex().encode() + b"\n")
            disk.rename(path.name + _PASSING, path.name)
            disk.sync("")
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        key = b""
    if len(key) != SEED_BYTES:
        raise ConfigError(f"{path} must hold 64 hexadecimal digits; it is not this program's, or damaged")
    return key


class Vault:
    """Records by kind and name."""

    def __init__(self, disk: Disk, key: bytes, source: RandomSource) -> None:
        self._disk = disk
        self._cipher = RecordCipher(key, source)

    def __repr__(self) -> str:
        return "Vault(<secret>)"

    def names(self, kind: str) -> list[str]:
        """The records of a kind. They are named by hexadecimal digits; other files are not ours."""
        return [name for name in self._disk.names(kind) if _NAME.fullmatch(name)]

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """A record, or None; `VerificationError` if it is there and cannot be read."""
        path = f"{kind}/{name}"
        try:
            data = self._disk.read(path)
        except FileNotFoundError:
            return None
        record: dict[str, Any] = json.loads(self._cipher.open(path, data))
        return record

    def put(self, kind: str, name: str, record: dict[str, Any]) -> None:
        """Write a record; on disk when this returns."""
        path = f"{kind}/{name}"
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
        self._disk.write(path + _PASSING, self._cipher.seal(path, text))
        self._disk.rename(path + _PASSING, path)
        self._disk.sync(kind)

    def delete(self, kind: str, name: str) -> None:
        """Delete a record; on disk when this returns."""
        self._disk.remove(f"{kind}/{name}")
        self._disk.sync(kind)

    def tidy(self, kind: str) -> None:
        """Remove what a crash left half-written. Only where nobody else is writing."""
        for name in self._disk.names(kind):
            if name.endswith(_PASSING):
                self._disk.remove(f"{kind}/{name}")


STUDIES, DRAFTS, PAYLOADS, PROGRESS, RECEIPTS = "studies", "drafts", "payloads", "progress", "receipts"
WITHDRAWALS, HELD = "withdrawals", "held"
KINDS = (STUDIES, DRAFTS, PAYLOADS, PROGRESS, RECEIPTS, WITHDRAWALS, HELD)


class QueueRecords:
    """The records of one device."""

    def __init__(self, disk: Disk, vault: Vault) -> None:
        self._disk = disk
        self.vault = vault

    def save(self, kind: str, name: str, record: dict[str, Any]) -> None:
        """Write a record while nobody else writes."""
        with self._disk.lock("records", wait=True):
            self.vault.put(kind, name, record)

    def progress(self, name: str) -> dict[str, Any]:
        """How far sending a payload has got."""
        fresh: dict[str, Any] = {"attempts": 0, "next_ms": None, "why": "", "final": False, "receipts": []}
        try:
            return self.vault.get(PROGRESS, name) or fresh
        except VerificationError:
            return fresh  # it records only how far sending got, which sending again finds out

    def field(self, kind: str, name: str, key: str) -> str | None:
        """One field of a record; None where there is none, or it cannot be read."""
        try:
            record = self.vault.get(kind, name)
        except VerificationError:
            return None
        return None if record is None else record.get(key)

    def study(self, name: str) -> dict[str, Any]:
        """What is kept of a study; nothing where it is not joined, or cannot be read."""
        try:
            return self.vault.get(STUDIES, name) or {}
        except VerificationError:
            return {}

    def sealed_drafts(self) -> set[str]:
        """The drafts that a payload was made of which was not discarded."""
        found = {
            self.field(kind, name, "draft_id")
            for kind in (PAYLOADS, RECEIPTS, WITHDRAWALS)
            for name in self.vault.names(kind)
        }
        return {draft_id for draft_id in found if draft_id}

    def release_draft(self, name: str) -> None:
        """Delete the draft of a payload: a provider has accepted, or somebody else keeps the device from now on."""
        if name in self.vault.names(HELD):
            with self._disk.lock("records", wait=True):
                self.vault.delete(HELD, name)

    def keep_receipt(self, name: str, record: dict[str, Any]) -> None:
        """Write the receipt of a payload, then delete the payload."""
        with self._disk.lock("records", wait=True):
            self.vault.put(RECEIPTS, name, record)
            self.vault.delete(PAYLOADS, name)
            self.vault.delete(PROGRESS, name)

    def recover(self) -> None:
        """Finish what a crash cut off: half-written files, payloads that have their receipt, drafts that were sealed."""
        with self._disk.lock("records", wait=True):
            for kind in KINDS:
                self.vault.tidy(kind)
            for name in self.vault.names(WITHDRAWALS):
                for kind in (PAYLOADS, PROGRESS, RECEIPTS, HELD):
                    if name in self.vault.names(kind):
                        self.vault.delete(kind, name)
            for name in set(self.vault.names(RECEIPTS)).intersection(self.vault.names(PAYLOADS)):
                self.vault.delete(PAYLOADS, name)
            for name in set(self.vault.names(PROGRESS)).difference(self.vault.names(PAYLOADS)):
                self.vault.delete(PROGRESS, name)
            sealed = self.sealed_drafts() if self.vault.names(DRAFTS) else set()
            for name in self.vault.names(DRAFTS):
                if self.field(DRAFTS, name, "draft_id") in sealed:
                    self.vault.delete(DRAFTS, name)
            for name in self.vault.names(HELD):
                # Without its payload it was not sealed, or is taken up again: either way the study's draft has the answers.
                if name not in self.vault.names(PAYLOADS) or self.progress(name)["receipts"]:
                    self.vault.delete(HELD, name)


class Unfinished:
    """Submissions that a `Client` has begun and not every right provider has accepted, so that the next call goes on with
    them: of one study under one invitation, or without one; in memory, the last of it alone.

    An invitation is bound to the first submission it comes with: a second one would be refused where the first was
    accepted, and neither would be counted. With a folder they outlive the process, encrypted under a key of that folder.
    """

    _KIND = "unfinished"

    def __init__(
        self, study_id: bytes, invited: str, folder: str | Path | None, source: RandomSource
    ) -> None:
        self._study_id, self._invited, self.folder = study_id, invited, folder
        self._last: dict[str, Any] | None = None
        self._disk: FileDisk | None = None
        self._vault: Vault | None = None
        if folder is not None:
            self._disk = FileDisk(Path(folder))
            self._vault = Vault(self._disk, device_key(Path(folder) / "device.key", source), source)

    def __repr__(self) -> str:
        return "Unfinished(<secret>)"

    def begin(self, answers: Mapping[str, object], make: Callable[[], SealedSubmission]) -> SealedSubmission:
        """The unfinished submission of these answers, or a new one, kept before this returns: of two programs that begin at
        once, one makes it. `InvitationError` if there is one of other answers under the invitation."""
        digest = hashlib.sha256(json.dumps(dict(answers), sort_keys=True, default=repr).encode()).hexdigest()
        with contextlib.nullcontext() if self._disk is None else self._disk.lock(self._KIND, wait=True):
            for record in self._records():
                if record["answers"] == digest:
                    return SealedSubmission.from_record(record)
                if self._invited:
                    raise InvitationError(
                        "an earlier submission under this invitation may have been accepted; submit the same answers "
                        "again, or call resume() to go on with it"
                    )
            made = make()
            record = {"invited": self._invited, "answers": digest, **made.to_record()}
            if self._vault is None:
                self._last = record
            else:
                self._vault.put(self._KIND, made.submission_id.hex(), record)
            return made

    def all(self) -> list[SealedSubmission]:
        """Everything unfinished."""
        return [SealedSubmission.from_record(record) for record in self._records()]

    def drop(self, submission: SealedSubmission) -> None:
        """Forget one that every provider has accepted, or one has refused for good."""
        if self._vault is not None:
            self._vault.delete(self._KIND, submission.submission_id.hex())
        elif self._last is not None and self._last["submission_id"] == submission.submission_id.hex():
            self._last = None

    def _records(self) -> list[dict[str, Any]]:
        if self._vault is None:
            return [] if self._last is None else [self._last]
        found = [self._vault.get(self._KIND, name) or {} for name in self._vault.names(self._KIND)]
        ours = (self._study_id.hex(), self._invited)
        return [record for record in found if (record.get("study_id"), record.get("invited")) == ours]
