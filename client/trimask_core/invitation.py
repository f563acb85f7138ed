"""Invitations: the collector's signed word that one person may submit once, and the link it travels in.

An invitation names a study by its id, so a device that opens one knows the hash of what it must be shown. A study is
open (its link carries the id alone; anybody may submit) or invited (right providers take a submission in only with an
invitation, and bind each invitation to one submission id for ever).
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from trimask_core.errors import InvitationError
from trimask_core.identity import SigningKey, verify

__all__ = ["INVITATION_BYTES", "SCHEME", "Invitation", "Link"]

SCHEME = "trimask://"
_CONTEXT = "invitation"
_STUDY, _ID, _TIME, _SIGNATURE = 32, 16, 8, 64
INVITATION_BYTES = _ID + _TIME + _SIGNATURE


@dataclass(frozen=True)
class Invitation:
    """One person's admission to one study, until `expires_ms`."""

    study_id: bytes
    invitation_id: bytes
    expires_ms: int
    signature: bytes

    @classmethod
    def issue(cls, key: SigningKey, study_id: bytes, invitation_id: bytes, expires_ms: int) -> Invitation:
        """An invitation signed with the collector's identity."""
        if len(study_id) != _STUDY or len(invitation_id) != _ID or not 0 < expires_ms < 1 << 63:
            raise InvitationError("an invitation needs a study id, 16 bytes of its own, and a time it ends")
        return cls(
            study_id,
            invitation_id,
            expires_ms,
            key.sign(_CONTEXT, _message(study_id, invitation_id, expires_ms)),
        )

    def verify(self, collector: bytes) -> None:
        """Raise `VerificationError` unless the collector with this identity issued it. Expiry is the caller's to check."""
        message = _message(self.study_id, self.invitation_id, self.expires_ms)
        verify(collector, _CONTEXT, message, self.signature, "the invitation")

    def to_bytes(self) -> bytes:
        """What a device sends beside its submission, which names the study itself."""
        return self.invitation_id + self.expires_ms.to_bytes(_TIME, "big") + self.signature

    @classmethod
    def from_bytes(cls, study_id: bytes, data: bytes) -> Invitation:
        """Read what `to_bytes` wrote; `verify` is still to be called."""
        if len(data) != INVITATION_BYTES or len(study_id) != _STUDY:
            raise InvitationError(f"an invitation has {INVITATION_BYTES} bytes")
        expires_ms = int.from_bytes(data[_ID : _ID + _TIME], "big")
        return cls(study_id, data[:_ID], expires_ms, data[_ID + _TIME :])


@dataclass(frozen=True)
class Link:
    """What a person is sent: where the collector is, which study it must show, and the invitation if there is one.

    As text: trimask://HOST:PORT/join/CODE, short enough for a QR code. CODE alone can be pasted where the
    address is known.
    """

    address: str
    study_id: bytes
    invitation: Invitation | None = None

    @property
    def code(self) -> str:
        """The study id, and the invitation if there is one, in base64url without padding."""
        data = self.study_id + (b"" if self.invitation is None else self.invitation.to_bytes())
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    def __str__(self) -> str:
        return f"{SCHEME}{self.address}/join/{self.code}"

    @classmethod
    def parse(cls, text: str) -> Link:
        """Read a link as a person pasted it."""
        text = "".join(text.split())  # mail programs break long lines
        if not text.lower().startswith(SCHEME):
            raise InvitationError(
                f"an invitation link begins with {SCHEME}; copy the whole of it from your message"
            )
        address, _, code = text[len(SCHEME) :].partition("/join/")
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16 or not code:
            raise InvitationError("this invitation link is not whole; copy all of it from your message")
        try:
            data = base64.b64decode(code + "=" * (-len(code) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise InvitationError("this invitation link has a character that does not belong in it") from None
        if len(data) not in (_STUDY, _STUDY + INVITATION_BYTES):
            raise InvitationError("this invitation link is not whole; copy all of it from your message")
        study_id, rest = data[:_STUDY], data[_STUDY:]
        return cls(address, study_id, Invitation.from_bytes(study_id, rest) if rest else None)


def _message(study_id: bytes, invitation_id: bytes, expires_ms: int) -> bytes:
    return study_id + invitation_id + expires_ms.to_bytes(_TIME, "big")
