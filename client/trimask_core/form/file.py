"""A form as JSON in a study and as [form] in a definition: read strictly, by type, and fitted to the schema.

Every error names the whole path. Every attribute of the schema is filled by one question, and nothing else is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import date, time
from typing import Any

from trimask_core.basics.errors import StudyError
from trimask_core.form.form import Consent, Eligibility, Form
from trimask_core.form.parse_input import CREATION
from trimask_core.form.question import BOUNDED, Choice, GridRow, Question
from trimask_core.form.skip_logic import Condition
from trimask_core.form.texts import Texts, check_language
from trimask_core.study.schema import Attribute, Schema


def only(data: Any, known: Iterable[str], where: str) -> None:
    """Refuse a setting that is not known, with the nearest that is."""
    names = list(known)
    if not isinstance(data, Mapping):
        raise StudyError(f"{where} must be a table")
    for key in data:
        if key not in names:
            import difflib  # here alone, to keep the device's start short

            near = difflib.get_close_matches(str(key), names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
            raise StudyError(f"{where} has no setting {key!r}; {hint}")


def named(data: Any, section: str) -> str:
    """The path of a named table, for error messages."""
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str) or not data["name"].strip():
        raise StudyError(f"every one of {section} needs a name")
    return f"{section}.{data['name']}"


def tables(data: Mapping[str, Any], key: str, where: str = "form") -> list[Any]:
    """A list of tables."""
    value = data.get(key, [])
    if not isinstance(value, list):
        raise StudyError(f"{where}.{key} must be a list of tables")
    return value


def text(data: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    """A text; required unless there is a default."""
    value = data.get(key, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise StudyError(f"{where}.{key} must be given, as text")
    return value


def texts(data: Mapping[str, Any], key: str, languages: tuple[str, ...], where: str) -> Texts | None:
    """A text in every language."""
    return Texts.read(data[key], languages, f"{where}.{key}") if key in data else None


def number(data: Mapping[str, Any], key: str, where: str) -> float | None:
    """A finite number."""
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise StudyError(f"{where}.{key} must be a number")
    return float(value)


def day(data: Mapping[str, Any], key: str, where: str) -> str:
    """A date or a time of day, as text or as TOML's own."""
    value = data.get(key, "")
    if isinstance(value, date):
        return value.isoformat()[:10]
    if isinstance(value, time):
        return value.isoformat("minutes")
    if not isinstance(value, str):
        raise StudyError(f"{where}.{key} must be a date such as 1970-01-01, or a time such as 22:30")
    return value


def flag(data: Mapping[str, Any], key: str, where: str, default: bool) -> bool:
    """True or false."""
    value = data.get(key, default)
    if not isinstance(value, bool):
        raise StudyError(f"{where}.{key} must be true or false")
    return value


FORM_KEYS = (
    "languages", "title", "purpose", "intro", "consent", "eligibility_first", "eligibility", "questions",
)  # fmt: skip
_QUESTION = tuple(item.name for item in fields(Question))
_CHOICE = tuple(item.name for item in fields(Choice))
_ROW = tuple(item.name for item in fields(GridRow))
ELIGIBILITY_KEYS = ("name", "kind", "label", "help", "unit", "eligible", "minimum", "maximum")
_TEXTS = ("label", "help", "unit", "message")
_NUMBERS = ("minimum", "maximum", "step")
_DATES = ("origin", "earliest", "latest")


def read_form(data: Any, schema: Schema | None = None) -> Form:
    """Read what `Form.to_dict` wrote, or the [form] of a definition.

    With a schema, limits and choices that are left out are the attribute's own.
    """
    only(data, FORM_KEYS, "form")
    languages = data.get("languages")
    if not isinstance(languages, list) or not languages:
        raise StudyError('form.languages must be a list such as ["en", "de"]')
    tags = tuple(check_language(tag) for tag in languages)
    attributes = {} if schema is None else {item.name: item for item in schema.attributes}
    consent = data.get("consent")
    agreement = None
    if consent is not None:
        only(consent, ("version", "text"), "form.consent")
        agreement = Consent(
            text(consent, "version", "form.consent"),
            Texts.read(consent.get("text"), tags, "form.consent.text"),
        )
    first = data.get("eligibility_first", False)
    if not isinstance(first, bool) or (first and not data.get("eligibility")):
        raise StudyError(
            "form.eligibility_first must be true or false, in a form that has [[form.eligibility]]"
        )
    return Form(
        languages=tags,
        questions=tuple(_question(item, tags, attributes) for item in tables(data, "questions")),
        title=texts(data, "title", tags, "form"),
        purpose=texts(data, "purpose", tags, "form"),
        intro=texts(data, "intro", tags, "form"),
        agreement=agreement,
        eligibility=tuple(_eligibility(item, tags) for item in tables(data, "eligibility")),
        eligibility_first=first,
    )


def _question(data: Any, languages: tuple[str, ...], attributes: Mapping[str, Attribute]) -> Question:
    where = named(data, "form.questions")
    only(data, _QUESTION, where)
    settings: dict[str, Any] = {"name": data["name"], "kind": text(data, "kind", where)}
    settings |= {name: texts(data, name, languages, where) for name in _TEXTS}
    if settings["label"] is None:
        raise StudyError(f"{where}.label is missing: the question as it is asked")
    settings |= {name: number(data, name, where) for name in _NUMBERS}
    settings |= {name: day(data, name, where) for name in _DATES}
    settings["choices"] = tuple(_choice(item, languages, where) for item in tables(data, "choices", where))
    settings["rows"] = tuple(_row(item, languages, where) for item in tables(data, "rows", where))
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
            if settings[name] is None and settings["kind"] in BOUNDED:
                settings[name] = float(bound)
    return Question(
        **settings,
        required=flag(data, "required", where, True),
        relevant=None if relevant is None else Condition.parse(relevant, f"{where}.relevant"),
        count=data.get("count"),
        missing=missing,
        missing_indicator=text(data, "missing_indicator", where, ""),
    )


def _eligibility(data: Any, languages: tuple[str, ...]) -> Eligibility:
    where = named(data, "form.eligibility")
    only(data, ELIGIBILITY_KEYS, where)
    kind, eligible = text(data, "kind", where), data.get("eligible", True)
    if kind not in ("yes_no", "number", "integer"):
        raise StudyError(f"{where}.kind must be yes_no, number or integer")
    settings: dict[str, Any] = {
        name: texts(data, name, languages, where) for name in ("label", "help", "unit")
    }
    if settings["label"] is None:
        raise StudyError(f"{where}.label is missing: the question as it is asked")
    settings |= {name: number(data, name, where) for name in ("minimum", "maximum")}
    if kind == "yes_no" and not isinstance(eligible, bool):
        raise StudyError(f"{where}.eligible must be true (who answers yes takes part) or false")
    if kind != "yes_no" and ("eligible" in data or settings["minimum"] is settings["maximum"] is None):
        raise StudyError(f"{where}: give minimum, maximum or both; who answers within them takes part")
    return Eligibility(Question(data["name"], kind, **settings), eligible)  # type: ignore[arg-type]  # checked above


def _choice(data: Any, languages: tuple[str, ...], where: str) -> Choice:
    only(data, _CHOICE, f"{where}.choices")
    value = text(data, "value", f"{where}.choices")
    at = f"{where}.choices.{value}"
    return Choice(
        value, Texts.read(data.get("label"), languages, f"{at}.label"), flag(data, "exclusive", at, False)
    )


def _row(data: Any, languages: tuple[str, ...], where: str) -> GridRow:
    at = named(data, f"{where}.rows")
    only(data, _ROW, at)
    label = Texts.read(data.get("label"), languages, f"{at}.label")
    return GridRow(data["name"], label, text(data, "missing_indicator", at, ""))


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
