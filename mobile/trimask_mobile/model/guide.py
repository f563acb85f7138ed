"""The way through the app: which screen is shown, and what each thing a person does leads to."""

from __future__ import annotations

from typing import Any

from trimask_core.errors import InvitationError, TrimaskError
from trimask_core.invitation import Link
from trimask_core.receipt_link import is_receipt
from trimask_core.showing import app_languages
from trimask_mobile.model.device import Opened
from trimask_mobile.model.participation import Consent, Participation, sentence
from trimask_mobile.model.problem import Problem
from trimask_mobile.model.removal import Removal
from trimask_mobile.model.shelf import Item, item, items
from trimask_mobile.model.state import KEPT, SETTLED
from trimask_mobile.theme import SCALES

__all__ = ["Guide"]


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
