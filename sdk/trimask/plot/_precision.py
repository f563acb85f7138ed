"""Planned precision: what a coefficient's standard error would be against rows and release size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trimask.errors import ParameterError
from trimask.plot._look import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from trimask_theory.masked_noise import Protection

__all__ = ["precision"]

_COLOURS = (BLUE, GREEN, ORANGE, PURPLE)


def precision(
    *,
    epsilon: float,
    delta: float,
    attributes: int,
    rows: Sequence[int] | None = None,
    release_sizes: Sequence[int] = (1024, 4096),
    protect: Protection = "record",
    row_norm: float | None = None,
    r_squared: float = 0.5,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """The standard error of a coefficient in scaled units, by the reference model of `trimask_theory.planner`.

    One curve for a single pooled release of all the rows, one for each release size, one without noise. `rows`
    are the numbers of people to show, `attributes` counts all columns with the ones column and the response.
    `epsilon` and `delta` are the guarantee for what `protect` names ("record" or "unit"), `release_sizes` the sizes
    of releases, `row_norm` the bound on a row, `r_squared` that of the regression. `ax` are the axes to draw on (new
    ones by default), `title` replaces the title. Returns the axes.

    >>> import trimask
    >>> ax = trimask.plot.precision(epsilon=1.0, delta=1e-6, attributes=6, rows=[2000, 8000])
    """
    import matplotlib.pyplot as plt

    from trimask_theory.masked_noise import calibrate
    from trimask_theory.planner import Target, standard_error

    if rows is None:
        start = max(200, 4 * attributes)
        rows = [round(n) for n in np.geomspace(start, 500 * start, 28)]
    sizes = sorted({int(size) for size in release_sizes})
    people = sorted({int(n) for n in rows})
    if not people or people[0] <= attributes or (sizes and sizes[0] <= attributes):
        raise ParameterError("rows and release_sizes", f"more than the {attributes} attributes")
    if len(sizes) >= len(_COLOURS):
        raise ParameterError("release_sizes", f"at most {len(_COLOURS) - 1} sizes", len(sizes))
    target = Target(epsilon, delta, attributes, people[-1], protect, row_norm, r_squared=r_squared)

    def error(n: int, release: int | None) -> float:
        sigma = 0.0
        if release is not None:
            sigma = calibrate(epsilon, delta, release, attributes, protect, target.norm).sigma
        return standard_error(replace(target, rows=n), sigma)

    if ax is None:
        _, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    ax.plot(
        people,
        [error(n, None) for n in people],
        "--",
        color=INK,
        linewidth=1.3,
        label="no noise: sampling alone",
    )
    ax.plot(people, [error(n, n) for n in people], color=BLUE, linewidth=2.2, label="one pooled release")
    for size, colour in zip(sizes, _COLOURS[1:], strict=False):
        enough = [size, *(n for n in people if n > size)]
        if size < people[-1]:
            curve = [error(n, size) for n in enough]
            ax.plot(enough, curve, color=colour, linewidth=1.8, label=f"releases of {size:,} rows")
            ax.plot(enough[:1], curve[:1], "o", color=colour, ms=5)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("people in the study", fontsize=9, color=GREY)
    ax.set_ylabel("standard error of a coefficient\n(columns scaled to [-1, 1])", fontsize=9, color=GREY)
    ax.set_title(
        title or f"Planned precision at epsilon = {epsilon:g}, delta = {delta:g}, {attributes} columns",
        loc="left", fontsize=12, fontweight="bold",
    )  # fmt: skip
    quiet(ax, grid="both")
    ax.legend(frameon=False, fontsize=8.5)
    return ax
