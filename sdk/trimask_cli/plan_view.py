"""Plans as tables and as a picture: the suites side by side, the rows suite in full, noise and error by the release size."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trimask_core.basics.errors import ParameterError
from trimask_core.rows import collusion
from trimask_theory.planning.planner import METHODS, MomentsPlan, Plan, Target, sigma_by, standard_error

_HEADINGS = {
    "sharp": "sharp",
    "bound": "bound",
    "theorem": "Theorem 3.4",
    "corollary": "Corollary 3.5",
    "local": "no mask",
}
_PREFIXES = ("", "k", "M", "G", "T", "P")


def render(target: Target, plan: Plan | None, moments: MomentsPlan | None) -> RenderableType:
    """The suites side by side; then noise by release size, costs by block size, and how to read them."""
    what = "a person's whole row" if target.protect == "record" else "a change of at most 1 in a row"
    providers = f"{target.right} right and {target.left} left"
    if moments is not None and (plan is None or moments.target.right != target.right):
        fewer = f"{moments.target.right} right"
        providers = fewer if plan is None else f"{providers} (moments: {fewer})"
    head = Text(
        f"({target.epsilon:g}, {target.delta:g})-differential privacy for {what}; {target.rows:,} people, "
        f"{target.attributes} columns, rows of norm at most {target.norm:.3g}; {providers} providers",
        style="bold",
    )
    parts: list[RenderableType] = [head]
    if moments is not None:
        parts.append(_suites(target, plan, moments))
    if plan is not None:
        parts += [_sigmas(plan), _errors(plan), _costs(plan), _collector(plan)]
    return Group(*(item for part in parts for item in (part, Text())))


def _suites(target: Target, plan: Plan | None, moments: MomentsPlan) -> RenderableType:
    """A line a question, a column a suite: rows with the sharp method and blocks of the middle size."""
    both = plan is not None
    table = plan_table(
        "The suites side by side" if both else "The moments suite", "", *(["rows"] if both else []), "moments"
    )
    table.columns[0].justify = "left"
    rows = _rows_column(target, plan) if plan is not None else {}
    for words, cell in _moments_column(moments).items():
        table.add_row(words, *([rows[words]] if both else []), cell)
    note = (
        f"moments: any {moments.honest} of {moments.target.right} right providers give the noise; values in steps of a "
        f"thousandth of their range; the bias of clipping is not counted. {moments.collusion}"
    )
    return Group(table, Text(note, style="dim"))


def _moments_column(moments: MomentsPlan) -> dict[str, RenderableType]:
    target = moments.target
    cells: dict[str, RenderableType] = {"nodes": f"{target.right + 1}"}
    cells["any so many together see no answer"] = f"{moments.largest_safe}"
    cells["epsilon towards the collector"] = f"{target.epsilon:.3g}"
    cells["noise on a value"] = "-"
    cells["noise on a sum of squares"] = _number(moments.total_sigma)
    for release in moments.releases:
        words = f"standard error, releases of {release.release_rows:,}"
        cells[words] = _error(release.standard_error, target.coefficient)
    cells["a device uploads"] = _scaled(moments.upload_bytes, "B")
    cells["operations a person, right"] = _scaled(moments.right_flops, "")
    cells["operations a person, left"] = "-"
    return cells


def _rows_column(target: Target, plan: Plan) -> dict[str, RenderableType]:
    block, last = plan.blocks[len(plan.blocks) // 2], plan.releases[-1]
    unmasking = collusion.default_unmasking(target.right, target.left)
    report = collusion.report(collusion.Topology(target.right, target.left, unmasking))
    sigma, n = last.sigma["sharp"] or 0.0, target.rows
    cells: dict[str, RenderableType] = {"nodes": f"{target.right + target.left + 1}"}
    cells["any so many together see no answer"] = f"{report.largest_safe}"
    cells["epsilon towards the collector"] = _number(block.collector_epsilon.get(last.release_rows))
    cells["noise on a value"] = _number(sigma)
    # Var of sum (x + e)^2 for x of second moment v: n (4 v sigma^2 + 2 sigma^4).
    square = math.sqrt(n * (4 * target.second_moment * sigma**2 + 2 * sigma**4))
    cells["noise on a sum of squares"] = _number(square)
    for release in plan.releases:
        words = f"standard error, releases of {release.release_rows:,}"
        cells[words] = _error(release.standard_error["sharp"], target.coefficient)
    cells["a device uploads"] = _scaled(block.upload_bytes, "B")
    cells["operations a person, right"] = _scaled(block.right_flops / block.block_rows, "")
    cells["operations a person, left"] = _scaled(block.left_flops / block.block_rows, "")
    return cells


def _methods(plan: Plan) -> list[str]:
    return [method for method in METHODS if any(release.sigma[method] for release in plan.releases)]


def _sigmas(plan: Plan) -> Table:
    methods = _methods(plan)
    table = plan_table(
        "Noise sigma on a value scaled to [-1, 1]", "releases of", *(_HEADINGS[method] for method in methods)
    )
    for release in plan.releases:
        table.add_row(f"{release.release_rows:,}", *(_number(release.sigma[method]) for method in methods))
    return table


def _errors(plan: Plan) -> RenderableType:
    target, methods = plan.target, _methods(plan)
    table = plan_table(
        "Standard error of a coefficient",
        "releases of",
        *(_HEADINGS[method] for method in methods),
        "no noise",
    )
    for release in plan.releases:
        errors = [release.standard_error[method] for method in methods]
        table.add_row(
            f"{release.release_rows:,}",
            *(_error(value, target.coefficient) for value in errors),
            _error(plan.sampling_error, target.coefficient),
        )
    note = (
        f"One of {target.predictors} equal, uncorrelated coefficients, each {target.coefficient:.2g}, that "
        f"explain {target.r_squared:.0%} of the response; values uniform on [-1, 1]. Yellow: above a third of "
        "the coefficient. Red: above the coefficient."
    )
    return Group(table, Text(note, style="dim"))


def _costs(plan: Plan) -> Table:
    table = plan_table(
        "What a block costs",
        "blocks of", "columns", "a device\nuploads", "a right\nholds", "a hop\ncarries",
        "right mask\noperations", "left mask\noperations",
    )  # fmt: skip
    for block in plan.blocks:
        table.add_row(
            f"{block.block_rows:,}",
            f"{block.columns:,}",
            _scaled(block.upload_bytes, "B"),
            _scaled(block.right_bytes, "B"),
            _scaled(block.hop_bytes, "B"),
            _scaled(block.right_flops, ""),
            _scaled(block.left_flops, ""),
        )
    return table


def _collector(plan: Plan) -> RenderableType:
    sizes = [release.release_rows for release in plan.releases]
    table = plan_table(
        "Epsilon of what the collector sees in passing",
        "blocks of",
        *(f"releases of\n{size:,}" for size in sizes),
    )
    for block in plan.blocks:
        table.add_row(
            f"{block.block_rows:,}", *(_number(block.collector_epsilon.get(size)) for size in sizes)
        )
    return Group(table, Text("At the same delta, with the sharp sigma of the release.", style="dim"))


def _error(value: float | None, coefficient: float) -> Text:
    if value is None:
        return Text("-")
    style = "red" if value > coefficient else "yellow" if value > coefficient / 3 else "green"
    return Text(_number(value), style=style)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _scaled(value: float, unit: str) -> str:
    power = min(max(0, math.floor(math.log10(value) / 3)), len(_PREFIXES) - 1)
    return f"{value / 1000**power:.3g} {_PREFIXES[power]}{unit}".rstrip()


def plan_table(title: str, *headings: str) -> Table:
    """A plan's table of numbers, names in its first column."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right", header_style="dim")
    return table


_STYLE = {  # a colour-blind-safe set, each with its own dash
    "sharp": ("#0072B2", "-", "masked, sharp"),
    "bound": ("#56B4E9", ":", "masked, rule without an integral"),
    "theorem": ("#D55E00", "--", "masked, Theorem 3.4"),
    "corollary": ("#CC79A7", "-.", "masked, Corollary 3.5"),
    "local": ("#555555", ":", "no mask (local noise)"),
}
_POINTS = 14
_FORMATS = (".png", ".svg", ".pdf")


def save_plot(plan: Plan, path: Path) -> None:
    """Draw the plan's two panels to a file."""
    if path.suffix.lower() not in _FORMATS:
        raise ParameterError("plot", f"a file ending in {', '.join(_FORMATS)}", str(path))
    target = plan.target
    sizes = _ladder(target)
    curves = [sigma_by(target, rows) for rows in sizes]
    # The object interface: pyplot would choose a display backend and keep the figure alive.
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    noise, error = figure.subplots(1, 2)
    what = "a person's whole row" if target.protect == "record" else "a change of at most 1"
    figure.suptitle(
        f"({target.epsilon:g}, {target.delta:g})-differential privacy for {what}: "
        f"{target.rows:,} people, {target.attributes} columns",
        fontsize=12,
    )
    for method in METHODS:
        colour, dash, label = _STYLE[method]
        values = [curve[method] for curve in curves]
        sigmas = [value for value in values if value is not None]
        if len(sigmas) != len(sizes):
            continue
        noise.plot(sizes, sigmas, dash, color=colour, label=label, lw=2)
        error.plot(sizes, [standard_error(target, s) for s in sigmas], dash, color=colour, lw=2)
    _mark(plan, noise, error)
    error.axhline(plan.sampling_error, color="#009E73", lw=1.2)
    _note(error, sizes[0], plan.sampling_error, "without noise", "#009E73", "left")
    error.axhline(target.coefficient, color="black", lw=1.2)
    _note(error, sizes[-1], target.coefficient, "the coefficient itself", "black", "right")
    _finish(noise, "Noise on a scaled value", "sigma")
    _finish(error, "Standard error of a coefficient", "standard error, scaled units")
    noise.legend(frameon=False, loc="best")
    figure.savefig(path, dpi=150)


def _ladder(target: Target) -> list[int]:
    """Release sizes from a little above the number of columns to everybody, evenly on a log scale."""
    low = min(target.rows, max(target.attributes + 2, target.rows // 1000, 3 * target.attributes))
    steps = [low * math.exp(math.log(target.rows / low) * i / (_POINTS - 1)) for i in range(_POINTS)]
    return sorted({*(round(rows) for rows in steps), target.rows})


def _mark(plan: Plan, noise: Any, error: Any) -> None:
    """A dot, with its value, at each release size of the plan, on the sharp curve."""
    colour = _STYLE["sharp"][0]
    for release in plan.releases:
        for axis, value in ((noise, release.sigma["sharp"]), (error, release.standard_error["sharp"])):
            if value is not None:
                axis.plot([release.release_rows], [value], "o", color=colour, ms=6)
                axis.annotate(
                    f"{value:.3g}", (release.release_rows, value), xytext=(0, 7), textcoords="offset points",
                    ha="center", color=colour, fontsize=9,
                )  # fmt: skip


def _note(axis: Any, rows: int, height: float, text: str, colour: str, side: str) -> None:
    place = {"xytext": (0, 3), "textcoords": "offset points", "ha": side}
    axis.annotate(text, (rows, height), color=colour, fontsize=9, **place)


def _finish(axis: Any, title: str, label: str) -> None:
    axis.margins(y=0.08)
    axis.set(title=title, xlabel="rows in a release", ylabel=label, xscale="log", yscale="log")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda rows, _: f"{rows:,.0f}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    low, high = axis.get_ylim()
    steps = (1.0, 2.0, 5.0) if high / low < 500 else (1.0,)
    axis.yaxis.set_major_locator(LogLocator(subs=steps, numticks=20))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(visible=True, which="major", color="#e6e6e6")
    axis.spines[["top", "right"]].set_visible(False)
