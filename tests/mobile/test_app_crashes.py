"""kill -9 on every screen: the app comes back to the same one, with what had been said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

SCREENS = ("invitation", "study", "consent", "eligibility", "question", "review", "receipt")


def crash_on(screens: tuple[str, ...], lab: Any, phone: Callable[..., Any]) -> None:
    """The whole way, killed on each of these screens."""
    signed = lab.study()

    def crash(app: Any, screen: str) -> Any:
        """Kill and start again; whatever is shown then must be the same page with the same words."""
        if screen not in screens:
            return app
        before = app.do("settle")
        assert before["shown"] == screen
        app.kill()
        again = phone()
        after = again.on(screen)
        assert sorted(after["texts"]) == sorted(before["texts"])
        return again

    app = phone()
    app.on("studies")
    app.tap("Open an invitation")
    app.write("link", "trimask://hal")
    app = crash(app, "invitation")
    app.do("clear", "link")
    app.do("type", lab.link(signed))
    app.tap("Open")
    app.on("study")
    app = crash(app, "study")
    app.consent_open()
    app.tap("I have read this and agree")
    app.write("name", "Ada")
    app = crash(app, "consent")
    app.tap("Sign and continue")
    app.tap("Yes")
    app.write("weeks_ill", "1")
    app = crash(app, "eligibility")
    app.tap("Next")
    app.answer()
    app = crash(app, "review")
    app.tap("Change")  # the first of them
    app.do("clear", "year")
    app.do("type", "199")
    app = crash(app, "question")
    app.do("clear", "year")
    app.do("type", "1990")
    app.tap("Next")
    assert "17 May 1990" in app.on("review")["texts"]  # an edit leads back to where it came from
    app.tap("Send")
    app.see("Sent. Thank you!", screen="receipt")
    app = crash(app, "receipt")
    assert len(lab.rows("R2", signed.study.id)) == 1


@pytest.mark.slow
def test_a_crash_while_a_name_or_an_answer_is_typed(mobile_lab: Any, phone: Callable[..., Any]) -> None:
    crash_on(("consent", "question"), mobile_lab, phone)


@pytest.mark.slow
def test_a_crash_on_any_screen_loses_nothing(mobile_lab: Any, phone: Callable[..., Any]) -> None:
    crash_on(SCREENS, mobile_lab, phone)


def test_nothing_of_it_can_be_read_from_the_disk(mobile_lab: Any, at_review: Callable[..., Any]) -> None:
    app = at_review(mobile_lab.study())
    app.do("settle")
    app.kill()
    kept = [path for path in (app.home / "app").rglob("*") if path.is_file()]
    assert any(path.parent.name == "drafts" for path in kept)
    assert any(path.parent.name == "consents" for path in kept)
    for path in kept:
        data = path.read_bytes()
        assert b"1984" not in data, path
        assert b"Lovelace" not in data, path
