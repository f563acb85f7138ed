"""A node's public keys as thirty digits that two people can read to each other over the telephone.

Whoever could make another card with the same digits would have to try about 2^99 keys. They stand for the identity, the
sealing key (of a right provider) and the TLS name, so they change when the sealing key does, and in no other way.
"""

from __future__ import annotations

import hashlib

from trimask_core.party import Party

__all__ = ["fingerprint"]

_GROUPS, _DIGITS = 6, 5


def fingerprint(party: Party) -> str:
    """Six groups of five digits."""
    parts = [b"trimask-card/1", party.identity, party.sealing, party.tls_name.encode()]
    text = b"".join(len(part).to_bytes(2, "big") + part for part in parts)
    number = int.from_bytes(hashlib.sha256(text).digest(), "big")
    digits = f"{number % 10 ** (_GROUPS * _DIGITS):0{_GROUPS * _DIGITS}d}"
    return " ".join(digits[at : at + _DIGITS] for at in range(0, len(digits), _DIGITS))
