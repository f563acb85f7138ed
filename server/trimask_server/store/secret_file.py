"""Files of keys: written whole or not at all, never readable by others for an instant, their old bytes overwritten."""

from __future__ import annotations

import os
from pathlib import Path

from trimask_core.randomness import SystemRandom

__all__ = ["create_secret", "destroy_secret", "replace_secret"]


def create_secret(path: Path, text: str) -> bool:
    """Write a file that is not there yet. Of two programs that do so at once the first one's stays; whether this did."""
    fresh = _write_beside(path, text)
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    _sync(path.parent)
    return True


def replace_secret(path: Path, text: str) -> None:
    """Put a text in a file's place, and zeros over what was there."""
    fresh = _write_beside(path, text)
    old = os.open(path, os.O_WRONLY) if path.exists() else None
    fresh.replace(path)
    _sync(path.parent)
    if old is not None:
        _overwrite(old)


def destroy_secret(path: Path) -> None:
    """Overwrite a file and remove it; fine if there is none."""
    if path.exists():
        _overwrite(os.open(path, os.O_WRONLY))
        path.unlink()
        _sync(path.parent)


def _write_beside(path: Path, text: str) -> Path:
    fresh = path.with_name(f".{path.name}.{SystemRandom().read(6).hex()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            _give_to_owner(file.fileno(), path)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        fresh.unlink()  # a half-written file of keys is of no use
        raise
    return fresh


def _give_to_owner(descriptor: int, path: Path) -> None:
    """A file that root makes belongs to whom the one before it did, or its folder: the node's user could not read it."""
    if os.geteuid() == 0:
        before = (path if path.exists() else path.parent).stat()
        os.fchown(descriptor, before.st_uid, before.st_gid)


def _overwrite(descriptor: int) -> None:
    try:
        os.pwrite(descriptor, bytes(os.fstat(descriptor).st_size), 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
