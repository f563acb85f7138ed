"""A key from something short that a person remembers: scrypt (RFC 7914), whose guesses cost memory as well as time."""

from __future__ import annotations

from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

__all__ = ["STRETCH_COST", "stretch"]

# log2 N, r, p. OWASP's password storage cheat sheet: N = 2^15, r = 8, p = 3 is 32 MiB, which an old phone has.
STRETCH_COST = (15, 8, 3)


def stretch(secret: str, salt: bytes, cost: tuple[int, ...] = STRETCH_COST) -> bytes:
    """32 bytes; the same only for the same secret, salt and cost."""
    log_n, r, p = cost
    return Scrypt(salt=salt, length=32, n=1 << log_n, r=r, p=p).derive(secret.encode())
