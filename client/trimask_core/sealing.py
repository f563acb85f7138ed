"""HPKE (RFC 9180): a component sealed to one right provider, for one study and one submission.

DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode: all of it is in every browser. The study id, the
provider's number and the submission id are HPKE's `info`, so a sealed component opens nowhere else. Where the library has
no HPKE of its own (Android's packages are older), `trimask_core.hpke` does the same from its primitives.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from trimask_core.errors import ParameterError, VerificationError
from trimask_core.hpke import hpke_open, hpke_seal
from trimask_core.randomness import RandomSource, SystemRandom

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite

__all__ = [
    "SEAL_OVERHEAD_BYTES",
    "SealingKey",
    "component_info",
    "seal",
    "sealing_key_id",
    "sealing_key_message",
]

SEAL_OVERHEAD_BYTES = 32 + 16  # the encapsulated key and the tag


def _native_suite() -> Suite | None:
    try:
        from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
    except ImportError:
        return None
    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


_SUITE = _native_suite()


def component_info(binding: bytes, provider: int, submission_id: bytes) -> bytes:
    """What a sealed component is bound to; `binding` is the study's (`Study.binding`)."""
    return b"trimask/v1/component\0" + binding + provider.to_bytes(2, "big") + submission_id


def sealing_key_id(public: bytes) -> bytes:
    """The short name of a sealing key."""
    return hashlib.sha256(public).digest()[:8]


def sealing_key_message(public: bytes, activate_ms: int, expire_ms: int) -> bytes:
    """What a right provider signs (context "sealing-key") when it publishes a key; `expire_ms` is 0 while no end is set."""
    return public + activate_ms.to_bytes(8, "big") + expire_ms.to_bytes(8, "big")


def seal(public: bytes, plaintext: bytes, info: bytes) -> bytes:
    """`plaintext` for the holder of the private half of `public` alone."""
    try:
        if _SUITE is None:
            return hpke_seal(public, plaintext, info)
        return _SUITE.encrypt(plaintext, X25519PublicKey.from_public_bytes(public), info)
    except ValueError:
        raise VerificationError("a sealing key is not a usable X25519 public key") from None


class SealingKey:
    """A private X25519 key that opens what was sealed to it."""

    __slots__ = ("_key", "public")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise ParameterError("sealing key", "32 bytes")
        self._key = X25519PrivateKey.from_private_bytes(secret)
        self.public: bytes = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, source: RandomSource | None = None) -> SealingKey:
        """A fresh key."""
        return cls((source or SystemRandom()).seed())

    def __repr__(self) -> str:
        return f"SealingKey(public={self.public.hex()})"

    def secret_bytes(self) -> bytes:
        """The private half, for the key file and nothing else."""
        return self._key.private_bytes_raw()

    def open(self, sealed: bytes, info: bytes) -> bytes:
        """The plaintext, or `VerificationError` if it was altered or sealed for something else."""
        try:
            if _SUITE is None:
                return hpke_open(self._key, sealed, info)
            return _SUITE.decrypt(sealed, self._key, info)
        except (InvalidTag, ValueError):
            raise VerificationError(
                "a sealed component does not open: it was altered, or sealed to another key, study or submission"
            ) from None

    def agree(self, peer_public: bytes) -> bytes:
        """The X25519 secret shared with the holder of `peer_public`'s private half."""
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(peer_public))
        except ValueError:
            raise VerificationError("a key agreement share is not a usable X25519 public key") from None
