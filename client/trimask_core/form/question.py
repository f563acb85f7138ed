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
takes is in `check_answer` (a value, or what is wrong in the person's language), which settings it may have in
`check_question` (an error names the setting). Texts are read as a person typed them (`parse_input`); numbers, true and
false and lists are taken as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from typing import Any, Literal, get_args

from trimask_core.basics.errors import AnswerError, StudyError
from trimask_core.form.parse_input import (
    CREATION,
    Count,
    Unread,
    count_date,
    count_time,
    is_date,
    is_time,
    read_date,
    read_number,
    read_time,
    show_date,
    show_number,
)
from trimask_core.form.skip_logic import Condition
from trimask_core.form.texts import Texts, words

Kind = Literal[
    "number", "integer", "slider", "yes_no", "single_choice", "multiple_choice", "date", "time", "grid", "heading"
]  # fmt: skip
NUMBERS: tuple[Kind, ...] = ("number", "integer", "slider")
"""Kinds whose answer is a number."""
BOUNDED: tuple[Kind, ...] = (*NUMBERS, "date", "time")
"""Kinds that fill a number, and so have `minimum` and `maximum`."""
Value = bool | float | str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer offered: the schema's level, and what a person reads. An exclusive one stands alone."""

    value: str
    label: Texts
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class GridRow:
    """One line of a grid: the attribute it fills, and what a person reads."""

    name: str
    label: Texts
    missing_indicator: str = ""


@dataclass(frozen=True)
class QuestionSettings:
    """What a question is. `minimum` and `maximum` limit the attribute's value (for a date or a time, the count)."""

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
    rows: tuple[GridRow, ...] = ()
    count: Count | None = None
    origin: str = ""
    earliest: str = ""
    latest: str = ""
    missing: bool | float | str | None = None
    missing_indicator: str = ""

    @property
    def may_be_missing(self) -> bool:
        """Whether a row can come without an answer to it."""
        return self.kind != "heading" and (not self.required or self.relevant is not None)

    def counted(self, value: str) -> float:
        """A checked date or time as the attribute's number."""
        if self.kind == "time":
            return count_time(value, self.count, self.origin)
        return count_date(date.fromisoformat(value), self.count, self.origin)


_KINDS: tuple[str, ...] = get_args(Kind)
_CHOICES = ("single_choice", "multiple_choice", "grid")
# Which settings belong to which kinds; any other kind refuses them.
_ONLY: Mapping[str, tuple[str, ...]] = {
    "unit": (*BOUNDED, "yes_no", "single_choice", "multiple_choice"),
    "message": (*BOUNDED, "yes_no", "single_choice", "multiple_choice"),
    "minimum": BOUNDED,
    "maximum": BOUNDED,
    "step": ("slider",),
    "choices": _CHOICES,
    "rows": ("grid",),
    "count": ("date", "time"),
    "origin": ("date", "time"),
    "earliest": ("date", "time"),
    "latest": ("date", "time"),
    "missing": tuple(kind for kind in _KINDS if kind != "heading"),
    "missing_indicator": tuple(kind for kind in _KINDS if kind not in ("heading", "grid")),
}


def check_question(question: QuestionSettings) -> None:
    """Raise `StudyError` unless its settings fit its kind."""
    where, kind = f"form.questions.{question.name}", question.kind
    if kind not in _KINDS:
        raise StudyError(f"{where}.kind must be one of {', '.join(_KINDS)}")
    for name, kinds in _ONLY.items():
        if getattr(question, name) not in (None, "", ()) and kind not in kinds:
            hint = (
                "; give it to each row" if (name, kind) == ("missing_indicator", "grid") else "; take it out"
            )
            raise StudyError(f"{where}: a {kind} question has no {name}{hint}")
    if kind == "heading":
        if not question.required:
            raise StudyError(f"{where}: a heading takes no answer; take required out")
        return
    low, high = question.minimum, question.maximum
    if low is not None and high is not None and not low < high:
        raise StudyError(f"{where}: minimum must be below maximum")
    if kind == "slider" and (question.step is None or not question.step > 0):
        raise StudyError(f"{where}: a slider needs a step above 0")
    if kind == "slider" and low is not None and high is not None and question.step is not None:
        steps = (high - low) / question.step
        if abs(steps - round(steps)) > 1e-6:
            raise StudyError(f"{where}: its step must lead from its minimum to its maximum")
    if kind in _CHOICES:
        _check_choices(question, where)
    if kind == "date":
        _check_date(question, where)
    if kind == "time":
        _check_time(question, where)
    _check_missing(question, where)


def _check_choices(question: QuestionSettings, where: str) -> None:
    values = [choice.value for choice in question.choices]
    if not values or len(set(values)) != len(values):
        raise StudyError(f"{where} needs choices, each with another value")
    alone = [choice for choice in question.choices if choice.exclusive]
    if alone and question.kind != "multiple_choice":
        raise StudyError(f"{where}.choices.{alone[0].value}: only a multiple choice has exclusive answers")
    if len(alone) == len(values):
        raise StudyError(f"{where}: where every answer is exclusive, use a single_choice")
    names = [row.name for row in question.rows]
    if question.kind == "grid" and (not names or len(set(names)) != len(names)):
        raise StudyError(f"{where} needs rows, each with another name")


def _check_date(question: QuestionSettings, where: str) -> None:
    if question.count not in ("days", "years", "age"):
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


def _check_time(question: QuestionSettings, where: str) -> None:
    if question.count not in ("minutes", "hours"):
        raise StudyError(
            f"{where}.count must be 'minutes' or 'hours' (after origin, which is 00:00 if not given)"
        )
    for name in ("origin", "earliest", "latest"):
        if getattr(question, name) and not is_time(getattr(question, name)):
            raise StudyError(f"{where}.{name} must be a time such as 22:30")
    early, late = question.earliest, question.latest
    if early and late:
        ends = [count_time(end, question.count, question.origin) for end in (early, late)]
        if ends[0] > ends[1]:
            raise StudyError(
                f"{where}: from its origin {question.origin or '00:00'}, earliest must not be after latest; "
                f"give an origin that is not between them, such as 12:00"
            )


def _check_missing(question: QuestionSettings, where: str) -> None:
    missing = question.missing
    indicators = question.missing_indicator or any(row.missing_indicator for row in question.rows)
    if not question.may_be_missing:
        if missing is not None or indicators:
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
    elif question.kind in ("single_choice", "grid"):
        fits = missing in [choice.value for choice in question.choices]
        wanted = "the value of one of its choices"
    else:
        fits = isinstance(missing, float) and math.isfinite(missing)
        wanted = "a number"
    if not fits:
        raise StudyError(f"{where}.missing must be {wanted}")


_TRUE, _FALSE = {"yes", "true", "1"}, {"no", "false", "0"}
_LIMITS = ("between", "step", "dates", "outside", "times", "outside_time")


def check_answer(question: QuestionSettings, answer: object, language: str) -> Value | None:
    """`Question.check`."""
    if answer is None or answer in ((), []) or (isinstance(answer, str) and not answer.strip()):
        if question.required:
            raise _wrong(question, language, "needed")
        return None
    try:
        if question.kind in NUMBERS:
            return _number(question, answer, language)
        match question.kind:
            case "yes_no":
                return _yes_no(question, answer, language)
            case "date":
                return _date(question, answer, language)
            case "time":
                return _time(question, answer, language)
            case "single_choice":
                if answer not in [choice.value for choice in question.choices]:
                    raise _wrong(question, language, "choose")
                return str(answer)
            case "multiple_choice":
                return _several(question, answer, language)
            case _:
                raise AnswerError(question.name, f"a {question.kind} takes no answer itself")
    except Unread as unread:
        raise _wrong(question, language, unread.reason, **unread.values) from None


def _number(question: QuestionSettings, answer: object, language: str) -> float:
    reason = "whole" if question.kind == "integer" else "number"
    if isinstance(answer, bool) or not isinstance(answer, (int, float, str)):
        raise Unread(reason)
    try:
        value = read_number(answer, language, reason) if isinstance(answer, str) else float(answer)
    except OverflowError:
        raise Unread(reason) from None
    if not math.isfinite(value):
        raise Unread(reason)
    low, high = question.minimum, question.maximum
    if low is not None and high is not None and not low <= value <= high:
        raise Unread("between", low=show_number(low, language), high=show_number(high, language))
    if question.kind == "integer" and value != int(value):
        raise Unread("whole")
    if question.step is not None and low is not None:
        steps = (value - low) / question.step
        if abs(steps - round(steps)) > 1e-6:
            raise Unread("step", low=show_number(low, language), step=show_number(question.step, language))
        # The slider's own arithmetic may be a last bit off the mark.
        value = min(low + round(steps) * question.step, math.inf if high is None else high)
    return value


def _yes_no(question: QuestionSettings, answer: object, language: str) -> bool:
    word = str(answer).strip().lower()
    if word in _TRUE or word == words(language, "yes").lower():
        return True
    if word in _FALSE or word == words(language, "no").lower():
        return False
    raise _wrong(question, language, "yes_no")


def _several(question: QuestionSettings, answer: object, language: str) -> tuple[str, ...]:
    given = answer.split() if isinstance(answer, str) else answer
    offered = [choice.value for choice in question.choices]
    if not isinstance(given, (list, tuple, set, frozenset)) or not set(given) <= set(offered):
        raise _wrong(question, language, "choose_some")
    chosen = tuple(choice for choice in question.choices if choice.value in given)
    alone = [choice for choice in chosen if choice.exclusive]
    if alone and len(chosen) > 1:
        raise _wrong(question, language, "exclusive", choice=alone[0].label[language])
    return tuple(choice.value for choice in chosen)


def _date(question: QuestionSettings, answer: object, language: str) -> str:
    day = answer if isinstance(answer, date) else read_date(str(answer), language)
    text = date(day.year, day.month, day.day).isoformat()
    if (question.earliest and text < question.earliest) or (question.latest and text > question.latest):
        if question.earliest and question.latest:
            ends = [
                show_date(date.fromisoformat(end), language) for end in (question.earliest, question.latest)
            ]
            raise Unread("dates", low=ends[0], high=ends[1])
        raise Unread("outside")
    if not _counted_within(question, text):
        raise Unread("outside")
    return text


def _time(question: QuestionSettings, answer: object, language: str) -> str:  # noqa: ARG001 - as the others
    text = read_time(str(answer))
    at = question.counted(text)
    # In the order that the count has: with origin 12:00, from 22:00 to 02:00 is one night.
    early = question.earliest and at < question.counted(question.earliest)
    late = question.latest and at > question.counted(question.latest)
    if early or late:
        if question.earliest and question.latest:
            raise Unread("times", low=question.earliest, high=question.latest)
        raise Unread("outside_time")
    if not _counted_within(question, text):
        raise Unread("outside_time")
    return text


def _counted_within(question: QuestionSettings, text: str) -> bool:
    low, high = question.minimum, question.maximum
    return low is None or high is None or low <= question.counted(text) <= high


def _wrong(question: QuestionSettings, language: str, key: str, **values: str) -> AnswerError:
    if question.message is not None and key in _LIMITS:
        return AnswerError(question.name, question.message[language])
    return AnswerError(question.name, words(language, key, **values))


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
