"""The scree plot: variances of components, their intervals, and the floor below which noise alone reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trimask.errors import ParameterError
from trimask.fit.components import PCAResults
from trimask.fit.critical_value import critical_value
from trimask.plot._look import BLUE, GREY, INK, ORANGE, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["scree"]


def scree(
    result: PCAResults, *, ax: Axes | None = None, alpha: float = 0.05, title: str | None = None
) -> Axes:
    """Eigenvalues of a `fit.pca` with intervals over the noise floor.

    Thin is the whole interval, thick its sampling part. A component without one is too close to its neighbour
    for errors to hold; a hollow mark is a component in the shaded band, which cannot be told from noise.
    `result` is what `fit.pca` returns.
    `ax` are the axes to draw on (new ones by default), `alpha` is 1 less the coverage of the intervals, `title`
    replaces the title. Returns the axes.

    >>> import numpy as np, trimask
    >>> x = np.random.default_rng(0).uniform(-1, 1, (5000, 3)) * [1, 0.5, 0.2]
    >>> gram = trimask.release.local.gram(x, row_norm=1.2, epsilon=1.0, delta=1e-6)
    >>> ax = trimask.plot.scree(trimask.fit.pca(gram))
    """
    import matplotlib.pyplot as plt

    if not isinstance(result, PCAResults):
        raise ParameterError("result", "what fit.pca returns", type(result).__name__)
    reach = critical_value(alpha)
    values = result.eigenvalues["estimate"].to_numpy()
    if ax is None:
        _, ax = plt.subplots(figsize=(max(5.6, 1.6 + 0.55 * len(values)), 3.8), layout="constrained")
    at = np.arange(1, len(values) + 1)
    whole, part = (reach * result.eigenvalues[name].to_numpy() for name in ("std err", "sampling"))
    ax.errorbar(at, values, whole, fmt="none", ecolor=BLUE, elinewidth=1.4, capsize=7, capthick=1.2, zorder=2)
    ax.vlines(at, values - part, values + part, color=BLUE, linewidth=5.0, alpha=0.45, zorder=2)
    ax.plot(at, values, "-", color=BLUE, linewidth=1.0, alpha=0.6, zorder=2)
    floors = result.noise_floors.to_numpy()
    clear = values > floors
    ax.plot(at[clear], values[clear], "o", color=BLUE, ms=5, mec="white", mew=0.7, zorder=3)
    ax.plot(at[~clear], values[~clear], "o", color="white", ms=5, mec=BLUE, mew=1.2, zorder=3)
    ax.axhline(0.0, color=INK, linewidth=0.8)
    if result.noise_floor > 0:
        # A band a component: noise is not the same in every direction.
        edges = np.concatenate([[0.5], at + 0.5])
        edges[-1] = len(values) + 0.7
        ax.stairs(floors, edges, baseline=-floors, fill=True, color=ORANGE, alpha=0.13, linewidth=0, zorder=0)
        ax.hlines(floors, edges[:-1], edges[1:], color=ORANGE, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1,
            label=_floor_words(float(floors.min()), float(floors.max())))  # fmt: skip
        ax.legend(frameon=False, fontsize=9)
    for x, value, share in zip(at, values, result.explained_variance_ratio, strict=True):
        ax.annotate(
            f"{share:.0%}", (x, value), xytext=(9, 5), textcoords="offset points", fontsize=8.5, color=GREY
        )
    ax.set_xticks(at, list(result.eigenvalues.index))
    ax.set_xlim(0.5, len(values) + 0.7)
    low = min(0.0, float(values.min()), -float(floors.max()))
    ax.set_ylim(bottom=1.15 * low if low < 0 else -0.02 * float(values.max()))
    of = "correlations" if result.standardize else "covariances, scaled units"
    ax.set_ylabel(f"variance ({of})", fontsize=9, color=GREY)
    ax.set_title(
        title or f"Principal components, {result.nobs:,} rows", loc="left", fontsize=12, fontweight="bold"
    )
    ax.set_xlabel(
        f"{100 * (1 - alpha):g}% intervals; thick: sampling error alone, thin: with the privacy noise\n{result.label}",
        fontsize=8.5,
        color=GREY,
    )
    quiet(ax)
    return ax


def _floor_words(low: float, high: float) -> str:
    ends = [f"{low:.3g}", f"{high:.3g}"]
    return (
        f"noise floor {ends[1]}" if ends[0] == ends[1] else f"noise floor, {' to '.join(ends)} by direction"
    )
