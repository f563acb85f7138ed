"""Coefficients with their intervals: a forest plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from trimask.errors import ParameterError
from trimask.fit.critical_value import critical_value
from trimask.fit.design import INTERCEPT
from trimask.fit.report import figures, places_for
from trimask.fit.results import Basis, LinearResults
from trimask.fit.ridge import RidgeResults
from trimask.fit.two_stage import TSLSResults
from trimask.moments import Matrix
from trimask.plot._look import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["coefficients"]

_LOOK: dict[Basis, tuple[str, str, str]] = {  # colour, marker, name
    "rows": (INK, "D", "raw rows (truth)"),
    "release": (BLUE, "o", "release"),
    "naive": (ORANGE, "s", "naive: noise ignored"),
}
_MORE = (BLUE, INK, GREEN, PURPLE, ORANGE)
_SPREAD = 0.25


def coefficients(
    *results: LinearResults,
    ax: Axes | None = None,
    alpha: float = 0.05,
    intercept: bool = False,
    title: str | None = None,
    labels: Mapping[str, str] | None = None,
    units: Literal["reach", "original"] = "reach",
) -> Axes:
    """A forest plot: one line for each coefficient, one mark for each fit.

    `results` are fits of `fit.ols`, `naive_ols`, `ridge`, `tsls` and so on. The thin line is the whole interval and
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
    import matplotlib.pyplot as plt

    if not results:
        raise ParameterError("results", "at least one fit")
    if not 0 < alpha < 1:
        raise ParameterError("alpha", "in (0, 1)", alpha)
    names = [name for name in results[0].names if intercept or name != INTERCEPT] or list(results[0].names)
    for result in results[1:]:
        if result.names != results[0].names:
            raise ParameterError("results", "fits of the same formula", result.formula)
    shown = next((result for result in results if result.basis == "release"), results[0])
    if ax is None:
        _, ax = plt.subplots(figsize=(8.0, 1.6 + 0.72 * len(names)), layout="constrained")

    if units not in ("reach", "original"):
        raise ParameterError("units", "'reach' or 'original'", units)
    unit = _unit(shown, names, alpha) if units == "reach" else np.ones(len(names))
    places = np.arange(len(names), dtype=float)
    offsets = np.linspace(-_SPREAD, _SPREAD, len(results)) if len(results) > 1 else np.zeros(1)
    ax.axvline(0.0, color="#999999", linewidth=1.0, zorder=1)
    for place in places[1::2]:
        ax.axhspan(place - 0.5, place + 0.5, color="#f4f6f8", zorder=0, linewidth=0)
    for (result, offset), (colour, marker, label) in zip(
        zip(results, offsets, strict=True), _looks(results), strict=True
    ):
        at = result.params[names].to_numpy() / unit
        reach = critical_value(alpha, result.df_resid)
        low, high = result.conf_int(alpha).loc[names].to_numpy().T / unit
        bounded = np.isfinite(low) & np.isfinite(high)
        part = reach * result.bse_sampling[names].to_numpy() / unit
        ax.hlines(
            (places + offset)[bounded],
            low[bounded],
            high[bounded],
            color=colour,
            linewidth=1.4,
            alpha=0.8,
            zorder=2,
        )
        ax.hlines(places + offset, at - part, at + part, color=colour, linewidth=4.5, alpha=0.5, zorder=2)
        ax.plot(at, places + offset, marker, color=colour, ms=5, mec="white", mew=0.7, label=label, zorder=3)
    _dress(ax, shown, names, places, alpha, title)
    ax.set_yticks(places, [(labels or {}).get(name, name) for name in names], fontsize=9.5)
    if units == "original":
        measured = f" ({shown.unit} per unit of the column)" if shown.unit else ""
        ax.set_xlabel(ax.get_xlabel().replace(_axis_words(shown, alpha), f"coefficient{measured}"))
    return ax


def _look(result: LinearResults) -> tuple[str, str, str]:
    if isinstance(result, RidgeResults):
        return GREEN, "^", f"ridge, penalty {result.penalty:g}"
    if isinstance(result, TSLSResults):
        return PURPLE, "v", "two-stage least squares"
    return _LOOK[result.basis]


def _looks(results: Sequence[LinearResults]) -> list[tuple[str, str, str]]:
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


def _unit(shown: LinearResults, names: list[str], alpha: float) -> Matrix:
    low, high = shown.conf_int(alpha).loc[names].to_numpy().T
    reach = (high - low) / 2
    # A coefficient that the release does not bound has no reach to measure by.
    return np.where(
        (reach > 0) & np.isfinite(reach), reach, np.maximum(np.abs(shown.params[names].to_numpy()), 1e-300)
    )


def _values(ax: Axes, shown: LinearResults, names: list[str], at: Matrix, alpha: float) -> None:
    """The numbers in original units, in a column right of the picture."""
    colour, _, label = _look(shown)
    beside = ax.get_yaxis_transform()
    head = f"{label}, {100 * (1 - alpha):g}%"
    ax.text(1.02, -0.62, head, transform=beside, fontsize=8.5, va="center", color=colour)
    for name, place, (low, high) in zip(names, at, shown.conf_int(alpha).loc[names].to_numpy(), strict=True):
        places = places_for(float(shown.bse[name]), float(shown.params[name]))
        best, low_shown, high_shown = figures([float(shown.params[name]), low, high], places)
        words = f"{best}  [{low_shown}, {high_shown}]"
        ax.text(1.02, place, words, transform=beside, fontsize=9, va="center", color=colour)


def _dress(
    ax: Axes, shown: LinearResults, names: list[str], places: Matrix, alpha: float, title: str | None
) -> None:
    ax.set_yticks(places, names, fontsize=9.5)
    _values(ax, shown, names, places, alpha)
    ax.set_ylim(len(names) - 0.5, -0.5)
    quiet(ax, hide=("top", "right", "left"), grid="x")
    ax.tick_params(axis="y", length=0, labelsize=9.5, labelcolor="black")
    ax.set_xlabel(
        f"{_axis_words(shown, alpha)}\n"
        f"thick: sampling error alone, thin: with the privacy noise; {shown.label}",
        fontsize=8.5,
        color=GREY,
    )
    unit = f" ({shown.unit})" if shown.unit else ""
    ax.set_title(
        title or f"Coefficients for {shown.response}{unit}",
        loc="left",
        fontsize=12,
        fontweight="bold",
        pad=26,
    )
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        ncols=3,
        frameon=False,
        fontsize=8.5,
        handletextpad=0.3,
        columnspacing=1.4,
        borderaxespad=0.2,
    )


def _axis_words(shown: LinearResults, alpha: float) -> str:
    word = "interval reach of the release" if shown.basis == "release" else "interval reach"
    return f"coefficient, in units of the {100 * (1 - alpha):g}% {word}"
