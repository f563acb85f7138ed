"""Which row_norm, centres and scales leave the least error among those whose intervals hold.

Noise goes with row_norm^2 in the moments suite and with row_norm in the rows suite, and people's rows are far shorter
than the longest the bounds allow, so clipping the few long ones buys more than anything else
(docs/theory/verified-moments.md#ball-accuracy). Within the bounds alone the moments suite's scales weigh one column's noise
against another's: they are found column by column, downhill. Row norms are tried with those scales and with the small ones
of `trimask_theory.moments.ball.recommend_ball`, along the lengths of people's rows, by what the whole machinery predicts
(`predict`): the least error relative to that of raw rows, among the norms at which the bias that may be left is at most
ALLOWED of the standard error, of all that the owner wants covered (slopes; means too; second moments too). Where none does
better than the bounds alone, those are recommended. The rows suite scales by the bounds, so it has row_norm alone. Nothing
of the study's own answers may enter: these settings are public. A definition is converted to either suite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trimask.errors import CollinearColumns
from trimask_cli.own_plan.first_order import Ladder, Rung
from trimask_cli.own_plan.predict import COVERS, MANY_COLUMNS, Population, Prediction, predict
from trimask_core.basics.errors import ImpossibleStudy, ParameterError
from trimask_core.moments.layout import MomentsLayout
from trimask_core.study.definition import SuiteName
from trimask_core.study.schema import Attribute, Schema
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


def _unscaled(attribute: Attribute) -> Attribute:
    return replace(attribute, centre=None, scale=None)


def _without_grid(attribute: Attribute) -> Attribute:
    return replace(_unscaled(attribute), step=None)


def with_attributes(definition: StudyDefinition, changed: dict[str, Attribute]) -> StudyDefinition:
    """With attributes replaced, by name."""
    old = definition.schema
    attributes = tuple(changed.get(item.name, item) for item in old.attributes)
    return replace(definition, schema=Schema(attributes, old.derived, old.ones))


_ENOUGH = 2000
"""People by whom centres and scales are found; row norms are chosen by all."""
_REACHES = (2.5, 4.0)
_SHARES = (0.0, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.35)
_TRUSTED = 1.1  # times the error of first order
_FEW = 250  # people by whom the bounds' scales are found
_SCALE_STEPS = (1.6, 1.25)
_SCALE_TURNS = 2  # through all columns, at most, with either step


@dataclass(frozen=True)
class Recommendation:
    """The definition to take, what it is predicted to do, and the curve it was chosen on, all of the same people.

    `best` and `unclipped` are drawn, `curve` and `prices` of first order: the best of the curve for each of `COVERS`, what
    it costs to have more covered.
    """

    definition: StudyDefinition
    best: Prediction
    unclipped: Prediction
    curve: tuple[Prediction, ...]
    prices: Mapping[str, Prediction]
    pilot: bool
    """Whether the bias is corrected by these people's rows."""
    ladder: Ladder
    cover: str

    @property
    def clips(self) -> bool:
        """Whether rows are shrunk: else settings are of scales within the bounds alone, and nothing needs a pilot."""
        return self.definition.privacy.row_norm is not None

    @property
    def settings(self) -> dict[str, dict[str, float]]:
        """What to write: {"privacy": {...}, NAME: {"centre": ..., "scale": ...}}; nothing where the definition is best."""
        row_norm = self.definition.privacy.row_norm
        found: dict[str, dict[str, float]] = {} if row_norm is None else {"privacy": {"row_norm": row_norm}}
        for item in self.definition.schema.attributes:
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
            "prices": {what: point.to_dict() for what, point in self.prices.items()},
            "curve": [point.to_dict() for point in self.curve],
        }


def recommend(definition: StudyDefinition, population: Population, formula: str, rows: int | None = None,
              right: int | None = None, left: int | None = None, cover: str = "slopes") -> Recommendation:  # fmt: skip
    """The best of a ladder of row norms, for these people and this model, with intervals that hold of what is covered."""
    bare = replace(definition, privacy=replace(definition.privacy, row_norm=None))
    n, parties = rows or definition.collection.release_rows, (right, left)
    scaled: list[tuple[StudyDefinition, Iterable[float | None]]] = [(bare, _norms(bare, population))]
    if definition.collection.suite == "moments":
        # From the bounds, so that what is recommended does not depend on what was recommended before.
        boxed = with_attributes(bare, {item.name: _unscaled(item) for item in bare.schema.attributes})
        centred = _centred(boxed, population, n, right or 2, formula)
        ways = [centred, *(_held(centred, population, reach) for reach in _REACHES)]
        if boxed != bare:
            ways.append(bare)
        if len(bare.schema.columns) <= MANY_COLUMNS:
            few = _thinned(population, lambda some: Ladder(boxed, [], some, formula, n, parties, "slopes"))

            def error(candidate: StudyDefinition) -> float:
                ladder = Ladder(candidate, [], few, formula, n, parties, "slopes")
                return ladder.prediction(ladder.rungs[0]).inflation

            boxed = boxed_scales(boxed, error)
            ways.append(_at_means(boxed, population))
        scaled = [(boxed, [None]), *((way, _norms(way, population)) for way in ways)]
    ladder = Ladder(bare, scaled, population, formula, n, parties, cover)
    steps = [(ladder.prediction(rung), rung) for rung in ladder.rungs]
    best = {
        what: min(
            (item for item in steps if item[1].row_norm is None or item[0].covers(what)),
            key=lambda item: item[0].inflation,
        )
        for what in COVERS
    }
    prices = {what: found for what, (found, _) in best.items()}
    unclipped = predict(bare, population, formula, rows, right, left)

    def drawn(rung: Rung) -> Prediction:
        if rung is ladder.rungs[0]:
            return unclipped
        return predict(rung.definition, population, formula, rows, right, left)

    expected, taken = best[cover]
    point = drawn(taken)
    if min(point.seen) < point.drawn or point.inflation > _TRUSTED * expected.inflation:
        # First order is not to be trusted this near the noise: the best of each way of scaling is drawn.
        for rung in _of_each_way(steps, cover):
            if rung is not taken and not point.as_good_as(other := drawn(rung)):
                taken, point = rung, other
    curve = tuple(item for item, rung in steps if rung.row_norm is not None)
    return Recommendation(taken.definition, point, unclipped, curve, prices, population.pilot, ladder, cover)


def _thinned(population: Population, fitted: Callable[[Population], object]) -> Population:
    """Every so many of the people, more where a rare level has nobody among them and the model cannot be `fitted`."""
    step = -(-len(population.people) // _FEW)
    while step > 1:
        with suppress(CollinearColumns):
            few = Population(population.people[::step], population.pilot, population.worth)
            fitted(few)
            return few
        step //= 2
    return population


def _of_each_way(steps: Iterable[tuple[Prediction, Rung]], cover: str) -> list[Rung]:
    """Of rungs that centre and scale alike, the one of least error by first order, where intervals hold."""
    found: dict[Schema, tuple[Prediction, Rung]] = {}
    for point, rung in steps:
        if rung.row_norm is None or point.covers(cover):
            schema = rung.definition.schema
            if schema not in found or point.inflation < found[schema][0].inflation:
                found[schema] = point, rung
    return [rung for _, rung in found.values()]


def boxed_scales(definition: StudyDefinition, error: Callable[[StudyDefinition], float]) -> StudyDefinition:
    """Scales within the bounds, column by column downhill from the halves of their ranges; no centre moves."""
    best, least = definition, error(definition)
    numeric = [item.name for item in definition.schema.attributes if item.kind in ("continuous", "integer")]
    for step in _SCALE_STEPS:
        for _ in range(_SCALE_TURNS):
            before = least
            for name in numeric:
                item = next(item for item in best.schema.attributes if item.name == name)
                scale = item.scale or (item.bounds[1] - item.bounds[0]) / 2
                for other in (scale * step, scale / step):
                    moved = with_attributes(best, {name: replace(item, scale=_rounded(other))})
                    with suppress(ImpossibleStudy, ParameterError):
                        if (found := error(moved)) < least * 0.999:
                            best, least = moved, found
                            break
            if least == before:
                break
    return best


def _at_means(definition: StudyDefinition, population: Population) -> StudyDefinition:
    """With centres at the people's means, where a ball is smallest."""
    schema, scaled = definition.schema, population.scaled(definition.schema)
    changed = {}
    for item in schema.attributes:
        if item.kind in ("continuous", "integer"):
            low, high = item.bounds
            j = [column.name for column in schema.columns].index(item.name)
            mean = schema.columns[j].center + schema.columns[j].half_range * float(scaled[:, j].mean())
            scale = item.scale or _rounded((high - low) / 2)
            changed[item.name] = replace(item, centre=min(max(_rounded(mean), low), high), scale=scale)
    return with_attributes(definition, changed)


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
    definition: StudyDefinition, population: Population, rows: int, providers: int, formula: str
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
    names = [column.name for _, column in kept]
    response = formula.partition("~")[0].strip()
    some = scaled[:: max(1, len(scaled) // _ENOUGH)][:, [j for j, _ in kept]]
    try:
        ball = recommend_ball(
            some, privacy.epsilon, privacy.delta, rows, providers, privacy.honest_providers or 1, fixed=fixed, mark=0.25,
            response=names.index(response) if response in numeric and response in names else None,
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


def _held(definition: StudyDefinition, population: Population, reach: float) -> StudyDefinition:
    """With scales at which nobody's number is further than `reach` from its centre: for columns with long tails, whose few
    long rows decide otherwise how much the rule lets be shrunk."""
    changed = {}
    for item in definition.schema.attributes:
        if item.scale is not None and item.centre is not None:
            values = np.array([float(str(person[item.name])) for person in population.people])
            most = float(np.abs(values - item.centre).max())
            changed[item.name] = replace(item, scale=_rounded(max(item.scale, most / reach)))
    return with_attributes(definition, changed)


def _reference(attributes: tuple[Attribute, ...], name: str) -> bool:
    """Whether a column is the first level of a choice, which the moments suite leaves out."""
    return any(item.levels and name == f"{item.name}_{item.levels[0]}" for item in attributes)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
