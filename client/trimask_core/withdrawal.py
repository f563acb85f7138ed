"""Withdrawing a submission: a key that only its device has, and each right provider's signed statement that it is erased.

A submission's id is a hash of its withdrawal key. Whoever sees the id (every right provider and the collector do) cannot
find the key, and who shows the key needs no other proof; it is kept in the receipt. A provider that was shown the key
can only do what its owner asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimask_core.errors import ParameterError, VerificationError
from trimask_core.identity import verify
from trimask_core.study import Study

__all__ = ["WITHDRAWAL_KEY_BYTES", "ProviderWithdrawal", "submission_id_of", "withdrawal_message"]

WITHDRAWAL_KEY_BYTES = 32
_ID_BYTES = 16


def submission_id_of(study_id: bytes, withdrawal_key: bytes) -> bytes:
    """The id of the submission that this key withdraws."""
    if len(withdrawal_key) != WITHDRAWAL_KEY_BYTES:
        raise ParameterError("withdrawal_key", f"{WITHDRAWAL_KEY_BYTES} bytes")
    return hashlib.sha256(b"trimask/v1/submission-id\0" + study_id + withdrawal_key).digest()[:_ID_BYTES]


def withdrawal_message(study_id: bytes, submission_id: bytes, withdraw_time_ms: int) -> bytes:
    """What a provider signs."""
    return study_id + submission_id + withdraw_time_ms.to_bytes(8, "big")


@dataclass(frozen=True)
class ProviderWithdrawal:
    """One right provider's signed statement that it holds nothing of a submission and never will."""

    role: str
    withdraw_time_ms: int
    signature: bytes

    def verify(self, study: Study, submission_id: bytes) -> None:
        """Raise `VerificationError` unless this provider signed it."""
        if not 0 <= self.withdraw_time_ms < 1 << 63:
            raise VerificationError(f"the withdrawal at {self.role} has an impossible time")
        message = withdrawal_message(study.id, submission_id, self.withdraw_time_ms)
        verify(
            study.party(self.role).identity,
            "withdrawal",
            message,
            self.signature,
            f"the withdrawal at {self.role}",
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "role": self.role,
            "withdraw_time_ms": self.withdraw_time_ms,
            "signature": self.signature.hex(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ProviderWithdrawal:
        """Read what `to_dict` wrote."""
        return cls(data["role"], data["withdraw_time_ms"], bytes.fromhex(data["signature"]))
