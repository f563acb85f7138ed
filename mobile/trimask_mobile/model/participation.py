"""One person's way through one study's form: where they are, what they have said so far, what comes next.

The whole of it is a record that is saved, encrypted, at every change; a phone that dies shows the same page again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from trimask_core.basics.errors import AnswerError
from trimask_core.form.form import Asked, AskedPage, ConsentText, Form

Step = Literal["study", "consent", "eligibility", "question", "review"]
_KEPT = ("language", "step", "at", "responses", "eligibility", "name", "agreed", "editing")


@dataclass(frozen=True)
class Consent:
    """A signed name under a text, which is named by its hash. It stays on this device."""

    version: str
    language: str
    text_hash: str
    name: str
    signed_ms: int

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return dict(vars(self))


@dataclass
class Participation:
    """`responses` are as the person gave them; the form checks them and makes the row's answers of them."""

    study_id: bytes
    form: Form
    plain_consent: str
    language: str
    step: Step = "study"
    at: str = ""
    responses: dict[str, Any] = field(default_factory=dict)
    eligibility: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    agreed: bool = False
    # Where an edit from the review page leads back to.
    editing: bool = False

    # What is kept

    def to_record(self) -> dict[str, Any]:
        """The draft."""
        return {name: getattr(self, name) for name in _KEPT}

    def resume(self, record: Mapping[str, Any]) -> None:
        """Go on from a draft. What cannot be so any more (another program's draft) is left at the beginning."""
        if record.get("step") not in get_args(Step):
            return
        self.language = self.form.language(str(record["language"]))
        self.step = record["step"]
        self.at = str(record["at"])
        self.responses = dict(record["responses"])
        self.eligibility = dict(record["eligibility"])
        self.name = str(record["name"])
        self.agreed = bool(record["agreed"])
        self.editing = bool(record["editing"])
        if self.step == "question" and self.at not in [page.name for page in self.pages]:
            self.step = "review"

    # What is shown

    @property
    def consent(self) -> ConsentText:
        """The form's own consent, or the app's plain one where the form has none."""
        return self.form.consent(self.language) or ConsentText("app-2", self.language, self.plain_consent)

    @property
    def eligibility_questions(self) -> tuple[Asked, ...]:
        """Asked before the questions; the answers are never sent."""
        return self.form.eligibility_for(self.language)

    @property
    def questions(self) -> tuple[Asked, ...]:
        """The questions to be asked, with what has been answered so far."""
        return self.form.questions_for(self.responses, self.language)

    @property
    def pages(self) -> tuple[AskedPage, ...]:
        """The same, as they are shown: a question a page, or a grid, with the headings before it."""
        return self.form.pages_for(self.responses, self.language)

    @property
    def page(self) -> AskedPage:
        """What is shown now."""
        return next(page for page in self.pages if page.name == self.at)

    @property
    def number(self) -> int:
        """Which page that is, from 1."""
        return [page.name for page in self.pages].index(self.at) + 1

    def problem(self, asked: Asked) -> str:
        """What is wrong with the answer to a question; empty if nothing is."""
        given = self.eligibility if asked in self.eligibility_questions else self.responses
        try:
            asked.check(given.get(asked.name))
        except AnswerError as error:
            return sentence(error.problem)
        return ""

    @property
    def problems(self) -> dict[str, str]:
        """Every question shown whose answer is missing or wrong."""
        return {asked.name: words for asked in self.questions if (words := self.problem(asked))}

    @property
    def unsigned(self) -> tuple[str, ...]:
        """What the consent still lacks: "agree", "name"."""
        lacks = {"agree": not self.agreed, "name": not self.name.strip()}
        return tuple(what for what, missing in lacks.items() if missing)

    def answers(self) -> dict[str, bool | float | str]:
        """What is masked and sent."""
        return self.form.answers(self.responses, self.language)

    def shown(self, asked: Asked) -> str:
        """An answer as it was understood, for the review; as it was given where it was not; empty if there is none."""
        value = self.responses.get(asked.name)
        try:
            return asked.shown(asked.check(value))
        except AnswerError:
            return "" if value is None else str(value)

    # Moving

    def answer(self, name: str, value: Any) -> None:
        """Note an answer, good or not; an empty one is no answer."""
        given = self.eligibility if self.step == "eligibility" else self.responses
        if value in (None, "", []):
            given.pop(name, None)
        else:
            given[name] = value

    @property
    def before(self) -> tuple[Step, ...]:
        """The pages before the questions, in the order the study says."""
        if not self.eligibility_questions:
            return ("study", "consent")
        first = self.form.eligibility_first
        return ("study", "eligibility", "consent") if first else ("study", "consent", "eligibility")

    def forward(self) -> None:
        """From a page before the questions to the next; from the last of them to the first question."""
        at = self.before.index(self.step) + 1
        if at < len(self.before):
            self.step = self.before[at]
        else:
            self.step, self.at = "question", self.pages[0].name

    def next_question(self) -> None:
        """The question after this one; after the last, or after an edit, the review."""
        pages = self.pages
        names = [page.name for page in pages]
        at = names.index(self.at) + 1
        # An edit can bring up a question that was not asked before: it is asked now.
        wrong = self.problems if self.editing else {}
        open_ones = [page.name for page in pages[at:] if any(one.name in wrong for one in page.questions)]
        if self.editing:
            self.step, self.at = ("question", open_ones[0]) if open_ones else ("review", "")
            self.editing = bool(open_ones)
        elif at < len(names):
            self.at = names[at]
        else:
            self.step, self.at = "review", ""

    def edit(self, name: str) -> None:
        """From the review to one question and back."""
        page = next(page for page in self.pages if name in [asked.name for asked in page.questions])
        self.step, self.at, self.editing = "question", page.name, True

    def back(self) -> bool:
        """One step back; False if this is the first."""
        if self.step == "study":
            return False
        if self.step == "question" and self.editing:
            self.step, self.at, self.editing = "review", "", False
        elif self.step == "question" and self.number > 1:
            self.at = self.pages[self.number - 2].name
        elif self.step == "question":
            self.step, self.at = self.before[-1], ""
        elif self.step == "review":
            self.step, self.at = "question", self.pages[-1].name
        else:
            self.step = self.before[self.before.index(self.step) - 1]
        return True

    @property
    def progress(self) -> float:
        """How much of the way is done, for the bar on top."""
        if self.step in self.before:
            return 0.05 * self.before.index(self.step)
        if self.step == "review":
            return 0.95
        return 0.1 + 0.85 * (self.number - 1) / len(self.pages)

    def sign(self, now_ms: int) -> Consent:
        """The consent as it is kept."""
        text = self.consent
        return Consent(
            text.version,
            text.language,
            hashlib.sha256(text.text.encode()).hexdigest(),
            self.name.strip(),
            now_ms,
        )


def sentence(words: str) -> str:
    """A form's message as a sentence below a field."""
    words = words[:1].upper() + words[1:]
    return words if words.endswith((".", "!", "?")) else words + "."
