"""What goes wrong, each with its screen: wrong input, no network, a kill, an old invitation, a missing signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def test_wrong_input_is_named_below_the_field_and_goes_when_it_is_right(
    mobile_lab: Any, phone: Callable[..., Any]
) -> None:
    app = phone("--size", "640x640")
    app.do("size", 360, 640)
    app.on("studies")
    app.tap("Open an invitation")
    app.write("link", "https://example.org/join/x")
    app.tap("Open")
    app.see("This web address is no invitation")
    app.do("clear", "link")
    app.do("type", mobile_lab.link(mobile_lab.study()))
    app.tap("Open")
    app.consent()
    app.tap("Next")
    app.see("An answer is needed.")
    app.eligible()
    app.date("31", "April", "84")
    app.tap("Next")
    app.see("Write the year with all four digits.")
    app.do("clear", "year")
    app.do("type", "1984")
    app.see("Give a date such as 31 December 2001.")  # what stood there follows what is typed
    app.do("clear", "day")
    app.do("type", "30")
    app.do("clear", "year")
    app.do("type", "2015")
    app.see("The study is for people of 18 to 90 years.")
    app.do("clear", "year")
    app.do("type", "1984")
    assert not [
        text for text in app.do("state")["texts"] if "for people of 18" in text or "Give a date" in text
    ]
    app.tap("Next")
    app.see("How well have you felt")
    app.tap("Next")
    app.see("An answer is needed.")  # a slider in the middle is no answer
    app.do("slide", 0.0)
    app.tap("Next")
    app.write("sleep_hours", "seven")
    app.tap("Next")
    app.see("Give a number.")
    app.tap("Text size and language")
    app.tap("Deutsch")
    app.tap("Fertig")
    app.do("clear", "sleep_hours")
    app.do("type", "1.000")
    app.tap("Weiter")
    app.see("1.000 kann 1 oder 1000 heißen; schreiben Sie 1000 oder 1.")
    app.do("clear", "sleep_hours")
    app.do("type", "70,5")
    app.tap("Weiter")
    app.see("Muss zwischen 3 und 12 liegen.")


def test_who_does_not_belong_is_told_and_forgotten(mobile_lab: Any, phone: Callable[..., Any]) -> None:
    app = phone()
    app.open(mobile_lab.link(mobile_lab.study()))
    app.consent()
    signed = app.home / "app" / "survey" / "consents"
    mobile_lab.until(lambda: list(signed.glob("*")))
    app.tap("No")
    app.write("weeks_ill", "0")
    app.tap("Next")
    app.see("This study is for others", screen="problem")
    mobile_lab.until(lambda: not list(signed.glob("*")))  # the name under the consent goes too
    app.tap("My studies")
    app.see("Not begun")


def test_no_network_half_way_then_it_arrives_once(
    mobile_lab: Any, phone: Callable[..., Any], at_review: Callable[..., Any]
) -> None:
    signed = mobile_lab.study()
    app = at_review(signed)
    with mobile_lab.down("R2", "R3"):
        app.tap("Send")
        texts = app.see("1 of 3 institutions have their part. It is tried again in about a minute")["texts"]
        assert texts.count("Not reached yet") == 2
        assert any(text.startswith("Why: Data Trust North: not reached") for text in texts)
        app.tap("My studies")
        app.see("Waiting to be sent", screen="studies")
        app.tap("Details")
        app.see("It is tried again", screen="sending")
    app.tap("Try again now")
    app.see("Sent. Thank you!", screen="receipt")
    held = [mobile_lab.rows(role, signed.study.id) for role in ("R1", "R2", "R3")]
    assert len(held[0]) == 1
    assert held[0] == held[1] == held[2]


@pytest.mark.parametrize(
    ("on_disk", "shown", "says"),
    [
        ("sending", "receipt", "Sent. Thank you!"),
        ("studies", "studies", "All 3 institutions have signed for it."),
    ],
)
def test_killed_while_sending_it_goes_on_and_the_row_arrives_once(
    mobile_lab: Any,
    phone: Callable[..., Any],
    at_review: Callable[..., Any],
    on_disk: str,
    shown: str,
    says: str,
) -> None:
    """It comes back to the page that was last on disk, which a kill may leave one behind the page that was seen."""
    signed = mobile_lab.study()
    app = at_review(signed)
    with mobile_lab.hanging("R2"):
        app.tap("Send")
        app.do("wait_step", "Data Trust North", "busy")
        # The network's thread hangs; the screen does not: a page is left, and another opened.
        app.tap("My studies")
        app.see("Waiting to be sent", screen="studies")
        if on_disk == "sending":
            app.tap("Details")
            app.on("sending")
        app.do("settle")
        app.kill()
    assert len(mobile_lab.rows("R1", signed.study.id)) == 1
    assert mobile_lab.rows("R2", signed.study.id) == []
    again = phone()
    again.see(says, screen=shown)  # nobody had to touch anything
    held = [mobile_lab.rows(role, signed.study.id) for role in ("R1", "R2", "R3")]
    assert len(held[0]) == 1
    assert held[0] == held[1] == held[2]


def test_an_expired_invitation_and_a_missing_approval(mobile_lab: Any, phone: Callable[..., Any]) -> None:
    app = phone()
    signed = mobile_lab.study()
    app.open(mobile_lab.link(signed, expires_ms=1_700_000_000_000))
    app.see("This invitation has expired", screen="problem")
    app.tap("My studies")
    app.on("studies")
    with mobile_lab.served(mobile_lab.study(without="L2")) as link:
        app.open(link)
        app.on("problem")
    texts = app.see("Not everybody has signed this study", screen="problem")["texts"]
    assert any("not approved yet by L2" in text for text in texts)
    app.tap("My studies")
    assert "How do you sleep?" not in app.on("studies")["texts"]  # nothing of it was kept


def test_withdrawn(mobile_lab: Any, phone: Callable[..., Any], at_review: Callable[..., Any]) -> None:
    signed = mobile_lab.study()
    app = at_review(signed)
    app.tap("Send")
    app.see("Sent. Thank you!", screen="receipt")
    app.tap("Withdraw my answers")
    app.see("Afterwards nobody can", screen="withdraw")
    with mobile_lab.down("R3"):
        app.tap("Withdraw")
        app.see("2 of 3 institutions have erased their part", screen="receipt")
    app.tap("My studies")
    app.see("Being withdrawn", screen="studies")
    app.do("hurry")
    app.see("Every institution has erased its part.")
    for role in ("R1", "R2", "R3"):
        assert mobile_lab.rows(role, signed.study.id) == []
