"""The plan of a study definition, as text for a terminal."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trimask_cli.own_plan.result import OwnPlan, SuitePlan
from trimask_cli.toml_text import toml_value

__all__ = ["render"]


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
