"""What a person is told when the way ends: what happened, what it means for them, and what they can do.

It may end before it begins: the app's folder is read-only, full or not there, or the device's key cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from trimask_client import Unreachable
from trimask_core.basics.errors import (
    ApprovalError,
    InvitationError,
    Refused,
    StudyError,
    TrimaskError,
    VerificationError,
)
from trimask_core.basics.refusals import Reason
from trimask_mobile.model.words import Catalogue, catalogue


class DiskError(TrimaskError):
    """This device could not read or write: full, read-only, worn out."""


@dataclass(frozen=True)
class Problem:
    """`kind` names the texts; `detail` is the software's own words, for whoever is asked for help; `page` the study's, where
    a browser can do what this app cannot; `contact` whom to ask, where no study is open."""

    kind: str
    detail: str = ""
    again: bool = False
    page: str = ""
    contact: str = ""

    def said(self, words: Catalogue) -> tuple[str, ...]:
        """What happened, what it means, what can be done."""
        return tuple(words.say(f"problem.{self.kind}.{part}") for part in ("title", "text", "advice"))


def explain(error: TrimaskError) -> Problem:
    """The problem an error is to the person."""
    detail = str(error)
    if isinstance(error, ApprovalError):
        return Problem("unapproved", detail)
    if isinstance(error, InvitationError):
        return Problem("link", detail)
    if isinstance(error, Unreachable):
        return Problem("offline", detail, again=True)
    if isinstance(error, Refused):
        return Problem(error.reason.told or "refused", detail, again=not error.reason.final)
    if isinstance(error, DiskError):
        return Problem("disk", detail, again=True)
    if isinstance(error, (StudyError, VerificationError)):
        return Problem("untrusted", detail)
    return Problem("other", detail, again=True)


def cause_words(code: str, words: Catalogue) -> str:
    """Why an institution has no part, in the person's language."""
    if code in ("offline", "untrusted"):
        return words.say(f"cause.{code}")
    reason = next((one for one in Reason if str(one) == code), None)
    return words.say(f"problem.{(None if reason is None else reason.told) or 'refused'}.title")


def causes_words(causes: Iterable[tuple[str, str]], names: Mapping[str, str], words: Catalogue) -> str:
    """Which institution has no part and why, in the person's language; `names` by role."""
    return "; ".join(
        words.say("cause.line", name=names.get(role, role), why=cause_words(code, words))
        for role, code in causes
    )


class Stuck:
    """What the problem's page needs of a guide, before there is one. `again` is told to try once more."""

    def __init__(self, error: OSError | TrimaskError, language: str, again: Callable[[], None]) -> None:
        kind = "stuck" if isinstance(error, OSError) else "stuck_key"
        where = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else str(error)
        self.problem = Problem(kind, where, again=True)
        self.words: Catalogue = catalogue(language)
        self.again = again
        self.screen, self.mode, self.scale = "problem", "stuck", 1.0
        self.participation = None
        self.shown = self.answering = self.kiosk = self  # every part there is

    def back(self) -> bool:
        """There is nowhere to go: the app may close."""
        return False

    def open_settings(self) -> None:
        """Type size and language are in the folder that cannot be read."""

    def touched(self) -> None:
        """Nobody waits for that."""
