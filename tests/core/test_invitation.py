"""Invitations and their links."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trimask_core.errors import InvitationError, StudyError, VerificationError
from trimask_core.identity import SigningKey
from trimask_core.invitation import INVITATION_BYTES, Invitation, Link

KEY = SigningKey(bytes(range(32)))
STUDY, PERSON, ENDS = bytes([7]) * 32, bytes([9]) * 16, 1_800_000_000_000


@pytest.fixture
def invitation() -> Invitation:
    return Invitation.issue(KEY, STUDY, PERSON, ENDS)


def test_an_invitation_comes_back_from_its_link(invitation: Invitation) -> None:
    link = Link("collector.example:7443", STUDY, invitation)
    read = Link.parse(str(link))
    assert read == link
    assert read.invitation is not None
    read.invitation.verify(KEY.public)
    assert len(str(link)) < 220  # a QR code of version 10 at most, which every phone reads
    assert len(invitation.to_bytes()) == INVITATION_BYTES


def test_an_open_link_names_the_study_alone() -> None:
    link = Link("[::1]:7443", STUDY)
    assert Link.parse(str(link)) == link


def test_line_breaks_in_a_pasted_link_do_no_harm(invitation: Invitation) -> None:
    text = str(Link("c.example:1", STUDY, invitation))
    assert Link.parse(f"  {text[:80]}\r\n {text[80:]}\n") == Link("c.example:1", STUDY, invitation)


@pytest.mark.parametrize("part", ["study_id", "invitation_id", "expires_ms", "signature"])
def test_every_part_is_signed(invitation: Invitation, part: str) -> None:
    value = getattr(invitation, part)
    other = value + 1 if isinstance(value, int) else bytes([value[0] ^ 1]) + value[1:]
    with pytest.raises(VerificationError, match="the invitation"):
        replace(invitation, **{part: other}).verify(KEY.public)


def test_another_collector_cannot_invite(invitation: Invitation) -> None:
    with pytest.raises(VerificationError):
        invitation.verify(SigningKey(bytes(32)).public)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("https://c.example/join", "begins with trimask://"),
        ("trimask://c.example/join/AAAA", "not whole"),
        ("trimask://c.example:99999/join/AAAA", "not whole"),
        ("trimask://c.example:7443/join/", "not whole"),
        ("trimask://c.example:7443/join/AAAA", "not whole"),
        ("trimask://c.example:7443/join/" + "*" * 43, "does not belong"),
        ("trimask://c.example:²/join/" + "A" * 43, "not whole"),
    ],
)
def test_a_link_that_is_not_one(text: str, said: str) -> None:
    with pytest.raises(InvitationError, match=said):
        Link.parse(text)


def test_an_invitation_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(InvitationError, match="88 bytes"):
        Invitation.from_bytes(STUDY, b"short")
    with pytest.raises(InvitationError, match="a study id"):
        Invitation.issue(KEY, b"short", PERSON, ENDS)


def test_admission_is_part_of_what_is_signed(make_study) -> None:  # type: ignore[no-untyped-def]
    open_study, invited = make_study().study, make_study(admission="invited").study
    assert open_study.to_dict()["admission"] == "open"
    assert invited.to_dict()["admission"] == "invited"
    assert type(invited).from_dict(invited.to_dict()).admission == "invited"
    with pytest.raises(StudyError, match="'open' or 'invited'"):
        make_study(admission="whoever")
