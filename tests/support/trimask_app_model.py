"""The app without a window: a runner that does everything at once, a network that is not there, a form filled in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from trimask_client import Endpoint, Unreachable
from trimask_core.basics.errors import TrimaskError
from trimask_mobile.model.navigation import Guide
from trimask_mobile.model.participation import Participation

T = TypeVar("T")


class AtOnce:
    """Runs every job where it is; what a test looks at next has happened."""

    def records(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[TrimaskError], None]
    ) -> None:
        try:
            result = job()
        except TrimaskError as error:
            failed(error)
        else:
            done(result)

    network = records

    def post(self, call: Callable[[], None]) -> None:
        call()


class Offline:
    """No provider can be reached."""

    def call(self, endpoint: Endpoint, *_: object) -> bytes:
        raise Unreachable(f"{endpoint.address}: no network")

    def close(self) -> None:
        pass


def to_questions(guide: Guide) -> Participation:
    guide.studies.show(guide.submissions.items[0])
    guide.answering.next()
    guide.answering.agree(True)
    guide.answering.sign_name("Ada Lovelace")
    guide.answering.next()
    assert guide.answering.participation is not None
    return guide.answering.participation


def fill(guide: Guide) -> dict[str, Any]:
    """Every question, then send."""
    given = {"age": "44", "bmi": "25", "smoker": "no", "region": "west"}
    for name, value in given.items():
        guide.answering.answer(name, value)
        guide.answering.next()
    assert guide.shown.screen == "review", guide.answering.problems
    guide.answering.next()
    return given
