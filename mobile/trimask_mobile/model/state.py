"""What the app knows and shows, and how it changes: the ground of the guide.

On the screen's thread, and it never waits: what touches the disk or the network is given to a `Runner`, and the state
that depends on it changes when the result comes back. `changed` is called after every change. A job is given the device it
is about, not the guide's: that one may be another person's when the job's turn comes (`interviewer`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Literal

from trimask_client import Entry
from trimask_core.errors import TrimaskError
from trimask_mobile.model.catalogue import LANGUAGES, Catalogue, catalogue
from trimask_mobile.model.device import Device, Opened
from trimask_mobile.model.participation import Consent, Participation
from trimask_mobile.model.problem import Problem, explain
from trimask_mobile.model.sending import Sending
from trimask_mobile.model.shelf import Item
from trimask_mobile.model.story import Story, tell
from trimask_mobile.model.worker import Runner

__all__ = ["KEPT", "SETTLED", "AppState", "ScreenName"]

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


class AppState:
    """The app without its window and without its ways."""

    def __init__(
        self, device: Device, runner: Runner, changed: Callable[[], None], language: str = "en"
    ) -> None:
        self.device = device
        self._runner = runner
        self._changed = changed
        self.screen: ScreenName = "starting"
        self._before_settings: ScreenName = "studies"
        self.busy = False
        self.sends_when_closed = False
        self.scale = 1.0
        self.refuse_unknown = False
        self.words: Catalogue = catalogue(language)
        self._language = language
        self.link_text = ""
        self.link_problem = ""
        self._link_before_start = ""
        self.problem: Problem | None = None
        self.items: tuple[Item, ...] = ()
        self.opened: Opened | None = None
        self.story: Story | None = None
        self.whole_story = ""
        self.participation: Participation | None = None
        self.problems: dict[str, str] = {}
        self.sending: Sending | None = None
        self.item: Item | None = None
        self.consent: Consent | None = None
        self._saving = self._dirty = self._sealed = self._uploading = False

    @property
    def study_title(self) -> str:
        """The study's title, in the language shown."""
        if self.opened is None:
            return "" if self.item is None else self.item.title
        form = self.opened.form
        return self.opened.study.title if form.title is None else form.title[form.language(self.language)]

    @property
    def _part(self) -> Participation:
        if self.participation is None:
            raise RuntimeError("a page of the form without a study")
        return self.participation

    @property
    def _entry(self) -> Entry:
        if self.item is None or self.item.entry is None:
            raise RuntimeError("a page about a submission without one")
        return self.item.entry

    def _catalogue(self, language: str) -> Catalogue:
        """The app's words as they are said now."""
        return catalogue(language)

    # Settings

    def open_settings(self) -> None:
        """Type size and language."""
        if self.screen not in ("settings", "institutions"):
            self._before_settings = self.screen
            self._go("settings")

    @property
    def languages(self) -> tuple[str, ...]:
        """What can be chosen: the form's languages while one is open, else the app's own."""
        return self.participation.form.languages if self.participation is not None else tuple(LANGUAGES)

    @property
    def language(self) -> str:
        """What is shown."""
        return self._language if self.participation is None else self.participation.language

    def choose_language(self, language: str) -> None:
        """Everything in another language, at once. What was answered stays; a consent not yet given must be read again."""
        self._language = language
        self.words = self._catalogue(language)
        if self.participation is not None:
            if self.participation.language != language and self.participation.step == "consent":
                self.participation.agreed = False
            self.participation.language = self.participation.form.language(language)
            self.participation.plain_consent = self.words.say("consent.plain")
            self._tell()
            self._save()
        self._keep_settings()

    def choose_scale(self, scale: float) -> None:
        """The size of all type."""
        self.scale = scale
        self._keep_settings()

    def _keep_settings(self) -> None:
        settings = {
            "scale": self.scale, "language": self._language, "refuse_unknown": self.refuse_unknown,
        }  # fmt: skip
        device = self.device
        self._runner.records(lambda: device.keep_settings(settings), lambda _: None, self._failed)
        self._changed()

    # Moving

    def _go(self, screen: ScreenName) -> None:
        self.screen = screen
        self._keep_where()
        self._changed()

    def _moved(self) -> None:
        self.problems = {}
        self._save()
        self._go(self._part.step)

    def _stop(self, problem: Problem) -> None:
        self.problem, self.busy = problem, False
        self._go("problem")

    def _failed(self, error: TrimaskError) -> None:
        self._stop(explain(error))

    def _tell(self) -> None:
        if self.opened is not None:
            language = self.participation.language if self.participation is not None else self._language
            self.words = self._catalogue(language)
            self.story = tell(self.opened.study, self.opened.form, self.words, language, self.opened.parties)

    # Keeping

    def _keep_where(self) -> None:
        if self.screen not in KEPT:
            return
        study_id = b""
        if self.participation is not None:
            study_id = self.participation.study_id
        elif self.item is not None and self.screen in ("sending", "receipt"):
            study_id = self.item.study_id
        where = {
            "screen": self.screen,
            "study": study_id.hex() if self.screen not in ("studies", "invitation") else "",
            "link": self.link_text,
        }
        device = self.device
        self._runner.records(lambda: device.keep_where(where), lambda _: None, self._failed)

    def _forget_draft(self) -> None:
        study_id, device = self._part.study_id, self.device
        self._sealed, self._dirty = True, False
        self._runner.records(lambda: device.delete_draft(study_id), lambda _: None, self._failed)

    def _forget_person(self) -> None:
        """Nothing stays of somebody who may not take part: neither answers nor the name under the consent."""
        study_id, device = self._part.study_id, self.device
        self.consent = None
        self._forget_draft()
        self._runner.records(lambda: device.forget_consent(study_id), lambda _: None, self._failed)

    def _save(self) -> None:
        """Keep the draft. While one is being written, changes are gathered into the next."""
        if self.participation is None or self._sealed:
            return
        if self._saving:
            self._dirty = True
            return
        self._saving, self._dirty = True, False
        study_id, record = self.participation.study_id, copy.deepcopy(self.participation.to_record())
        device = self.device

        def saved(_: object) -> None:
            self._saving = False
            if self._dirty:
                self._save()

        def failed(error: TrimaskError) -> None:
            self._saving = False
            self._failed(error)

        self._runner.records(lambda: device.save_draft(study_id, record), saved, failed)
