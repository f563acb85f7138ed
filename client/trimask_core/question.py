"""One question of a form: what a person sees, and which attributes it fills.

    number, integer, slider   a number              -> the attribute of the same name
    yes_no                    True or False         -> a binary attribute
    single_choice             one value             -> a categorical attribute with these levels
    multiple_choice           a tuple of values     -> a binary attribute NAME_VALUE for each
    date                      year-month-day text   -> days or years after `origin`, or whole years before it (age)
    time                      hours:minutes text    -> minutes or hours after `origin`, round the clock
    grid                      its rows, each a single choice among the same answers
    heading                   takes no answer: a title and a note between questions

A question that may go unanswered declares what stands for "missing"; a row has no empty cells. Which answers a question
takes is in `answering`, which settings it may have in `question_checks`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from trimask_core.answering import check_answer
from trimask_core.errors import AnswerError
from trimask_core.question_checks import check_question
from trimask_core.question_settings import Choice, GridRow, Kind, QuestionSettings, Value
from trimask_core.relevance import Condition
from trimask_core.texts import Texts

__all__ = ["Choice", "GridRow", "Kind", "Question", "Value"]


@dataclass(frozen=True)
class Question(QuestionSettings):
    """One question, whose settings fit its kind."""

    def __post_init__(self) -> None:
        check_question(self)

    @property
    def parts(self) -> tuple[Question, ...]:
        """The questions that take an answer: itself, a grid's rows, or for a heading none."""
        if self.kind == "heading":
            return ()
        if self.kind != "grid":
            return (self,)
        return tuple(
            Question(
                row.name,
                "single_choice",
                row.label,
                required=self.required,
                relevant=self.relevant,
                choices=self.choices,
                missing=self.missing,
                missing_indicator=row.missing_indicator,
            )
            for row in self.rows
        )

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes it fills, the indicator of a missing answer not among them."""
        if self.kind == "multiple_choice":
            return tuple(f"{self.name}_{choice.value}" for choice in self.choices)
        if self.kind == "grid":
            return tuple(row.name for row in self.rows)
        return () if self.kind == "heading" else (self.name,)

    def check(self, answer: object, language: str) -> Value | None:
        """The answer as a value, or `AnswerError` in this language; None for no answer to an optional question."""
        return check_answer(self, answer, language)

    def toggled(self, chosen: tuple[str, ...], value: str) -> tuple[str, ...]:
        """A multiple choice after one of its answers was pressed; an exclusive answer and the others deselect each other."""
        if value in chosen:
            return tuple(one for one in chosen if one != value)
        alone = {choice.value for choice in self.choices if choice.exclusive}
        kept = () if value in alone else tuple(one for one in chosen if one not in alone)
        return tuple(choice.value for choice in self.choices if choice.value in (*kept, value))

    def encode(self, value: Value | None) -> dict[str, bool | float | str]:
        """The attributes of a checked value; of None, the declared encoding of a missing answer."""
        filled: dict[str, bool | float | str] = {}
        if self.missing_indicator:
            filled[self.missing_indicator] = value is None
        if value is None:
            if self.missing is None:
                raise AnswerError(self.name, "an answer is needed")
            return filled | dict.fromkeys(self.attributes, self.missing)
        if isinstance(value, tuple):
            chosen = {f"{self.name}_{choice.value}": choice.value in value for choice in self.choices}
            return filled | chosen
        if self.kind in ("date", "time"):
            return filled | {self.name: self.counted(str(value))}
        return filled | {self.name: value}

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form; settings at their defaults are left out."""
        return _plain(self)


def _plain(item: Question | Choice | GridRow) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for setting in fields(item):
        value = getattr(item, setting.name)
        if value == setting.default:
            continue
        if isinstance(value, Texts):
            value = value.to_dict()
        elif isinstance(value, Condition):
            value = value.text
        elif setting.name in ("choices", "rows"):
            value = [_plain(one) for one in value]
        data[setting.name] = value
    return data
