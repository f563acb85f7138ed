"""What the owner of a study writes: a TOML file, read strictly.

Nothing is guessed. An unknown key is refused with the nearest known name, because a misspelt setting that is
quietly ignored is a privacy failure; so is one of the other suite, and a value of the wrong type, by
its key. Numbers that are well formed but cannot make a study are refused later, by `study_plan.create_study` and by the
study itself.

Some settings belong to one suite alone. A setting that does nothing in a suite is refused there, with the reason: whoever
wrote it believes that it does something.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from trimask_core.basics.errors import ImpossibleStudy, ParameterError, StudyError
from trimask_core.basics.typed_table import Table, refuse_unknown
from trimask_core.crypto.keys import SEALINGS
from trimask_core.form.file import check_schema, read_form
from trimask_core.form.form import Form
from trimask_core.study.definition import SuiteName
from trimask_core.study.derived import Derived
from trimask_core.study.guarantee import Budget
from trimask_core.study.party import Web
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.weight import Weight
from trimask_theory.planning.definition import (
    CollectionPlan,
    Method,
    PrivacyTarget,
    Protect,
    StudyDefinition,
    names_of,
    read_expected,
)

_NO_MASKS = "no row is masked there, so there is nothing to set"
FOREIGN: dict[SuiteName, dict[str, str]] = {
    "rows": {
        "privacy.budget": "private answers would need somebody who holds the exact sums over everybody",
        "privacy.honest_providers": "there every row brings its own noise, and no provider adds any",
        "collection.several_releases": "there a row brings its own noise, and a release is made whenever it has its rows",
        "attributes.step": "its rows are real numbers and have no steps",
        "attributes.centre": "its rows are scaled by minimum and maximum",
        "attributes.scale": "its rows are scaled by minimum and maximum",
    },
    "moments": {
        "collection.block_rows": "reports are added up in shares as they come, so there are no blocks",
        "collection.noise_columns": _NO_MASKS,
        "collection.obfuscation_failure": _NO_MASKS,
        "collection.unmasking": _NO_MASKS,
        "collection.share_leakage": "its shares are uniform, so any K1 - 1 of them tell nothing at all",
        "privacy.certified": "its noise has a closed formula, and no integral to enclose",
        "privacy.method": "its noise is a Gaussian on totals, calibrated in the one way there is",
    },
}


def check_suite(word: str) -> SuiteName:
    """The suite of this name; refused if there is none."""
    for suite in FOREIGN:
        if word == suite:
            return suite
    raise ParameterError("collection.suite", "one of " + ", ".join(map(repr, FOREIGN)), word)


def refuse_foreign_keys(suite: SuiteName, section: str, keys: Iterable[str], shown: str = "") -> None:
    """Refuse keys of a TOML section that are of the other suite; `shown` is the section's name in the refusal."""
    for key in keys:
        reason = FOREIGN[suite].get(f"{section}.{key}")
        if reason is not None:
            other = "moments" if suite == "rows" else "rows"
            raise StudyError(
                f"{shown or section}.{key} is for the {other} suite; this study's is {suite}: {reason}. Take {key} out, or "
                f'set [collection] suite = "{other}"'
            )


def check_definition(definition: StudyDefinition) -> None:
    """Refuse settings that are of the other suite, and privacy targets that the suite cannot read."""
    suite = definition.collection.suite
    for section, settings in (("privacy", definition.privacy), ("collection", definition.collection)):
        refuse_foreign_keys(suite, section, (f.name for f in fields(settings) if _is_set(settings, f)))
    for attribute in definition.schema.attributes:
        given = [name for name in ("step", "centre", "scale") if getattr(attribute, name) is not None]
        refuse_foreign_keys(suite, "attributes", given, f"attributes.{attribute.name}")
    _CHECKS[suite](definition)
    if definition.weight is not None:
        _check_weight(definition)


def _is_set(settings: Any, field: Field[Any]) -> bool:
    """Whether a setting is other than when it is left out."""
    return field.default is not MISSING and getattr(settings, field.name) != field.default


def _check_rows(definition: StudyDefinition) -> None:
    privacy, plan = definition.privacy, definition.collection
    if plan.block_rows is None:
        raise StudyError("[collection] needs block_rows and release_rows")
    if not privacy.exact and not _has_pair(privacy):
        raise StudyError("[privacy] needs epsilon and delta, or exact = true for a release without noise")
    if privacy.certified and (privacy.exact or privacy.method != "sharp"):
        raise StudyError(
            'privacy.certified = true is for noise with method = "sharp", which has an integral to enclose: leave it '
            "out, or use that"
        )


def _check_moments(definition: StudyDefinition) -> None:
    privacy = definition.privacy
    if privacy.protect == "unit":
        raise StudyError(
            'privacy.protect = "unit" is for the rows suite: a row that moves by 1 moves its products by up to twice its '
            'norm, and the noise of this suite covers a person\'s whole record. Take protect out, or set it to "record"'
        )
    if not definition.schema.ones:
        raise StudyError(
            "ones = false is for the rows suite: the number of people and all sums are released here. Take ones out"
        )
    if privacy.budget is not None:
        if privacy.exact:
            raise StudyError(
                "take privacy.exact out: in the moments suite a study with a [privacy.budget] keeps its totals in shares, "
                "and no party holds the exact ones"
            )
        if privacy.epsilon is not None or privacy.delta is not None:
            raise StudyError(
                "take privacy.epsilon and delta out: a study with a [privacy.budget] publishes nothing by itself, and each "
                "answer names its own price"
            )
    elif not privacy.exact and not _has_pair(privacy):
        raise StudyError(
            "[privacy] needs epsilon and delta, or a [privacy.budget], or exact = true (no noise at all, for checks)"
        )


def _check_weight(definition: StudyDefinition) -> None:
    instead = "Take [weight] out, declare the products of a choice with the columns, and weight afterwards: fit.weighted"
    if definition.privacy.budget is not None:
        raise StudyError(
            f"[weight] and [privacy.budget]: private answers are made for rows that all count the same. {instead}"
        )
    if definition.privacy.protect == "unit":
        raise StudyError(
            '[weight] and privacy.protect = "unit": an answer that changes the weight moves the whole row, and not by 1. '
            f'Set protect = "record". Or: {instead}'
        )


def _has_pair(privacy: PrivacyTarget) -> bool:
    return privacy.epsilon is not None and privacy.delta is not None


_CHECKS: dict[SuiteName, Callable[[StudyDefinition], None]] = {"rows": _check_rows, "moments": _check_moments}


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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        name = "the study definition" if isinstance(source, str) else str(source)
        signed = isinstance(source, Path) and source.suffix == ".json"
        hint = (
            "; a definition is a .toml file, from which `trimask study new` makes the .json" if signed else ""
        )
        raise StudyError(f"{name} is not TOML: {error}{hint}") from None
    refuse_unknown(data, TOP_KEYS, "the study definition")
    top = Table(data, "")
    collection = _collection(top.table("collection"))
    attributes = tuple(map(_attribute, top.tables("attributes")))
    derived = tuple(map(_derived, top.tables("derived")))
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
    check_definition(definition)
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
    raise ParameterError(f"{table.path}.{name}", "one of " + ", ".join(map(repr, allowed)), given)


def _privacy(table: Table, suite: SuiteName) -> PrivacyTarget:
    table.refuse_unknown(names_of(PrivacyTarget))
    refuse_foreign_keys(suite, "privacy", table.data)
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
    suite = check_suite(table.text("suite", "rows"))
    refuse_foreign_keys(suite, "collection", table.data)
    release_rows = table.whole("release_rows")
    if release_rows is None:
        raise StudyError(f"[collection] needs {'block_rows and ' if suite == 'rows' else ''}release_rows")
    plan = CollectionPlan(
        release_rows=release_rows,
        suite=suite,
        several_releases=table.flag("several_releases", default=False),
        block_rows=table.whole("block_rows"),
        noise_columns=table.whole("noise_columns"),
        unmasking=table.words("unmasking") if "unmasking" in table.data else None,
        admission=table.text("admission", "open"),
        admission_signer=table.text("admission_signer", ""),
        reminders=table.flag("reminders", default=False),
        access=table.text("access", "public"),
        sealing=_word(table, "sealing", SEALINGS),
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
