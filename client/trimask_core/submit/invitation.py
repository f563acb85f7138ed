"""Invitations: a signed statement of the admitting party that one person may submit once, and the link that carries it.

An invitation is a secret of the person's: an Ed25519 key is derived from it, and who admits has signed the public half.
The secret goes to nobody. A device shows the public half, signed, beside its own signature over the one submission it
admits, so that a provider that has seen it cannot use it for another.

An invitation names a study by its id, so a device that opens one knows the hash of what it must be shown. A study is
open (its link carries the id alone; anybody may submit) or invited (right providers take a submission in only with an
invitation, and bind each invitation to one submission id for ever).

What an invited device shows to every right provider proves an invitation for this one submission, by two signatures. The
admitting party signed the public key of an invitation; that key signed study, submission id and the digests of the sealed
parts for all right providers. Whoever sees it can only replay it: with a different id or sealed part, the second
signature does not hold. The digests are SHA-256 of what is sealed and of the same length for all, so they say nothing of
the answers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import unquote

from trimask_core.basics.errors import InvitationError, StudyError
from trimask_core.basics.randomness import RandomSource
from trimask_core.crypto.keys import SigningKey, verify
from trimask_core.study.party import check_origin, short_code
from trimask_core.submit.submission import SealedSubmission

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


SCHEME = "trimask://"
_STUDY, _SECRET, _INVITATION_TIME, _INVITATION_SIGNATURE = 32, 16, 6, 64
INVITATION_BYTES = len(_FORMAT) + _SECRET + _INVITATION_TIME + _INVITATION_SIGNATURE
_DERIVE = b"trimask/v1/invitation-key\0"
_WEB = ("https://", "http://")  # the second only on this machine
# What a message leaves in a link or around it: no character of these belongs in one, or can end one.
_UNSEEN = re.compile(r"[\s\u00ad\u200b-\u200f\u2060\ufeff]+")
_BEFORE, _AFTER = "<([{\"'*«“‘„", ".,;:!?…)]}>\"'*»”’،؛؟।。，、"
_NOT_WHOLE = "this invitation link is not whole; copy all of it from your message"


@dataclass(frozen=True)
class Invitation:
    """One person's admission to one study, until `expires_ms`. Whoever has the secret may use it."""

    study_id: bytes
    secret: bytes = field(repr=False)
    expires_ms: int
    signature: bytes = b""

    def __post_init__(self) -> None:
        if (
            len(self.study_id) != _STUDY
            or len(self.secret) != _SECRET
            or not 0 < self.expires_ms < 1 << 8 * _INVITATION_TIME
        ):
            raise InvitationError(
                f"an invitation needs a study id, {_SECRET} bytes of its own, and a time it ends"
            )

    @classmethod
    def draw(cls, study_id: bytes, expires_ms: int, source: RandomSource) -> Invitation:
        """A fresh invitation, still without the admitting party's signature (`signed`)."""
        return cls(study_id, source.read(_SECRET), expires_ms)

    @cached_property
    def key(self) -> SigningKey:
        """The key the secret stands for: 128 bits of it, as much as Ed25519 gives, keep the code short."""
        return SigningKey(hashlib.sha256(_DERIVE + self.study_id + self.secret).digest())

    def signed(self, signature: bytes) -> Invitation:
        """The same with the admitting party's signature; the caller must still call `verify`."""
        return Invitation(self.study_id, self.secret, self.expires_ms, signature)

    def signed_with(self, signer: SigningKey) -> Invitation:
        """The same, signed by the admitting party."""
        message = invited_message(self.study_id, self.key.public, self.expires_ms)
        return self.signed(signer.sign("invited", message))

    def verify(self, signer: bytes) -> None:
        """Raise `VerificationError` unless the admitting party, known by this key, signed it. The caller checks expiry."""
        message = invited_message(self.study_id, self.key.public, self.expires_ms)
        verify(signer, "invited", message, self.signature, "the invitation")

    def admit(self, submission: SealedSubmission) -> Admission:
        """What a device sends to every right provider with this submission; it is valid for no other."""
        if submission.study_id != self.study_id:
            raise InvitationError("this invitation is to another study")
        return self._admit(submission.submission_id, signed_digests(submission.sealed))

    def admit_withdrawal(self, submission_id: bytes) -> Admission:
        """What a device shows to keep out a submission whose sealed parts it has no longer; nothing can come with it."""
        return self._admit(submission_id, ())

    def admit_nothing(self) -> Admission:
        """What a device shows to ask whether the invitation was used: its submission id is empty, so it admits none."""
        return self._admit(b"", ())

    def _admit(self, submission_id: bytes, digests: tuple[bytes, ...]) -> Admission:
        message = admission_message(self.study_id, submission_id, digests)
        return Admission(
            self.study_id,
            submission_id,
            self.key.public,
            self.expires_ms,
            self.signature,
            digests,
            self.key.sign("admission", message),
        )

    def to_bytes(self) -> bytes:
        """What a link carries besides the study's id and the device keeps; the device sends it to nobody."""
        return _FORMAT + self.secret + self.expires_ms.to_bytes(_INVITATION_TIME, "big") + self.signature

    @classmethod
    def from_bytes(cls, study_id: bytes, data: bytes) -> Invitation:
        """Read what `to_bytes` wrote; `verify` is still to be called."""
        if len(data) == _OLDER_BYTES:
            raise InvitationError(
                "this invitation is of an older format, which every provider could use; ask for a new one"
            )
        if len(data) != INVITATION_BYTES or len(study_id) != _STUDY:
            raise InvitationError(f"an invitation has {INVITATION_BYTES} bytes")
        if data[:1] != _FORMAT:
            raise InvitationError("this invitation is of a format that a newer version may know")
        secret, rest = data[1 : 1 + _SECRET], data[1 + _SECRET :]
        return cls(study_id, secret, int.from_bytes(rest[:_INVITATION_TIME], "big"), rest[_INVITATION_TIME:])


@dataclass(frozen=True)
class Link:
    """What a person is sent: where the study is, which study it must be, and the invitation if there is one.

    As text, where the study may be answered from a browser (`address` is the origin of a page's host):
    https://HOST/s/SHORT#CODE. Everything secret is in CODE, after the #, which browsers send to nobody; SHORT stands for the
    study (`trimask_core.study.party.short_code`). For the app alone (`address` is the collector's host:port):
    trimask://HOST:PORT/join/CODE. CODE is the same in both, and short enough for a QR code.
    """

    address: str
    study_id: bytes
    invitation: Invitation | None = None

    @property
    def code(self) -> str:
        """The study id, and the invitation if there is one, in base64url without padding."""
        data = self.study_id + (b"" if self.invitation is None else self.invitation.to_bytes())
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    @property
    def on_web(self) -> bool:
        """Whether it opens a page, or the app where that is registered for it."""
        return self.address.startswith(_WEB)

    @property
    def page(self) -> str:
        """Where the page is, whose folder also has the study (study.json); without anything secret."""
        if not self.on_web:
            raise InvitationError("this invitation link is for the app and has no page")
        return f"{self.address}/s/{short_code(self.study_id)}"

    def __str__(self) -> str:
        return f"{self.page}#{self.code}" if self.on_web else f"{SCHEME}{self.address}/join/{self.code}"

    @classmethod
    def looks_like_one(cls, text: str) -> bool:
        """Whether this is meant as a link, rather than as the name of a file."""
        return _tidy(text).lower().startswith((SCHEME, *_WEB))

    @classmethod
    def parse(cls, text: str) -> Link:
        """Read a link as a person pasted it."""
        text = _tidy(text)
        if text.lower().startswith(_WEB):
            return cls._parse_web(text)
        if not text.lower().startswith(SCHEME):
            raise InvitationError(
                f"an invitation link begins with https:// or {SCHEME}; copy the whole of it from your message"
            )
        address, _, code = text[len(SCHEME) :].partition("/join/")
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16 or not code:
            raise InvitationError(_NOT_WHOLE)
        return cls(address, *_read_code(code))

    @classmethod
    def _parse_web(cls, text: str) -> Link:
        page, _, code = text.partition("#")
        origin, _, short = page.partition("?")[0].rstrip("/").partition("/s/")
        if not short or "/" in short:
            raise InvitationError(
                "this web address is no invitation: one has /s/ and a short code in it; copy all of it from your message"
            )
        if not code:
            raise InvitationError(
                "this invitation link is without its secret part, which begins with #; copy all of it from your message"
            )
        origin = origin.lower()  # as browsers do with what is typed
        try:
            check_origin(origin, "this invitation link", development=True)
        except StudyError as error:
            raise InvitationError(str(error)) from None
        link = cls(origin, *_read_code(code))
        if short.lower() != short_code(link.study_id):
            raise InvitationError("this invitation link was changed: its address is that of another study")
        return link


def _tidy(text: str) -> str:
    """Mail programs break long lines, encode characters and take the sentence's full stop for a part of the link."""
    return _UNSEEN.sub("", unquote(text)).lstrip(_BEFORE).rstrip(_AFTER)


def _read_code(code: str) -> tuple[bytes, Invitation | None]:
    code = re.split("[?&]", code, maxsplit=1)[0]  # what trackers append
    try:
        data = base64.b64decode(code + "=" * (-len(code) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvitationError("this invitation link has a character that does not belong in it") from None
    if len(data) not in (_STUDY, _STUDY + _OLDER_BYTES, _STUDY + INVITATION_BYTES):
        raise InvitationError(_NOT_WHOLE)
    study_id, rest = data[:_STUDY], data[_STUDY:]
    return study_id, Invitation.from_bytes(study_id, rest) if rest else None
