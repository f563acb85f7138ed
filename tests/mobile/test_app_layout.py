"""Nothing is too small to touch, out of reach, cut off or overlapping: on every screen, in every size of type."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

SIZES = [(360, 640), (640, 360), (320, 568), (800, 1280)]
SCALES = [1.0, 1.25, 1.5, 1.75, 2.0]
ALL = [(*size, scale) for size in SIZES for scale in SCALES]
# Always on: the smallest screen promised in the largest type, one way round or the other; and any size, by a seed.
EDGES = [(360, 640, 2.0), (640, 360, 2.0)]


def each_screen(lab: Any, start: Callable[..., Any]) -> Iterator[Any]:
    """The app on one screen after the other, every kind of question among them."""
    signed = lab.study()
    app = start("--size", "800x1280")
    app.do("size", 360, 640)
    app.on("studies")
    yield app
    app.tap("Open an invitation")
    app.write("link", "trimask://short")
    app.tap("Open")
    app.see("not whole")
    yield app
    app.do("clear", "link")
    app.do("type", lab.link(signed))
    app.tap("Open")
    app.on("study")
    yield app
    app.tap("More: who sees what, exact statements, institutions")
    app.tap("Show the exact statement")
    yield app
    app.consent_open()
    yield app
    app.tap("Back")
    app.consent()
    app.tap("Next")
    yield app
    app.eligible()
    app.tap("Month")
    app.tap("Next")
    app.see("An answer is needed.")
    yield app
    app.tap("Month")
    app.date("17", "May", "1984")
    app.tap("Next")
    yield app
    app.do("slide", 0.4)
    app.tap("Next")
    yield app
    app.write("sleep_hours", "7.5")
    app.tap("Next")
    app.tap("No")
    app.tap("Next")
    yield app
    app.tap("More often")
    app.tap("Next")
    yield app
    app.tap("Next")
    app.tap("Next")
    app.on("review")
    yield app
    app.tap("Text size and language")
    yield app
    app.tap("Known institutions")
    app.on("institutions")
    yield app
    app.tap("Done")
    app.on("settings")
    app.tap("Done")
    with lab.down("R2"):
        app.tap("Send")
        app.see("It is tried again")
        yield app
    app.tap("Try again now")
    app.see("Sent. Thank you!")
    app.tap("Save")
    yield app
    app.tap("Withdraw my answers")
    yield app
    app.tap("Keep my answers")
    app.tap("My studies")
    app.on("studies")
    yield app
    app.open(lab.link(signed, expires_ms=1))
    app.see("expired", screen="problem")
    yield app
    app.tap("My studies")
    app.on("studies")
    app.tap("Remove from this phone")
    app.on("remove")
    app.tap("Save the receipts first")
    yield app
    app.tap("Keep")
    app.on("studies")
    app.tap("Text size and language")
    app.tap("Interviewer mode")
    app.write("new pin", "123456")
    app.write("pin again", "123456")
    app.tap("Begin interviewer mode")
    app.see("one of the first a stranger would try")
    yield app
    for field in ("new pin", "pin again"):
        app.do("clear", field)
        app.do("type", "271828")
    app.tap("Begin interviewer mode")
    app.on("interviewing")
    app.do("clipboard", lab.link(signed))
    app.tap("Paste invitations")
    app.see("Invitations added: 1.")
    app.tap("End interviewer mode")
    yield app
    app.tap("Next respondent")
    app.on("handed")
    yield app
    app.tap("Begin")
    app.consent_open()
    app.write("name", "Ada")
    app.tap("Back")
    app.tap("Back")
    app.on("handed")
    app.tap("Stop and hand the device back")
    app.see("Your answers so far are deleted")
    yield app
    app.tap("Stop and delete")
    app.on("pin")
    for _ in range(3):
        app.write("pin", "111222")
        app.tap("Unlock")
        app.see("This is not the PIN.")
    app.see("Too many wrong PINs")
    yield app


def check(app: Any, sizes: list[tuple[int, int, float]]) -> tuple[str, list[str]]:
    """What is wrong with the screen shown, in any of these sizes."""
    wrong: list[str] = []
    found: dict[str, Any] = {}
    names: set[tuple[str, ...]] = set()
    for width, height, scale in sizes:
        app.do("size", width, height, scale)
        found = app.do("measure")
        names.add(tuple(sorted(found["controls"])))
        wrong += [f"{found['screen']} at {width} x {height}, {scale:.0%}: {one}" for one in found["wrong"]]
    assert len(names) == 1, f"a control is missing in some size: {names}"
    app.do("size", 360, 640, 1.0)
    return found["screen"], wrong


def sweep(lab: Any, start: Callable[..., Any], pick: Callable[[], list[tuple[int, int, float]]]) -> None:
    seen: set[str] = set()
    wrong: list[str] = []
    for app in each_screen(lab, start):
        screen, more = check(app, pick())
        seen.add(screen)
        wrong += more
    assert wrong == []
    assert seen == {
        "studies", "invitation", "study", "consent", "eligibility", "question", "review", "settings", "institutions",
        "sending", "receipt", "withdraw", "problem", "remove", "interviewer", "interviewing", "handed", "pin",
    }  # fmt: skip


@pytest.mark.slow
def test_every_screen_at_the_edges(mobile_lab: Any, phone: Callable[..., Any]) -> None:
    draw = random.Random(5)
    sweep(mobile_lab, phone, lambda: [draw.choice(EDGES)])


@pytest.mark.slow
def test_every_screen_in_every_size(mobile_lab: Any, phone: Callable[..., Any]) -> None:
    sweep(mobile_lab, phone, lambda: ALL)


def test_the_measure_finds_what_is_wrong(phone: Callable[..., Any]) -> None:
    app = phone()
    app.on("studies")
    assert app.do("measure")["wrong"] == []
    app.do("spoil", "small")
    assert "too small to touch" in app.do("measure")["wrong"][0]
    app.do("spoil", "cut")
    assert any("is cut" in one for one in app.do("measure")["wrong"])


def test_turning_the_phone_keeps_what_was_typed(mobile_lab: Any, phone: Callable[..., Any]) -> None:
    app = phone("--size", "640x640")
    app.do("size", 360, 640)
    app.on("studies")
    app.tap("Open an invitation")
    app.write("link", "trimask://half")
    app.do("size", 640, 360)
    assert "trimask://half" in app.do("state")["texts"]
    app.tap("Open")
    app.see("not whole", screen="invitation")
