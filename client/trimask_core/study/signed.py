"""A study with its approvals: every party named in it signs its id, and a device takes part in nothing less.

In the moments suite a right provider's approval also commits to its contribution to the challenge key: the hash is
signed with the study's id, so that there is one key for ever and nobody learns it before reports are in
(docs/theory/verified-moments.md#one-challenge).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trimask_core.basics.encoding import decode_bytes, encode_bytes, read_json
from trimask_core.basics.errors import ApprovalError, StudyError, VerificationError
from trimask_core.crypto.keys import SigningKey, verify
from trimask_core.rows.study import RowsSettings
from trimask_core.study.definition import Study

COMMITMENT_BYTES = 32
_APPROVAL = "study-approval"


def needs_commitment(study: Study, role: str) -> bool:
    """Whether the approval of this role must commit to a contribution to the challenge key."""
    return not isinstance(study.suite, RowsSettings) and role.startswith("R")


@dataclass(frozen=True)
class Approval:
    """A party's signature over a study's id and, of a right provider of the moments suite, its commitment."""

    role: str
    signature: bytes
    approved_ms: int
    commitment: bytes = b""

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "role": self.role,
            "signature": encode_bytes(self.signature),
            "approved_ms": self.approved_ms,
            "commitment": encode_bytes(self.commitment),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Approval:
        """Read what `to_dict` wrote."""
        if not isinstance(data["role"], str):
            raise TypeError("an approval's role must be text")
        return cls(
            data["role"],
            decode_bytes(data["signature"]),
            int(data["approved_ms"]),
            decode_bytes(data["commitment"]),
        )


def _message(study: Study, role: str, commitment: bytes) -> bytes:
    return study.id + len(commitment).to_bytes(1, "big") + commitment + role.encode()


def approve(study: Study, key: SigningKey, now_ms: int, commitment: bytes = b"") -> Approval:
    """The approval of the party that holds `key`."""
    role = study.role_of(key.public)
    _require_commitment(study, role, commitment)
    return Approval(role, key.sign(_APPROVAL, _message(study, role, commitment)), now_ms, commitment)


def _require_commitment(study: Study, role: str, commitment: bytes) -> None:
    if len(commitment) != (COMMITMENT_BYTES if needs_commitment(study, role) else 0):
        raise ApprovalError(
            f"the approval of {role} has a commitment to the challenge key that does not fit the suite"
        )


@dataclass(frozen=True)
class SignedStudy:
    """A study with the approvals gathered so far."""

    study: Study
    approvals: tuple[Approval, ...] = ()

    def __post_init__(self) -> None:
        given = {approval.role: approval.commitment for approval in self.approvals}
        roles = [f"R{k}" for k in range(1, len(self.study.right) + 1)]
        if not isinstance(self.study.suite, RowsSettings) and given.keys() >= set(roles):
            commitments = tuple(given[role] for role in roles)
            object.__setattr__(self, "study", replace(self.study, commitments=commitments))

    @property
    def missing(self) -> tuple[str, ...]:
        """Roles that have not approved yet."""
        given = {approval.role for approval in self.approvals}
        return tuple(role for role in self.study.parties if role not in given)

    def verify(self) -> Study:
        """The study, if every party named in it has signed it; `ApprovalError` otherwise."""
        for approval in self.approvals:
            try:
                identity = self.study.party(approval.role).identity
                _require_commitment(self.study, approval.role, approval.commitment)
                message = _message(self.study, approval.role, approval.commitment)
                verify(identity, _APPROVAL, message, approval.signature, f"the approval of {approval.role}")
            except (VerificationError, StudyError) as error:
                raise ApprovalError(str(error)) from None
        if self.missing:
            raise ApprovalError(
                f"not approved yet by {', '.join(self.missing)}; every party must sign a study"
            )
        return self.study

    def with_approval(self, approval: Approval) -> SignedStudy:
        """With one more approval; a second one of the same role replaces the first."""
        kept = tuple(old for old in self.approvals if old.role != approval.role)
        return SignedStudy(self.study, (*kept, approval))

    @property
    def needs_seed(self) -> bool:
        """Whether devices and the collector need the seed of a device mask."""
        return isinstance(self.study.suite, RowsSettings)

    @property
    def mask_seed(self) -> bytes:
        """The seed of B_0, where this copy has it."""
        return self.study.suite.mask_seed if isinstance(self.study.suite, RowsSettings) else b""

    def with_seed(self, mask_seed: bytes) -> SignedStudy:
        """For a device or the collector: with the seed of B_0, which must be the one the study commits to."""
        if not isinstance(self.study.suite, RowsSettings):
            raise StudyError("a study of this suite has no device mask")
        suite = replace(self.study.suite, mask_seed=mask_seed)
        return SignedStudy(replace(self.study, suite=suite), self.approvals)

    def without_seed(self) -> SignedStudy:
        """For providers and the public."""
        return self.with_seed(b"") if self.mask_seed else self

    def to_json(self) -> str:
        """The form kept in files and sent to devices; with the seed of B_0 if this copy has it."""
        data: dict[str, Any] = {
            "study": self.study.to_dict(),
            "approvals": [approval.to_dict() for approval in self.approvals],
        }
        if self.mask_seed:
            data["mask_seed"] = encode_bytes(self.mask_seed)
        return json.dumps(data, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> SignedStudy:
        """Read what `to_json` wrote; `verify` is still to be called."""
        try:
            data = read_json(text)
            approvals = tuple(Approval.from_dict(item) for item in data["approvals"])
            study = data["study"]
            if not isinstance(study, dict):
                raise TypeError("the study must be an object")  # noqa: TRY301
            mask_seed = decode_bytes(data.get("mask_seed", ""))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StudyError(f"this is not a signed study: {error}") from None
        signed = cls(Study.from_dict(study), approvals)
        return signed.with_seed(mask_seed) if mask_seed else signed
