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
from trimask_core.basics.typed_table import Table, refuse_unknown
from trimask_core.form.form import Consent, Eligibility, Form, Question
from trimask_core.form.kinds import KINDS
from trimask_core.form.parse_input import CREATION
from trimask_core.form.question import Choice, GridRow
from trimask_core.form.skip_logic import Condition
from trimask_core.form.texts import Texts, check_language
from trimask_core.study.schema import Attribute, Schema


def _only(data: Any, known: Iterable[str], where: str) -> Table:
    table = Table.of(data, where)
    refuse_unknown(table.data, known, where)
    return table


def _texts(table: Table, key: str, languages: tuple[str, ...]) -> Texts | None:
    """A text in every language."""
    return Texts.read(table.data[key], languages, table.at(key)) if key in table.data else None


def _number(table: Table, key: str) -> float | None:
    value = table.number(key)
    if value is not None and not math.isfinite(value):
        raise StudyError(f"{table.at(key)} must be a number")
    return value


def _day(table: Table, key: str) -> str:
    """A date or a time of day, as text or as TOML's own."""
    value = table.data.get(key, "")
    if isinstance(value, date):
        return value.isoformat()[:10]
    if isinstance(value, time):
        return value.isoformat("minutes")
    if not isinstance(value, str):
        raise StudyError(f"{table.at(key)} must be a date such as 1970-01-01, or a time such as 22:30")
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
    top = _only(data, FORM_KEYS, "form")
    languages = data.get("languages")
    if not isinstance(languages, list) or not languages:
        raise StudyError('form.languages must be a list such as ["en", "de"]')
    tags = tuple(check_language(tag) for tag in languages)
    attributes = {} if schema is None else {item.name: item for item in schema.attributes}
    consent = data.get("consent")
    agreement = None
    if consent is not None:
        agreed = _only(consent, ("version", "text"), "form.consent")
        agreement = Consent(agreed.text("version"), Texts.read(consent.get("text"), tags, agreed.at("text")))
    first = data.get("eligibility_first", False)
    if not isinstance(first, bool) or (first and not data.get("eligibility")):
        raise StudyError(
            "form.eligibility_first must be true or false, in a form that has [[form.eligibility]]"
        )
    return Form(
        languages=tags,
        questions=tuple(_question(item, tags, attributes) for item in top.tables("questions")),
        title=_texts(top, "title", tags),
        purpose=_texts(top, "purpose", tags),
        intro=_texts(top, "intro", tags),
        agreement=agreement,
        eligibility=tuple(_eligibility(item, tags) for item in top.tables("eligibility")),
        eligibility_first=first,
    )


def _question(table: Table, languages: tuple[str, ...], attributes: Mapping[str, Attribute]) -> Question:
    table = table.named()
    where, data = table.path, table.data
    refuse_unknown(data, _QUESTION, where)
    settings: dict[str, Any] = {"name": data["name"], "kind": table.text("kind")}
    settings |= {name: _texts(table, name, languages) for name in _TEXTS}
    if settings["label"] is None:
        raise StudyError(f"{where}.label is missing: the question as it is asked")
    settings |= {name: _number(table, name) for name in _NUMBERS}
    settings |= {name: _day(table, name) for name in _DATES}
    settings["choices"] = tuple(_choice(item, languages) for item in table.tables("choices"))
    settings["rows"] = tuple(_row(item, languages) for item in table.tables("rows"))
    relevant = data.get("relevant")
    if relevant is not None and not isinstance(relevant, str):
        raise StudyError(f'{where}.relevant must be a text such as "smoker = yes"')
    missing = data.get("missing")
    if isinstance(missing, int) and not isinstance(missing, bool):
        missing = float(missing)
    if missing is not None and not isinstance(missing, (bool, float, str)):
        raise StudyError(f"{where}.missing must be a value of the attribute")
    attribute, kind = attributes.get(data["name"]), KINDS.get(settings["kind"])
    if attribute is not None and kind is not None and attribute.kind in ("continuous", "integer"):
        for name, bound in zip(("minimum", "maximum"), attribute.bounds, strict=True):
            if settings[name] is None and name in kind.settings:
                settings[name] = float(bound)
    return Question(
        **settings,
        required=table.flag("required", default=True),
        relevant=None if relevant is None else Condition.parse(relevant, f"{where}.relevant"),
        count=data.get("count"),
        missing=missing,
        missing_indicator=table.text("missing_indicator", ""),
    )


def _eligibility(table: Table, languages: tuple[str, ...]) -> Eligibility:
    table = table.named()
    where, data = table.path, table.data
    refuse_unknown(data, ELIGIBILITY_KEYS, where)
    kind, eligible = table.text("kind"), data.get("eligible", True)
    if kind not in ("yes_no", "number", "integer"):
        raise StudyError(f"{where}.kind must be yes_no, number or integer")
    settings: dict[str, Any] = {name: _texts(table, name, languages) for name in ("label", "help", "unit")}
    if settings["label"] is None:
        raise StudyError(f"{where}.label is missing: the question as it is asked")
    settings |= {name: _number(table, name) for name in ("minimum", "maximum")}
    if kind == "yes_no" and not isinstance(eligible, bool):
        raise StudyError(f"{where}.eligible must be true (who answers yes takes part) or false")
    if kind != "yes_no" and ("eligible" in data or settings["minimum"] is settings["maximum"] is None):
        raise StudyError(f"{where}: give minimum, maximum or both; who answers within them takes part")
    return Eligibility(Question(data["name"], kind, **settings), eligible)


def _choice(table: Table, languages: tuple[str, ...]) -> Choice:
    refuse_unknown(table.data, _CHOICE, table.path)
    value = table.text("value")
    own = Table(table.data, table.at(value))
    return Choice(
        value,
        Texts.read(own.data.get("label"), languages, own.at("label")),
        own.flag("exclusive", default=False),
    )


def _row(table: Table, languages: tuple[str, ...]) -> GridRow:
    table = table.named()
    refuse_unknown(table.data, _ROW, table.path)
    label = Texts.read(table.data.get("label"), languages, table.at("label"))
    return GridRow(table.text("name"), label, table.text("missing_indicator", ""))


def check_schema(form: Form, schema: Schema) -> None:
    """Raise `StudyError` unless every attribute is filled by one question, within its bounds, and nothing else is."""
    attributes = {attribute.name: attribute for attribute in schema.attributes}
    filled: dict[str, str] = {}
    for question in form.parts:
        where = f"form.questions.{question.name}"
        if question.origin == CREATION:
            raise StudyError(
                f"{where}.origin: {CREATION!r} must be replaced by a date when the study is made"
            )
        indicator = (question.missing_indicator,) if question.missing_indicator else ()
        for name in (*question.attributes, *indicator):
            if name not in attributes:
                raise StudyError(f"{where} fills {name}, which is not an attribute of this study")
            if name in filled:
                raise StudyError(f"{where} fills {name}, as does the question {filled[name]}; one is enough")
            filled[name] = question.name
        for name in question.attributes:
            question.rules.check_attribute(question, attributes[name], where)
        if indicator and attributes[indicator[0]].kind != "binary":
            raise StudyError(f"{where}.missing_indicator: {indicator[0]} must be a binary attribute")
    for name in attributes:
        if name not in filled:
            raise StudyError(f"attribute {name} is filled by no question of the form; add one of that name")
