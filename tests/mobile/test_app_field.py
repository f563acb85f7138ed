"""Interviewer mode by touch, in a real window, against real institutions; and removing what a phone has."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trimask_client import Client
from trimask_core.submit.invitation import Link
from trimask_core.submit.submission import read_receipt

PIN = "271828"
ANSWERS = {"age": "1990-01-02", "wellbeing": 3.0, "sleep_hours": "8", "shift_work": "no", "exercise": "some"}


def set_up(app: Any, links: list[str]) -> None:
    """A PIN, and a list of invitations."""
    app.on("studies")
    app.tap("Text size and language")
    app.tap("Interviewer mode")
    app.on("interviewer")
    app.write("new pin", PIN)
    app.write("pin again", PIN)
    app.tap("Begin interviewer mode")
    app.on("interviewing")
    app.do("clipboard", "\n".join(links))
    app.tap("Paste invitations")
    app.see(f"Invitations added: {len(links)}.")
    app.see(f"{len(links)} invitations left")


def unlock(app: Any) -> None:
    app.on("pin")
    app.write("pin", PIN)
    app.tap("Unlock")
    app.on("interviewing")


def left_of_respondents(home: Path) -> list[Path]:
    folder = home / "app" / "respondents"
    return [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []


def test_two_respondents_on_one_device(mobile_lab: Any, phone: Callable[..., Any]) -> None:
    signed = mobile_lab.study(admission="invited")
    app = phone("--size", "720x1280", "--density", "2")
    set_up(app, mobile_lab.invitations(signed, 2))
    app.interviewed()
    app.tap("Send")
    app.see("Sent. Thank you!", screen="receipt")
    # The respondent's own phone reads the code, and can withdraw with it.
    app.do("show_text", "Keep my receipt on this device")
    picture = app.home / "code.png"
    app.do("screenshot", str(picture))
    read = subprocess.run(["zbarimg", "-q", "--raw", picture], capture_output=True, text=True, check=True)
    (submission,) = mobile_lab.rows("R1", signed.study.id)
    assert read_receipt(read.stdout).submission_id == submission
    app.tap("Finish and hand back")
    app.on("pin")
    mobile_lab.until(lambda: left_of_respondents(app.home) == [])
    everywhere = " ".join(app.do("everywhere")["texts"])
    for gone in (
        "Ada Lovelace",
        "17 May 1984",
        submission.hex()[:4] + " " + submission.hex()[4:8],
        "/join/",
        "/receipt/",
    ):
        assert gone not in everywhere
    # Guessing: nothing but the page for the PIN, then a wait, which a restart does not shorten.
    for _ in range(3):
        app.write("pin", "111222")
        app.tap("Unlock")
        app.see("This is not the PIN.")
    app.see("Too many wrong PINs. It can be tried again in about a minute")
    app.kill()
    app = phone("--size", "720x1280", "--density", "2")
    assert not {"My studies", "Interviews"} & set(app.see("Too many wrong PINs", screen="pin")["texts"])
    app.key("escape")
    assert app.do("state")["shown"] == "pin"


@pytest.mark.slow
def test_a_respondent_without_network_leaves_what_is_sealed_alone(
    mobile_lab: Any, phone: Callable[..., Any]
) -> None:
    signed = mobile_lab.study(admission="invited")
    app = phone()
    set_up(app, mobile_lab.invitations(signed, 1))
    with mobile_lab.down("R1", "R2", "R3"):
        app.interviewed()
        app.tap("Send")
        app.see("You may hand the device back", screen="sending")
        app.see("City Hospital: not reached")
        app.tap("Finish and hand back")
        app.on("pin")
        app.do("settle")
        kinds = {path.parent.name for path in left_of_respondents(app.home)}
        assert "payloads" in kinds
        assert not kinds & {"drafts", "held", "consents"}
        unlock(app)
        app.see("Waiting to be sent")
    app.tap("Try again now")
    app.see("Accepted by all institutions so far: 1.")
    assert left_of_respondents(app.home) == []
    assert len(mobile_lab.rows("R2", signed.study.id)) == 1


@pytest.mark.slow
def test_a_session_cannot_be_left_but_by_handing_back(mobile_lab: Any, phone: Callable[..., Any]) -> None:
    signed = mobile_lab.study(admission="invited")
    app = phone()
    set_up(app, mobile_lab.invitations(signed, 1))
    app.tap("Next respondent")
    app.on("handed")
    app.key("escape")
    assert app.do("state")["shown"] == "handed"
    app.tap("Begin")
    app.consent()
    app.tap("Text size and language")
    texts = app.on("settings")["texts"]
    assert not {"Known institutions", "Interviewer mode", "Remove everything from this phone"} & set(texts)
    app.tap("Done")
    app.do("settle")
    app.kill()
    app = phone()
    app.on("eligibility")  # the respondent goes on
    for _ in range(3):
        app.key("escape")
    app.see("This device is the interviewer's", screen="handed")
    app.tap("Stop and hand the device back")
    app.see("Your answers so far are deleted")
    app.tap("Stop and delete")
    app.on("pin")
    mobile_lab.until(lambda: left_of_respondents(app.home) == [])
    unlock(app)
    app.see("1 invitations left")


@pytest.mark.slow
def test_removing_says_what_is_lost_and_removes_it(
    mobile_lab: Any, phone: Callable[..., Any], at_review: Callable[..., Any]
) -> None:
    signed = mobile_lab.study()
    app = at_review(signed)
    app.tap("Send")
    app.see("Sent. Thank you!", screen="receipt")
    app.tap("My studies")
    app.on("studies")
    app.tap("Remove from this phone")
    app.see("You can no longer withdraw from here", screen="remove")
    app.tap("Save the receipts first")
    app.see("Saved:")
    assert len(list((app.home / "saved").glob("Receipt *.json"))) == 1
    app.tap("Keep")
    app.see("Sent", screen="studies")
    app.tap("Remove from this phone")
    app.on("remove")
    app.tap("Remove")
    app.see("Answer without being seen", screen="studies")
    kinds = {path.parent.name for path in (app.home / "app").rglob("*") if path.is_file()}
    assert not kinds & {"receipts", "studies", "consents", "drafts", "payloads", "withdrawals"}
    assert len(mobile_lab.rows("R1", signed.study.id)) == 1  # what was sent stays where it is


def test_a_folder_that_cannot_be_written_is_said_and_the_app_begins_when_it_can(
    tmp_path: Path, phone: Callable[..., Any]
) -> None:
    """A file in the folder's place: no privilege writes into it."""
    home = tmp_path / "phone"
    home.mkdir()
    (home / "app").write_text("in the way")
    app = phone()
    app.see("This phone does not let the app save", screen="problem")
    assert app.do("measure")["wrong"] == []
    app.tap("Try again")
    app.see("This phone does not let the app save", screen="problem")
    (home / "app").unlink()
    app.tap("Try again")
    app.see("Answer without being seen", screen="studies")


def test_an_invitation_used_elsewhere_costs_no_answers_and_nothing_is_discarded_unasked(
    mobile_lab: Any, at_review: Callable[..., Any]
) -> None:
    signed = mobile_lab.study(admission="invited")
    (link,) = mobile_lab.invitations(signed, 1)
    invitation = Link.parse(link).invitation
    app = at_review(signed, invitation)
    with Client(signed, invitation=invitation) as elsewhere:
        elsewhere.submit(elsewhere.study.form.answers(ANSWERS, "en"))
    app.tap("Text size and language")
    app.tap("Deutsch")
    app.tap("Fertig")
    app.tap("Senden")
    told = app.see("Diese Einladung wurde schon benutzt", screen="problem")["texts"]
    assert any(signed.study.contact in text for text in told)
    app.tap("Meine Studien")
    app.tap("Fortsetzen")
    app.on("review")
    with mobile_lab.down("R1"):  # nobody to ask
        app.tap("Senden")
        app.see("Noch ist nicht alles angekommen", screen="sending")
    app.tap("Jetzt noch einmal versuchen")
    texts = app.see("City Hospital: Diese Einladung", screen="sending")["texts"]
    assert not any("used before" in text for text in texts)
    app.tap("Verwerfen")
    app.see("lassen sich nicht wiederherstellen")
    app.tap("Behalten")
    app.tap("Noch einmal antworten")
    assert "17. Mai 1984" in app.on("review")["texts"]
