"""A question as one person sees it: in a language; and what is shown together on a page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from trimask_core.form_words import words
from trimask_core.question import Kind, Question, Value
from trimask_core.writing import show_date, show_number

__all__ = ["Asked", "AskedPage"]


@dataclass(frozen=True)
class Asked:
    """A question in a language. `choices` are (value, label)."""

    question: Question
    language: str

    @property
    def name(self) -> str:
        """Under which its answer goes into the responses."""
        return self.question.name

    @property
    def kind(self) -> Kind:
        """What sort of answer it takes."""
        return self.question.kind

    @property
    def required(self) -> bool:
        """Whether it must be answered."""
        return self.question.required

    @property
    def label(self) -> str:
        """The question."""
        return self.question.label[self.language]

    @property
    def help(self) -> str:
        """More words about it, or nothing."""
        return "" if self.question.help is None else self.question.help[self.language]

    @property
    def unit(self) -> str:
        """The unit, or nothing."""
        return "" if self.question.unit is None else self.question.unit[self.language]

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """What is offered; for yes_no the two words."""
        if self.question.kind == "yes_no":
            return ("yes", words(self.language, "yes")), ("no", words(self.language, "no"))
        return tuple((choice.value, choice.label[self.language]) for choice in self.question.choices)

    def check(self, answer: object, language: str | None = None) -> Value | None:
        """`Question.check` in this person's language."""
        return self.question.check(answer, language or self.language)

    def shown(self, value: Value | None) -> str:
        """A checked value in words, as a review shows what was understood; empty for no answer."""
        if value is None:
            return ""
        labels = dict(self.choices)
        if isinstance(value, tuple):
            return ", ".join(labels[one] for one in value)
        if isinstance(value, bool):
            return words(self.language, "yes" if value else "no")
        if isinstance(value, str):
            day = self.kind == "date"
            return show_date(date.fromisoformat(value), self.language) if day else labels.get(value, value)
        return f"{show_number(value, self.language)} {self.unit}".strip()


@dataclass(frozen=True)
class AskedPage:
    """What is shown together: headings if a section begins, then one question, or a grid with its rows."""

    headings: tuple[Asked, ...]
    questions: tuple[Asked, ...]
    grid: Asked | None = None

    @property
    def name(self) -> str:
        """The grid's or the question's."""
        return (self.grid or self.questions[0]).name
