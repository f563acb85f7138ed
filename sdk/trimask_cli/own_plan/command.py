"""`trimask plan --study`: gather the people, predict in each suite, recommend, print and draw."""

from __future__ import annotations

import argparse
import sys

from trimask_cli.formulas import default_formula
from trimask_cli.own_plan.predict import Population, people_needed, predict
from trimask_cli.own_plan.recommend import recommend
from trimask_cli.own_plan.result import OwnPlan, SuitePlan
from trimask_cli.own_plan.suites import in_suite
from trimask_cli.table.people import read_people
from trimask_core.errors import ConfigError
from trimask_core.study import SuiteName
from trimask_terminal.options import print_json
from trimask_theory.definition import StudyDefinition
from trimask_theory.expected import Expected, draw_people
from trimask_theory.study_plan import load_definition

__all__ = ["run_own"]

_DRAWN = 4000
_PILOT = 20_000  # as many of a pilot at most: each point of the trade-off of clipping encodes them again
_MANY_COLUMNS = 60


def run_own(args: argparse.Namespace) -> int:
    """Plan a study from its own definition."""
    plan = _planned(args)
    if args.plot is not None:
        from trimask_cli.own_plan.plot import save_plot

        save_plot(plan, args.plot)
    if args.json:
        print_json(plan.to_dict())
        return 0
    from trimask_cli.own_plan.view import render
    from trimask_terminal.study_view import make_console

    make_console().print(render(plan))
    return 0


def _planned(args: argparse.Namespace) -> OwnPlan:
    definition = load_definition(args.study).changed(epsilon=args.epsilon, delta=args.delta)
    rows = args.rows or definition.collection.release_rows
    formula = args.formula or default_formula(definition.schema)
    population, basis = _population(args, definition)
    names = _suites(definition, args.suite)
    columns = len(definition.schema.columns)
    if columns > _MANY_COLUMNS and args.formula is None:
        print(
            f"{columns} columns: a model of all of them takes minutes; --formula names fewer", file=sys.stderr
        )
    suites: dict[SuiteName, SuitePlan] = {}
    wanted: dict[str, float] = {}
    for name in names:
        print(f"planning the {name} suite ...", file=sys.stderr)
        given = in_suite(definition, name)
        first = predict(given, population, formula, rows, args.right, args.left)
        wanted = _wanted(args.se or [], first.names)
        advice = recommend(given, population, formula, rows, args.right, args.left)
        needed = best = None
        if wanted:
            needed = people_needed(given, population, formula, wanted, args.right, args.left)
            # More people are served by less clipping, fewer by more: the advice for about as many as it will be.
            there = recommend(given, population, formula, needed, args.right, args.left) if needed else advice
            best = people_needed(there.definition, population, formula, wanted, args.right, args.left)
        suites[name] = SuitePlan(first, advice, needed, best)
    return OwnPlan(definition, formula, basis, wanted, suites)


def _suites(definition: StudyDefinition, asked: str) -> list[SuiteName]:
    """The study's own first; the noise of the moments suite covers whole records only."""
    own = definition.collection.suite
    every: list[SuiteName] = ["rows", "moments"] if own == "rows" else ["moments", "rows"]
    if definition.privacy.protect == "unit":
        every = ["rows"]
    return [name for name in every if asked in ("both", name)]


def _population(args: argparse.Namespace, definition: StudyDefinition) -> tuple[Population, str]:
    if args.pilot is not None:
        people = read_people(args.pilot, definition.schema, definition.form).answers
        # From all over the file, which may be sorted: by place, by arm, by day.
        taken = people[:: max(1, -(-len(people) // _PILOT))]
        some = "" if len(taken) == len(people) else f"{len(taken):,} of the "
        return Population(taken), f"{some}{len(people):,} people of {args.pilot.name}"
    if definition.expected is not None:
        basis = "people drawn from [expected]"
    else:
        basis = (
            "people drawn without correlation from the middle of the bounds, since there is no --pilot and no [expected]: "
            "errors may well be several times larger"
        )
    expected = definition.expected or Expected()
    return Population(draw_people(definition.schema, expected, _DRAWN)), basis


def _wanted(pairs: list[str], names: tuple[str, ...]) -> dict[str, float]:
    wanted = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if name not in names or not value > 0:
            raise ConfigError(f"--se {pair}: write NAME=ERROR, with NAME one of {', '.join(names)}")
        wanted[name] = value
    return wanted
