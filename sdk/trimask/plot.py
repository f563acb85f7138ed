"""Pictures, one call each. matplotlib is imported when the first one is drawn.

trimask.plot.coefficients(fit, naive)                  # coefficients with sampling and privacy intervals
trimask.plot.scree(trimask.fit.pca(dataset))           # eigenvalues over the noise floor
trimask.plot.histogram(trimask.fit.histogram(dataset, "age_group"))     # people an interval, with what noise adds
trimask.plot.survival(trimask.fit.survival(dataset, "years", "died"))   # a life table's curve
trimask.plot.precision(epsilon=1, delta=1e-6, attributes=6)    # before a study: error against rows

A forest plot has coefficients with their intervals; a scree plot variances of components, their intervals, and the floor
below which noise alone reaches; planned precision is a coefficient's standard error against rows and release size. Colours
are safe for colour blindness, axes quiet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from trimask.errors import ParameterError
from trimask.fit.components import PCAResults
from trimask.fit.design import INTERCEPT
from trimask.fit.estimates import NOT_DETERMINED, Estimates, EstimateTable, critical_values
from trimask.fit.histograms import HistogramResults
from trimask.fit.rates import SurvivalResults
from trimask.fit.report import Report, figures, places_for
from trimask.fit.results import Basis, LinearResults
from trimask.fit.ridge import RidgeResults
from trimask.fit.two_stage import TSLSResults
from trimask_theory.moments.noise_law import Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from trimask_theory.masking.masked_noise import Protection


__all__ = ["coefficients", "histogram", "precision", "scree", "survival"]

INK, GREY = "#222222", "#555555"
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#aa4499"


def quiet(
    ax: Axes, *, hide: tuple[str, ...] = ("top", "right"), grid: Literal["both", "x", "y"] = "y"
) -> None:
    """Light spines and grid, small ticks."""
    for side in hide:
        ax.spines[side].set_visible(False)
    for side in {"bottom", "left"} - set(hide):
        ax.spines[side].set_color("#bbbbbb")
    ax.grid(axis=grid, color="#e3e6ea", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=8.5, colors=GREY)


def _axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Those given, or those of a new figure of so many inches."""
    import matplotlib.pyplot as plt

    return ax if ax is not None else plt.subplots(figsize=(width, height), layout="constrained")[1]


def _require(result: object, kind: type, function: str) -> None:
    if not isinstance(result, kind):
        raise ParameterError("result", f"what {function} returns", type(result).__name__)


def _cautioned(ax: Axes, *results: Report) -> Axes:
    """What must be said of clipped releases, under the axis."""
    said = dict.fromkeys(result.caution for result in results if result.caution)
    if said:
        ax.set_xlabel("\n".join([ax.get_xlabel(), *said]), fontsize=8)
    return ax


_LOOK: dict[Basis, tuple[str, str, str]] = {  # colour, marker, name
    "rows": (INK, "D", "raw rows (truth)"),
    "release": (BLUE, "o", "release"),
    "naive": (ORANGE, "s", "naive: noise ignored"),
}
_MORE = (BLUE, INK, GREEN, PURPLE, ORANGE)
_SPREAD = 0.25


def coefficients(
    *results: Estimates,
    ax: Axes | None = None,
    alpha: float = 0.05,
    intercept: bool = False,
    title: str | None = None,
    labels: Mapping[str, str] | None = None,
    units: Literal["reach", "original"] = "reach",
    of: str | None = None,
) -> Axes:
    """A forest plot: one line for each coefficient, one mark for each fit; of every result that has estimates.

    `results` are fits of `fit.ols`, `naive_ols`, `ridge`, `tsls` and so on, or what `fit.means`, `crosstab`, `rates` and the
    others return, with `of` the name of one of their tables. The thin line is the whole interval and
    the thick line its sampling part; the difference is the cost of privacy. With
    `units` "reach" each coefficient is divided by the interval reach of the first release (or first) fit, so that all share
    one axis; with "original" the axis has the coefficients' own units. The numbers on the right are in original units.
    `labels` replace coefficients' names; `intercept` shows the intercept too.
    `ax` are the axes to draw on (new ones by default), `alpha` is 1 less the coverage of the intervals, `title`
    replaces the title. Returns the axes.

    >>> import numpy as np, pandas as pd, trimask
    >>> rows = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (5000, 2)), columns=["x", "y"])
    >>> gram = trimask.release.local.gram(rows, row_norm=2**0.5, epsilon=1.0, delta=1e-6)
    >>> ax = trimask.plot.coefficients(trimask.fit.ols(gram, "y ~ x"))
    >>> ax.figure.savefig("coefficients.png")  # doctest: +SKIP
    """
    if not results:
        raise ParameterError("results", "at least one fit")
    if not 0 < alpha < 1:
        raise ParameterError("alpha", "in (0, 1)", alpha)
    if units not in ("reach", "original"):
        raise ParameterError("units", "'reach' or 'original'", units)
    every = [_rows(result.estimates(of), alpha) for result in results]
    names = [name for name in every[0].index if intercept or name != INTERCEPT] or list(every[0].index)
    for result, rows in zip(results[1:], every[1:], strict=True):
        if list(rows.index) != list(every[0].index):
            raise ParameterError(
                "results", "fits of the same formula", getattr(result, "formula", result.title)
            )
    at_release = [_basis(result) == "release" for result in results]
    main = at_release.index(True) if any(at_release) else 0
    shown, numbers = results[main], every[main].loc[names]
    ax = _axes(ax, 8.0, 1.6 + 0.72 * len(names))

    unit = _unit(numbers) if units == "reach" else np.ones(len(names))
    places = np.arange(len(names), dtype=float)
    offsets = np.linspace(-_SPREAD, _SPREAD, len(results)) if len(results) > 1 else np.zeros(1)
    ax.axvline(0.0, color="#999999", linewidth=1.0, zorder=1)
    for place in places[1::2]:
        ax.axhspan(place - 0.5, place + 0.5, color="#f4f6f8", zorder=0, linewidth=0)
    reach = float(critical_values(alpha)[0])
    for rows, offset, (colour, marker, label) in zip(every, offsets, _looks(results), strict=True):
        at, low, high, part = (
            rows.loc[names, key].to_numpy() / unit for key in ("estimate", "low", "high", "sampling")
        )
        bounded = np.isfinite(low) & np.isfinite(high)
        ax.hlines(
            (places + offset)[bounded],
            low[bounded],
            high[bounded],
            linewidth=1.4,
            alpha=0.8,
            color=colour,
            zorder=2,
        )
        ax.hlines(
            places + offset,
            at - reach * part,
            at + reach * part,
            linewidth=4.5,
            alpha=0.5,
            color=colour,
            zorder=2,
        )
        ax.plot(at, places + offset, marker, color=colour, ms=5, mec="white", mew=0.7, label=label, zorder=3)
    called = [(labels or {}).get(name, name) for name in names]
    words = shown.estimates(of).head
    if units == "reach":
        of_release = " of the release" if at_release[main] else ""
        words = f"coefficient, in units of the {100 * (1 - alpha):g}% interval reach{of_release}"
    elif isinstance(shown, LinearResults):
        words = "coefficient" + (f" ({shown.unit} per unit of the column)" if shown.unit else "")
    _dress(ax, shown, called, places, words, title)
    _values(ax, shown, numbers, places, alpha)
    return _cautioned(ax, *results)


def _rows(table: EstimateTable, alpha: float) -> pd.DataFrame:
    """What a forest plot shows of a table, by names in words."""
    low, high = table.interval(alpha).T
    found = table.frame[["estimate", "std err", "sampling"]].assign(low=low, high=high)
    names = [" ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in table.index]
    return found.set_axis(names, axis=0)


def _basis(result: Estimates) -> Basis:
    return result.basis if isinstance(result, LinearResults) else "release"


def _look(result: Estimates) -> tuple[str, str, str]:
    if isinstance(result, RidgeResults):
        return GREEN, "^", f"ridge, penalty {result.penalty:g}"
    if isinstance(result, TSLSResults):
        return PURPLE, "v", "two-stage least squares"
    return _LOOK[_basis(result)]


def _looks(results: Sequence[Estimates]) -> list[tuple[str, str, str]]:
    """A look a fit: fits of one kind are told apart by what they are of, and by colour."""
    looks = [_look(result) for result in results]
    labels = [label for _, _, label in looks]
    for at, label in enumerate(labels):
        before = labels[:at].count(label)
        if labels.count(label) > 1:
            colour, marker, _ = looks[at]
            words = results[at].label if len({one.label for one in results}) > 1 else f"{label} {before + 1}"
            looks[at] = _MORE[before % len(_MORE)] if before else colour, marker, words
    return looks


def _unit(numbers: pd.DataFrame) -> Matrix:
    reach = ((numbers["high"] - numbers["low"]) / 2).to_numpy()
    # A coefficient that the release does not bound has no reach to measure by.
    size = np.maximum(np.abs(numbers["estimate"].to_numpy()), 1e-300)
    return np.where((reach > 0) & np.isfinite(reach), reach, size)


def _values(ax: Axes, shown: Estimates, numbers: pd.DataFrame, at: Matrix, alpha: float) -> None:
    """The numbers in original units, in a column right of the picture."""
    colour, _, label = _look(shown)
    beside = ax.get_yaxis_transform()
    head = f"{label}, {100 * (1 - alpha):g}%"
    ax.text(1.02, -0.62, head, transform=beside, fontsize=8.5, va="center", color=colour)
    for place, (value, error, _, low, high) in zip(at, numbers.to_numpy(), strict=True):
        best, low_shown, high_shown = figures([value, low, high], places_for(error, value))
        words = f"{best}  [{low_shown}, {high_shown}]" if np.isfinite([low, high]).all() else NOT_DETERMINED
        ax.text(1.02, place, words, transform=beside, fontsize=9, va="center", color=colour)


def _dress(
    ax: Axes, shown: Estimates, names: Sequence[str], places: Matrix, words: str, title: str | None
) -> None:
    ax.set_yticks(places, list(names), fontsize=9.5)
    ax.set_ylim(len(names) - 0.5, -0.5)
    quiet(ax, hide=("top", "right", "left"), grid="x")
    ax.tick_params(axis="y", length=0, labelsize=9.5, labelcolor="black")
    cautions = [note for note in shown.notes if note.startswith("Caution")]
    under = [words, f"thick: sampling error alone, thin: with the privacy noise; {shown.label}", *cautions]
    ax.set_xlabel("\n".join(under), fontsize=8.5, color=GREY)
    named = shown.title
    if isinstance(shown, LinearResults):
        named = f"Coefficients for {shown.response}" + (f" ({shown.unit})" if shown.unit else "")
    ax.set_title(title or named, loc="left", fontsize=12, fontweight="bold", pad=26)
    ax.legend(
        loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=3, frameon=False, fontsize=8.5, handletextpad=0.3,
        columnspacing=1.4, borderaxespad=0.2,
    )  # fmt: skip


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
    _require(result, HistogramResults, "fit.histogram")
    ax = _axes(ax, 6.4, 3.6)
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
    return _cautioned(ax, result)


def survival(
    result: SurvivalResults, *, ax: Axes | None = None, alpha: float = 0.05, title: str | None = None
) -> Axes:
    """The share without an event over time: one line for each level, with the band of its intervals.

    `result` is what `fit.survival` returns.
    `ax` are the axes to draw on (new ones by default), `alpha` is 1 less the coverage of the intervals, `title`
    replaces the title. Returns the axes.

    >>> ax = trimask.plot.survival(trimask.fit.survival(dataset, "year_bins", "died"))  # doctest: +SKIP
    """
    _require(result, SurvivalResults, "fit.survival")
    ax = _axes(ax, 6.4, 3.8)
    ends = result.conf_int(alpha)
    if result.by is None:
        levels, split = [""], [(result.survival, ends)]
    else:
        levels = list(dict.fromkeys(result.survival.index.get_level_values(result.by)))
        split = [(result.survival.loc[[level]], ends.loc[[level]]) for level in levels]
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
    return _cautioned(ax, result)


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
    _require(result, PCAResults, "fit.pca")
    reach = float(critical_values(alpha)[0])
    values = result.eigenvalues["estimate"].to_numpy()
    ax = _axes(ax, max(5.6, 1.6 + 0.55 * len(values)), 3.8)
    at = np.arange(1, len(values) + 1)
    part = reach * result.eigenvalues["sampling"].to_numpy()
    whole = np.abs(result.conf_int(alpha).to_numpy().T - values)
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
    return _cautioned(ax, result)


def _floor_words(low: float, high: float) -> str:
    ends = [f"{low:.3g}", f"{high:.3g}"]
    return (
        f"noise floor {ends[1]}" if ends[0] == ends[1] else f"noise floor, {' to '.join(ends)} by direction"
    )


_PRECISION_COLOURS = (BLUE, GREEN, ORANGE, PURPLE)


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
    """The standard error of a coefficient in scaled units, by the reference model of `trimask_theory.planning.planner`.

    One curve for a single pooled release of all the rows, one for each release size, one without noise. `rows`
    are the numbers of people to show, `attributes` counts all columns with the ones column and the response.
    `epsilon` and `delta` are the guarantee for what `protect` names ("record" or "unit"), `release_sizes` the sizes
    of releases, `row_norm` the bound on a row, `r_squared` that of the regression. `ax` are the axes to draw on (new
    ones by default), `title` replaces the title. Returns the axes.

    >>> import trimask
    >>> ax = trimask.plot.precision(epsilon=1.0, delta=1e-6, attributes=6, rows=[2000, 8000])
    """
    from trimask_theory.masking.masked_noise import calibrate
    from trimask_theory.planning.planner import Target, standard_error

    if rows is None:
        start = max(200, 4 * attributes)
        rows = [round(n) for n in np.geomspace(start, 500 * start, 28)]
    sizes = sorted({int(size) for size in release_sizes})
    people = sorted({int(n) for n in rows})
    if not people or people[0] <= attributes or (sizes and sizes[0] <= attributes):
        raise ParameterError("rows and release_sizes", f"more than the {attributes} attributes")
    if len(sizes) >= len(_PRECISION_COLOURS):
        raise ParameterError("release_sizes", f"at most {len(_PRECISION_COLOURS) - 1} sizes", len(sizes))
    target = Target(epsilon, delta, attributes, people[-1], protect, row_norm, r_squared=r_squared)

    def error(n: int, release: int | None) -> float:
        sigma = 0.0
        if release is not None:
            sigma = calibrate(epsilon, delta, release, attributes, protect, target.norm).sigma
        return standard_error(replace(target, rows=n), sigma)

    ax = _axes(ax, 7.2, 4.2)
    ax.plot(
        people,
        [error(n, None) for n in people],
        "--",
        color=INK,
        linewidth=1.3,
        label="no noise: sampling alone",
    )
    ax.plot(people, [error(n, n) for n in people], color=BLUE, linewidth=2.2, label="one pooled release")
    for size, colour in zip(sizes, _PRECISION_COLOURS[1:], strict=False):
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
