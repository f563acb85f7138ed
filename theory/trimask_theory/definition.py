"""A study as its owner defines it, before it has parties, noise and an id: the sections of the TOML file as values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from trimask_core.form import Form
from trimask_core.schema import Schema
from trimask_core.study import Budget, SuiteName
from trimask_core.web import Web
from trimask_core.weight import Weight
from trimask_theory._strict_toml import names_of, refuse_unknown
from trimask_theory.expected import Expected

__all__ = ["CollectionPlan", "Method", "PrivacyTarget", "Protect", "StudyDefinition"]

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
    block_rows: int | None = None
    noise_columns: int | None = None
    share_leakage: float = 2.0**-20
    obfuscation_failure: float = 1e-9
    unmasking: tuple[str, ...] | None = None
    admission: str = "open"
    admission_signer: str = ""
    reminders: bool = False
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
