"""What an invited device shows to every right provider: proof of an invitation, valid for this one submission.

It holds two signatures. The admitting party signed the public key of an invitation; that key signed study, submission id and
the digests of the sealed parts for all right providers. Whoever sees it can only replay it: with a different id or sealed
part, the second signature does not hold. The digests are SHA-256 of what is sealed and of the same length for all, so
they say nothing of the answers.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from trimask_core.errors import InvitationError
from trimask_core.identity import verify

__all__ = ["Admission", "admission_message", "invited_message", "signed_digests"]

_FORMAT = b"\x02"
_KEY, _TIME, _SIGNATURE, _DIGEST = 32, 6, 64, 32
_FIXED = len(_FORMAT) + _KEY + _TIME + 2 * _SIGNATURE
_OLDER_BYTES = 88


def invited_message(study_id: bytes, public_key: bytes, expires_ms: int) -> bytes:
    """The message that the admitting party signs, in the context "invited"."""
    return study_id + public_key + expires_ms.to_bytes(8, "big")


def admission_message(study_id: bytes, submission_id: bytes, digests: Sequence[bytes]) -> bytes:
    """What the invitation's key signs, in the context "admission"."""
    return study_id + submission_id + len(digests).to_bytes(4, "big") + b"".join(digests)


def signed_digests(sealed: Sequence[bytes]) -> tuple[bytes, ...]:
    """The digest of each sealed part, in the order of the right providers."""
    return tuple(hashlib.sha256(part).digest() for part in sealed)


@dataclass(frozen=True)
class Admission:
    """One invitation, spent on one submission. Nothing in it is secret from a right provider."""

    study_id: bytes
    submission_id: bytes
    public_key: bytes
    expires_ms: int
    signature: bytes  # of who admits
    digests: tuple[bytes, ...]
    device_signature: bytes

    def verify(self, signer: bytes) -> None:
        """Raise `VerificationError` unless both signatures hold. The caller checks expiry."""
        invited = invited_message(self.study_id, self.public_key, self.expires_ms)
        verify(signer, "invited", invited, self.signature, "the invitation")
        admitted = admission_message(self.study_id, self.submission_id, self.digests)
        verify(
            self.public_key, "admission", admitted, self.device_signature, "the submission by its invitation"
        )

    def covers(self, provider: int, providers: int, sealed: bytes) -> bool:
        """Whether it admits these sealed bytes at right provider `provider` (from 1) of so many."""
        return (
            len(self.digests) == providers and self.digests[provider - 1] == hashlib.sha256(sealed).digest()
        )

    def to_bytes(self) -> bytes:
        """What a device sends beside its submission, which names study and submission itself."""
        return b"".join(
            (
                _FORMAT,
                self.public_key,
                self.expires_ms.to_bytes(_TIME, "big"),
                self.signature,
                self.device_signature,
                *self.digests,
            )
        )

    @classmethod
    def from_bytes(cls, study_id: bytes, submission_id: bytes, data: bytes) -> Admission:
        """Read what `to_bytes` wrote; `verify` is still to be called."""
        if len(data) == _OLDER_BYTES:
            raise InvitationError("this invitation is of an older format; ask for a new one")
        if len(data) < _FIXED or (len(data) - _FIXED) % _DIGEST or data[:1] != _FORMAT:
            raise InvitationError("this is not an invitation as this version knows it; ask for a new one")
        cuts = [1, 1 + _KEY, 1 + _KEY + _TIME, _FIXED - _SIGNATURE, _FIXED]
        public_key, expires, signature, device_signature = (
            data[start:end] for start, end in itertools.pairwise(cuts)
        )
        digests = tuple(data[at : at + _DIGEST] for at in range(_FIXED, len(data), _DIGEST))
        return cls(
            study_id,
            submission_id,
            public_key,
            int.from_bytes(expires, "big"),
            signature,
            digests,
            device_signature,
        )
