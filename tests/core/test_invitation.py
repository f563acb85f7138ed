"""Invitations and their links."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from trimask_core.basics.errors import InvitationError, StudyError, VerificationError
from trimask_core.crypto.keys import SigningKey
from trimask_core.submit.invitation import INVITATION_BYTES, Admission, Invitation, Link
from trimask_core.submit.submission import SealedSubmission

KEY = SigningKey(bytes(range(32)))
STUDY, PERSON, ENDS = bytes([7]) * 32, bytes([9]) * 16, 1_800_000_000_000
SENT = SealedSubmission(STUDY, bytes([3]) * 16, (b"one", b"two", b"three"))


@pytest.fixture
def invitation() -> Invitation:
    return Invitation(STUDY, PERSON, ENDS).signed_with(KEY)


def test_an_invitation_comes_back_from_its_link(invitation: Invitation) -> None:
    link = Link("collector.example:7443", STUDY, invitation)
    read = Link.parse(str(link))
    assert read == link
    assert read.invitation is not None
    read.invitation.verify(KEY.public)
    assert len(str(link)) <= 213  # a QR code of version 10 at most, level M, which every phone reads
    assert len(invitation.to_bytes()) == INVITATION_BYTES


def test_an_open_link_names_the_study_alone() -> None:
    link = Link("[::1]:7443", STUDY)
    assert Link.parse(str(link)) == link


def test_a_link_to_a_page_carries_the_same_invitation_after_the_hash(invitation: Invitation) -> None:
    link = Link("https://survey.example", STUDY, invitation)
    assert link.on_web
    assert str(link) == f"https://survey.example/s/a4dqobyh#{link.code}"
    assert link.code == Link("collector.example:7443", STUDY, invitation).code
    assert Link.parse(str(link)) == link
    assert Link.parse(str(link).replace("#", "/#").replace("survey.example", "Survey.Example")) == link
    sent = str(link).partition("#")[0]  # all that a browser sends of it
    assert invitation.secret.hex() not in sent
    assert link.code[:20] not in sent
    assert len(str(link)) <= 213  # a QR code of version 10 at most, level M


def test_a_link_for_the_app_has_no_page() -> None:
    with pytest.raises(InvitationError, match="for the app"):
        Link("c.example:1", STUDY).page  # noqa: B018


def test_what_is_meant_as_a_link() -> None:
    assert all(map(Link.looks_like_one, ("trimask://x", " https://x", "HTTPS://x", "http://x")))
    assert not any(map(Link.looks_like_one, ("study.json", "", "httpsx", "./https:")))


def test_older_invitations_are_refused_by_either_link() -> None:
    code = base64.urlsafe_b64encode(STUDY + bytes(88)).decode().rstrip("=")
    for text in (f"trimask://c.example:1/join/{code}", f"https://c.example/s/a4dqobyh#{code}"):
        with pytest.raises(InvitationError, match="older format"):
            Link.parse(text)


def test_line_breaks_in_a_pasted_link_do_no_harm(invitation: Invitation) -> None:
    text = str(Link("c.example:1", STUDY, invitation))
    assert Link.parse(f"  {text[:80]}\r\n {text[80:]}\n") == Link("c.example:1", STUDY, invitation)


@pytest.mark.parametrize(
    "mangled",
    [
        "{}.",
        "({})",
        "<{}>,",
        "“{}”",
        "*{}*!",
        "{}؟",
        "{}%0D%0A",
        "{}\u200b",
        "{}?utm_source=mail",
        "{}&fbclid=IwAR0",
    ],
)
@pytest.mark.parametrize("address", ["https://survey.example", "c.example:1"])
def test_repro_what_a_message_leaves_around_a_link_does_no_harm(
    invitation: Invitation, address: str, mangled: str
) -> None:
    link = Link(address, STUDY, invitation)
    assert Link.parse(mangled.format(link)) == link
    assert Link.looks_like_one(mangled.format(link))


@pytest.mark.parametrize("between", ["%20", "%0A", "\u200b", "%E2%80%8B", "\u00ad", "\ufeff"])
def test_repro_what_a_message_leaves_in_a_link_does_no_harm(invitation: Invitation, between: str) -> None:
    link = Link("https://survey.example", STUDY, invitation)
    text = str(link)
    assert Link.parse(f"{text[:80]}{between}{text[80:]}") == link


def test_repro_a_link_that_was_shared_keeps_its_study(invitation: Invitation) -> None:
    """Networks that people share links on add a query before the #, and some programs encode the # and what follows."""
    link = Link("https://survey.example", STUDY, invitation)
    assert Link.parse(str(link).replace("#", "?fbclid=IwAR0_x#")) == link
    assert Link.parse(str(link).replace("#", "/?a=/s/b#")) == link
    assert Link.parse(str(link).replace("#", "%23").replace("-", "%2D").replace("_", "%5F")) == link


@pytest.mark.parametrize("part", ["study_id", "secret", "expires_ms", "signature"])
def test_every_part_is_signed(invitation: Invitation, part: str) -> None:
    value = getattr(invitation, part)
    other = value + 1 if isinstance(value, int) else bytes([value[0] ^ 1]) + value[1:]
    with pytest.raises(VerificationError, match="the invitation"):
        replace(invitation, **{part: other}).verify(KEY.public)


def test_nobody_else_can_invite(invitation: Invitation) -> None:
    with pytest.raises(VerificationError):
        invitation.verify(SigningKey(bytes(32)).public)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ftp://c.example/join", "begins with https:// or trimask://"),
        ("https://c.example/join", "is no invitation"),
        ("https://c.example/s/", "is no invitation"),
        ("https://c.example/s/a/b#AAAA", "is no invitation"),
        ("https://c.example/s/aaaaaaaa", "without its secret part"),
        ("https://c.example/s/aaaaaaaa#AAAA", "not whole"),
        ("https://c.example/s/aaaaaaaa#" + "~" * 43, "does not belong"),
        ("https://c.example/s/bbbbbbbb#" + "A" * 43, "another study"),
        ("http://c.example/s/aaaaaaaa#" + "A" * 43, "must begin with https"),
        ("https://me@c.example/s/aaaaaaaa#" + "A" * 43, "must be an origin"),
        ("trimask://c.example/join/AAAA", "not whole"),
        ("trimask://c.example:99999/join/AAAA", "not whole"),
        ("trimask://c.example:7443/join/", "not whole"),
        ("trimask://c.example:7443/join/AAAA", "not whole"),
        ("trimask://c.example:7443/join/" + "~" * 43, "does not belong"),
        ("trimask://c.example:²/join/" + "A" * 43, "not whole"),
    ],
)
def test_a_link_that_is_not_one(text: str, said: str) -> None:
    with pytest.raises(InvitationError, match=said):
        Link.parse(text)


def test_an_invitation_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(InvitationError, match="87 bytes"):
        Invitation.from_bytes(STUDY, b"short")
    with pytest.raises(InvitationError, match="a study id"):
        Invitation(b"short", PERSON, ENDS)


def test_older_and_newer_formats_are_refused_with_a_reason(invitation: Invitation) -> None:
    older = base64.urlsafe_b64encode(STUDY + bytes(88)).decode()
    with pytest.raises(InvitationError, match=r"older format.*ask for a new one"):
        Link.parse(f"trimask://c.example:1/join/{older}")
    with pytest.raises(InvitationError, match="older format"):
        Admission.from_bytes(STUDY, SENT.submission_id, bytes(88))
    with pytest.raises(InvitationError, match="newer version"):
        Invitation.from_bytes(STUDY, b"\x03" + invitation.to_bytes()[1:])


def test_what_is_shown_holds_no_secret_and_admits_one_submission(invitation: Invitation) -> None:
    shown = invitation.admit(SENT)
    data = shown.to_bytes()
    read = Admission.from_bytes(STUDY, SENT.submission_id, data)
    assert read == shown
    read.verify(KEY.public)
    assert PERSON not in data
    assert invitation.key.secret_bytes() not in data
    assert str(PERSON) not in repr(invitation)
    assert [read.covers(k, 3, part) for k, part in enumerate(SENT.sealed, 1)] == [True] * 3
    assert not read.covers(1, 3, b"two")
    assert not read.covers(1, 2, b"one")
    assert not invitation.admit_withdrawal(SENT.submission_id).covers(1, 3, b"one")


@pytest.mark.parametrize(
    "part",
    ["study_id", "submission_id", "public_key", "expires_ms", "signature", "digests", "device_signature"],
)
def test_every_part_of_what_is_shown_is_signed(invitation: Invitation, part: str) -> None:
    shown = invitation.admit(SENT)
    value = getattr(shown, part)
    if isinstance(value, tuple):
        others = [value[:-1], (*value, value[0]), (value[1], value[0], value[2])]
    else:
        others = [value + 1 if isinstance(value, int) else bytes([value[0] ^ 1]) + value[1:]]
    for other in others:
        with pytest.raises(VerificationError):
            replace(shown, **{part: other}).verify(KEY.public)


def test_an_invitation_admits_to_its_own_study_alone(invitation: Invitation) -> None:
    with pytest.raises(InvitationError, match="another study"):
        invitation.admit(replace(SENT, study_id=bytes(32)))
    with pytest.raises(InvitationError, match="not an invitation"):
        Admission.from_bytes(STUDY, SENT.submission_id, invitation.admit(SENT).to_bytes() + b"x")


def test_admission_is_part_of_what_is_signed(make_study) -> None:  # type: ignore[no-untyped-def]
    open_study, invited = make_study().study, make_study(admission="invited").study
    assert open_study.to_dict()["admission"] == "open"
    assert invited.to_dict()["admission"] == "invited"
    assert type(invited).from_dict(invited.to_dict()).admission == "invited"
    with pytest.raises(StudyError, match="'open' or 'invited'"):
        make_study(admission="whoever")
