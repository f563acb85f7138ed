"""Answering one study: what a person does on the pages of its form, and the draft that is kept of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from trimask_core.basics.errors import TrimaskError
from trimask_core.form.form import Form
from trimask_mobile.model.participation import Consent, Participation
from trimask_mobile.model.problem import Problem
from trimask_mobile.model.shown import Shown
from trimask_mobile.model.words import LANGUAGES

CONSENT = ""
"""Where `problems` says what the consent lacks; no question has this name."""


class Answering:
    """`participation` is there while a form is open; `send` is told when its last page is done."""

    def __init__(self, shown: Shown, send: Callable[[], None]) -> None:
        self._shown, self._send = shown, send
        self.reset()

    def reset(self) -> None:
        """No form is open."""
        self.participation: Participation | None = None
        self.problems: dict[str, str] = {}
        self.consent: Consent | None = None
        self.sealed = self._saving = self._dirty = False

    @property
    def part(self) -> Participation:
        """The form that is open."""
        if self.participation is None:
            raise RuntimeError("a page of the form without a study")
        return self.participation

    @property
    def languages(self) -> tuple[str, ...]:
        """What can be chosen: the form's languages while one is open, else the app's own."""
        return self.participation.form.languages if self.participation is not None else tuple(LANGUAGES)

    @property
    def language(self) -> str:
        """What is shown."""
        return self._shown.language if self.participation is None else self.participation.language

    def speak(self, language: str) -> None:
        """In another language. What was answered stays; a consent not yet given must be read again."""
        if self.participation is not None:
            if self.participation.language != language and self.participation.step == "consent":
                self.participation.agreed = False
            self.participation.language = self.participation.form.language(language)
            self.participation.plain_consent = self._shown.words.say("consent.plain")
            self.save()

    def begin(self, study_id: bytes, form: Form, draft: Mapping[str, Any] | None) -> None:
        """Take part in a study, or go on where the draft ends; `show` leads there."""
        plain = self._shown.words.say("consent.plain")
        self.participation = Participation(study_id, form, plain, form.language(self._shown.language))
        if draft is not None:
            self.participation.resume(draft)
        self.sealed, self.problems = False, {}

    def show(self) -> None:
        """Keep the draft and show its page."""
        self.save()
        self._shown.go(self.part.step)

    # What a person does

    def sign_name(self, name: str) -> None:
        """What stands in the name field."""
        if name != self.part.name:
            self.part.name = name
            self._signed()

    def agree(self, agreed: bool) -> None:
        """The tick below the consent."""
        self.part.agreed = agreed
        self._signed()

    def _signed(self) -> None:
        """A message that says what the consent lacks says less at once."""
        if CONSENT in self.problems:
            self._tell_unsigned()
        self._noted()

    def _tell_unsigned(self) -> None:
        words = self._shown.words
        lacks = f" {words.say('and')} ".join(
            words.say(f"consent.missing.{one}") for one in self.part.unsigned
        )
        self.problems = {CONSENT: words.say("consent.missing", what=lacks)} if lacks else {}

    def answer(self, name: str, value: Any) -> None:
        """An answer as it is given; a message that stood below it goes, or changes, at once."""
        part = self.part
        part.answer(name, value)
        if name in self.problems:
            asked = [one for one in (*part.eligibility_questions, *part.questions) if one.name == name]
            self.problems = {**self.problems, name: part.problem(asked[0])} if asked else {}
        self._noted()

    def _noted(self) -> None:
        self.save()
        self._shown.changed()

    def next(self) -> None:
        """The page's main button."""
        part, shown = self.part, self._shown
        if part.step == "review":
            self._send()
            return
        if part.step in ("eligibility", "question"):
            asked = part.eligibility_questions if part.step == "eligibility" else part.page.questions
            self.problems = {one.name: text for one in asked if (text := part.problem(one))}
            if self.problems:
                shown.changed()
                return
        if part.step == "question":
            part.next_question()
            self.moved()
            return
        if part.step == "consent":
            if part.unsigned:
                self._tell_unsigned()
                shown.changed()
                return
            consent = self.consent = part.sign(shown.device.clock.now_ms())
            device = shown.device
            shown.keep(lambda: device.keep_consent(part.study_id, consent))
        elif part.step == "eligibility" and not part.form.eligible(part.eligibility, part.language):
            self._forget_person()
            shown.stop(Problem("ineligible"))
            return
        part.forward()
        self.moved()

    def edit(self, name: str) -> None:
        """From the review to one question."""
        self.part.edit(name)
        self.moved()

    def back(self) -> None:
        """One page back; from the first to the list."""
        if self.part.back():
            self.moved()
        else:
            self._shown.home()

    def moved(self) -> None:
        """To the page that the way has come to."""
        self.problems = {}
        self.show()

    # The draft

    def save(self) -> None:
        """Keep the draft. While one is being written, changes are gathered into the next."""
        if self.participation is None or self.sealed:
            return
        if self._saving:
            self._dirty = True
            return
        self._saving, self._dirty = True, False
        study_id, record = self.participation.study_id, copy.deepcopy(self.participation.to_record())
        device = self._shown.device

        def saved(_: object) -> None:
            self._saving = False
            if self._dirty:
                self.save()

        def failed(error: TrimaskError) -> None:
            self._saving = False
            self._shown.failed(error)

        self._shown.runner.records(lambda: device.queue.save_draft(study_id, record), saved, failed)

    def seal(self) -> None:
        """From here on the draft is left as it is."""
        self.sealed, self._dirty = True, False

    def _forget_person(self) -> None:
        """Nothing stays of somebody who may not take part: neither answers nor the name under the consent."""
        study_id, device = self.part.study_id, self._shown.device
        self.consent = None
        self.seal()
        self._shown.keep(lambda: device.queue.delete_draft(study_id))
        self._shown.keep(lambda: device.forget_consent(study_id))
