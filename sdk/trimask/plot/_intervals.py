"""Histograms and life tables as pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trimask.errors import ParameterError
from trimask.fit.histograms import HistogramResults
from trimask.fit.survival_table import SurvivalResults
from trimask.plot._look import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["histogram", "survival"]

_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, INK)


def histogram(
    result: HistogramResults, *, ax: Axes | None = None, alpha: float = 0.05, title: str | None = None
) -> Axes:
    """Bars whose area is the share of people; a line is the interval of a count, noise and sampling together.

    `result` is what `fit.histogram` returns.
    `ax` are the axes to draw on (new ones by default), `alpha` is 1 less the coverage of the intervals, `title`
    replaces the title. Returns the axes.

    >>> import trimask
    >>> ax = trimask.plot.histogram(trimask.fit.histogram(trimask.example(), "age"))
    """
    import matplotlib.pyplot as plt

    if not isinstance(result, HistogramResults):
        raise ParameterError("result", "what fit.histogram returns", type(result).__name__)
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    width = np.diff(result.edges)
    height = result.density.to_numpy()
    ends = result.conf_int(alpha).to_numpy() / result.nobs / width[:, None]
    ax.bar(
        result.edges[:-1], height, width, align="edge", color=BLUE, alpha=0.55, edgecolor="white", zorder=2
    )
    middle = result.edges[:-1] + width / 2
    reach = np.abs(ends.T - height)
    ax.errorbar(middle, height, reach, fmt="none", ecolor=INK, elinewidth=1.2, capsize=4, zorder=3)
    ax.axhline(0, color=GREY, linewidth=0.8)
    unit = f" ({result.unit})" if result.unit else ""
    ax.set(xlabel=f"{result.of}{unit}", ylabel="share of people per unit", title=title or result.title)
    quiet(ax)
    return ax


def survival(
    result: SurvivalResults, *, ax: Axes | None = None, alpha: float = 0.05, title: str | None = None
) -> Axes:
    """The share without an event over time: one line for each level, with the band of its intervals.

    `result` is what `fit.survival` returns.
    `ax` are the axes to draw on (new ones by default), `alpha` is 1 less the coverage of the intervals, `title`
    replaces the title. Returns the axes.

    >>> ax = trimask.plot.survival(trimask.fit.survival(dataset, "year_bins", "died"))  # doctest: +SKIP
    """
    import matplotlib.pyplot as plt

    if not isinstance(result, SurvivalResults):
        raise ParameterError("result", "what fit.survival returns", type(result).__name__)
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    ends = result.conf_int(alpha)
    if result.by is None:
        levels, split = [""], [(result.table, ends)]
    else:
        levels = list(dict.fromkeys(result.table.index.get_level_values(result.by)))
        split = [(result.table.loc[[level]], ends.loc[[level]]) for level in levels]
    for at, (level, (table, limits)) in enumerate(zip(levels, split, strict=True)):
        colour = _COLOURS[at % len(_COLOURS)]
        curve = np.concatenate([[1.0], table["survival"].to_numpy()])
        low, high = (np.concatenate([[1.0], limits[end].to_numpy()]) for end in (0, 1))
        ax.plot(result.edges, curve, color=colour, marker="o", markersize=4, label=level or None, zorder=3)
        ax.fill_between(result.edges, low, high, color=colour, alpha=0.15, linewidth=0, zorder=2)
    unit = f" ({result.unit})" if result.unit else ""
    ax.set(xlabel=f"{result.time}{unit}", ylabel=f"share without {result.event}", ylim=(0, 1.02))
    ax.set_title(title or result.title)
    if result.by is not None:
        ax.legend(title=result.by, frameon=False, fontsize=8.5)
    quiet(ax, grid="both")
    return ax
