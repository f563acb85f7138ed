"""Checks which settings a question of each kind may have; an error names the setting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import get_args

from trimask_core.counting import CREATION, count_time, is_date, is_time
from trimask_core.errors import StudyError
from trimask_core.question_settings import BOUNDED, Kind, QuestionSettings

__all__ = ["check_question"]

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
