"""The whole way without a touch: Tab, Shift-Tab, Enter, space, arrows, Escape; and a ring that shows where one is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def tab_to(app: Any, name: str, *modifiers: str) -> list[str]:
    """Tab until something has the focus; what was passed."""
    passed: list[str] = []
    for _ in range(30):
        at = app.key("tab", *modifiers)["focused"]
        if at == name:
            return passed
        passed.append(at)
    raise AssertionError(f"{name} is not among {passed}")


def test_an_answer_by_keyboard_alone(mobile_lab: Any, phone: Callable[..., Any]) -> None:
    signed = mobile_lab.study()
    app = phone()
    app.on("studies")
    tab_to(app, "Open an invitation")
    app.key("enter")
    app.on("invitation")
    assert tab_to(app, "link") == ["Back", "Text size and language"]
    app.do("type", mobile_lab.link(signed))
    app.key("enter")  # Enter in a field is the page's main button
    app.on("study")
    tab_to(app, "Take part", "shift")  # backwards from the top is the end
    app.key("enter")
    app.on("consent")
    tab_to(app, "I have read this and agree")
    app.key("space")
    tab_to(app, "name")
    app.do("type", "Ada Lovelace")
    assert "Ada Lovelace" in app.do("state")["texts"]  # a space in a field is a space
    app.key("enter")
    app.on("eligibility")
    tab_to(app, "Yes")
    app.key("space")
    tab_to(app, "weeks_ill")
    app.do("type", "1")
    app.key("enter")
    app.see("When were you born?")
    tab_to(app, "day")
    app.do("type", "28")
    tab_to(app, "Month")
    app.key("enter")
    tab_to(app, "January")
    app.key("down")  # an arrow chooses, as in any list
    assert "February" in app.do("state")["texts"]
    tab_to(app, "year")
    app.do("type", "1970")
    tab_to(app, "Next")
    app.key("enter")
    app.see("How well have you felt")
    app.key("tab")
    app.key("tab")
    app.key("tab")
    for _ in range(3):
        app.key("right")
    app.key("left")
    assert "7" in app.do("state")["texts"]
    tab_to(app, "Next")
    app.key("space")
    app.see("How long do you sleep")
    tab_to(app, "sleep_hours")
    app.do("type", "8")
    app.key("enter")
    app.see("Do you work in shifts?")
    tab_to(app, "Yes")
    assert app.key("down")["focused"] == "No"  # arrows choose, as radio buttons do
    app.key("escape")
    app.see("How long do you sleep")
    app.key("enter")
    app.see("Do you work in shifts?")
    app.key("enter")  # no was chosen by the arrow, so nothing about night shifts
    app.see("How much do you exercise?")
    tab_to(app, "Not at all")
    app.key("down")
    app.key("down")
    assert app.do("state")["focused"] == "More often"
    tab_to(app, "Next")
    app.key("enter")
    app.see("What do you take")
    tab_to(app, "Herbal tea")
    app.key("down")
    app.key("space")
    tab_to(app, "Next")
    app.key("enter")
    app.see("How much caffeine")
    app.key("enter")
    shown = app.on("review")["texts"]
    for words in ("28 February 1970", "7", "8 hours", "No", "More often", "Medicine"):
        assert words in shown
    tab_to(app, "Send")
    app.key("enter")
    app.see("Sent. Thank you!", screen="receipt")
    assert len(mobile_lab.rows("R3", signed.study.id)) == 1
    app.key("escape")
    app.see("All 3 institutions have signed for it.", screen="studies")


def test_the_ring_is_drawn_and_a_touch_takes_it_away(phone: Callable[..., Any]) -> None:
    app = phone()
    app.on("studies")
    before = app.do("pixels", "ring")["count"]
    app.key("tab")
    assert before == 0
    assert app.do("pixels", "ring")["count"] > 100
    app.tap("Open an invitation")
    assert app.on("invitation")["focused"] is None
    assert app.do("pixels", "ring")["count"] == 0
