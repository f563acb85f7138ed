"""The modes of a device that may go from hand to hand, and which pages each may show.

`own`: the device is one person's. `locked`: the page for the PIN. `unlocked`: the interviewer's page. `session`: a
respondent has the device, on a `Device` of their own (`respondents`). From a page that a mode may not show the way leads to
its first one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar, get_args

from trimask_core.errors import TrimaskError
from trimask_core.stretching import STRETCH_COST
from trimask_mobile.model.catalogue import Catalogue, catalogue
from trimask_mobile.model.device import Device
from trimask_mobile.model.guide import Guide
from trimask_mobile.model.pin import PinLock, Unlocked
from trimask_mobile.model.respondents import Respondent, Respondents
from trimask_mobile.model.state import ScreenName
from trimask_mobile.model.worker import Runner

__all__ = ["FIELD", "FIRST", "REACHED", "Mode", "Moded"]

T = TypeVar("T")
Mode = Literal["own", "locked", "unlocked", "session"]
FIRST: dict[Mode, ScreenName] = {
    "own": "studies",
    "locked": "pin",
    "unlocked": "interviewing",
    "session": "handed",
}
_ANSWERING = ("study", "consent", "eligibility", "question", "review", "sending", "receipt", "withdraw")
FIELD = ("interviewing", "pin", "handed")
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


class Moded(Guide):
    """The guide with modes: what is shown belongs to whoever has the device now."""

    def __init__(
        self,
        device: Device,
        runner: Runner,
        changed: Callable[[], None],
        language: str = "en",
        *,
        cost: tuple[int, int, int] = STRETCH_COST,
    ) -> None:
        self.mode: Mode = "own"
        self._epoch = 0
        super().__init__(device, _Fenced(runner, lambda: self._epoch), changed, language)
        self._raw = runner
        self._main = device
        self._lock = PinLock(device, cost=cost)
        self._respondents: Respondents | None = None
        self._unlocked: Unlocked | None = None
        self._session = ""
        self._settings: tuple[float, str, bool] = (1.0, language, False)
        self._link_before_pin = ""
        self._touched_ms = self._told_ms = 0
        self._sending_sessions = False
        self.wait_until_ms = 0
        self.pin_problem = ""
        self.keep_receipt = False
        self.said = ""
        self.lines: tuple[Respondent, ...] = ()
        self.stock: tuple[tuple[bytes, str, int], ...] = ()
        self.sent = 0

    # Where it may go

    def _go(self, screen: ScreenName) -> None:
        super()._go(screen if screen in REACHED[self.mode] else FIRST[self.mode])

    def _catalogue(self, language: str) -> Catalogue:
        """What is said otherwise in a mode has its mode's name before its own."""
        found, before = catalogue(language), f"{self.mode}."
        said = {key: found.words.get(before + key, text) for key, text in found.words.items()}
        return Catalogue(found.language, said)

    def _turn(self, mode: Mode, device: Device) -> None:
        """Another mode, another device, and nothing of what was shown."""
        self._epoch += 1
        self.mode, self.device = mode, device
        self.participation = self.sending = self.item = self.problem = self.opened = None
        self.story = self.consent = self.loss = None
        self.items, self.problems = (), {}
        self.whole_story = self.link_text = self.link_problem = self.said = self.pin_problem = ""
        self.busy = self._saving = self._dirty = self._sealed = self._uploading = False
        self.keep_receipt = False
        if mode != "unlocked":
            self._unlocked = None
        if mode != "session":
            self._session = ""
            self.scale, self._language, self.refuse_unknown = self._settings
        self._touched_ms = self._told_ms = self._main.clock.now_ms()
        self.words = self._catalogue(self._language)
        self._before_settings = FIRST[mode]

    def _enter(self, one: str, device: Device) -> None:
        self._turn("session", device)
        self._session = one

    def again(self) -> None:
        """From a problem: in a session never to its end."""
        if self.mode == "session" and self.participation is None and self.item is None:
            self._go("handed")
        else:
            super().again()

    def _need(self) -> Respondents:
        if self._respondents is None:
            raise RuntimeError("interviews before the app has started")
        return self._respondents
