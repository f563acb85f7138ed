"""What the owner of a study writes: a TOML file, read strictly.

Nothing is guessed. An unknown key is refused with the nearest known name, because a misspelt setting that is
quietly ignored is a privacy failure; a value of the wrong type is refused by its key. Numbers that are well
formed but cannot make a study are refused later, by `study_plan.create_study` and by the study itself.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from trimask_core.errors import ImpossibleStudy, ParameterError, StudyError
from trimask_core.form import Form
from trimask_core.form_file import check_schema
from trimask_core.schema import Attribute, Derived, Schema
from trimask_core.study import Budget

__all__ = [
    "ClippingPlan",
    "CollectionPlan",
    "Method",
    "PrivacyTarget",
    "Protect",
    "StudyDefinition",
    "load_definition",
]

Method = Literal["sharp", "theorem"]
Protect = Literal["record", "unit"]


@dataclass(frozen=True)
class ClippingPlan:
    """[privacy.clipping]: columns that are about normal, for sums by Algorithm 3; `centre` and `deviations` are public.

    `probability` is the share of people whose values are moved, 1/release_rows when left out.
    """

    columns: tuple[str, ...]
    centre: tuple[float, ...]
    deviations: tuple[float, ...]
    probability: float | None = None


@dataclass(frozen=True)
class PrivacyTarget:
    """[privacy]: the guarantee towards whoever reads a release. `exact` publishes without noise, masked only.

    A `row_norm` below the schema's largest has devices clip longer rows to it: less noise for some bias. With
    a `budget` ([privacy.budget]) an exact study publishes no rows and gives private answers until it is spent.
    """

    epsilon: float | None = None
    delta: float | None = None
    protect: Protect = "record"
    method: Method = "sharp"
    exact: bool = False
    row_norm: float | None = None
    budget: Budget | None = None
    clipping: ClippingPlan | None = None


@dataclass(frozen=True)
class CollectionPlan:
    """[collection]: rows masked together (n) and published together (N), how they are hidden, who submits and who reads."""

    block_rows: int
    release_rows: int
    noise_columns: int | None = None
    share_leakage: float = 2.0**-20
    obfuscation_failure: float = 1e-9
    unmasking: tuple[str, ...] | None = None
    admission: str = "open"
    access: str = "public"


@dataclass(frozen=True)
class StudyDefinition:
    """A study before it has parties, noise and an id."""

    title: str
    purpose: str
    contact: str
    schema: Schema
    privacy: PrivacyTarget
    collection: CollectionPlan
    form: Form | None = None
    licence: str = ""

    def changed(self, **changes: Any) -> StudyDefinition:
        """With settings of [privacy] and [collection] replaced, by name; None leaves a setting as it is."""
        given = {name: value for name, value in changes.items() if value is not None}
        privacy = {name: given.pop(name) for name in _names(PrivacyTarget) if name in given}
        collection = {name: given.pop(name) for name in _names(CollectionPlan) if name in given}
        _refuse_unknown(given, [*_names(PrivacyTarget), *_names(CollectionPlan)], "the changes")
        return replace(
            self,
            privacy=replace(self.privacy, **privacy),
            collection=replace(self.collection, **collection),
        )


_TOP = (
    "title",
    "purpose",
    "contact",
    "ones",
    "privacy",
    "collection",
    "attributes",
    "derived",
    "form",
    "licence",
)
_BOUNDED = ("continuous", "integer")


def load_definition(source: Path | str) -> StudyDefinition:
    """Read a definition from a file (a `Path`) or from TOML text (a `str`)."""
    try:
        text = source if isinstance(source, str) else source.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StudyError(f"the study definition is not TOML: {error}") from None
    _refuse_unknown(data, _TOP, "the study definition")
    top = _Table(data, "")
    attributes = tuple(_attribute(_Table(item, "attributes")) for item in top.tables("attributes"))
    derived = tuple(_derived(_Table(item, "derived")) for item in top.tables("derived"))
    schema = Schema(attributes, derived, ones=top.flag("ones", default=True))
    return StudyDefinition(
        title=top.text("title"),
        purpose=top.text("purpose"),
        contact=top.text("contact"),
        schema=schema,
        privacy=_privacy(top.table("privacy")),
        collection=_collection(top.table("collection")),
        form=_form(data["form"], schema) if "form" in data else None,
        licence=top.text("licence", ""),
    )


def _form(data: object, schema: Schema) -> Form:
    form = Form.from_dict(data, schema)
    # The study checks this again, with the day of its creation where this has any day.
    check_schema(form.created(0), schema)
    return form


def _privacy(table: _Table) -> PrivacyTarget:
    table.refuse_unknown(_names(PrivacyTarget))
    exact = table.flag("exact", default=False)
    epsilon, delta = table.number("epsilon"), table.number("delta")
    if exact and (epsilon is not None or delta is not None):
        raise StudyError("privacy.exact = true publishes without noise: take epsilon and delta out, or exact")
    if not exact and (epsilon is None or delta is None):
        raise StudyError("[privacy] needs epsilon and delta, or exact = true for a release without noise")
    method, protect = table.text("method", "sharp"), table.text("protect", "record")
    for name, word, allowed in (
        ("method", method, get_args(Method)),
        ("protect", protect, get_args(Protect)),
    ):
        if word not in allowed:
            raise ParameterError(f"privacy.{name}", "one of " + ", ".join(map(repr, allowed)), word)
    return PrivacyTarget(
        epsilon=epsilon,
        delta=delta,
        protect="record" if protect == "record" else "unit",
        method="sharp" if method == "sharp" else "theorem",
        exact=exact,
        row_norm=table.number("row_norm"),
        budget=_budget(table, exact=exact),
        clipping=_clipping(table),
    )


def _budget(privacy: _Table, *, exact: bool) -> Budget | None:
    if "budget" not in privacy.data:
        return None
    if not exact:
        raise StudyError("[privacy.budget] is for exact = true: a study with noise publishes its rows")
    table = privacy.table("budget")
    table.refuse_unknown(_names(Budget))
    return Budget(table.number("epsilon"), table.number("delta"), table.number("mu"))


def _clipping(privacy: _Table) -> ClippingPlan | None:
    if "clipping" not in privacy.data:
        return None
    if "budget" not in privacy.data:
        raise StudyError("[privacy.clipping] is for private sums: give a [privacy.budget]")
    table = privacy.table("clipping")
    table.refuse_unknown(("columns", "probability"))
    columns = [_Table(item, f"{table.path}.columns") for item in table.tables("columns")]
    for column in columns:
        column.refuse_unknown(("name", "centre", "deviation"))
    return ClippingPlan(
        columns=tuple(column.text("name") for column in columns),
        centre=tuple(column.required("centre") for column in columns),
        deviations=tuple(column.required("deviation") for column in columns),
        probability=table.number("probability"),
    )


def _collection(table: _Table) -> CollectionPlan:
    table.refuse_unknown(_names(CollectionPlan))
    block_rows, release_rows = table.whole("block_rows"), table.whole("release_rows")
    if block_rows is None or release_rows is None:
        raise StudyError("[collection] needs block_rows and release_rows")
    plan = CollectionPlan(
        block_rows=block_rows,
        release_rows=release_rows,
        noise_columns=table.whole("noise_columns"),
        unmasking=table.words("unmasking") if "unmasking" in table.data else None,
        admission=table.text("admission", "open"),
        access=table.text("access", "public"),
    )
    leakage, failure = table.number("share_leakage"), table.number("obfuscation_failure")
    if leakage is not None:
        plan = replace(plan, share_leakage=leakage)
    return plan if failure is None else replace(plan, obfuscation_failure=failure)


def _attribute(table: _Table) -> Attribute:
    table = table.named()
    table.refuse_unknown(_names(Attribute))
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


def _derived(table: _Table) -> Derived:
    table = table.named()
    table.refuse_unknown(_names(Derived))
    return Derived(table.text("name"), table.text("kind"), table.words("of"))  # type: ignore[arg-type]


def _names(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


def _refuse_unknown(data: Iterable[str], known: Iterable[str], where: str) -> None:
    names = list(known)
    for key in data:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
            raise StudyError(f"{where} has no setting {key!r}; {hint}")


@dataclass(frozen=True)
class _Table:
    """A TOML table whose values are taken out by type, with the key's whole path in every refusal."""

    data: Mapping[str, Any]
    path: str

    def _wrong(self, key: str, wanted: str) -> StudyError:
        return StudyError(f"{self._at(key)} must be {wanted}")

    def _at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def refuse_unknown(self, known: Iterable[str]) -> None:
        _refuse_unknown(self.data, known, f"[{self.path}]")

    def named(self) -> _Table:
        """This entry of an array of tables, under its own name."""
        return _Table(self.data, f"{self.path}.{self.text('name')}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.data.get(key, default)
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise self._wrong(key, "given, as text")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        value = self.data.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def number(self, key: str) -> float | None:
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number")
        return float(value)

    def required(self, key: str) -> float:
        value = self.number(key)
        if value is None:
            raise self._wrong(key, "given, as a number")
        return value

    def whole(self, key: str) -> int | None:
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "a whole number")
        return value

    def words(self, key: str) -> tuple[str, ...]:
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self._wrong(key, "a list of texts")
        return tuple(value)

    def table(self, key: str) -> _Table:
        value = self.data.get(key)
        if not isinstance(value, dict):
            raise StudyError(f"the study definition needs a [{self._at(key)}] section")
        return _Table(value, self._at(key))

    def tables(self, key: str) -> list[Mapping[str, Any]]:
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise StudyError(f"write {key} as [[{key}]] sections")
        return value
