"""The few disk operations a queue uses, each of which a crash may interrupt; tests substitute their own disk."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

__all__ = ["Disk", "FileDisk", "write_private"]


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
