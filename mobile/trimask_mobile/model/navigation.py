"""The way through the app: which screen is shown, and what each thing a person does leads to.

A device that may go from hand to hand has modes, and each may show certain pages. `own`: the device is one person's.
`locked`: the page for the PIN. `unlocked`: the interviewer's page. `session`: a respondent has the device, on a `Device`
of their own (`respondents`). From a page that a mode may not show the way leads to its first one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args

from trimask_core.basics.errors import InvitationError, TrimaskError
from trimask_core.crypto.records import STRETCH_COST
from trimask_core.form.font_coverage import app_languages
from trimask_core.submit.invitation import Link
from trimask_core.submit.receipt import is_receipt
from trimask_mobile.kiosk.pin import PinLock, Unlocked
from trimask_mobile.kiosk.respondents import Respondent, Respondents
from trimask_mobile.model.device import Device, Opened
from trimask_mobile.model.participation import Consent, Participation, sentence
from trimask_mobile.model.problem import Problem
from trimask_mobile.model.state import KEPT, SETTLED, ScreenName
from trimask_mobile.model.study_list import Item, item, items
from trimask_mobile.model.submissions import Removal
from trimask_mobile.model.words import Catalogue, catalogue
from trimask_mobile.model.worker import Runner
from trimask_mobile.theme import SCALES


class Guide(Removal):
    """From an invitation through a study's form to sending."""

    def start(self, link: str = "") -> None:
        """Read what is kept and go where the person was, or to the invitation the app was opened with."""

        device = self.device

        def read() -> tuple[dict[str, Any], dict[str, Any], tuple[Item, ...]]:
            return device.settings(), device.where(), items(device)

        def done(kept: tuple[dict[str, Any], dict[str, Any], tuple[Item, ...]]) -> None:
            settings, where, self.items = kept
            self._take_settings(settings)
            self.screen = "studies"
            if link or self._link_before_start:
                self.open_link(link or self._link_before_start)
            elif where.get("screen") == "invitation":
                self.link_text = str(where.get("link", ""))
                self._go("invitation")
            elif where.get("study") and where.get("screen") in KEPT:
                self._open(bytes.fromhex(where["study"]), resume=True)
            else:
                self._go("studies")

        self._runner.records(read, done, self._failed)

    def _take_settings(self, settings: dict[str, Any]) -> None:
        self.scale = settings.get("scale", 1.0) if settings.get("scale") in SCALES else 1.0
        self._language = str(settings.get("language", self._language))
        self.refuse_unknown = bool(settings.get("refuse_unknown", False))
        self.words = self._catalogue(self._language)

    def open_link(self, text: str) -> None:
        """An invitation came from outside: the command line, another app, a scanner."""
        if self.screen == "starting":
            self._link_before_start = text
            return
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
        if is_receipt(self.link_text):
            self._import(self.link_text)
            return
        try:
            link = Link.parse(self.link_text)
        except InvitationError as error:
            # Why exactly is said by the client, in English.
            known = self.words.language == "en"
            self.link_problem = sentence(str(error)) if known else self.words.say("invitation.wrong")
            self._changed()
            return
        if link.invitation is not None and link.invitation.expires_ms <= self.device.clock.now_ms():
            self._stop(Problem("expired"))
            return
        self.busy, device = True, self.device
        self._changed()
        self._runner.network(lambda: device.open_link(link), self._open, self._failed)

    # A study

    def open_study(self, study_id: bytes) -> None:
        """Go on with a study from the list."""
        self._open(study_id)

    def show(self, line: Item) -> None:
        """One of the list."""
        if line.state in ("new", "draft"):
            self._open(line.study_id)
        elif line.study_id:
            self._open_entry(line)
        else:
            self._show_item(line, send=False)

    def _open(self, study_id: bytes, *, resume: bool = False) -> None:
        device = self.device

        def read() -> tuple[Opened, str, Item | None, Consent | None]:
            opened = device.open(study_id)
            line = None if opened.entry is None else item(device, opened.entry)
            return opened, device.words(study_id), line, device.consent(study_id)

        def done(kept: tuple[Opened, str, Item | None, Consent | None]) -> None:
            self.busy = False
            self.opened, self.whole_story, line, self.consent = kept
            self.link_text = ""
            self.words = self._catalogue(self._language)
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
        if not app_languages(form):
            self._stop(Problem("unshowable", ", ".join(form.languages)))
            return
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
            part.forward()
        elif part.step == "consent":
            if not part.ready_to_sign:
                return
            self.consent = part.sign(self.device.clock.now_ms())
            consent, device = self.consent, self.device
            self._runner.records(
                lambda: device.keep_consent(part.study_id, consent), lambda _: None, self._failed
            )
            part.forward()
        elif part.step == "eligibility":
            self.problems = {
                one.name: text for one in part.eligibility_questions if (text := part.problem(one))
            }
            if self.problems:
                self._changed()
                return
            if not part.form.eligible(part.eligibility, part.language):
                self._forget_person()
                self._stop(Problem("ineligible"))
                return
            part.forward()
        elif part.step == "question":
            self.problems = {one.name: text for one in part.page.questions if (text := part.problem(one))}
            if self.problems:
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

    # Back, and again

    def back(self) -> bool:
        """One page back; False where there is none, and the app may close."""
        if self.screen == "settings":
            self._go(self._before_settings)
        elif self.screen == "institutions":
            self._go("settings")
        elif self.screen == "withdraw":
            self._go("receipt" if self._entry.state in SETTLED else "sending")
        elif self.screen in ("study", "consent", "eligibility", "question", "review"):
            if self._part.back():
                self._moved()
            else:
                self.show_studies()
        elif self.screen == "remove":
            self.leave_remove()
        elif self.screen in ("invitation", "receipt", "sending", "problem"):
            self.show_studies()
        else:
            return False
        return True

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
