"""Records a device keeps on its own disk: ChaCha20-Poly1305 under a key derived from the device's.

A random nonce a record (a device writes thousands in its life, not the 2^32 at which two might collide), and the record's
name authenticated with it, so that no record can be passed off as another.

A key may come from something short that a person remembers: by scrypt (RFC 7914), whose guesses cost memory as well as
time.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.randomness import SEED_BYTES, RandomSource, derive_key

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


# log2 N, r, p. OWASP's password storage cheat sheet: N = 2^15, r = 8, p = 3 is 32 MiB, which an old phone has.
STRETCH_COST = (15, 8, 3)


def stretch(secret: str, salt: bytes, cost: tuple[int, ...] = STRETCH_COST) -> bytes:
    """32 bytes; the same only for the same secret, salt and cost."""
    log_n, r, p = cost
    return Scrypt(salt=salt, length=32, n=1 << log_n, r=r, p=p).derive(secret.encode())
