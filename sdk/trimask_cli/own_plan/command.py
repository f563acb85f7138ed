"""`trimask plan --study`: gather the people, predict in each suite, recommend, print and draw.

The plan of a study definition is values, then text for a terminal, and the trade-off of clipping as a picture: a panel a
suite, error against row_norm, noise and bias apart.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trimask_cli.own_plan.predict import Population, Prediction, people_needed, predict
from trimask_cli.own_plan.recommend import Recommendation, in_suite, recommend
from trimask_cli.study_file import default_formula, toml_value
from trimask_cli.table.people import read_people
from trimask_core.basics.errors import ConfigError, ParameterError
from trimask_core.study.settings import SuiteName
from trimask_terminal.options import print_json
from trimask_theory.planning.definition import Expected, StudyDefinition, draw_people
from trimask_theory.planning.study_definition import load_definition


@dataclass(frozen=True)
class SuitePlan:
    """One suite: as the definition has it, with the best clipping, and the people needed for the errors wanted."""

    as_given: Prediction
    advice: Recommendation
    needed: int | None
    needed_best: int | None


@dataclass(frozen=True)
class OwnPlan:
    """Everything that is printed."""

    definition: StudyDefinition
    formula: str
    basis: str
    wanted: dict[str, float]
    suites: dict[SuiteName, SuitePlan]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "study": self.definition.title,
            "formula": self.formula,
            "basis": self.basis,
            "wanted": self.wanted,
            "suites": {
                name: {
                    "as_given": plan.as_given.to_dict(),
                    "recommended": plan.advice.to_dict(),
                    "people_needed": plan.needed,
                    "people_needed_recommended": plan.needed_best,
                }
                for name, plan in self.suites.items()
            },
        }


_DRAWN = 4000
_PILOT = 20_000  # as many of a pilot at most: each point of the trade-off of clipping encodes them again
_MANY_COLUMNS = 60


def run_own(args: argparse.Namespace) -> int:
    """Plan a study from its own definition."""
    plan = _planned(args)
    if args.plot is not None:
        save_plot(plan, args.plot)
    if args.json:
        print_json(plan.to_dict())
        return 0
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


def render(plan: OwnPlan) -> RenderableType:
    """Errors of every coefficient in every suite, then what to write to have less of them."""
    given = next(iter(plan.suites.values())).as_given
    head = f"{plan.definition.title}: {plan.formula}, one release of {given.rows:,} people"
    if given.effective_rows is not None and plan.definition.weight is not None:
        head += f", worth {given.effective_rows:,} by their weights ({plan.definition.weight.attribute})"
    parts: list[RenderableType] = [Text(head, style="bold"), Text(f"By {plan.basis}.", style="dim"), Text()]
    parts.append(_errors(plan))
    note = (
        "Standard errors as a release will show them: sampling and noise together. Yellow: above a third of the estimate, "
        "red: above it. Best: with the clipping below, its bias included."
    )
    parts += [Text(note, style="dim"), Text()]
    for name, suite in plan.suites.items():
        parts += [*_advice(name, suite), Text()]
    if plan.wanted:
        parts.append(_needed(plan))
    return Group(*parts)


def _errors(plan: OwnPlan) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(
        "", no_wrap=True, min_width=max(map(len, next(iter(plan.suites.values())).as_given.names))
    )
    for heading in (
        "estimate",
        "raw rows",
        *(f"{name}{part}" for name in plan.suites for part in ("", ", best")),
    ):
        table.add_column(heading, justify="right", header_style="dim")
    first = next(iter(plan.suites.values())).as_given
    for j, name in enumerate(first.names):
        cells: list[RenderableType] = [
            Text(name),
            f"{first.coefficients[j]:.3g}",
            f"{first.se_sampling[j]:.2g}",
        ]
        for suite in plan.suites.values():
            best = suite.advice.best
            cells.append(_error(suite.as_given.se[j], suite.as_given.bias[j], first.coefficients[j]))
            cells.append(_error(best.se[j], best.bias[j], first.coefficients[j]))
        table.add_row(*cells)
    return table


def _error(se: float, bias: float, coefficient: float) -> Text:
    total = math.hypot(se, bias)
    if not math.isfinite(total):
        return Text("no fit", style="red")
    style = "red" if total > abs(coefficient) else "yellow" if total > abs(coefficient) / 3 else "green"
    return Text(f"{total:.2g}", style=style)


def _advice(name: str, suite: SuitePlan) -> list[Text]:
    given, best = suite.as_given, suite.advice.best
    times = f"errors {given.inflation:.3g} times those of raw rows"
    if given.problem or not math.isfinite(given.inflation):
        times = (
            "no fit at all"
            if given.problem
            else "no fit of every coefficient: too much noise, or too few people"
        )
    lines = [Text(f"{name}: sigma = {given.sigma:.3g}, {times}", style="bold")]
    if not suite.advice.settings:
        return [*lines, Text("  No clipping does better.")]
    better = f"Better, {best.inflation:.3g} times," if math.isfinite(best.inflation) else "Better,"
    lines.append(
        Text(
            f"  {better} shrinking {best.clipped:.0%} of the rows (choose by what is known "
            "before, never by this study's answers):"
        )
    )
    for section, values in suite.advice.settings.items():
        shown = ", ".join(f"{key} = {toml_value(value)}" for key, value in values.items())
        where = "[privacy]" if section == "privacy" else f"[[attributes]] {section}"
        lines.append(Text(f"    {where:<28} {shown}"))
    return lines


def _needed(plan: OwnPlan) -> Group:
    wanted = ", ".join(f"{name} to {value:g}" for name, value in plan.wanted.items())
    lines = [Text(f"People needed for {wanted}", style="bold")]
    for name, suite in plan.suites.items():
        lines.append(
            Text(f"  {name}: {_people(suite.needed)}; with the best clipping {_people(suite.needed_best)}")
        )
    return Group(*lines)


def _people(count: int | None) -> str:
    return "more than 100 million" if count is None else f"{count:,}"


_FORMATS = (".png", ".svg", ".pdf")


def save_plot(plan: OwnPlan, path: Path) -> None:
    """Draw it to a file."""
    if path.suffix.lower() not in _FORMATS:
        raise ParameterError("plot", f"a file ending in {', '.join(_FORMATS)}", str(path))
    figure = Figure(figsize=(5.6 * len(plan.suites), 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(plan.suites), squeeze=False)[0]
    figure.suptitle(f"{plan.definition.title}: what clipping to row_norm costs and saves", fontsize=12)
    for axes, (name, suite) in zip(panels, plan.suites.items(), strict=True):
        curve = sorted((p for p in suite.advice.curve if not p.problem), key=lambda p: p.row_norm)
        norms = [point.row_norm for point in curve]
        axes.plot(norms, [_part(p, p.se_privacy) for p in curve], "--", color="#0072B2", lw=2, label="noise")
        axes.plot(
            norms, [_part(p, p.bias) for p in curve], "-.", color="#D55E00", lw=2, label="bias of clipping"
        )
        total = [math.sqrt(max(p.inflation**2 - 1, 0.0)) for p in curve]
        axes.plot(norms, total, "-", color="black", lw=2, label="together")
        best = suite.advice.best
        if suite.advice.settings:
            point = best.row_norm, math.sqrt(max(best.inflation**2 - 1, 0.0))
            axes.plot(*point, "o", color="black")
            words = f"best: {best.row_norm:.3g}, {best.clipped:.0%} shrunk"
            axes.annotate(words, point, (8, 8), textcoords="offset points", fontsize=9)
        without = suite.advice.unclipped
        if not without.problem:
            level = math.sqrt(max(without.inflation**2 - 1, 0.0))
            axes.axhline(
                level, color="#555555", lw=1, ls=":", label=f"no clipping (norm {without.row_norm:.3g})"
            )
        axes.set(title=f"{name} suite", xlabel="row_norm", ylabel="error, in standard errors of raw rows")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25)
        axes.legend(fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _part(point: Prediction, part: tuple[float, ...]) -> float:
    """Root mean square over coefficients, in their standard errors from raw rows."""
    squares = [value**2 / raw**2 for value, raw in zip(part, point.se_sampling, strict=True) if raw > 0]
    return math.sqrt(sum(squares) / len(squares))
