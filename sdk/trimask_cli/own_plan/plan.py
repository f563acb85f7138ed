"""The plan of a study definition as values: in each suite what it shows, what would show more, how large it must be."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from trimask.fit.least_squares import DETECTABLE
from trimask_cli.own_plan.first_order import Ladder, Needs, Sizes, cheapest, without
from trimask_cli.own_plan.predict import Population, Prediction, predict
from trimask_cli.own_plan.recommend import Recommendation, in_suite, recommend
from trimask_cli.study_file import default_formula
from trimask_core.basics.errors import ConfigError
from trimask_core.study.definition import SuiteName
from trimask_core.study.schema import Schema
from trimask_theory.planning.definition import StudyDefinition


@dataclass(frozen=True)
class SuitePlan:
    """One suite: as the definition has it, with the best clipping, and how large it must be for what is wanted."""

    as_given: Prediction
    advice: Recommendation
    sizes: dict[str, Sizes]
    together: Sizes
    without: dict[str, float]

    @property
    def recommends(self) -> bool:
        """Whether other settings than the definition's do better."""
        return bool(self.advice.settings) and not self.as_given.as_good_as(self.advice.best)


@dataclass(frozen=True)
class Wanted:
    """A coefficient, the size of effect that is to be seen (None where an error was asked for), and the error for it."""

    name: str
    effect: float | None
    error: float


@dataclass(frozen=True)
class Smaller:
    """A study of fewer questions, where all of them ask for more people than there are, and what it asks for."""

    formula: str
    columns: tuple[str, ...]
    needed: Sizes


@dataclass(frozen=True)
class OwnPlan:
    """Everything that is printed."""

    definition: StudyDefinition
    formula: str
    basis: str
    rows: int
    wanted: list[Wanted]
    suites: dict[SuiteName, SuitePlan]
    smaller: Smaller | None = None

    @property
    def cheapest(self) -> tuple[SuiteName, SuitePlan]:
        """The suite that needs the fewest people for all that is wanted."""
        return min(self.suites.items(), key=lambda item: item[1].together.people or math.inf)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "study": self.definition.title,
            "formula": self.formula,
            "basis": self.basis,
            "smaller": self.smaller and asdict(self.smaller),
            "wanted": [asdict(item) for item in self.wanted],
            "suites": {
                name: {
                    "as_given": plan.as_given.to_dict(),
                    "recommended": plan.advice.to_dict(),
                    "needed": {one: asdict(sizes) for one, sizes in plan.sizes.items()},
                    "needed_together": asdict(plan.together),
                    "people_without": {one: round(ratio, 3) for one, ratio in plan.without.items()},
                }
                for name, plan in self.suites.items()
            },
        }


def make_plan(
    definition: StudyDefinition,
    population: Population,
    formula: str | None,
    *,
    basis: str = "",
    rows: int | None = None,
    suites: Sequence[SuiteName] = (),
    parties: tuple[int | None, int | None] = (None, None),
    cover: str = "slopes",
    asked: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> OwnPlan:
    """Of effects and errors as `asked` for (--effect, --se), or of every effect at its standard size."""
    rows = rows or definition.collection.release_rows
    model = formula or default_formula(definition.schema)
    found: dict[SuiteName, SuitePlan] = {}
    wanted: list[Wanted] = []
    for name in suites or [definition.collection.suite]:
        print(f"planning the {name} suite ...", file=sys.stderr)
        given = in_suite(definition, name)
        advice = recommend(given, population, model, rows, *parties, cover)
        first = advice.unclipped
        if given.privacy.row_norm is not None:
            first = predict(given, population, model, rows, *parties)
        wanted = _wanted(*asked, advice.ladder)
        needs, limits = Needs(advice.ladder, cover), [(item.name, item.error) for item in wanted]
        sizes = {one: needs.of([(one, error)]) for one, error in limits}
        found[name] = SuitePlan(first, advice, sizes, needs.of(limits), without(advice.ladder, limits))
    plan = OwnPlan(definition, model, basis, rows, wanted, found)
    return replace(plan, smaller=_smaller(plan, population, parties, cover, whole=formula is not None))


_FAR = 20
_ASKED = 4


def _smaller(
    plan: OwnPlan,
    population: Population,
    parties: tuple[int | None, int | None],
    cover: str,
    *,
    whole: bool,
) -> Smaller | None:
    """Where not all that is wanted is seen: the study of what a `whole` model asks for and nothing else; where the model of
    everything is far out of reach, that of a few cheap questions.
    """
    name, suite = plan.cheapest
    schema, needed = plan.definition.schema, suite.together.people or math.inf
    if needed <= plan.rows or schema.derived:
        return None
    ladder = suite.advice.ladder
    if whole:
        chosen = set(re.findall(r"\w+", plan.formula)) & {item.name for item in schema.attributes}
        if len(chosen) == len(schema.attributes):
            return None
    elif needed < _FAR * plan.rows or len(schema.attributes) <= _ASKED + 1:
        return None
    else:
        chosen = {*cheapest(ladder, [(item.name, item.error) for item in plan.wanted], _ASKED)}
    response = plan.formula.partition("~")[0].strip()
    given = in_suite(plan.definition, name)
    attributes = tuple(item for item in given.schema.attributes if item.name in {response, *chosen})
    small = replace(given, schema=Schema(attributes, (), schema.ones), form=None, weight=None)
    asked = [item.name for item in attributes]
    people = [{key: person[key] for key in asked} for person in population.people]
    formula = plan.formula if whole else default_formula(small.schema)
    found = recommend(small, Population(people, population.pilot), formula, plan.rows, *parties)
    wanted = [(one, size / DETECTABLE) for one, size in found.ladder.effects.items()]
    if whole:
        wanted = [(item.name, item.error) for item in plan.wanted]
    sizes = Needs(found.ladder, cover).of(wanted)
    # Columns whose scales can be wide cost next to nothing: there is no smaller study to speak of.
    return Smaller(formula, tuple(asked), sizes) if (sizes.people or math.inf) < 0.9 * needed else None


def _wanted(effects: Sequence[str], errors: Sequence[str], ladder: Ladder) -> list[Wanted]:
    """Of --effect and --se, or an effect of the standard size for each coefficient."""
    found: list[Wanted] = []
    for option, pairs in (("effect", effects), ("se", errors)):
        for pair in pairs:
            name, _, text = pair.partition("=")
            standard = ladder.effects.get(name) if option == "effect" and not text else None
            try:
                value = abs(float(text)) if standard is None else standard
            except ValueError:
                value = 0.0
            if name not in ladder.names or not 0 < value < math.inf:
                shape = "NAME or NAME=SIZE" if option == "effect" else "NAME=ERROR"
                raise ConfigError(
                    f"--{option} {pair}: write {shape}, with NAME one of {', '.join(ladder.names)}"
                )
            effect = option == "effect"
            found.append(Wanted(name, value if effect else None, value / DETECTABLE if effect else value))
    return found or [Wanted(name, size, size / DETECTABLE) for name, size in ladder.effects.items()]
