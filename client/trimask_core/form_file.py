"""A form as JSON in a study and as [form] in a definition, read strictly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from trimask_core.errors import StudyError
from trimask_core.form import Consent, Eligibility, Form
from trimask_core.question import Choice, GridRow, Question
from trimask_core.question_settings import BOUNDED
from trimask_core.relevance import Condition
from trimask_core.schema import Attribute, Schema
from trimask_core.settings_read import day, flag, named, number, only, tables, text, texts
from trimask_core.texts import Texts, check_language

__all__ = ["ELIGIBILITY_KEYS", "FORM_KEYS", "read_form"]

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
