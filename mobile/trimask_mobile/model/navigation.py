"""The way through the app: the parts it is made of, and what concerns more than one of them.

`shown` is the page and its words; `answering` the form that is open; `submissions` what was sealed; `studies` the list, a
study and its removal; `institutions` those that are known; `kiosk` several respondents on one device. Each part knows
those before it, and the screens ask each for its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trimask_core.crypto.records import STRETCH_COST
from trimask_mobile.kiosk.interviewer import Kiosk
from trimask_mobile.model.answering import Answering
from trimask_mobile.model.device import Device
from trimask_mobile.model.shown import KEPT, Mode, Shown
from trimask_mobile.model.studies import Institutions, Studies
from trimask_mobile.model.study_list import Item, items
from trimask_mobile.model.submissions import Submissions
from trimask_mobile.model.worker import Runner


class Guide:
    """From an invitation through a study's form to sending, on a device that may go from hand to hand."""

    def __init__(
        self,
        device: Device,
        runner: Runner,
        changed: Callable[[], None],
        language: str = "en",
        *,
        cost: tuple[int, int, int] = STRETCH_COST,
    ) -> None:
        self.shown = Shown(device, runner, changed, language)
        self.answering = Answering(self.shown, lambda: self.submissions.send())
        self.submissions = Submissions(self.shown, self.answering)
        self.studies = Studies(self.shown, self.answering, self.submissions)
        self.institutions = Institutions(self.shown)
        self.kiosk = Kiosk(
            self.shown, runner, self.answering, self.submissions, self.studies, self._turn, cost
        )
        self.shown.home, self.shown.where = self.home, self._where
        self._link_before_start = ""

    # Starting

    def start(self, link: str = "") -> None:
        """With a PIN set its page, or the session that was under way. Else where the person was, or to an invitation."""
        device = self.shown.device

        def invited() -> str:
            return link or self._link_before_start

        def read() -> tuple[dict[str, Any], dict[str, Any], tuple[Item, ...]]:
            return device.settings(), device.where(), items(device)

        def done(kept: tuple[dict[str, Any], dict[str, Any], tuple[Item, ...]]) -> None:
            settings, where, self.submissions.items = kept
            self.shown.take_settings(settings)
            self.shown.screen = "studies"
            if invited():
                self.open_link(invited())
            elif where.get("screen") == "invitation":
                self.studies.link_text = str(where.get("link", ""))
                self.shown.go("invitation")
            elif where.get("study") and where.get("screen") in KEPT:
                self.studies.open_study(bytes.fromhex(where["study"]), resume=True)
            else:
                self.shown.go("studies")

        self.kiosk.start(invited, lambda: self.shown.runner.records(read, done, self.shown.failed))

    def open_link(self, text: str) -> None:
        """An invitation came from outside. In a session nothing does; on the page for the PIN it waits."""
        if self.shown.screen == "starting":
            self._link_before_start = text
        elif self.shown.mode == "own":
            self.studies.open_link(text)
        else:
            self.kiosk.open_link(text)

    def _turn(self, mode: Mode, device: Device) -> None:
        """Another mode, another device, and nothing of what was shown."""
        self.shown.turn(mode, device)
        for part in (self.answering, self.submissions, self.studies):
            part.reset()

    # Moving

    def home(self) -> None:
        """The mode's first page, with nothing left open. A session ends there."""
        if self.shown.mode == "own":
            self.studies.show_studies()
        else:
            self.kiosk.home()

    def back(self) -> bool:
        """One page back; False where there is none, and the app may close."""
        shown, session = self.shown, self.shown.mode == "session"
        match shown.screen:
            case "settings":
                shown.go(shown.before_settings)
            case "institutions":
                shown.go("settings")
            case "interviewer":
                shown.go("interviewing" if shown.mode == "unlocked" else "settings")
            case "withdraw":
                self.submissions.show_page()
            case "handed" | "receipt" | "sending" if session:
                pass  # from the first page of a session, and from its last, nowhere
            case "problem" if session:
                if self.answering.participation is not None:
                    self.answering.show()
            case "study" if session:
                shown.go("handed")
            case "study" | "consent" | "eligibility" | "question" | "review":
                self.answering.back()
            case "remove":
                self.studies.leave_remove()
            case "invitation" | "receipt" | "sending" | "problem":
                self.home()
            case _:
                return False
        return True

    def again(self) -> None:
        """From a problem that may have passed: once more what led to it; in a session never to its end."""
        if self.studies.link_text:
            self.studies.open_link(self.studies.link_text)
        elif self.answering.participation is not None:
            self.answering.show()
        elif self.submissions.item is not None:
            self.submissions.show_page()
        elif self.shown.mode == "session":
            self.shown.go("handed")
        else:
            self.home()

    def choose_language(self, language: str) -> None:
        """Everything in another language, at once."""
        self.shown.language = language
        self.shown.speak(language)
        if self.answering.participation is not None:
            self.answering.speak(language)
            self.studies.tell()
        self.shown.keep_settings()

    def _where(self) -> tuple[bytes, str]:
        part, item = self.answering.participation, self.submissions.item
        if part is not None:
            study_id = part.study_id
        else:
            study_id = (
                item.study_id if item is not None and self.shown.screen in ("sending", "receipt") else b""
            )
        return study_id, self.studies.link_text

    # Time

    def tick(self) -> None:
        """Now and then, and when the app comes to the front: what is due is sent."""
        if self.shown.screen != "starting":
            self.kiosk.tick()
            self.submissions.tick()

    def something_waits(self) -> bool:
        """Whether anything is to be sent, of whoever has the device or had it. Called where it may wait."""
        if self.submissions.sending is not None:
            return True
        due = (self.shown.device.queue.next_ms(), self.kiosk.next_ms())
        return any(next_ms is not None for next_ms in due)
