"""Which row_norm, centres and scales leave the least error, noise and the bias of clipping together.

Noise goes with row_norm^2 in the moments suite and with row_norm in the rows suite, and people's rows are far shorter
than the longest the bounds allow, so clipping the few long ones buys more than anything else
(docs/theory/verified-moments.md#ball-accuracy). Centres and scales of the moments suite are those of
`trimask_theory.moments.ball.recommend_ball`; then row_norm is chosen along the lengths of the people's rows by what the
whole machinery predicts (`predict`), the error relative to that of raw rows. The rows suite scales by the bounds, so it
has row_norm alone. Nothing of the study's own answers may enter: these settings are public. A definition is converted to
either suite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trimask_cli.own_plan.predict import Population, Prediction, predict
from trimask_core.basics.errors import ImpossibleStudy, ParameterError
from trimask_core.moments.layout import MomentsLayout
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.settings import SuiteName
from trimask_theory.moments.ball import recommend_ball
from trimask_theory.planning.definition import CollectionPlan, StudyDefinition


def in_suite(definition: StudyDefinition, suite: SuiteName) -> StudyDefinition:
    """The definition in a suite; settings that the suite does not have are left out.

    A `row_norm` is left out too: it is measured from another centre there.
    """
    if definition.collection.suite == suite:
        return definition
    plan, privacy = definition.collection, definition.privacy
    common = CollectionPlan(plan.release_rows, suite, admission=plan.admission, access=plan.access)
    bare = replace(privacy, row_norm=None, method="sharp", honest_providers=None)
    if suite == "moments":
        return replace(definition, collection=common, privacy=replace(bare, protect="record"))
    columns = len(definition.schema.columns)
    block = min(plan.release_rows, max(128, 2 ** math.ceil(math.log2(2 * columns))))
    schema = replace(
        definition.schema, attributes=tuple(_without_grid(item) for item in definition.schema.attributes)
    )
    return replace(definition, collection=replace(common, block_rows=block), privacy=bare, schema=schema)


def _without_grid(attribute: Attribute) -> Attribute:
    return replace(attribute, step=None, centre=None, scale=None)


def with_attributes(definition: StudyDefinition, changed: dict[str, Attribute]) -> StudyDefinition:
    """With attributes replaced, by name."""
    old = definition.schema
    attributes = tuple(changed.get(item.name, item) for item in old.attributes)
    return replace(definition, schema=Schema(attributes, old.derived, old.ones))


_SHARES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35)  # more would bias other questions too much


@dataclass(frozen=True)
class Recommendation:
    """The definition to take, what it is predicted to do, and the curve it was chosen on, all of the same people."""

    definition: StudyDefinition
    best: Prediction
    unclipped: Prediction
    curve: tuple[Prediction, ...]

    @property
    def settings(self) -> dict[str, dict[str, float]]:
        """What to write: {"privacy": {...}, NAME: {"centre": ..., "scale": ...}}; nothing where no clipping is best."""
        row_norm = self.definition.privacy.row_norm
        found: dict[str, dict[str, float]] = {} if row_norm is None else {"privacy": {"row_norm": row_norm}}
        for item in self.definition.schema.attributes if row_norm is not None else ():
            grid = {"centre": item.centre, "scale": item.scale}
            given = {key: value for key, value in grid.items() if value is not None}
            if given:
                found[item.name] = given
        return found

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "settings": self.settings,
            "best": self.best.to_dict(),
            "unclipped": self.unclipped.to_dict(),
            "curve": [point.to_dict() for point in self.curve],
        }


def recommend(definition: StudyDefinition, population: Population, formula: str, rows: int | None = None,
              right: int | None = None, left: int | None = None) -> Recommendation:  # fmt: skip
    """The best of a curve of row norms, for these people and this model."""
    bare = replace(definition, privacy=replace(definition.privacy, row_norm=None))
    unclipped = predict(bare, population, formula, rows, right, left)
    if definition.collection.suite == "moments":
        scaled = _centred(bare, population, rows or definition.collection.release_rows, right or 3)
    else:
        scaled = bare
    tried: list[tuple[Prediction, StudyDefinition]] = []
    for norm in _norms(scaled, population):
        candidate = replace(scaled, privacy=replace(scaled.privacy, row_norm=norm))
        try:
            tried.append((predict(candidate, population, formula, rows, right, left), candidate))
        except (ImpossibleStudy, ParameterError):
            continue  # no ball below the box holds these rows, or none is below it
    best, taken = min([(unclipped, bare), *tried], key=lambda item: item[0].inflation)
    return Recommendation(taken, best, unclipped, tuple(point for point, _ in tried))


def _norms(definition: StudyDefinition, population: Population) -> Iterator[float]:
    """Row norms that clip given shares of the people, in the suite's own columns."""
    schema = definition.schema
    if definition.collection.suite == "moments":
        rows, _ = population.reports(MomentsLayout.of(schema))
        room = 1.02  # for the column that says whether a row was clipped, and the rounding of the check
    else:
        rows, room = population.scaled(schema), 1.0
    norms = np.linalg.norm(rows, axis=1)
    for share in _SHARES:
        wider = 1.05 if share == 0 else 1.0  # the pilot's longest row is not the population's
        yield float(f"{float(np.quantile(norms, 1 - share)) * room * wider:.4g}")


def _centred(
    definition: StudyDefinition, population: Population, rows: int, providers: int
) -> StudyDefinition:
    """Centres and scales of numeric attributes by `recommend_ball`; levels and derived columns stay as they are."""
    privacy = definition.privacy
    if privacy.epsilon is None or privacy.delta is None:
        return definition
    schema = definition.schema
    numeric = {item.name: item for item in schema.attributes if item.kind in ("continuous", "integer")}
    columns = [(j, column) for j, column in enumerate(schema.columns) if column.name != "one"]
    scaled = population.scaled(schema)
    kept = [
        (j, column)
        for j, column in columns
        if scaled[:, j].std() > 0 and not _reference(schema.attributes, column.name)
    ]
    fixed = [column.name not in numeric for _, column in kept]
    try:
        ball = recommend_ball(
            scaled[:, [j for j, _ in kept]], privacy.epsilon, privacy.delta, rows, providers,
            privacy.honest_providers or 1, fixed=fixed, mark=0.25,
        )  # fmt: skip
    except ParameterError:
        return definition
    changed = {}
    for (_, column), centre, scale in zip(kept, ball.centre, ball.scale, strict=True):
        if column.name in numeric and math.isfinite(ball.error):
            item = numeric[column.name]
            low, high = item.bounds
            middle = min(max(_rounded(column.center + column.half_range * float(centre)), low), high)
            changed[item.name] = replace(
                item, centre=middle, scale=_rounded(column.half_range * float(scale))
            )
    return with_attributes(definition, changed)


def _reference(attributes: tuple[Attribute, ...], name: str) -> bool:
    """Whether a column is the first level of a choice, which the moments suite leaves out."""
    return any(item.levels and name == f"{item.name}_{item.levels[0]}" for item in attributes)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
