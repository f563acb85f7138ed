"""A form as JSON in a study and as [form] in a definition, read strictly; and how it must fit the schema."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import date
from typing import Any

from trimask_core.errors import StudyError
from trimask_core.form import Consent, Eligibility, Form
from trimask_core.question import CREATION, Choice, Question
from trimask_core.relevance import Condition
from trimask_core.schema import Attribute, Schema
from trimask_core.texts import Texts, check_language

__all__ = ["ELIGIBILITY_KEYS", "FORM_KEYS", "check_schema", "read_form"]

FORM_KEYS = ("languages", "title", "intro", "consent", "eligibility", "questions")
_QUESTION = tuple(item.name for item in fields(Question))
ELIGIBILITY_KEYS = ("name", "kind", "label", "help", "unit", "eligible", "minimum", "maximum")
_TEXTS = ("label", "help", "unit", "message")
_NUMBERS = ("minimum", "maximum", "step")
_DATES = ("origin", "earliest", "latest")
_SUITABLE = {
    "number": ("continuous",),
    "integer": ("integer",),
    "slider": ("continuous", "integer"),
    "yes_no": ("binary",),
    "single_choice": ("categorical",),
    "multiple_choice": ("binary",),
    "date": ("continuous", "integer"),
}


def read_form(data: Any, schema: Schema | None = None) -> Form:
    """Read what `Form.to_dict` wrote, or the [form] of a definition.

    With a schema, limits and choices that are left out are the attribute's own.
    """
    _only(data, FORM_KEYS, "form")
    languages = data.get("languages")
    if not isinstance(languages, list) or not languages:
        raise StudyError('form.languages must be a list such as ["en", "de"]')
    tags = tuple(check_language(tag) for tag in languages)
    attributes = {} if schema is None else {item.name: item for item in schema.attributes}
    consent = data.get("consent")
    agreement = None
    if consent is not None:
        _only(consent, ("version", "text"), "form.consent")
        agreement = Consent(
            _text(consent, "version", "form.consent"),
            Texts.read(consent.get("text"), tags, "form.consent.text"),
        )
    return Form(
        languages=tags,
        questions=tuple(_question(item, tags, attributes) for item in _list(data, "questions")),
        title=_texts(data, "title", tags, "form"),
        intro=_texts(data, "intro", tags, "form"),
        agreement=agreement,
        eligibility=tuple(_eligibility(item, tags) for item in _list(data, "eligibility")),
    )


def _question(data: Any, languages: tuple[str, ...], attributes: Mapping[str, Attribute]) -> Question:
    where = _where(data, "form.questions")
    _only(data, _QUESTION, where)
    settings: dict[str, Any] = {"name": data["name"], "kind": _text(data, "kind", where)}
    settings |= {name: _texts(data, name, languages, where) for name in _TEXTS}
    if settings["label"] is None:
        raise StudyError(f"{where}.label is missing: the question as it is asked")
    settings |= {name: _number(data, name, where) for name in _NUMBERS}
    settings |= {name: _date(data, name, where) for name in _DATES}
    settings["choices"] = tuple(_choice(item, languages, where) for item in _list(data, "choices", where))
    required = data.get("required", True)
    if not isinstance(required, bool):
        raise StudyError(f"{where}.required must be true or false")
    relevant = data.get("relevant")
    if relevant is not None and not isinstance(relevant, str):
        raise StudyError(f'{where}.relevant must be a text such as "smoker = yes"')
    missing = data.get("missing")
    if isinstance(missing, int) and not isinstance(missing, bool):
        missing = float(missing)
    if missing is not None and not isinstance(missing, (bool, float, str)):
        raise StudyError(f"{where}.missing must be a value of the attribute")
    attribute = attributes.get(data["name"])
    if attribute is not None and attribute.kind in ("continuous", "integer"):
        low, high = attribute.bounds
        for name, bound in (("minimum", low), ("maximum", high)):
            if settings[name] is None and settings["kind"] in ("number", "integer", "slider", "date"):
                settings[name] = float(bound)
    return Question(
        **settings,
        required=required,
        relevant=None if relevant is None else Condition.parse(relevant, f"{where}.relevant"),
        count=data.get("count"),
        missing=missing,
        missing_indicator=_text(data, "missing_indicator", where, ""),
    )


def _eligibility(data: Any, languages: tuple[str, ...]) -> Eligibility:
    where = _where(data, "form.eligibility")
    _only(data, ELIGIBILITY_KEYS, where)
    kind, eligible = _text(data, "kind", where), data.get("eligible", True)
    if kind not in ("yes_no", "number", "integer"):
        raise StudyError(f"{where}.kind must be yes_no, number or integer")
    settings: dict[str, Any] = {
        name: _texts(data, name, languages, where) for name in ("label", "help", "unit")
    }
    if settings["label"] is None:
        raise StudyError(f"{where}.label is missing: the question as it is asked")
    settings |= {name: _number(data, name, where) for name in ("minimum", "maximum")}
    if kind == "yes_no" and not isinstance(eligible, bool):
        raise StudyError(f"{where}.eligible must be true (who answers yes takes part) or false")
    if kind != "yes_no" and ("eligible" in data or settings["minimum"] is settings["maximum"] is None):
        raise StudyError(f"{where}: give minimum, maximum or both; who answers within them takes part")
    return Eligibility(Question(data["name"], kind, **settings), eligible)  # type: ignore[arg-type]  # checked above


def _choice(data: Any, languages: tuple[str, ...], where: str) -> Choice:
    _only(data, ("value", "label"), f"{where}.choices")
    value = _text(data, "value", f"{where}.choices")
    return Choice(value, Texts.read(data.get("label"), languages, f"{where}.choices.{value}.label"))


def check_schema(form: Form, schema: Schema) -> None:
    """Raise `StudyError` unless every attribute is filled by one question, within its bounds, and nothing else is."""
    attributes = {attribute.name: attribute for attribute in schema.attributes}
    filled: dict[str, str] = {}
    for question in form.questions:
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


# Taking values out by type, with the whole path in every refusal


def _only(data: Any, known: Iterable[str], where: str) -> None:
    names = list(known)
    if not isinstance(data, Mapping):
        raise StudyError(f"{where} must be a table")
    for key in data:
        if key not in names:
            import difflib  # here alone, to keep the device's start short

            near = difflib.get_close_matches(str(key), names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
            raise StudyError(f"{where} has no setting {key!r}; {hint}")


def _where(data: Any, section: str) -> str:
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str) or not data["name"].strip():
        raise StudyError(f"every one of {section} needs a name")
    return f"{section}.{data['name']}"


def _list(data: Mapping[str, Any], key: str, where: str = "form") -> list[Any]:
    value = data.get(key, [])
    if not isinstance(value, list):
        raise StudyError(f"{where}.{key} must be a list of tables")
    return value


def _text(data: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    value = data.get(key, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise StudyError(f"{where}.{key} must be given, as text")
    return value


def _texts(data: Mapping[str, Any], key: str, languages: tuple[str, ...], where: str) -> Texts | None:
    return Texts.read(data[key], languages, f"{where}.{key}") if key in data else None


def _number(data: Mapping[str, Any], key: str, where: str) -> float | None:
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise StudyError(f"{where}.{key} must be a number")
    return float(value)


def _date(data: Mapping[str, Any], key: str, where: str) -> str:
    value = data.get(key, "")
    if isinstance(value, date):
        return value.isoformat()[:10]
    if not isinstance(value, str):
        raise StudyError(f"{where}.{key} must be a date such as 1970-01-01")
    return value
