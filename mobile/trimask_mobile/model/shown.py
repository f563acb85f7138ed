"""What is shown now, and what every part of the app asks of it: the ground the parts stand on.

On the screen's thread, and it never waits: what touches the disk or the network is given to `runner`, and what depends on
it changes when the result comes back. `changed` is called after every change. A job is given the device it is about, not
the one at hand when its turn comes: that one may be another person's.

A device that may go from hand to hand has modes, and each may show certain pages. `own`: the device is one person's.
`locked`: the page for the PIN. `unlocked`: the interviewer's page. `session`: a respondent has the device, on a `Device`
of their own (`kiosk.respondents`). From a page that a mode may not show the way leads to its first one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args

from trimask_core.basics.errors import TrimaskError
from trimask_mobile.model.device import Device
from trimask_mobile.model.problem import Problem, explain
from trimask_mobile.model.words import Catalogue, catalogue
from trimask_mobile.model.worker import Runner
from trimask_mobile.theme import SCALES

T = TypeVar("T")
Mode = Literal["own", "locked", "unlocked", "session"]
ScreenName = Literal[
    "starting", "studies", "invitation", "study", "consent", "eligibility", "question", "review", "sending",
    "receipt", "withdraw", "settings", "institutions", "problem", "remove",
    "interviewer", "pin", "interviewing", "handed",
]  # fmt: skip
# What the receipt's page shows; the rest is on the page of sending.
SETTLED = ("sent", "withdrawing", "withdrawn", "too_late")
# Screens a phone that died comes back to; from the others, to the one before them.
KEPT = (
    "studies", "invitation", "study", "consent", "eligibility", "question", "review", "sending", "receipt",
)  # fmt: skip
FIRST: dict[Mode, ScreenName] = {
    "own": "studies",
    "locked": "pin",
    "unlocked": "interviewing",
    "session": "handed",
}
FIELD = ("interviewing", "pin", "handed")
_ANSWERING = ("study", "consent", "eligibility", "question", "review", "sending", "receipt", "withdraw")
REACHED: dict[Mode, frozenset[str]] = {
    "own": frozenset(get_args(ScreenName)) - set(FIELD),
    "locked": frozenset(("pin", "settings", "problem")),
    "unlocked": frozenset(("interviewing", "interviewer", "settings", "problem")),
    "session": frozenset(("handed", *_ANSWERING, "settings", "problem")),
}


class _Fenced:
    """A runner whose results are dropped once the device has another person: they belong to nobody here any more."""

    def __init__(self, inner: Runner, epoch: Callable[[], int]) -> None:
        self._inner, self._epoch, self.post = inner, epoch, inner.post

    def _fence(self, call: Callable[[T], None]) -> Callable[[T], None]:
        epoch = self._epoch()
        return lambda result: call(result) if epoch == self._epoch() else None

    def records(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[TrimaskError], None]
    ) -> None:
        self._inner.records(job, self._fence(done), self._fence(failed))

    def network(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[TrimaskError], None]
    ) -> None:
        self._inner.network(job, self._fence(done), self._fence(failed))


class Shown:
    """The page, its words and sizes, and whose device it is. `home` and `where` are the guide's: see `navigation`."""

    def __init__(
        self, device: Device, runner: Runner, changed: Callable[[], None], language: str = "en"
    ) -> None:
        self.device = device
        self.changed = changed
        self.mode: Mode = "own"
        self._epoch = 0
        self.runner: Runner = _Fenced(runner, lambda: self._epoch)
        self.screen: ScreenName = "starting"
        self.before_settings: ScreenName = "studies"
        self.busy = False
        self.problem: Problem | None = None
        self.sends_when_closed = False
        # What the system can do: whether it reads the screen aloud, and a browser.
        self.reads_aloud: Callable[[], bool] = lambda: False
        self.browse: Callable[[str], None] = lambda _address: None
        self.scale = 1.0
        self.language = language
        self.refuse_unknown = False
        self.words: Catalogue = catalogue(language)
        # Leads to the mode's first page, with nothing left open.
        self.home: Callable[[], None] = lambda: self.go(FIRST[self.mode])
        # The study that the page is about, and what stands in the field for an invitation.
        self.where: Callable[[], tuple[bytes, str]] = lambda: (b"", "")

    # Moving

    def go(self, screen: ScreenName) -> None:
        """To a page, or to the mode's first one."""
        self.screen = screen if screen in REACHED[self.mode] else FIRST[self.mode]
        self.keep_where()
        self.changed()

    def stop(self, problem: Problem) -> None:
        """The way ends here."""
        self.problem, self.busy = problem, False
        self.go("problem")

    def failed(self, error: TrimaskError) -> None:
        """The way ends with an error."""
        self.stop(explain(error))

    def turn(self, mode: Mode, device: Device) -> None:
        """Another mode, another device: results of jobs that are under way belong to nobody here any more."""
        self._epoch += 1
        self.mode, self.device = mode, device
        self.busy, self.problem, self.before_settings = False, None, FIRST[mode]
        self.speak(self.language)

    # Keeping

    def read(self, job: Callable[[], T], done: Callable[[T], None]) -> None:
        """Off this thread; where it fails the way ends."""
        self.runner.records(job, done, self.failed)

    def keep(self, job: Callable[[], None]) -> None:
        """Write something that nobody waits for."""
        self.read(job, lambda _: None)

    def keep_where(self) -> None:
        """The page to come back to."""
        if self.screen in KEPT:
            study_id, link = self.where()
            study = study_id.hex() if self.screen not in ("studies", "invitation") else ""
            where, device = {"screen": self.screen, "study": study, "link": link}, self.device
            self.keep(lambda: device.keep_where(where))

    # Settings

    def speak(self, language: str) -> None:
        """The app's words in a language; what is said otherwise in a mode has its mode's name before its own."""
        found, before = catalogue(language), f"{self.mode}."
        said = {key: found.words.get(before + key, text) for key, text in found.words.items()}
        self.words = Catalogue(found.language, said)

    def open_settings(self) -> None:
        """Type size and language."""
        if self.screen not in ("settings", "institutions"):
            self.before_settings = self.screen
            self.go("settings")

    def choose_scale(self, scale: float) -> None:
        """The size of all type."""
        self.scale = scale
        self.keep_settings()

    def take_settings(self, settings: dict[str, Any]) -> None:
        """As they were kept."""
        self.scale = settings.get("scale", 1.0) if settings.get("scale") in SCALES else 1.0
        self.language = str(settings.get("language", self.language))
        self.refuse_unknown = bool(settings.get("refuse_unknown", False))
        self.speak(self.language)

    def keep_settings(self) -> None:
        """For the next start."""
        settings = {
            "scale": self.scale, "language": self.language, "refuse_unknown": self.refuse_unknown,
        }  # fmt: skip
        device = self.device
        self.keep(lambda: device.keep_settings(settings))
        self.changed()
