"""The kinds of question: an object for each, which knows everything that is particular to it.

`KINDS` is the one list. App and page choose what a person answers with by `control`, the terminal takes what is typed;
forms, tables, imports and the pages of docs ask the kind. A new kind is a class here, the same in
client/web/form/kinds.js, and a case in tests/support/trimask_form_cases.py, by which the two are compared.

`read` takes an answer as a person gave it: texts are read as typed (`parse_input`), numbers, true and false and lists as
they are; what is not taken is an `Unread` with the sentence's key. A row has no empty cells, so a question that may go
unanswered declares what stands for that (`missing`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Literal, TypeVar

from trimask_core.basics.errors import AnswerError, StudyError
from trimask_core.form.parse_input import (
    CREATION,
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
from trimask_core.form.question import QuestionSettings
from trimask_core.form.texts import words
from trimask_core.study.schema import Attribute

Control = Literal["number", "slider", "choices", "date", "time"]
"""What a person answers with."""
Value = bool | float | str | tuple[str, ...]
Row = dict[str, bool | float | str]
Q = TypeVar("Q", bound=QuestionSettings)
PLAIN = {"continuous": "number", "integer": "integer", "binary": "yes_no", "categorical": "single_choice"}
"""How an attribute of each kind is asked where a study has no form."""
_ASKED = ("unit", "message", "missing", "missing_indicator")


class Kind:
    """What one kind of question is. As it stands: one answer, which fills the attribute of the question's name."""

    name = ""
    control: Control | None = None
    """None: it takes no answer itself."""
    several = False
    """Whether several of its choices may be taken."""
    whole = False
    """Whether it takes whole numbers alone."""
    counts = False
    """Whether the row has a count where the person gives something else."""
    settings: tuple[str, ...] = _ASKED
    """Which of `SETTINGS` it may have; any other is refused."""
    fills: tuple[str, ...] = ()
    """Which kinds of attributes suit it."""
    answer = ""
    row = ""
    """For docs: what a person gives, and what comes of it in a row."""
    compared_with = "a number"
    stands_for_missing = "a number"

    def check_settings(self, question: QuestionSettings, where: str) -> None:
        """Raise `StudyError` unless its own settings make sense."""

    def may_stand(self, question: QuestionSettings, value: object) -> bool:
        """Whether a value can stand for a missing answer."""
        return isinstance(value, float) and math.isfinite(value)

    def compares(self, question: QuestionSettings, op: str, value: object) -> bool:
        """Whether a condition may compare it so."""
        return op != "has" and isinstance(value, (int, float)) and not isinstance(value, bool)

    def check_attribute(self, question: QuestionSettings, attribute: Attribute, where: str) -> None:
        """Raise `StudyError` unless the attribute can hold its answers."""
        if attribute.kind not in self.fills:
            raise StudyError(
                f"{where}: {_a(self.name)} question fills {' or '.join(map(_a, self.fills))} attribute, "
                f"and {attribute.name} is {attribute.kind}"
            )
        if attribute.kind == "categorical":
            if sorted(choice.value for choice in question.choices) != sorted(attribute.levels):
                raise StudyError(f"{where}: its choices must be the levels of {attribute.name}, all of them")
        elif attribute.kind != "binary":
            self._check_bounds(question, attribute, where)

    def _check_bounds(self, question: QuestionSettings, attribute: Attribute, where: str) -> None:
        low, high = attribute.bounds
        if question.minimum is None or question.maximum is None:
            raise StudyError(f"{where} needs minimum and maximum")
        if question.minimum < low or question.maximum > high:
            raise StudyError(
                f"{where}: its limits must lie within {low:g} to {high:g}, the bounds of {attribute.name}"
            )
        whole = attribute.kind == "integer"
        if whole:
            self.check_whole(question, where)
        missing = question.missing
        if isinstance(missing, float) and (not low <= missing <= high or (whole and missing % 1)):
            raise StudyError(
                f"{where}.missing must be a value {attribute.name} can have, within {low:g} to {high:g}"
            )

    def check_whole(self, question: QuestionSettings, where: str) -> None:
        """Raise `StudyError` if it could give fractions, which its attribute does not take."""

    def parts(self, question: Q) -> tuple[Q, ...]:
        """The questions that take an answer."""
        return (question,)

    def attributes(self, question: QuestionSettings) -> tuple[str, ...]:
        """The attributes it fills, the indicator of a missing answer not among them."""
        return (question.name,)

    def offered(self, question: QuestionSettings, language: str) -> tuple[tuple[str, str], ...]:
        """What can be chosen, as value and label."""
        return tuple((choice.value, choice.label[language]) for choice in question.choices)

    def read(self, question: QuestionSettings, answer: object, language: str) -> Value:
        """The answer as a value, or `Unread`."""
        raise AnswerError(question.name, f"a {self.name} takes no answer itself")

    def encode(self, question: QuestionSettings, value: Value) -> Row:
        """What a checked value puts into the row."""
        return {question.name: value}  # type: ignore[dict-item]  # a tuple is a multiple choice's

    def show(self, question: QuestionSettings, value: Value, language: str) -> str:
        """A checked value in words."""
        return dict(self.offered(question, language)).get(str(value), str(value))


class Number(Kind):
    """A real number within its limits."""

    name = "number"
    control: Control | None = "number"
    settings: tuple[str, ...] = (*_ASKED, "minimum", "maximum")
    fills: tuple[str, ...] = ("continuous",)
    answer = "a number"
    row = "the continuous attribute of the same name"

    def read(self, question: QuestionSettings, answer: object, language: str) -> float:
        reason = "whole" if self.whole else "number"
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
        if self.whole and value != int(value):
            raise Unread(reason)
        return value

    def show(self, question: QuestionSettings, value: Value, language: str) -> str:
        unit = "" if question.unit is None else question.unit[language]
        return f"{show_number(float(value), language)} {unit}".strip()  # type: ignore[arg-type]  # its own value


class Integer(Number):
    """A whole number within its limits."""

    name = "integer"
    whole = True
    fills = ("integer",)
    answer = "a whole number"
    row = "the integer attribute of the same name"


class Slider(Number):
    """A number that is a whole count of steps above the least."""

    name = "slider"
    control = "slider"
    settings = (*Number.settings, "step")
    fills = ("continuous", "integer")
    answer = "a number, `step` apart"
    row = "the continuous or integer attribute of the same name"

    def check_settings(self, question: QuestionSettings, where: str) -> None:
        low, high, step = question.minimum, question.maximum, question.step
        if step is None or not step > 0:
            raise StudyError(f"{where}: a slider needs a step above 0")
        if low is not None and high is not None and not _whole((high - low) / step):
            raise StudyError(f"{where}: its step must lead from its minimum to its maximum")

    def check_whole(self, question: QuestionSettings, where: str) -> None:
        if (question.minimum or 0) % 1 or (question.step or 1) % 1:
            raise StudyError(f"{where}: minimum and step must be whole numbers for an integer attribute")

    def read(self, question: QuestionSettings, answer: object, language: str) -> float:
        value = super().read(question, answer, language)
        low, high, step = question.minimum, question.maximum, question.step
        if step is None or low is None:
            return value
        steps = (value - low) / step
        if not _whole(steps):
            raise Unread("step", low=show_number(low, language), step=show_number(step, language))
        # The slider's own arithmetic may be a last bit off the mark.
        return min(low + round(steps) * step, math.inf if high is None else high)


class YesNo(Kind):
    """True or false."""

    name = "yes_no"
    control = "choices"
    fills = ("binary",)
    answer = "yes or no"
    row = "the binary attribute of the same name"
    compared_with = "= or != yes or no"
    stands_for_missing = "true or false"

    def may_stand(self, question: QuestionSettings, value: object) -> bool:
        return isinstance(value, bool)

    def compares(self, question: QuestionSettings, op: str, value: object) -> bool:
        return op in ("=", "!=") and isinstance(value, bool)

    def offered(self, question: QuestionSettings, language: str) -> tuple[tuple[str, str], ...]:
        return ("yes", words(language, "yes")), ("no", words(language, "no"))

    def read(self, question: QuestionSettings, answer: object, language: str) -> bool:
        if isinstance(answer, float) and answer in (0, 1):
            return answer == 1
        word = str(answer).strip().lower()
        if word in ("yes", "true", "1", words(language, "yes").lower()):
            return True
        if word in ("no", "false", "0", words(language, "no").lower()):
            return False
        raise Unread("yes_no")

    def show(self, question: QuestionSettings, value: Value, language: str) -> str:
        return words(language, "yes" if value else "no")


class SingleChoice(Kind):
    """One of its choices."""

    name = "single_choice"
    control: Control | None = "choices"
    settings: tuple[str, ...] = (*_ASKED, "choices")
    fills = ("categorical",)
    answer = "one of `choices`"
    row = "a categorical attribute with these levels"
    compared_with = '= or != "VALUE", with one of its choices'
    stands_for_missing = "the value of one of its choices"

    def check_settings(self, question: QuestionSettings, where: str) -> None:
        _others(question.choices, "choices", "value", where)
        alone = [choice for choice in question.choices if choice.exclusive]
        if alone and not self.several:
            raise StudyError(
                f"{where}.choices.{alone[0].value}: only a multiple choice has exclusive answers"
            )
        if len(alone) == len(question.choices):
            raise StudyError(f"{where}: where every answer is exclusive, use a single_choice")

    def may_stand(self, question: QuestionSettings, value: object) -> bool:
        return value in [choice.value for choice in question.choices]

    def compares(self, question: QuestionSettings, op: str, value: object) -> bool:
        return op in ("=", "!=") and value in [choice.value for choice in question.choices]

    def read(self, question: QuestionSettings, answer: object, language: str) -> Value:
        if answer not in [choice.value for choice in question.choices]:
            raise Unread("choose")
        return str(answer)


class MultipleChoice(SingleChoice):
    """Some of its choices; an exclusive one stands alone."""

    name = "multiple_choice"
    several = True
    fills = ("binary",)
    answer = "some of `choices`"
    row = "a binary attribute `NAME_VALUE` for each"
    compared_with = 'NAME has "VALUE", with one of its choices'
    stands_for_missing = "true or false"

    def may_stand(self, question: QuestionSettings, value: object) -> bool:
        return isinstance(value, bool)

    def compares(self, question: QuestionSettings, op: str, value: object) -> bool:
        return op == "has" and value in [choice.value for choice in question.choices]

    def attributes(self, question: QuestionSettings) -> tuple[str, ...]:
        return tuple(f"{question.name}_{choice.value}" for choice in question.choices)

    def read(self, question: QuestionSettings, answer: object, language: str) -> tuple[str, ...]:
        given = answer.split() if isinstance(answer, str) else answer
        offered = [choice.value for choice in question.choices]
        if not isinstance(given, (list, tuple, set, frozenset)) or not set(given) <= set(offered):
            raise Unread("choose_some")
        chosen = [choice for choice in question.choices if choice.value in given]
        alone = [choice for choice in chosen if choice.exclusive]
        if alone and len(chosen) > 1:
            raise Unread("exclusive", choice=alone[0].label[language])
        return tuple(choice.value for choice in chosen)

    def encode(self, question: QuestionSettings, value: Value) -> Row:
        chosen: tuple[str, ...] = value  # type: ignore[assignment]  # its own value
        return {f"{question.name}_{choice.value}": choice.value in chosen for choice in question.choices}

    def show(self, question: QuestionSettings, value: Value, language: str) -> str:
        labels = dict(self.offered(question, language))
        return ", ".join(labels[one] for one in value)  # type: ignore[union-attr]  # its own value


class Date(Kind):
    """A day, as year-month-day text; the row has how far it is from `origin`."""

    name = "date"
    control: Control | None = "date"
    counts = True
    settings = (*Number.settings, "count", "origin", "earliest", "latest")
    fills = ("continuous", "integer")
    answer = "a date"
    row = 'a number: `count = "days"` or `"years"` after `origin`, or `"age"`: in whole years on the day `origin`'
    compared_with = 'a date such as "1970-01-01"'
    limits = ("dates", "outside")

    def check_settings(self, question: QuestionSettings, where: str) -> None:
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

    def compares(self, question: QuestionSettings, op: str, value: object) -> bool:
        return op != "has" and isinstance(value, str) and is_date(value)

    def check_whole(self, question: QuestionSettings, where: str) -> None:
        instead = {"years": "days or age", "hours": "minutes"}.get(question.count or "")
        if instead is not None:
            raise StudyError(
                f"{where}: {question.count} are fractions; use a continuous attribute, or count {instead}"
            )

    def text(self, answer: object, language: str) -> str:
        """What was given, in the one form in which it is kept."""
        day = answer if isinstance(answer, date) else read_date(str(answer), language)
        return date(day.year, day.month, day.day).isoformat()

    def place(self, question: QuestionSettings, text: str) -> float:
        """By which it is before or after another."""
        return date.fromisoformat(text).toordinal()

    def read(self, question: QuestionSettings, answer: object, language: str) -> str:
        text = self.text(answer, language)
        low, high = question.minimum, question.maximum
        at, early, late = self.place(question, text), question.earliest, question.latest
        if (early and at < self.place(question, early)) or (late and at > self.place(question, late)):
            if early and late:
                ends = [self.show(question, end, language) for end in (early, late)]
                raise Unread(self.limits[0], low=ends[0], high=ends[1])
            raise Unread(self.limits[1])
        if low is not None and high is not None and not low <= self.counted(question, text) <= high:
            raise Unread(self.limits[1])
        return text

    def counted(self, question: QuestionSettings, text: str) -> float:
        """The attribute's number."""
        return count_date(date.fromisoformat(text), question.count, question.origin)

    def encode(self, question: QuestionSettings, value: Value) -> Row:
        return {question.name: self.counted(question, str(value))}

    def show(self, question: QuestionSettings, value: Value, language: str) -> str:
        return show_date(date.fromisoformat(str(value)), language)


class Time(Date):
    """A time of day, as hours:minutes text; the row has how long it is after `origin`, round the clock."""

    name = "time"
    control = "time"
    answer = "a time of day"
    row = 'a number: `count = "minutes"` or `"hours"` after `origin` (default 00:00), around the clock past midnight'
    compared_with = 'a time such as "22:30" (later in the same day is more)'
    limits = ("times", "outside_time")

    def check_settings(self, question: QuestionSettings, where: str) -> None:
        if question.count not in ("minutes", "hours"):
            raise StudyError(
                f"{where}.count must be 'minutes' or 'hours' (after origin, which is 00:00 if not given)"
            )
        for name in ("origin", "earliest", "latest"):
            if getattr(question, name) and not is_time(getattr(question, name)):
                raise StudyError(f"{where}.{name} must be a time such as 22:30")
        early, late = question.earliest, question.latest
        if early and late and self.counted(question, early) > self.counted(question, late):
            raise StudyError(
                f"{where}: from its origin {question.origin or '00:00'}, earliest must not be after latest; "
                f"give an origin that is not between them, such as 12:00"
            )

    def compares(self, question: QuestionSettings, op: str, value: object) -> bool:
        return op != "has" and isinstance(value, str) and is_time(value)

    def text(self, answer: object, language: str) -> str:
        return read_time(str(answer))

    def place(self, question: QuestionSettings, text: str) -> float:
        """In the order that the count has: with origin 12:00, from 22:00 to 02:00 is one night."""
        return self.counted(question, text)

    def counted(self, question: QuestionSettings, text: str) -> float:
        return count_time(text, question.count, question.origin)

    def show(self, question: QuestionSettings, value: Value, language: str) -> str:
        return str(value)


class Grid(SingleChoice):
    """Several single choices with the same answers, shown together."""

    name = "grid"
    control = None
    settings = ("choices", "rows", "missing")
    answer = "one of `choices` for each of `rows`"
    row = "a categorical attribute of each row's name"
    read = Kind.read

    def check_settings(self, question: QuestionSettings, where: str) -> None:
        super().check_settings(question, where)
        _others(question.rows, "rows", "name", where)

    def parts(self, question: Q) -> tuple[Q, ...]:
        one = replace(question, kind=SingleChoice.name, help=None, rows=())
        return tuple(
            replace(one, name=row.name, label=row.label, missing_indicator=row.missing_indicator)
            for row in question.rows
        )

    def attributes(self, question: QuestionSettings) -> tuple[str, ...]:
        return tuple(row.name for row in question.rows)


class Heading(Kind):
    """A title and a note between questions."""

    name = "heading"
    settings = ()
    answer = "none: a title (`label`) and a note (`help`) above the next question"
    row = "nothing"

    def check_settings(self, question: QuestionSettings, where: str) -> None:
        if not question.required:
            raise StudyError(f"{where}: a heading takes no answer; take required out")

    def parts(self, question: Q) -> tuple[Q, ...]:
        return ()

    def attributes(self, question: QuestionSettings) -> tuple[str, ...]:
        return ()


_ALL = (
    Number(), Integer(), Slider(), YesNo(), SingleChoice(), MultipleChoice(), Date(), Time(), Grid(), Heading(),
)  # fmt: skip
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}


def _whole(number: float) -> bool:
    return abs(number - round(number)) <= 1e-6


def _others(items: Sequence[object], called: str, by: str, where: str) -> None:
    """Each has another value or name, and there is one at least."""
    names = [getattr(item, by) for item in items]
    if not names or len(set(names)) != len(names):
        raise StudyError(f"{where} needs {called}, each with another {by}")


def _a(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
