"""What the app knows and shows, and how it changes: the ground of the guide.

On the screen's thread, and it never waits: what touches the disk or the network is given to a `Runner`, and the state
that depends on it changes when the result comes back. `changed` is called after every change. A job is given the device it
is about, not the guide's: that one may be another person's when the job's turn comes (`interviewer`).

Sending is shown as mask, split, and an upload to each institution by name.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from trimask_client import Entry
from trimask_core.basics.errors import TrimaskError
from trimask_mobile.model.device import CallState, Device, Opened
from trimask_mobile.model.participation import Consent, Participation
from trimask_mobile.model.problem import Problem, explain
from trimask_mobile.model.study_list import Item
from trimask_mobile.model.study_page_text import Story, tell
from trimask_mobile.model.words import LANGUAGES, Catalogue, catalogue
from trimask_mobile.model.worker import Runner

# "later": not this time, and tried again.
StepState = Literal["waiting", "busy", "done", "later", "failed"]


@dataclass
class Upload:
    """One institution's part."""

    name: str
    address: str
    state: StepState = "waiting"
    # Why it has no part, after an attempt (`trimask_client.queue_entry.cause_of`).
    cause: str = ""


@dataclass
class Sending:
    """How far it has come."""

    mask: StepState = "waiting"
    split: StepState = "waiting"
    uploads: list[Upload] = field(default_factory=list)
    entry: Entry | None = None
    # Whether a call is under way now.
    active: bool = False

    @classmethod
    def of(cls, item: Item) -> Sending:
        """A sealed submission, as it stands on disk."""
        uploads = [Upload(one.name, one.address) for one in item.providers]
        made = cls("done", "done", uploads, item.entry)
        if item.entry is not None and (item.entry.attempts or item.state != "waiting"):
            made.settle(item)
        for one, provider in zip(uploads, item.providers, strict=True):
            one.state = "done" if provider.has_it else one.state
        return made

    @property
    def upload(self) -> StepState:
        """The third step as a whole."""
        states = {one.state for one in self.uploads}
        if self.split != "done":
            return "waiting"
        if states == {"done"}:
            return "done"
        if self.active or "busy" in states:
            return "busy"
        return "failed" if "failed" in states else "later" if "later" in states else "waiting"

    def begin(self) -> None:
        """An attempt begins."""
        self.active = True
        for one in self.uploads:
            one.state = one.state if one.state == "done" else "waiting"
            one.cause = ""

    def called(self, address: str, state: CallState) -> None:
        """The transport says which institution is being called."""
        for one in self.uploads:
            if one.address == address and one.state != "done":
                one.state = "later" if state == "failed" else state

    def settle(self, item: Item) -> None:
        """After an attempt: what counts is the receipts on disk, not that a call was answered."""
        self.active, self.entry = False, item.entry
        left: StepState = "later" if item.state == "waiting" else "failed"
        causes = {} if item.entry is None else dict(item.entry.causes)
        for number, (one, provider) in enumerate(zip(self.uploads, item.providers, strict=True), 1):
            one.state = "done" if provider.has_it else left
            one.cause = causes.get(f"R{number}", "")


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
