"""What right providers delivered, each as it signed it, and all of them having seen the same commitments.

The collector could publish other totals than the providers delivered, or other reports than were asked about; a provider
that has seen what the others delivered could commit again, to another total. Neither goes unnoticed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimask_core.errors import VerificationError
from trimask_core.identity import verify
from trimask_core.moments.release import (
    COMMITMENTS,
    TOTALS,
    commitment_message,
    commitments_message,
    decode,
    read_values,
    values_hash,
)
from trimask_core.study import Study
from trimask_core.text_form import decode_bytes

__all__ = ["Asked", "summed_deliveries"]


@dataclass(frozen=True)
class Asked:
    """What the deliveries must be of: the hash of what was asked, the accepted reports, and how many totals there are."""

    asked: bytes
    accepted: bytes
    people: int
    totals: int


def summed_deliveries(
    study: Study, asked: Asked, found: Sequence[Mapping[str, Any]], where: str
) -> list[int]:
    """The totals that the deliveries add up to; `VerificationError` if one of them is not what its provider signed."""
    roles = [f"R{k}" for k in range(1, len(study.right) + 1)]
    by_role = {str(item["role"]): item for item in found}
    if sorted(by_role) != sorted(roles) or len(by_role) != len(found):
        raise VerificationError(f"{where} must have one delivery of each of {', '.join(roles)}")
    committed = [bytes.fromhex(by_role[role]["values_hash"]) for role in roles]
    seen = commitments_message(asked.asked, asked.accepted, asked.people, committed)
    delivered = []
    for role, commitment in zip(roles, committed, strict=True):
        item, identity = by_role[role], study.party(role).identity
        values = read_values(decode_bytes(item["values"]), asked.totals)
        if values_hash(values, decode_bytes(item["salt"])) != commitment:
            raise VerificationError(f"the delivery of {role} is not what it committed to")
        if item["accepted_count"] != asked.people:
            raise VerificationError(f"the delivery of {role} is of another number of people")
        message = commitment_message(asked.asked, role, asked.accepted, asked.people, commitment)
        verify(identity, TOTALS, message, decode_bytes(item["signature"]), f"the totals of {role}")
        verify(
            identity,
            COMMITMENTS,
            seen,
            decode_bytes(item["commitments_signature"]),
            f"what {role} saw of the others' commitments",
        )
        delivered.append(values)
    return decode(delivered)
