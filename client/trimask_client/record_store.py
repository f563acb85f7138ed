"""Small records, encrypted (`trimask_core.records`), each written whole or not at all.

A record is written under a temporary name, synced, renamed, and the rename synced: whenever the power
fails, the old record or the new one is there.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from trimask_client.disk import Disk, FileDisk
from trimask_core.errors import ConfigError
from trimask_core.randomness import SEED_BYTES, RandomSource, SystemRandom
from trimask_core.records import RecordCipher

__all__ = ["Vault", "device_key"]

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
