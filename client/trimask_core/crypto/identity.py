"""Ed25519 identities: a party's lasting name, with which it signs approvals, receipts, plans and manifests.

Every signature is bound to a context word, so that bytes signed for one purpose verify for no other.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.randomness import RandomSource, SystemRandom

_PREFIX = b"trimask/v1/"


def _bound(context: str, message: bytes) -> bytes:
    return _PREFIX + context.encode() + b"\0" + message


class SigningKey:
    """A private Ed25519 key. Its printed form shows the public half alone."""

    __slots__ = ("_key", "public")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise ParameterError("identity key", "32 bytes")
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public: bytes = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, source: RandomSource | None = None) -> SigningKey:
        """A fresh identity."""
        return cls((source or SystemRandom()).seed())

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public.hex()})"

    def secret_bytes(self) -> bytes:
        """The private half, for the key file and nothing else."""
        return self._key.private_bytes_raw()

    def sign(self, context: str, message: bytes) -> bytes:
        """A signature over `message` for the purpose `context`."""
        return self._key.sign(_bound(context, message))


def verify(public: bytes, context: str, message: bytes, signature: bytes, what: str) -> None:
    """Raise `VerificationError`, naming `what`, unless the signature is `public`'s for this purpose."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _bound(context, message))
    except (InvalidSignature, ValueError):
        raise VerificationError(f"the signature on {what} does not verify") from None
