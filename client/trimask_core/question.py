"""One question of a form: what a person sees, which answers it takes, and which attributes it fills.

    number, integer, slider   a number              -> the attribute of the same name
    yes_no                    True or False         -> a binary attribute
    single_choice             one value             -> a categorical attribute with these levels
    multiple_choice           a tuple of values     -> a binary attribute NAME_VALUE for each
    date                      year-month-day text   -> days or years after `origin`, or whole years before it (age)

A question that may go unanswered declares what stands for "missing"; a row has no empty cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from typing import Any, Literal, get_args

from trimask_core.errors import AnswerError, StudyError
from trimask_core.relevance import Condition
from trimask_core.texts import Texts, decimal_comma, show_number, words

__all__ = ["CREATION", "Asked", "Choice", "Count", "Kind", "Question", "Value", "is_date"]

Kind = Literal["number", "integer", "slider", "yes_no", "single_choice", "multiple_choice", "date"]
Count = Literal["days", "years", "age"]
Value = bool | float | str | tuple[str, ...]
NUMBERS = ("number", "integer", "slider")
CREATION = "creation"  # as `origin`: the day the study was made, which replaces this word in the study
_TRUE, _FALSE = {"yes", "true", "1"}, {"no", "false", "0"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer offered: the schema's level, and what a person reads."""

    value: str
    label: Texts


@dataclass(frozen=True)
class Question:
    """One question. `minimum` and `maximum` limit the attribute's value (for a date, the count)."""

    name: str
    kind: Kind
    label: Texts
    help: Texts | None = None
    unit: Texts | None = None
    required: bool = True
    relevant: Condition | None = None
    message: Texts | None = None
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: tuple[Choice, ...] = ()
    count: Count | None = None
    origin: str = ""
    earliest: str = ""
    latest: str = ""
    missing: bool | float | str | None = None
    missing_indicator: str = ""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def may_be_missing(self) -> bool:
        """Whether a row can come without an answer to it."""
        return not self.required or self.relevant is not None

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes it fills, the indicator of a missing answer not among them."""
        if self.kind == "multiple_choice":
            return tuple(f"{self.name}_{choice.value}" for choice in self.choices)
        return (self.name,)

    def check(self, answer: object, language: str) -> Value | None:
        """The answer as a value, or `AnswerError` in this language; None for no answer to an optional question."""
        if answer is None or answer in ((), []) or (isinstance(answer, str) and not answer.strip()):
            if self.required:
                raise self._wrong(language, "needed")
            return None
        if self.kind in NUMBERS:
            return self._number(answer, language)
        if self.kind == "yes_no":
            word = str(answer).strip().lower()
            if word in _TRUE or word == words(language, "yes").lower():
                return True
            if word in _FALSE or word == words(language, "no").lower():
                return False
            raise self._wrong(language, "yes_no")
        if self.kind == "date":
            return self._date(answer, language)
        offered = [choice.value for choice in self.choices]
        if self.kind == "single_choice":
            if answer not in offered:
                raise self._wrong(language, "choose")
            return str(answer)
        given = answer.split() if isinstance(answer, str) else answer
        if not isinstance(given, (list, tuple, set, frozenset)) or not set(given) <= set(offered):
            raise self._wrong(language, "choose_some")
        return tuple(value for value in offered if value in given)

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
        if self.kind == "date":
            return filled | {self.name: self.counted(date.fromisoformat(str(value)))}
        return filled | {self.name: value}

    def counted(self, day: date) -> float:
        """A date as the attribute's number."""
        origin = date.fromisoformat(self.origin)
        if self.count == "age":
            return origin.year - day.year - ((origin.month, origin.day) < (day.month, day.day))
        days = (day - origin).days
        return days if self.count == "days" else days / 365.25

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form; settings at their defaults are left out."""
        data: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if value == item.default:
                continue
            if isinstance(value, Texts):
                value = value.to_dict()
            elif isinstance(value, Condition):
                value = value.text
            elif item.name == "choices":
                value = [{"value": choice.value, "label": choice.label.to_dict()} for choice in value]
            data[item.name] = value
        return data

    def _number(self, answer: object, language: str) -> float:
        kind = "whole" if self.kind == "integer" else "number"
        if isinstance(answer, bool) or not isinstance(answer, (int, float, str)):
            raise self._wrong(language, kind)
        if isinstance(answer, str) and decimal_comma(language):
            answer = answer.replace(",", ".")
        try:
            value = float(answer)
        except (ValueError, OverflowError):
            raise self._wrong(language, kind) from None
        if not math.isfinite(value):
            raise self._wrong(language, kind)
        low, high = self.minimum, self.maximum
        if low is not None and high is not None and not low <= value <= high:
            raise self._wrong(language, "between", low=low, high=high)
        if self.kind == "integer" and value != int(value):
            raise self._wrong(language, "whole")
        if self.step is not None and low is not None:
            steps = (value - low) / self.step
            if abs(steps - round(steps)) > 1e-6:
                raise self._wrong(language, "step", low=low, step=self.step)
            # The slider's own arithmetic may be a last bit off the mark.
            value = min(
                low + round(steps) * self.step, self.maximum if self.maximum is not None else math.inf
            )
        return value

    def _date(self, answer: object, language: str) -> str:
        try:
            day = answer if isinstance(answer, date) else date.fromisoformat(str(answer).strip())
        except ValueError:
            raise self._wrong(language, "date") from None
        text = date(day.year, day.month, day.day).isoformat()
        if (self.earliest and text < self.earliest) or (self.latest and text > self.latest):
            if self.earliest and self.latest:
                raise self._wrong(language, "dates", low=self.earliest, high=self.latest)
            raise self._wrong(language, "outside")
        low, high = self.minimum, self.maximum
        if low is not None and high is not None and not low <= self.counted(day) <= high:
            raise self._wrong(language, "outside")
        return text

    def _wrong(self, language: str, key: str, **limits: float | str) -> AnswerError:
        if self.message is not None and key in ("between", "step", "dates", "outside"):
            return AnswerError(self.name, self.message[language])
        shown = {
            name: limit if isinstance(limit, str) else show_number(limit, language)
            for name, limit in limits.items()
        }
        return AnswerError(self.name, words(language, key, **shown))


@dataclass(frozen=True)
class Asked:
    """A question as one person sees it: in a language. `choices` are (value, label)."""

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


# Which settings belong to which kinds; any other kind refuses them.
_ONLY: Mapping[str, tuple[str, ...]] = {
    "minimum": (*NUMBERS, "date"),
    "maximum": (*NUMBERS, "date"),
    "step": ("slider",),
    "choices": ("single_choice", "multiple_choice"),
    "count": ("date",),
    "origin": ("date",),
    "earliest": ("date",),
    "latest": ("date",),
}


def _check(question: Question) -> None:
    where, kind = f"form.questions.{question.name}", question.kind
    if kind not in get_args(Kind):
        raise StudyError(f"{where}.kind must be one of {', '.join(get_args(Kind))}")
    for name, kinds in _ONLY.items():
        if getattr(question, name) not in (None, "", ()) and kind not in kinds:
            raise StudyError(f"{where}: a {kind} question has no {name}; take it out")
    low, high = question.minimum, question.maximum
    if low is not None and high is not None and not low < high:
        raise StudyError(f"{where}: minimum must be below maximum")
    if kind == "slider" and (question.step is None or not question.step > 0):
        raise StudyError(f"{where}: a slider needs a step above 0")
    if kind == "slider" and low is not None and high is not None and question.step is not None:
        steps = (high - low) / question.step
        if abs(steps - round(steps)) > 1e-6:
            raise StudyError(f"{where}: its step must lead from its minimum to its maximum")
    values = [choice.value for choice in question.choices]
    if kind in ("single_choice", "multiple_choice") and (not values or len(set(values)) != len(values)):
        raise StudyError(f"{where} needs choices, each with another value")
    if kind == "date":
        _check_date(question, where)
    _check_missing(question, where)


def _check_date(question: Question, where: str) -> None:
    if question.count not in get_args(Count):
        raise StudyError(
            f"{where}.count must be 'days' or 'years' (after origin), or 'age' (whole years, at origin)"
        )
    for name in ("origin", "earliest", "latest"):
        text = getattr(question, name)
        if (name == "origin" and text == CREATION) or (name != "origin" and not text):
            continue
        if not is_date(text):
            known = f" or {CREATION!r}" if name == "origin" else ""
            raise StudyError(f"{where}.{name} must be a date such as 1970-01-01{known}")
    if question.earliest and question.latest and question.earliest > question.latest:
        raise StudyError(f"{where}: earliest must not be after latest")


def is_date(text: str) -> bool:
    """Whether a text is a date written year-month-day, and in no other of ISO 8601's ways."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _check_missing(question: Question, where: str) -> None:
    missing = question.missing
    if not question.may_be_missing:
        if missing is not None or question.missing_indicator:
            raise StudyError(f"{where} is always answered: take missing and missing_indicator out")
        return
    why = "has skip logic" if question.relevant is not None else "is optional"
    if missing is None:
        raise StudyError(
            f"{where} {why}: give missing, the value that stands in the row when there is no answer"
        )
    if question.kind in ("yes_no", "multiple_choice"):
        fits = isinstance(missing, bool)
        wanted = "true or false"
    elif question.kind == "single_choice":
        fits = missing in [choice.value for choice in question.choices]
        wanted = "the value of one of its choices"
    else:
        fits = isinstance(missing, float) and math.isfinite(missing)
        wanted = "a number"
    if not fits:
        raise StudyError(f"{where}.missing must be {wanted}")
