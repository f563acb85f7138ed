"""Records a device keeps on its own disk: ChaCha20-Poly1305 under a key derived from the device's.

A random nonce a record (a device writes thousands in its life, not the 2^32 at which two might collide), and the record's
name authenticated with it, so that no record can be passed off as another.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from trimask_core.errors import ParameterError, VerificationError
from trimask_core.randomness import SEED_BYTES, RandomSource, derive_key

__all__ = ["RecordCipher"]

_VERSION = b"\x01"
_NONCE_BYTES = 12


class RecordCipher:
    """Seals and opens records by name."""

    __slots__ = ("_cipher", "_source")

    def __init__(self, key: bytes, source: RandomSource) -> None:
        if len(key) != SEED_BYTES:
            raise ParameterError("key", f"{SEED_BYTES} bytes")
        self._cipher = ChaCha20Poly1305(derive_key(key, b"device vault"))
        self._source = source

    def __repr__(self) -> str:
        return "RecordCipher(<secret>)"

    def seal(self, name: str, data: bytes) -> bytes:
        """The record as it is stored."""
        nonce = self._source.read(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, data, name.encode())

    def open(self, name: str, stored: bytes) -> bytes:
        """What was sealed under this name, or `VerificationError`."""
        nonce, ciphertext = stored[1 : 1 + _NONCE_BYTES], stored[1 + _NONCE_BYTES :]
        try:
            if stored[:1] != _VERSION or len(nonce) != _NONCE_BYTES:
                raise ValueError  # noqa: TRY301 - as unreadable as a wrong tag
            return self._cipher.decrypt(nonce, ciphertext, name.encode())
        except (InvalidTag, ValueError):
            raise VerificationError(
                f"the record {name} cannot be read: it is damaged, or this device has another key now"
            ) from None
