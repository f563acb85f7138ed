"""A node's master keys for what it stores: a small file beside its other keys, never in the database or a backup.

Master keys wrap data keys (`data_keys`), nothing else. The newest active one wraps; retired ones only unwrap what they
wrapped before they were retired.

Files of keys are written whole or not at all, never readable by others for an instant, their old bytes overwritten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from trimask_core.basics.errors import ConfigError
from trimask_core.basics.randomness import RandomSource, SystemRandom


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


FILE_NAME = "storage.keys"
MasterKeyState = Literal["active", "retired"]
_FORMAT = "trimask-storage-keys/1"
_KEY_BYTES = 32


@dataclass(frozen=True)
class MasterKey:
    """One 32-byte key, its name and its state."""

    key_id: str
    state: MasterKeyState
    secret: bytes = field(repr=False)

    @classmethod
    def generate(cls, source: RandomSource) -> MasterKey:
        """A fresh, active key."""
        return cls(source.read(8).hex(), "active", source.read(_KEY_BYTES))


class KeyRing:
    """Master keys, oldest first. With a path, the file is looked at again whenever it may have changed."""

    def __init__(self, keys: Iterable[MasterKey], path: Path | None = None) -> None:
        self._keys = tuple(keys)
        self._path = path
        self._read_at = _stamp(path)
        if not any(key.state == "active" for key in self._keys):
            raise ConfigError(f"{path or 'the ring'} has no active storage key")

    def __repr__(self) -> str:
        return f"KeyRing({[key.key_id for key in self._keys]})"

    @classmethod
    def generate(cls, source: RandomSource | None = None) -> KeyRing:
        """A ring of one fresh key, in memory."""
        return cls([MasterKey.generate(source or SystemRandom())])

    @classmethod
    def open(cls, folder: Path) -> KeyRing:
        """The ring in a node's key folder; made if there is none."""
        path = folder / FILE_NAME
        if not path.exists():
            try:
                create_secret(path, cls.generate()._text())
            except OSError as error:
                raise ConfigError(
                    f"{path} is missing and cannot be made ({error.strerror}); make it once, as the node's user, with "
                    "`trimask node init`"
                ) from None
        return cls(_read(path), path)

    @property
    def keys(self) -> tuple[MasterKey, ...]:
        """Every key, as the file has them now."""
        stamp = _stamp(self._path)
        if self._path is not None and stamp != self._read_at:
            self._keys, self._read_at = tuple(_read(self._path)), stamp
        return self._keys

    @property
    def active(self) -> MasterKey:
        """The key that wraps."""
        return [key for key in self.keys if key.state == "active"][-1]

    def secret(self, key_id: str) -> bytes:
        """The key of that name."""
        for key in self.keys:
            if key.key_id == key_id:
                return key.secret
        raise ConfigError(
            f"the store was written with storage key {key_id}, which is not in {self._path or 'the ring'}; "
            f"put back the {FILE_NAME} that belongs to this store (all workers of a node share one)"
        )

    def add(self, source: RandomSource | None = None) -> MasterKey:
        """Put a fresh key into the file as the one that wraps, and retire the others."""
        fresh = MasterKey.generate(source or SystemRandom())
        self._replace([*(replace(key, state="retired") for key in self.keys), fresh])
        return fresh

    def destroy_retired(self) -> int:
        """Take every retired key out of the file, for ever; how many. What they alone wrap can never be read again."""
        kept = [key for key in self.keys if key.state == "active"]
        gone = len(self.keys) - len(kept)
        if gone:
            self._replace(kept)
        return gone

    def _replace(self, keys: Iterable[MasterKey]) -> None:
        self._keys = tuple(keys)
        if self._path is None:
            return
        replace_secret(self._path, self._text())
        self._read_at = _stamp(self._path)

    def _text(self) -> str:
        keys = [{"id": key.key_id, "state": key.state, "key": key.secret.hex()} for key in self._keys]
        return json.dumps({"format": _FORMAT, "keys": keys}, indent=1) + "\n"


def _stamp(path: Path | None) -> tuple[int, int] | None:
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def _read(path: Path) -> list[MasterKey]:
    try:
        data: Mapping[str, Any] = json.loads(path.read_text(encoding="ascii"))
        keys = [
            MasterKey(str(item["id"]), item["state"], bytes.fromhex(item["key"])) for item in data["keys"]
        ]
        whole = data["format"] == _FORMAT and all(
            key.state in get_args(MasterKeyState) and len(key.secret) == _KEY_BYTES for key in keys
        )
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        whole, keys = False, []
    if not whole:
        raise ConfigError(
            f"{path} is not a ring of storage keys; put back the file that belongs to this store"
        )
    return keys
