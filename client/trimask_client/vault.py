"""Small records, encrypted, each written whole or not at all.

A record is ChaCha20-Poly1305 under a key derived from the device's, with a random nonce; its name is authenticated
with it, so that one record cannot be passed off as another. It is written under a passing name, forced to disk,
renamed, and the rename forced to disk: whenever the power fails, the old record or the new one is there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from trimask_client.disk import Disk, FileDisk
from trimask_core.errors import ConfigError, ParameterError, VerificationError
from trimask_core.randomness import SEED_BYTES, RandomSource, SystemRandom, derive_key

__all__ = ["Vault", "device_key"]

_VERSION = b"\x01"
_NONCE_BYTES = 12
_PASSING = ".new"


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
        if len(key) != SEED_BYTES:
            raise ParameterError("key", f"{SEED_BYTES} bytes")
        self._disk = disk
        self._cipher = ChaCha20Poly1305(derive_key(key, b"device vault"))
        self._source = source

    def __repr__(self) -> str:
        return "Vault(<secret>)"

    def names(self, kind: str) -> list[str]:
        """The records of a kind."""
        return [name for name in self._disk.names(kind) if not name.endswith(_PASSING)]

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """A record, or None; `VerificationError` if it is there and cannot be read."""
        path = f"{kind}/{name}"
        try:
            data = self._disk.read(path)
        except FileNotFoundError:
            return None
        nonce, ciphertext = data[1 : 1 + _NONCE_BYTES], data[1 + _NONCE_BYTES :]
        try:
            if data[:1] != _VERSION or len(nonce) != _NONCE_BYTES:
                raise ValueError  # noqa: TRY301 - as unreadable as a wrong tag
            record: dict[str, Any] = json.loads(self._cipher.decrypt(nonce, ciphertext, path.encode()))
        except (InvalidTag, ValueError):
            raise VerificationError(
                f"the record {path} cannot be read: it is damaged, or this device has another key now"
            ) from None
        return record

    def put(self, kind: str, name: str, record: dict[str, Any]) -> None:
        """Write a record; on disk when this returns."""
        path, nonce = f"{kind}/{name}", self._source.read(_NONCE_BYTES)
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
        self._disk.write(path + _PASSING, _VERSION + nonce + self._cipher.encrypt(nonce, text, path.encode()))
        self._disk.rename(path + _PASSING, path)
        self._disk.sync(kind)

    def delete(self, kind: str, name: str) -> None:
        """No such record any more; on disk when this returns."""
        self._disk.remove(f"{kind}/{name}")
        self._disk.sync(kind)

    def tidy(self, kind: str) -> None:
        """Remove what a crash left half-written. Only where nobody else is writing."""
        for name in self._disk.names(kind):
            if name.endswith(_PASSING):
                self._disk.remove(f"{kind}/{name}")
