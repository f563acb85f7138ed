"""What the owner of a study writes: a TOML file, read strictly.

Nothing is guessed. An unknown key is refused with the nearest known name, because a misspelt setting that is
quietly ignored is a privacy failure; so is one of the other suite (`suite_settings`), and a value of the wrong type, by
its key. Numbers that are well formed but cannot make a study are refused later, by `study_plan.create_study` and by the
study itself.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, get_args

from trimask_core.errors import ImpossibleStudy, ParameterError, StudyError
from trimask_core.form import Form
from trimask_core.form_file import read_form
from trimask_core.form_schema import check_schema
from trimask_core.schema import Attribute, Derived, Schema
from trimask_core.study import Budget, SuiteName
from trimask_core.web import Web
from trimask_core.weight import Weight
from trimask_theory import suite_settings
from trimask_theory._strict_toml import Table, names_of, refuse_unknown
from trimask_theory.definition import (
    CollectionPlan,
    Method,
    PrivacyTarget,
    Protect,
    StudyDefinition,
)
from trimask_theory.expected import read_expected

__all__ = [
    "TOP_KEYS",
    "WEIGHT_KEYS",
    "CollectionPlan",
    "Method",
    "PrivacyTarget",
    "Protect",
    "StudyDefinition",
    "load_definition",
]

TOP_KEYS = (
    "title",
    "purpose",
    "contact",
    "ones",
    "privacy",
    "collection",
    "attributes",
    "derived",
    "weight",
    "form",
    "licence",
    "web",
    "expected",
)
WEIGHT_KEYS = ("attribute", "weights")
_Word = TypeVar("_Word", bound=str)
_BOUNDED = ("continuous", "integer")
_METHODS: tuple[Method, ...] = get_args(Method)
_PROTECTS: tuple[Protect, ...] = get_args(Protect)


def load_definition(source: Path | str) -> StudyDefinition:
    """Read a definition from a file (a `Path`) or from TOML text (a `str`)."""
    try:
        text = source if isinstance(source, str) else source.read_text(encoding="utf-8-sig")
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        name = "the study definition" if isinstance(source, str) else str(source)
        signed = isinstance(source, Path) and source.suffix == ".json"
        hint = (
            "; a definition is a .toml file, from which `trimask study new` makes the .json" if signed else ""
        )
        raise StudyError(f"{name} is not TOML: {error}{hint}") from None
    refuse_unknown(data, TOP_KEYS, "the study definition")
    top = Table(data, "")
    collection = _collection(top.table("collection"))
    attributes = tuple(_attribute(Table(item, "attributes")) for item in top.tables("attributes"))
    derived = tuple(_derived(Table(item, "derived")) for item in top.tables("derived"))
    schema = Schema(attributes, derived, ones=top.flag("ones", default=True))
    definition = StudyDefinition(
        title=top.text("title"),
        purpose=top.text("purpose"),
        contact=top.text("contact"),
        schema=schema,
        privacy=_privacy(top.table("privacy"), collection.suite),
        collection=collection,
        form=_form(data["form"], schema) if "form" in data else None,
        licence=top.text("licence", ""),
        web=_web(top.table("web")) if "web" in data else None,
        expected=read_expected(top.table("expected"), schema) if "expected" in data else None,
        weight=_weight(top.table("weight"), schema) if "weight" in data else None,
    )
    suite_settings.check_definition(definition)
    return definition


def _form(data: object, schema: Schema) -> Form:
    form = read_form(data, schema)
    # The study checks this again, with the day of its creation where this has any day.
    check_schema(form.created(0), schema)
    return form


def _web(table: Table) -> Web:
    table.refuse_unknown(names_of(Web))
    return Web(table.words("hosts"), table.text("page_sha256"))


def _weight(table: Table, schema: Schema) -> Weight:
    table.refuse_unknown(WEIGHT_KEYS)
    name = table.text("attribute")
    weight = Weight(name)
    if "weights" in table.data:
        given = table.table("weights")
        levels = Weight(name, (1.0,)).levels(schema)
        given.refuse_unknown(levels)
        weight = Weight(name, tuple(given.required(level) for level in levels))
    elif name in schema.groups:
        raise StudyError(
            f"weight: {name} is a choice: give [weight.weights], a number for each of its levels"
        )
    weight.check(schema)
    return weight


def _word(table: Table, name: str, allowed: tuple[_Word, ...]) -> _Word:
    """The one of the allowed words that is given; the first when none is."""
    given = table.text(name, allowed[0])
    for word in allowed:
        if word == given:
            return word
    raise ParameterError(f"privacy.{name}", "one of " + ", ".join(map(repr, allowed)), given)


def _privacy(table: Table, suite: SuiteName) -> PrivacyTarget:
    table.refuse_unknown(names_of(PrivacyTarget))
    suite_settings.refuse_foreign_keys(suite, "privacy", table.data)
    exact = table.flag("exact", default=False)
    epsilon, delta = table.number("epsilon"), table.number("delta")
    if exact and (epsilon is not None or delta is not None):
        raise StudyError("privacy.exact = true publishes without noise: take epsilon and delta out, or exact")
    return PrivacyTarget(
        epsilon=epsilon,
        delta=delta,
        protect=_word(table, "protect", _PROTECTS),
        method=_word(table, "method", _METHODS),
        exact=exact,
        row_norm=table.number("row_norm"),
        budget=_budget(table),
        honest_providers=table.whole("honest_providers"),
        certified=table.flag("certified", default=False),
    )


def _budget(privacy: Table) -> Budget | None:
    if "budget" not in privacy.data:
        return None
    table = privacy.table("budget")
    table.refuse_unknown(names_of(Budget))
    return Budget(table.number("epsilon"), table.number("delta"), table.number("mu"))


def _collection(table: Table) -> CollectionPlan:
    table.refuse_unknown(names_of(CollectionPlan))
    suite = suite_settings.check_suite(table.text("suite", "rows"))
    suite_settings.refuse_foreign_keys(suite, "collection", table.data)
    release_rows = table.whole("release_rows")
    if release_rows is None:
        raise StudyError(f"[collection] needs {'block_rows and ' if suite == 'rows' else ''}release_rows")
    plan = CollectionPlan(
        release_rows=release_rows,
        suite=suite,
        block_rows=table.whole("block_rows"),
        noise_columns=table.whole("noise_columns"),
        unmasking=table.words("unmasking") if "unmasking" in table.data else None,
        admission=table.text("admission", "open"),
        admission_signer=table.text("admission_signer", ""),
        reminders=table.flag("reminders", default=False),
        access=table.text("access", "public"),
    )
    leakage, failure = table.number("share_leakage"), table.number("obfuscation_failure")
    if leakage is not None:
        plan = replace(plan, share_leakage=leakage)
    return plan if failure is None else replace(plan, obfuscation_failure=failure)


def _attribute(table: Table) -> Attribute:
    table = table.named()
    table.refuse_unknown(names_of(Attribute))
    kind = table.text("kind")
    for key, meant_for in (("minimum", _BOUNDED), ("maximum", _BOUNDED), ("levels", ("categorical",))):
        if (
            key in table.data
            and kind in ("continuous", "integer", "binary", "categorical")
            and kind not in meant_for
        ):
            raise ImpossibleStudy(
                "bounds_unused", f"{table.path}: a {kind} attribute has no {key}; take it out"
            )
    return Attribute(
        name=table.text("name"),
        kind=kind,  # type: ignore[arg-type]  # Attribute refuses any other word
        minimum=table.number("minimum"),
        maximum=table.number("maximum"),
        levels=table.words("levels"),
        label=table.text("label", ""),
        unit=table.text("unit", ""),
        step=table.number("step"),
        centre=table.number("centre"),
        scale=table.number("scale"),
    )


def _derived(table: Table) -> Derived:
    table = table.named()
    table.refuse_unknown(names_of(Derived))
    return Derived(
        table.text("name"),
        table.text("kind"),  # type: ignore[arg-type]  # Derived refuses any other word
        table.words("of"),
        table.numbers("cuts"),
        table.words("levels"),
    )
