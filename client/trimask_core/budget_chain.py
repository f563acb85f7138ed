"""The chain of what was spent from a study's budget, which providers witness (docs/releases.md#witnesses).

Link n hashes link n-1, the answer it pays for and its price. Whoever has seen link n knows every link before it, and a
collector whose ledger was rolled back cannot make a different link n that fits. The answer's hash is in it, so that one
place pays for one draw: the same question drawn again, after the first draw was lost, is a different answer.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trimask_core.errors import VerificationError
from trimask_core.identity import SigningKey, verify
from trimask_core.study import Study

__all__ = ["BudgetLink", "chain", "sign_spend", "verify_spend"]

_CONTEXT = "budget-spend"


@dataclass(frozen=True)
class BudgetLink:
    """One answer's hash and price: epsilon and delta, or mu."""

    answer_hash: bytes
    epsilon: float | None
    delta: float | None
    mu: float | None

    def _packed(self) -> bytes:
        amounts = (self.epsilon, self.delta, self.mu)
        return self.answer_hash + b"".join(
            b"\0" * 9 if amount is None else b"\1" + struct.pack(">d", amount) for amount in amounts
        )


def chain(study_id: bytes, links: Iterable[BudgetLink]) -> list[bytes]:
    """The hash after each link."""
    heads: list[bytes] = []
    head = hashlib.sha256(b"trimask/v1/budget\0" + study_id).digest()
    for number, link in enumerate(links, 1):
        if len(link.answer_hash) != 32:
            raise VerificationError("a spend names its answer by 32 bytes")
        head = hashlib.sha256(head + number.to_bytes(8, "big") + link._packed()).digest()
        heads.append(head)
    return heads


def _statement(study_id: bytes, number: int, head: bytes, answer_hash: bytes) -> bytes:
    return study_id + number.to_bytes(8, "big") + head + answer_hash


def sign_spend(
    key: SigningKey, study_id: bytes, number: int, heads: Sequence[bytes], link: BudgetLink
) -> bytes:
    """A witness's signature: it has seen this spend in this place, and no other."""
    return key.sign(_CONTEXT, _statement(study_id, number, heads[number - 1], link.answer_hash))


def verify_spend(
    study: Study, number: int, head: bytes, answer: bytes, signatures: Mapping[str, bytes]
) -> None:
    """Raise `VerificationError` unless every right provider has witnessed the answer; any other signature must hold too."""
    missing = [f"R{k}" for k in range(1, len(study.right) + 1) if f"R{k}" not in signatures]
    if missing or number < 1:
        raise VerificationError(f"the answer's price was not witnessed by {', '.join(missing) or 'anybody'}")
    statement = _statement(study.id, number, head, hashlib.sha256(answer).digest())
    for role, signature in signatures.items():
        if role not in study.parties or role == "collector":
            raise VerificationError(f"{role} is no witness of this study")
        identity = study.party(role).identity
        verify(identity, _CONTEXT, statement, signature, f"what {role} witnessed of the budget")
