"""`trimask plan --study`: gather the people, plan, print and draw.

What is printed ends with what to run to see more; the picture is the trade-off of clipping: a panel a suite, error against
row_norm, noise and bias apart.
"""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trimask.moments.waves import first_wave
from trimask_cli.own_plan.first_order import Sizes
from trimask_cli.own_plan.plan import OwnPlan, SuitePlan, make_plan
from trimask_cli.own_plan.predict import Population, Prediction, sample_of
from trimask_cli.plan_view import plan_table
from trimask_cli.study_file import default_formula, toml_value
from trimask_client.table import read_people
from trimask_core.basics.errors import ParameterError
from trimask_core.study.definition import SuiteName
from trimask_terminal.options import print_json
from trimask_theory.planning.definition import Expected, StudyDefinition, draw_people
from trimask_theory.planning.study_definition import load_definition

_DRAWN = 4000


def run_own(args: argparse.Namespace) -> int:
    """Plan a study from its own definition."""
    plan = _planned(args)
    if args.plot is not None:
        save_plot(plan, args.plot)
    if args.json:
        print_json(plan.to_dict())
        return 0
    from trimask_terminal.study_view import make_console

    console = make_console()
    console.print(render(plan))
    for line in next_commands(plan, args.study, args.pilot):
        console.print(f"  {line}", soft_wrap=True, markup=False, highlight=False)
    return 0


def _planned(args: argparse.Namespace) -> OwnPlan:
    definition = load_definition(args.study).changed(epsilon=args.epsilon, delta=args.delta)
    population, basis = _population(args, definition)
    return make_plan(
        definition,
        population,
        args.formula,
        basis=basis,
        rows=args.rows,
        suites=_suites(definition, args.suite),
        parties=(args.right, args.left),
        cover=args.cover,
        asked=(args.effect or [], args.se or []),
    )


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
        taken = sample_of(people)
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
    return Population(draw_people(definition.schema, expected, _DRAWN), pilot=False), basis


def render(plan: OwnPlan) -> RenderableType:
    """How many people, what this many show in every suite, what to write to have more of it, and the way on."""
    given = next(iter(plan.suites.values())).as_given
    epsilon = plan.definition.privacy.epsilon
    head = f"{plan.definition.title}: {plan.formula}; epsilon {epsilon:g}, {plan.rows:,} people"
    if given.effective_rows is not None and plan.definition.weight is not None:
        head += f", worth {given.effective_rows:,} by their weights ({plan.definition.weight.attribute})"
    parts: list[RenderableType] = [Text(head, style="bold"), Text(f"By {plan.basis}.", style="dim"), Text()]
    parts += [_needed(plan), Text(_needed_note(plan), style="dim"), Text()]
    parts.append(_errors(plan))
    note = (
        "Standard errors, sampling and noise together: medians of releases drawn; in brackets in how many of "
        "them the coefficient is bounded, where not in all. Yellow: above a third of the estimate, red: above it. Best: "
        "with the clipping below, its bias included."
    )
    parts += [Text(note, style="dim"), Text()]
    for name, suite in plan.suites.items():
        parts += [*_advice(name, suite), Text()]
    return Group(*parts, Text(way_on(plan), style="bold"))


def _needed(plan: OwnPlan) -> Table:
    effects = all(item.effect is not None for item in plan.wanted)
    headings = ["effect" if effects else "error", "raw rows"]
    for name in plan.suites:
        headings += [f"{name}: people", "or epsilon"]
    table = plan_table("How many people, or which epsilon", "", *headings)
    table.columns[0].justify, table.columns[0].no_wrap = "left", True
    for item in plan.wanted:
        sizes = [suite.sizes[item.name] for suite in plan.suites.values()]
        table.add_row(item.name, f"{item.effect or item.error:.2g}", *_cells(sizes))
    if len(plan.wanted) > 1:
        together = [suite.together for suite in plan.suites.values()]
        table.add_row("all of these", "", *_cells(together), style="bold")
    return table


def _cells(sizes: Sequence[Sizes]) -> list[str]:
    cells = [f"{sizes[0].raw:,}"]
    for one in sizes:
        cells += [people_words(one.people), "> 100" if one.epsilon is None else f"{one.epsilon:g}"]
    return cells


def people_words(count: int | None) -> str:
    """A number of people."""
    return "> 100 million" if count is None else f"{count:,}"


def _needed_note(plan: OwnPlan) -> str:
    epsilon = plan.definition.privacy.epsilon
    note = f"People at epsilon {epsilon:g}, or the epsilon at {plan.rows:,} people, by the best clipping at each, such that "
    if all(item.effect is not None for item in plan.wanted):
        note += "an effect of this size is found four times in five (a test of level 5 %)"
    else:
        note += "the standard error is as asked"
    note += " and practically every release has a fit."
    if not any(
        suite.advice.ladder.effects.get(item.name) != item.effect
        for item in plan.wanted
        for suite in plan.suites.values()
    ):
        note += (
            " Standard sizes: the answer moves by 0.2 of its deviation for one deviation of a number, by 0.4 between "
            "yes and no or two levels; name your own with --effect NAME=SIZE."
        )
    return note


def way_on(plan: OwnPlan) -> str:
    """The sentence to take away: what is seen, and with how many people, or at which epsilon, all would be."""
    name, suite = plan.cheapest
    seen = [
        one for one, sizes in suite.sizes.items() if sizes.people is not None and sizes.people <= plan.rows
    ]
    what = f"{len(seen)} of {len(plan.wanted)} effects" if seen else "no effect of the size wanted"
    epsilon = plan.definition.privacy.epsilon
    by = ", with the settings that trimask plan recommends" if suite.recommends else ""
    words = (
        f"{plan.rows:,} people at epsilon {epsilon:g}{by}: {what} can be relied on to be seen ({name} suite)"
    )
    if len(seen) == len(plan.wanted):
        return words + "."
    together = suite.together
    ways = []
    if together.people is not None:
        ways.append(f"{people_words(together.people)} people")
    if together.epsilon is not None:
        ways.append(f"epsilon {together.epsilon:g}")
    words += f"; all of them with {' or '.join(ways) or 'more than 100 million people'}"
    costly = [(one, ratio) for one, ratio in suite.without.items() if ratio < 0.9][:3]
    if costly:
        named = ", ".join(f"{one} ({ratio:.2g} times the people)" for one, ratio in costly)
        words += f"; leaving out one of these columns makes it fewer: {named}"
    if plan.smaller is not None:
        sizes = plan.smaller.needed
        also = "" if sizes.epsilon is None else f" or epsilon {sizes.epsilon:g}"
        words += f". A study of {plan.smaller.formula} alone: {people_words(sizes.people)} people{also}"
    return words + "."


def next_commands(plan: OwnPlan, study: Path, pilot: Path | None) -> list[str]:
    """What to run to see what `way_on` says: the study with so many people, or of so few questions."""
    needed = plan.cheapest[1].together
    if needed.people is not None and needed.people <= plan.rows:
        return []
    lines, formula = [], f" --formula {shlex.quote(plan.formula)}"
    if plan.formula == default_formula(plan.definition.schema):
        formula = ""
    if plan.smaller is not None and pilot is not None:
        small = study.with_name(f"{study.stem}-smaller.toml")
        first = plan.smaller.formula.partition("~")[0].strip()
        columns = " ".join([first, *(name for name in plan.smaller.columns if name != first)])
        lines.append(f"trimask study from-csv {pilot} --pilot --columns {columns} --out {small}")
        study, needed = small, plan.smaller.needed
    command = f"trimask plan --study {study}" + (f" --pilot {pilot}" if pilot is not None else "") + formula
    if needed.people is not None:
        lines.append(f"{command} --rows {needed.people}")
    if needed.epsilon is not None:
        lines.append(f"{command} --epsilon {needed.epsilon:g}")
    return lines


def _errors(plan: OwnPlan) -> Table:
    first = next(iter(plan.suites.values())).as_given
    suites = [f"{name}{part}" for name in plan.suites for part in ("", ", best")]
    table = plan_table(f"What one release of {plan.rows:,} people shows", "", "estimate", "raw rows", *suites)
    table.columns[0].justify, table.columns[0].no_wrap = "left", True
    table.columns[0].min_width = max(map(len, first.names))
    for j, name in enumerate(first.names):
        cells: list[RenderableType] = [
            Text(name),
            f"{first.coefficients[j]:.3g}",
            f"{first.se_sampling[j]:.2g}",
        ]
        for suite in plan.suites.values():
            cells += [_error(suite.as_given, j), _error(suite.advice.best, j)]
        table.add_row(*cells)
    return table


def _error(point: Prediction, j: int) -> Text:
    total, coefficient = math.hypot(point.se[j], point.bias[j]), abs(point.coefficients[j])
    if not math.isfinite(total):
        return Text("-", style="red")
    style = "red" if total > coefficient else "yellow" if total > coefficient / 3 else "green"
    some = "" if point.seen[j] == point.drawn else f" ({point.seen[j] / point.drawn:.0%})"
    return Text(f"{total:.2g}{some}", style=style)


def _fits(point: Prediction) -> str:
    every = (
        "every release has a fit"
        if point.fits == point.drawn
        else f"fits in {point.fits} of {point.drawn} releases"
    )
    if not math.isfinite(point.inflation):
        return every
    return f"{every}, median errors {point.inflation:.3g} times those of raw rows"


def _advice(name: str, suite: SuitePlan) -> list[Text]:
    given, best = suite.as_given, suite.advice.best
    lines = [Text(f"{name}: sigma = {given.sigma:.3g}; {_fits(given)}", style="bold")]
    if not suite.advice.pilot and (study := suite.advice.ladder.study).weight is None:
        lines.append(
            Text(
                f"  Or in two waves: ask {first_wave(study):,} of the {study.release_rows:,} first; "
                "`trimask study next` drafts the others' study by their release. With much noise that helps little, "
                "or not at all (docs/accuracy.md)."
            )
        )
    if not suite.recommends:
        return [
            *lines,
            Text("  Nothing that was tried does better and lets intervals hold."),
            *_prices(suite),
        ]
    by = f"shrinking {best.clipped:.0%} of the rows" if suite.advice.clips else "by scales within the bounds"
    lines.append(
        Text(
            f"  Better: {_fits(best)}, {by} (choose by what is known before, never by this study's answers):"
        )
    )
    for section, values in suite.advice.settings.items():
        shown = ", ".join(f"{key} = {toml_value(value)}" for key, value in values.items())
        where = "[privacy]" if section == "privacy" else f"[[attributes]] {section}"
        lines.append(Text(f"    {where:<28} {shown}"))
    if suite.advice.pilot and suite.advice.clips:
        lines.append(
            Text(
                "    and make it with `trimask study new --pilot FILE`: estimates are corrected by the pilot's rows"
            )
        )
    elif suite.advice.clips:
        lines.append(
            Text(
                "    Without a pilot's rows nothing is corrected, and every result says so: take a larger one."
            )
        )
    return [*lines, *_prices(suite)]


def _prices(suite: SuitePlan) -> list[Text]:
    """What it costs that intervals hold of more."""
    words = {"slopes": "slopes", "means": "means too", "moments": "second moments too"}
    shown = []
    for what, point in suite.advice.prices.items():
        norm = f"row_norm {point.row_norm:.4g}" if point.left else "the bounds alone"
        if math.isfinite(point.inflation):
            shown.append(f"{words[what]} {point.inflation:.3g} times ({norm})")
    if not shown:
        return []
    return [
        Text(
            f"  Errors, to first order, where intervals hold (--cover) of {'; of '.join(shown)}.", style="dim"
        )
    ]


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
        curve = sorted(suite.advice.curve, key=lambda p: p.row_norm)
        norms = [point.row_norm for point in curve]
        axes.plot(norms, [_part(p, p.se_privacy) for p in curve], "--", color="#0072B2", lw=2, label="noise")
        axes.plot(
            norms, [_part(p, p.bias) for p in curve], "-.", color="#D55E00", lw=2, label="bias of clipping"
        )
        total = [math.sqrt(max(p.inflation**2 - 1, 0.0)) for p in curve]
        axes.plot(norms, total, "-", color="black", lw=2, label="together")
        best = suite.advice.prices[suite.advice.cover]
        if suite.advice.clips:
            point = best.row_norm, math.sqrt(max(best.inflation**2 - 1, 0.0))
            axes.plot(*point, "o", color="black")
            words = f"best: {best.row_norm:.3g}, {best.clipped:.0%} shrunk"
            axes.annotate(words, point, (8, 8), textcoords="offset points", fontsize=9)
        bounds = suite.advice.ladder.prediction(suite.advice.ladder.rungs[0])
        level = math.sqrt(max(bounds.inflation**2 - 1, 0.0))
        axes.axhline(level, color="#555555", lw=1, ls=":", label=f"no clipping (norm {bounds.row_norm:.3g})")
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
