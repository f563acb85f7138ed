"""Removing from this phone: every loss is named first, and then nothing of it is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trimask_app_model import AtOnce, Offline, fill, to_questions
from trimask_client import Endpoint
from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.signed import SignedStudy
from trimask_mobile.model.device import Device
from trimask_mobile.model.navigation import Guide
from trimask_mobile.model.problem import causes_words
from trimask_mobile.model.words import LANGUAGES, catalogue


@pytest.fixture
def start(tmp_path: Path, make_study: Callable[..., Any]) -> Callable[..., Guide]:
    """The app on a phone that has joined two studies."""
    both = [make_study(label=name, title=name).signed for name in ("first", "second")]

    def make(transport: Any = None) -> Guide:
        device = Device(
            tmp_path / "phone", transport=transport or Offline(), clock=ManualClock(1_800_000_000_000)
        )
        for signed in both if not device.queue.studies() else ():
            device.queue.join(signed)
        guide = Guide(device, AtOnce(), lambda: None, cost=(4, 8, 1))
        guide.start()
        return guide

    return make


def files(guide: Guide) -> list[Path]:
    return [path for path in guide.shown.device.home.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_what_waits_is_named_before_one_study_is_removed(start: Callable[..., Guide]) -> None:
    guide = start()
    part = to_questions(guide)
    fill(guide)
    guide.home()
    waiting = next(line for line in guide.submissions.items if line.state == "waiting")
    guide.studies.ask_remove(waiting)
    assert (guide.shown.screen, guide.studies.loss is not None and guide.studies.loss.study_id) == (
        "remove",
        part.study_id,
    )
    assert guide.studies.loss is not None
    assert guide.studies.loss.by_state["waiting"] == (waiting.title,)
    (told,) = guide.studies.loss.sentences(guide.shown.words)
    assert waiting.title in told
    assert "never be" in told
    assert guide.back()  # not yet
    assert guide.shown.screen == "studies"
    assert len(guide.submissions.items) == 2
    guide.studies.ask_remove(waiting)
    guide.studies.remove()
    assert guide.shown.screen == "studies"
    assert [line.study_id == part.study_id for line in guide.submissions.items] == [
        False
    ]  # the other study stays
    assert guide.shown.device.consent(part.study_id) is None
    assert not any(part.study_id.hex() in path.name for path in files(guide))
    assert start().shown.screen == "studies"


def test_everything_goes_with_the_key_and_settings_stay(start: Callable[..., Guide]) -> None:
    guide = start()
    guide.shown.choose_scale(1.5)
    to_questions(guide)
    guide.answering.answer("age", "44")
    guide.home()
    key = (guide.shown.device.home / "device.key").read_bytes()
    guide.shown.open_settings()
    guide.studies.ask_remove()
    assert guide.studies.loss is not None
    assert guide.studies.loss.by_state["draft"]
    guide.studies.leave_remove()
    assert guide.shown.screen == "settings"
    guide.studies.ask_remove()
    guide.studies.remove()
    assert (guide.shown.screen, guide.submissions.items) == ("studies", ())
    assert (guide.shown.device.home / "device.key").read_bytes() != key
    assert {path.parent.name for path in files(guide)} <= {"phone", "app"}
    guide.kiosk.open_interviewer()
    guide.kiosk.set_pin("271828", "271828")  # under the new key
    device = Device(guide.shown.device.home, transport=Offline(), clock=ManualClock(1_800_000_000_000))
    again = Guide(device, AtOnce(), lambda: None)
    again.start()
    assert (again.shown.screen, again.shown.scale) == ("pin", 1.5)
    again.kiosk.unlock("271828")
    assert again.shown.screen == "interviewing"


class Used(Offline):
    """The first provider has seen the invitation before."""

    def call(self, endpoint: Endpoint, *arguments: object) -> bytes:
        if str(arguments[0]).endswith("/Submit"):
            raise Refused(Reason.INVITATION_USED, "this invitation was used before")
        return super().call(endpoint)


def test_why_something_was_refused_is_in_the_language_shown(start: Callable[..., Guide]) -> None:
    guide = start(Used())
    guide.choose_language("de")
    to_questions(guide)
    fill(guide)
    assert guide.submissions.item is not None
    assert guide.submissions.item.state == "refused"
    told = guide.submissions.item.words(catalogue("de"), 0)
    assert "Org R1: Diese Einladung wurde schon benutzt" in told
    assert "used before" not in told
    assert "Org R1: This invitation was used before" in guide.submissions.item.words(catalogue("en"), 0)


def test_every_cause_has_words_of_its_own() -> None:
    codes = ["offline", "untrusted", "something_new", *(str(reason) for reason in Reason)]
    for language in LANGUAGES:
        words = catalogue(language)
        for code in codes:
            told = causes_words([("R1", code)], {"R1": "City Hospital"}, words)
            assert told.startswith("City Hospital: ")
            assert code.replace("_", " ") not in told or code in ("offline", "unreachable"), told


def test_a_study_opened_and_not_answered_is_removed_without_a_warning(
    start: Callable[..., Guide], signed_study: SignedStudy
) -> None:
    guide = start()
    guide.studies.ask_remove(guide.submissions.items[0])
    assert guide.studies.loss is not None
    assert guide.studies.loss.sentences(guide.shown.words) == []
    guide.studies.remove()
    assert len(guide.submissions.items) == 1
