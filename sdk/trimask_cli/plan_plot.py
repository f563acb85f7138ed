"""A plan as a picture: noise and standard error against the release size."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from trimask_core.errors import ParameterError
from trimask_theory.planner import METHODS, Plan, Target, sigma_by, standard_error

__all__ = ["save_plot"]

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
