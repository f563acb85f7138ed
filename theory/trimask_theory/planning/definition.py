"""A study as its owner defines it, before it has parties, noise and an id: the sections of the TOML file as values.

What an owner expects of the answers, from public knowledge, is a definition's [expected], by which people are drawn. It
is for planning alone: it is no part of the study, and nothing of the study's own data may enter. Numbers are normal with
the mean and deviation given, cut at their bounds; choices have the shares given; correlations are those of the normal
variables behind. What is left out is taken as uncorrelated, with its mean in the middle (or at `centre`) and a deviation
of a quarter of the range (or half of `scale`), and equal shares.

The parts of a study that do not depend on its suite.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from trimask_core.basics.errors import StudyError
from trimask_core.basics.typed_table import Table, refuse_unknown
from trimask_core.crypto.keys import SEALINGS, Sealing
from trimask_core.form.form import Form
from trimask_core.study.definition import Study, SuiteName, SuiteSettings
from trimask_core.study.guarantee import Budget, Protection
from trimask_core.study.party import Party, Web
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.weight import Weight


def names_of(kind: type) -> tuple[str, ...]:
    """The settings of a dataclass."""
    return tuple(item.name for item in fields(kind))


COLUMN_KEYS = ("name", "mean", "deviation", "share", "shares")
CORRELATION_KEYS = ("of", "value")


@dataclass(frozen=True)
class ExpectedColumn:
    """One attribute: `mean` and `deviation` of a number, `share` of yes, or `shares` of levels in their order."""

    name: str
    mean: float | None = None
    deviation: float | None = None
    share: float | None = None
    shares: tuple[float, ...] = ()


@dataclass(frozen=True)
class Expected:
    """The whole section; `correlations` are (one, other, value)."""

    columns: tuple[ExpectedColumn, ...] = ()
    correlations: tuple[tuple[str, str, float], ...] = ()


def read_expected(table: Table, schema: Schema) -> Expected:
    """The section, checked against the attributes."""
    table.refuse_unknown(("columns", "correlations"))
    known = {attribute.name: attribute for attribute in schema.attributes}
    columns = tuple(_column(item, known) for item in table.tables("columns"))
    pairs = []
    for one in table.tables("correlations"):
        one.refuse_unknown(CORRELATION_KEYS)
        of, value = one.words("of"), one.required("value")
        if len(of) != 2 or not set(of) <= set(known) or not -1 < value < 1:
            raise StudyError(
                "expected.correlations: `of` names two attributes, and `value` is between -1 and 1"
            )
        pairs.append((of[0], of[1], value))
    found = Expected(columns, tuple(pairs))
    _factor(schema, found)
    return found


def _column(table: Table, known: dict[str, Attribute]) -> ExpectedColumn:
    table = table.named()
    table.refuse_unknown(COLUMN_KEYS)
    name = table.text("name")
    if name not in known:
        raise StudyError(f"{table.path}: the study has no attribute {name}")
    attribute = known[name]
    mean, deviation, share = table.number("mean"), table.number("deviation"), table.number("share")
    shares = tuple(float(value) for value in table.data.get("shares", ()))
    wanted = {"binary": "share", "categorical": "shares"}.get(attribute.kind, "mean and deviation")
    given = {"mean": mean, "deviation": deviation, "share": share, "shares": shares or None}
    foreign = [key for key, value in given.items() if value is not None and key not in wanted.split(" and ")]
    if foreign:
        raise StudyError(f"{table.path}.{foreign[0]}: {name} is {attribute.kind}; give {wanted}")
    low, high = attribute.bounds
    if mean is not None and not low <= mean <= high:
        raise StudyError(f"{table.path}.mean must be between {low:g} and {high:g}")
    if deviation is not None and deviation <= 0:
        raise StudyError(f"{table.path}.deviation must be above 0")
    if share is not None and not 0 < share < 1:
        raise StudyError(f"{table.path}.share must be between 0 and 1")
    if shares and (len(shares) != len(attribute.levels) or min(shares) < 0 or abs(sum(shares) - 1) > 0.01):
        raise StudyError(
            f"{table.path}.shares: one for each of {', '.join(attribute.levels)}, adding up to 1"
        )
    return ExpectedColumn(name, mean, deviation, share, shares)


def _factor(schema: Schema, expected: Expected) -> NDArray[np.float64]:
    """Of the correlation matrix; refused where no normal variables have these correlations."""
    names = [attribute.name for attribute in schema.attributes]
    matrix = np.eye(len(names))
    for one, other, value in expected.correlations:
        i, j = names.index(one), names.index(other)
        matrix[i, j] = matrix[j, i] = value
    try:
        found = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise StudyError("expected.correlations: no columns can have all of these together") from None
    return np.asarray(found, dtype=np.float64)


def draw_people(schema: Schema, expected: Expected, count: int, seed: int = 1) -> list[dict[str, object]]:
    """Answers of made-up people; the same for the same arguments."""
    normal = np.random.default_rng(seed).standard_normal((count, len(schema.attributes)))
    drawn = normal @ _factor(schema, expected).T
    said = {column.name: column for column in expected.columns}
    answers: dict[str, list[object]] = {
        attribute.name: _answers(attribute, said.get(attribute.name, ExpectedColumn(attribute.name)), column)
        for attribute, column in zip(schema.attributes, drawn.T, strict=True)
    }
    return [{name: column[i] for name, column in answers.items()} for i in range(count)]


def _answers(attribute: Attribute, said: ExpectedColumn, normal: NDArray[np.float64]) -> list[object]:
    if attribute.kind == "binary":
        share = 0.5 if said.share is None else said.share
        return [bool(value) for value in special.ndtr(normal) > 1 - share]
    if attribute.kind == "categorical":
        shares = said.shares or (1 / len(attribute.levels),) * len(attribute.levels)
        places = np.searchsorted(np.cumsum(shares)[:-1], special.ndtr(normal))
        return [attribute.levels[place] for place in places]
    low, high = attribute.bounds
    middle = (low + high) / 2 if attribute.centre is None else attribute.centre
    spread = (high - low) / 4 if attribute.scale is None else attribute.scale / 2
    mean = middle if said.mean is None else said.mean
    values = np.clip(mean + (spread if said.deviation is None else said.deviation) * normal, low, high)
    if attribute.kind == "integer":
        values = np.clip(np.rint(values), np.ceil(low), np.floor(high))
    return [float(value) for value in values]


Method = Literal["sharp", "bound", "theorem"]
Protect = Literal["record", "unit"]


@dataclass(frozen=True)
class PrivacyTarget:
    """[privacy]: the guarantee towards whoever reads a release. `exact` publishes without noise, masked only.

    A `row_norm` below the schema's largest has devices clip longer rows to it: less noise for some bias (in the moments
    suite they also prove that they did). With a `budget` ([privacy.budget]) a study publishes nothing by itself and gives
    private answers until it is spent (moments suite). `honest_providers` (h, of the moments suite, 1 when left out): any h
    right providers who add their noise give the guarantee. `certified` (rows suite, `sharp`) has delta enclosed in ball
    arithmetic, and the study states the interval.
    """

    epsilon: float | None = None
    delta: float | None = None
    protect: Protect = "record"
    method: Method = "sharp"
    exact: bool = False
    row_norm: float | None = None
    budget: Budget | None = None
    honest_providers: int | None = None
    certified: bool = False


@dataclass(frozen=True)
class CollectionPlan:
    """[collection]: the suite, people published together (N), who submits and who reads.

    In the rows suite also rows masked together (n, `block_rows`) and how they are hidden.
    """

    release_rows: int
    suite: SuiteName = "rows"
    several_releases: bool = False
    block_rows: int | None = None
    noise_columns: int | None = None
    share_leakage: float = 2.0**-20
    obfuscation_failure: float = 1e-9
    unmasking: tuple[str, ...] | None = None
    admission: str = "open"
    admission_signer: str = ""
    reminders: bool = False
    access: str = "public"
    sealing: Sealing = SEALINGS[0]


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
    web: Web | None = None
    expected: Expected | None = None
    weight: Weight | None = None

    def changed(self, **changes: Any) -> StudyDefinition:
        """With settings of [privacy] and [collection] replaced, by name; None leaves a setting as it is."""
        given = {name: value for name, value in changes.items() if value is not None}
        privacy = {name: given.pop(name) for name in names_of(PrivacyTarget) if name in given}
        collection = {name: given.pop(name) for name in names_of(CollectionPlan) if name in given}
        refuse_unknown(given, [*names_of(PrivacyTarget), *names_of(CollectionPlan)], "the changes")
        return replace(
            self,
            privacy=replace(self.privacy, **privacy),
            collection=replace(self.collection, **collection),
        )


@dataclass(frozen=True)
class Draft:
    """A definition with its parties and its day."""

    definition: StudyDefinition
    collector: Party
    right: tuple[Party, ...]
    left: tuple[Party, ...]
    tls_roots: str
    now_ms: int
    owner_key: bytes = b""

    def study(
        self,
        suite: SuiteSettings,
        protection: Protection,
        weight: Weight | None = None,
    ) -> Study:
        """The study with these settings of its suite; `weight` is the definition's unless given."""
        definition, plan = self.definition, self.definition.collection
        signer = plan.admission_signer or ("owner" if plan.admission == "invited" else "")
        if not self.owner_key:
            raise StudyError(
                "a study names the key with which its owner orders it closed, and none was given: --owner DIR"
            )
        return Study(
            title=definition.title,
            purpose=definition.purpose,
            contact=definition.contact,
            created_ms=self.now_ms,
            schema=definition.schema,
            protection=protection,
            suite=suite,
            release_rows=plan.release_rows,
            collector=self.collector,
            right=self.right,
            left=self.left,
            tls_roots=self.tls_roots,
            admission=plan.admission,
            admission_signer=signer,
            owner_key=self.owner_key.hex(),
            reminders=plan.reminders,
            access=plan.access,
            sealing=plan.sealing,
            licence=definition.licence,
            web=definition.web,
            form=None if definition.form is None else definition.form.created(self.now_ms),
            weight=definition.weight if weight is None else weight,
        )
