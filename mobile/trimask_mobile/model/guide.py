"""The way through the app: which screen is shown, and what each thing a person does leads to.

A state machine on the screen's thread. It never waits: what touches the disk or the network is given to a `Runner`,
and the state that depends on it changes when the result comes back. `changed` is called after every change.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

from trimask_client import Entry
from trimask_core.errors import InvitationError, TrimaskError
from trimask_core.invitation import Link
from trimask_mobile.model.catalogue import Catalogue, catalogue
from trimask_mobile.model.device import Device, Opened
from trimask_mobile.model.participation import Consent, Participation, sentence
from trimask_mobile.model.problem import Problem, explain
from trimask_mobile.model.sending import Sending
from trimask_mobile.model.shelf import Item, item, items
from trimask_mobile.model.story import Story, tell
from trimask_mobile.model.worker import Runner
from trimask_mobile.theme import SCALES

__all__ = ["Guide", "ScreenName"]

ScreenName = Literal[
    "starting", "studies", "invitation", "study", "consent", "eligibility", "question", "review", "sending",
    "receipt", "withdraw", "settings", "problem",
]  # fmt: skip
# What the receipt's page shows; the rest is on the page of sending.
SETTLED = ("sent", "withdrawing", "withdrawn", "too_late")
# Screens a phone that died comes back to; from the others, to the one before them.
_KEPT = ("studies", "invitation", "study", "consent", "eligibility", "question", "review", "sending", "receipt")


class Guide:
    """The app without its window."""

    def __init__(
        self, device: Device, runner: Runner, changed: Callable[[], None], language: str = "en"
    ) -> None:
        self.device = device
        self._runner = runner
        self._changed = changed
        self.screen: ScreenName = "starting"
        self._before_settings: ScreenName = "studies"
        self.busy = False
        self.scale = 1.0
        self.words: Catalogue = catalogue(language)
        self._language = language
        self.link_text = ""
        self.link_problem = ""
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
        self._saving = self._dirty = self._sealed = False

    # Starting, and coming back after a crash

    def start(self, link: str = "") -> None:
        """Read what is kept and go where the person was, or to the invitation the app was opened with."""

        def read() -> tuple[dict[str, Any], dict[str, Any], tuple[Item, ...]]:
            return self.device.settings(), self.device.where(), items(self.device)

        def done(kept: tuple[dict[str, Any], dict[str, Any], tuple[Item, ...]]) -> None:
            settings, where, self.items = kept
            self.scale = settings.get("scale", 1.0) if settings.get("scale") in SCALES else 1.0
            self._language = str(settings.get("language", self._language))
            self.words = catalogue(self._language)
            if link:
                self.open_link(link)
            elif where.get("screen") == "invitation":
                self.link_text = str(where.get("link", ""))
                self._go("invitation")
            elif where.get("study") and where.get("screen") in _KEPT:
                self._open(bytes.fromhex(where["study"]), resume=True)
            else:
                self._go("studies")

        self._runner.records(read, done, self._failed)

    def open_link(self, text: str) -> None:
        """An invitation came from outside: the command line, another app, a scanner."""
        self.link_text = text
        self._go("invitation")
        self.submit_link()

    # Invitation

    def open_invitation(self) -> None:
        """The page for pasting one."""
        self.link_problem = ""
        self._go("invitation")

    def type_link(self, text: str) -> None:
        """What stands in the field."""
        if text != self.link_text:
            self.link_text, self.link_problem = text, ""
            self._keep_where()
            self._changed()

    def submit_link(self) -> None:
        """Fetch the study the link names."""
        if self.busy:
            return
        try:
            link = Link.parse(self.link_text)
        except InvitationError as error:
            self.link_problem = sentence(str(error))
            self._changed()
            return
        if link.invitation is not None and link.invitation.expires_ms <= self.device.clock.now_ms():
            self._stop(Problem("expired"))
            return
        self.busy = True
        self._changed()
        self._runner.network(lambda: self.device.open_link(link), self._open, self._failed)

    # A study

    def open_study(self, study_id: bytes) -> None:
        """Go on with a study from the list."""
        self._open(study_id)

    def _open(self, study_id: bytes, *, resume: bool = False) -> None:
        def read() -> tuple[Opened, str, Item | None, Consent | None]:
            opened = self.device.open(study_id)
            line = None if opened.entry is None else item(self.device, opened.entry)
            return opened, self.device.words(study_id), line, self.device.consent(study_id)

        def done(kept: tuple[Opened, str, Item | None, Consent | None]) -> None:
            self.busy = False
            self.opened, self.whole_story, line, self.consent = kept
            self.link_text = ""
            self.words = catalogue(self._language)
            if line is not None:
                self._show_item(line, send=resume)
            else:
                self._take_part(self.opened)

        def failed(error: TrimaskError) -> None:
            if resume:  # a study that was removed or damaged must not keep the app from starting
                self.busy = False
                self._go("studies")
            else:
                self._failed(error)

        self._runner.records(read, done, failed)

    def _take_part(self, opened: Opened) -> None:
        form = opened.form
        self.participation = Participation(
            opened.study.id, form, self.words.say("consent.plain"), form.language(self._language)
        )
        if opened.draft is not None:
            self.participation.resume(opened.draft)
        self._sealed = False
        self.problems = {}
        self._tell()
        self._save()
        self._go(self.participation.step)

    def _tell(self) -> None:
        if self.opened is not None:
            language = self.participation.language if self.participation is not None else self._language
            self.words = catalogue(language)
            self.story = tell(self.opened.study, self.opened.form, self.words)

    @property
    def study_title(self) -> str:
        """The study's title, in the language shown."""
        if self.opened is None:
            return "" if self.item is None else self.item.title
        form = self.opened.form
        return self.opened.study.title if form.title is None else form.title[form.language(self.words.language)]

    @property
    def _part(self) -> Participation:
        assert self.participation is not None, "a page of the form without a study"
        return self.participation

    # The form

    def sign_name(self, name: str) -> None:
        """What stands in the name field."""
        if name != self._part.name:
            self._part.name = name
            self._save()
            self._changed()

    def agree(self, agreed: bool) -> None:
        """The tick below the consent."""
        self._part.agreed = agreed
        self._save()
        self._changed()

    def answer(self, name: str, value: Any) -> None:
        """An answer as it is given; a message that stood below it goes, or changes, at once."""
        part = self._part
        part.answer(name, value)
        if name in self.problems:
            asked = [one for one in (*part.eligibility_questions, *part.questions) if one.name == name]
            self.problems = {**self.problems, name: part.problem(asked[0])} if asked else {}
        self._save()
        self._changed()

    def next(self) -> None:
        """The page's main button."""
        part = self._part
        if part.step == "study":
            part.step = "consent"
        elif part.step == "consent":
            if not part.ready_to_sign:
                return
            self.consent = part.sign(self.device.clock.now_ms())
            consent = self.consent
            self._runner.records(
                lambda: self.device.keep_consent(part.study_id, consent), lambda _: None, self._failed
            )
            if part.eligibility_questions:
                part.step = "eligibility"
            else:
                part.begin_questions()
        elif part.step == "eligibility":
            self.problems = {one.name: text for one in part.eligibility_questions if (text := part.problem(one))}
            if self.problems:
                self._changed()
                return
            if not part.form.eligible(part.eligibility, part.language):
                self._forget_draft()
                self._stop(Problem("ineligible"))
                return
            part.begin_questions()
        elif part.step == "question":
            text = part.problem(part.question)
            if text:
                self.problems = {part.at: text}
                self._changed()
                return
            part.next_question()
        elif part.step == "review":
            self.send()
            return
        self._moved()

    def edit(self, name: str) -> None:
        """From the review to one question."""
        self._part.edit(name)
        self._moved()

    def _moved(self) -> None:
        self.problems = {}
        self._save()
        self._go(self._part.step)

    # Back, settings

    def back(self) -> bool:
        """One page back; False where there is none, and the app may close."""
        if self.screen == "settings":
            self._go(self._before_settings)
        elif self.screen == "withdraw":
            self._go("receipt")
        elif self.screen in ("study", "consent", "eligibility", "question", "review"):
            if self._part.back():
                self._moved()
            else:
                self.show_studies()
        elif self.screen in ("invitation", "receipt", "sending", "problem"):
            self.show_studies()
        else:
            return False
        return True

    def open_settings(self) -> None:
        """Type size and language."""
        if self.screen != "settings":
            self._before_settings = self.screen
            self._go("settings")

    @property
    def languages(self) -> tuple[str, ...]:
        """What can be chosen: the form's languages while one is open, else the app's own."""
        from trimask_mobile.model.catalogue import LANGUAGES

        return self.participation.form.languages if self.participation is not None else tuple(LANGUAGES)

    @property
    def language(self) -> str:
        """What is shown."""
        return self.words.language if self.participation is None else self.participation.language

    def choose_language(self, language: str) -> None:
        """Everything in another language, at once. What was answered stays; a consent not yet given must be read again."""
        self._language = language
        self.words = catalogue(language)
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
        settings = {"scale": self.scale, "language": self._language}
        self._runner.records(lambda: self.device.keep_settings(settings), lambda _: None, self._failed)
        self._changed()

    # Sending

    def send(self) -> None:
        """Mask, split, upload. From the moment it is sealed, nothing here can change it."""
        part, opened = self._part, self.opened
        assert opened is not None
        wrong = part.problems
        if wrong:
            part.edit(next(iter(wrong)))
            self._moved()
            self.problems = {part.at: wrong[part.at]}
            self._changed()
            return
        answers = part.answers()
        self._sealed, self._dirty = True, False
        self.sending = Sending(mask="busy", active=True)
        self._go("sending")

        def seal() -> Item:
            return item(self.device, self.device.seal(part.study_id, answers))

        def sealed(line: Item) -> None:
            self.participation = None
            self.item, self.sending = line, Sending.of(line)
            self._changed()
            self.try_now()

        def failed(error: TrimaskError) -> None:
            self._sealed, self.sending = False, None
            self._failed(error)

        self._runner.records(seal, sealed, failed)

    def try_now(self) -> None:
        """Upload what waits, without waiting for its time."""
        self._upload(now=True)

    def tick(self) -> None:
        """Now and then, and when the app comes to the front: what is due is sent."""
        if self.screen != "starting" and not (self.sending is not None and self.sending.active):

            def due(next_ms: int | None) -> None:
                if next_ms is not None and next_ms <= self.device.clock.now_ms():
                    self._upload(now=False)

            self._runner.records(self.device.queue.next_ms, due, self._failed)

    def _upload(self, *, now: bool) -> None:
        shown = self.sending
        if shown is not None:
            if shown.active and shown.entry is not None and any(one.state == "busy" for one in shown.uploads):
                return
            shown.active = True
            for one in shown.uploads:
                one.state = one.state if one.state == "done" else "waiting"
            self._changed()

        def watch(address: str, state: Any) -> None:
            def tell() -> None:
                if shown is not None:
                    shown.called(address, state)
                    self._changed()

            self._runner.post(tell)

        def run() -> tuple[Item | None, tuple[Item, ...]]:
            self.device.send(now=now, watch=watch)
            mine = None if self.item is None or self.item.entry is None else self.item.entry.submission_id
            found = items(self.device)
            own = [one for one in found if one.entry is not None and one.entry.submission_id == mine]
            return (own[0] if own else None), found

        def done(result: tuple[Item | None, tuple[Item, ...]]) -> None:
            own, self.items = result
            if own is not None and own.state in SETTLED and self.screen == "receipt":
                self.item = own
            if own is not None and self.sending is not None and own.entry is not None:
                self.item = own
                self.sending.settle(own)
                if own.state == "sent" and self.screen == "sending":
                    self._go("receipt")
                    return
            self._changed()

        def failed(error: TrimaskError) -> None:
            if shown is not None:
                shown.active = False
            self._failed(error)

        self._runner.network(run, done, failed)

    # My studies

    def show_studies(self) -> None:
        """The list."""

        def done(found: tuple[Item, ...]) -> None:
            self.items = found
            self.participation, self.sending, self.item, self.problem = None, None, None, None
            self.opened, self.link_text, self.link_problem = None, "", ""
            self.words = catalogue(self._language)
            self._go("studies")

        self.busy = False
        self._runner.records(lambda: items(self.device), done, self._failed)

    def show(self, line: Item) -> None:
        """One of the list."""
        if line.state in ("new", "draft"):
            self._open(line.study_id)
        elif line.study_id:
            self._open_entry(line)
        else:
            self._show_item(line, send=False)

    def _open_entry(self, line: Item) -> None:
        def done(kept: tuple[Opened, Consent | None]) -> None:
            self.opened, self.consent = kept
            self._show_item(line, send=False)

        self._runner.records(
            lambda: (self.device.open(line.study_id), self.device.consent(line.study_id)), done, self._failed
        )

    def _show_item(self, line: Item, *, send: bool) -> None:
        self.item, self.participation = line, None
        if line.state in SETTLED:
            self._go("receipt")
            return
        self.sending = Sending.of(line)
        self._go("sending")
        if send and line.state == "waiting":
            self.try_now()

    def discard(self) -> None:
        """Forget a submission that was refused or cannot be read."""
        entry = self._entry
        self._runner.records(
            lambda: self.device.queue.discard(entry.submission_id), lambda _: self.show_studies(), self._failed
        )

    def delete_draft(self, line: Item) -> None:
        """Forget what was answered so far."""
        self._runner.records(
            lambda: self.device.delete_draft(line.study_id), lambda _: self.show_studies(), self._failed
        )

    @property
    def _entry(self) -> Entry:
        assert self.item is not None
        assert self.item.entry is not None
        return self.item.entry

    @property
    def receipt_json(self) -> str:
        """The receipt as it is saved or shared."""
        receipt = self._entry.receipt
        return "" if receipt is None else receipt.to_json()

    @property
    def shared_json(self) -> str:
        """The same without the key that withdraws: what goes to other apps may go to other people."""
        receipt = self._entry.receipt
        return "" if receipt is None else receipt.shown.to_json()

    # Withdrawing

    def ask_withdraw(self) -> None:
        """The page that says what withdrawing can and cannot do."""
        self._go("withdraw")

    def withdraw(self) -> None:
        """Ask every right provider to erase its part."""
        if self.busy:
            return
        self.busy = True
        self._changed()
        submission_id = self._entry.submission_id

        def done(line: Item) -> None:
            self.busy, self.item = False, line
            self._go("receipt")

        self._runner.network(
            lambda: item(self.device, self.device.withdraw(submission_id)), done, self._failed
        )

    def again(self) -> None:
        """From a problem that may have passed: once more what led to it."""
        if self.link_text:
            self._go("invitation")
            self.submit_link()
        elif self.participation is not None:
            self._go(self.participation.step)
        elif self.item is not None:
            self._go("receipt" if self.item.state in SETTLED else "sending")
        else:
            self.show_studies()

    # Inside

    def _go(self, screen: ScreenName) -> None:
        self.screen = screen
        self._keep_where()
        self._changed()

    def _stop(self, problem: Problem) -> None:
        self.problem, self.busy = problem, False
        self._go("problem")

    def _failed(self, error: TrimaskError) -> None:
        self._stop(explain(error))

    def _keep_where(self) -> None:
        if self.screen not in _KEPT:
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
        self._runner.records(lambda: self.device.keep_where(where), lambda _: None, self._failed)

    def _forget_draft(self) -> None:
        study_id = self._part.study_id
        self._sealed, self._dirty = True, False
        self._runner.records(lambda: self.device.delete_draft(study_id), lambda _: None, self._failed)

    def _save(self) -> None:
        """Keep the draft. While one is being written, changes are gathered into the next."""
        if self.participation is None or self._sealed:
            return
        if self._saving:
            self._dirty = True
            return
        self._saving, self._dirty = True, False
        study_id, record = self.participation.study_id, copy.deepcopy(self.participation.to_record())

        def saved(_: object) -> None:
            self._saving = False
            if self._dirty:
                self._save()

        def failed(error: TrimaskError) -> None:
            self._saving = False
            self._failed(error)

        self._runner.records(lambda: self.device.save_draft(study_id, record), saved, failed)
