"""The trade-off of clipping as a picture: a panel a suite, error against row_norm, noise and bias apart."""

from __future__ import annotations

import math
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from trimask_cli.own_plan.predict import Prediction
from trimask_cli.own_plan.result import OwnPlan
from trimask_core.errors import ParameterError

__all__ = ["save_plot"]

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
