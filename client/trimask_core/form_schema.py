"""How a form must fit the schema: every attribute filled by one question, and nothing else."""

from __future__ import annotations

from trimask_core.counting import CREATION
from trimask_core.errors import StudyError
from trimask_core.form import Form
from trimask_core.question import Question
from trimask_core.schema import Attribute, Schema

__all__ = ["check_schema"]

_SUITABLE = {
    "number": ("continuous",),
    "integer": ("integer",),
    "slider": ("continuous", "integer"),
    "yes_no": ("binary",),
    "single_choice": ("categorical",),
    "multiple_choice": ("binary",),
    "date": ("continuous", "integer"),
    "time": ("continuous", "integer"),
}


def check_schema(form: Form, schema: Schema) -> None:
    """Raise `StudyError` unless every attribute is filled by one question, within its bounds, and nothing else is."""
    attributes = {attribute.name: attribute for attribute in schema.attributes}
    filled: dict[str, str] = {}
    for question in form.parts:
        where = f"form.questions.{question.name}"
        indicator = (question.missing_indicator,) if question.missing_indicator else ()
        for name in (*question.attributes, *indicator):
            if name not in attributes:
                raise StudyError(f"{where} fills {name}, which is not an attribute of this study")
            if name in filled:
                raise StudyError(f"{where} fills {name}, as does the question {filled[name]}; one is enough")
            filled[name] = question.name
        for name in question.attributes:
            _check_attribute(question, attributes[name], where)
        if indicator and attributes[indicator[0]].kind != "binary":
            raise StudyError(f"{where}.missing_indicator: {indicator[0]} must be a binary attribute")
    for name in attributes:
        if name not in filled:
            raise StudyError(f"attribute {name} is filled by no question of the form; add one of that name")


def _check_attribute(question: Question, attribute: Attribute, where: str) -> None:
    suitable = _SUITABLE[question.kind]
    if attribute.kind not in suitable:
        raise StudyError(
            f"{where}: {_a(question.kind)} question fills {' or '.join(map(_a, suitable))} attribute, "
            f"and {attribute.name} is {attribute.kind}"
        )
    if attribute.kind == "categorical":
        if sorted(choice.value for choice in question.choices) != sorted(attribute.levels):
            raise StudyError(f"{where}: its choices must be the levels of {attribute.name}, all of them")
        return
    if attribute.kind == "binary":
        return
    low, high = attribute.bounds
    if question.minimum is None or question.maximum is None:
        raise StudyError(f"{where} needs minimum and maximum")
    if question.minimum < low or question.maximum > high:
        raise StudyError(
            f"{where}: its limits must lie within {low:g} to {high:g}, the bounds of {attribute.name}"
        )
    if question.kind == "date":
        if question.origin == CREATION:
            raise StudyError(
                f"{where}.origin: {CREATION!r} must be replaced by a date when the study is made"
            )
        if question.count == "years" and attribute.kind == "integer":
            raise StudyError(
                f"{where}: years are fractions; use a continuous attribute, or count days or age"
            )
    if question.kind == "time" and question.count == "hours" and attribute.kind == "integer":
        raise StudyError(f"{where}: hours are fractions; use a continuous attribute, or count minutes")
    whole = attribute.kind == "integer"
    if whole and question.kind == "slider" and (question.minimum % 1 or (question.step or 1) % 1):
        raise StudyError(f"{where}: minimum and step must be whole numbers for an integer attribute")
    missing = question.missing
    if isinstance(missing, float) and (not low <= missing <= high or (whole and missing % 1)):
        raise StudyError(
            f"{where}.missing must be a value {attribute.name} can have, within {low:g} to {high:g}"
        )


def _a(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
