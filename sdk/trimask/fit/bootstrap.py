"""Parametric-bootstrap intervals of any function of a release, for where first order is not enough.

Statement. Let M be the moments as estimated, made positive semidefinite. A draw is moments of rows drawn anew from a normal
population with them (a Wishart matrix about their mean, or none without `sampling`), with noise of the release's own law on
top (`trimask_theory.moments.noise_law`). The function of each draw varies about its value at M as the estimate does
about the truth, products, ratios and squares of noise included. The interval is the basic one, 2 f(M) - upper quantile to
2 f(M) - lower quantile, which corrects bias.

Assumed: normal rows, for sampling alone. Asymptotic; its coverage is measured in tests/sdk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from trimask.errors import ParameterError, TrimaskError
from trimask.fit.estimates import Estimates, EstimateTable
from trimask.fit.noise import Source, hidden, moments_of
from trimask.moments.moments import Moments
from trimask_core.study.derived import ONES
from trimask_theory.moments.noise_law import Matrix, positive_part

_FEWEST = 0.8


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BootstrapResults(Estimates):
    """What `fit.bootstrap` found.

    Attributes
    ----------
    estimate : Series
        The function's value on the release.
    draws : DataFrame
        A row a draw, of the function about `centre`.
    centre : Series
        What the draws are about.
    failed : int
        Draws without a number, left out.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.bootstrap(data, lambda d: trimask.fit.describe(d, ["age"]).means["estimate"], draws=30, seed=1)
    >>> len(found.draws), found.bse.index.tolist()
    (30, ['age'])
    """

    estimate: pd.Series[float]
    centre: pd.Series[float]
    draws: pd.DataFrame
    failed: int

    @property
    def title(self) -> str:
        """What this is."""
        return "Parametric bootstrap"

    @property
    def bse(self) -> pd.Series[float]:
        """The deviation of the draws."""
        return self.draws.std().rename("std err")

    @property
    def bias(self) -> pd.Series[float]:
        """By how much a draw exceeds what it is drawn about, on average."""
        return (self.draws.mean() - self.centre).rename("bias")


def bootstrap(
    dataset: Source,
    function: Callable[[Moments], Any],
    *,
    draws: int = 400,
    seed: int | None = None,
    sampling: bool = True,
) -> BootstrapResults:
    """Errors and intervals of any function of a release, by drawing people and noise anew.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    function : callable
        Takes moments, as every fit does, and returns a number, a Series or a list of numbers.
    draws : int
        How many.
    seed : int, optional
        Of the simulation; never of a release's noise.
    sampling : bool
        Without it errors are distances to these people's value.

    Returns
    -------
    BootstrapResults
        `bse`, `bias`, `conf_int()`. A draw for which the function has no number is counted and left out.

    Raises
    ------
    NoiseExceedsSignal
        More than a fifth of the draws had no number.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.bootstrap(
    ...     data, lambda d: trimask.fit.ols(d, "systolic ~ age").params, draws=50, seed=1
    ... )
    >>> list(found.conf_int().index)
    ['Intercept', 'age']
    """
    if not (isinstance(draws, int) and draws >= 20):
        raise ParameterError("draws", "a whole number >= 20", draws)
    moments = moments_of(dataset)
    rng = np.random.default_rng(seed)
    about = replace(moments, gram=positive_part(moments.gram), observed=None)
    estimate, centre = _series(function(moments)), _series(function(about))
    found, failed = [], 0
    for _ in range(draws):
        gram = _people(about, rng) if sampling else about.gram
        if not moments.exact:
            gram = gram + moments.law.draw(rng)
        try:
            found.append(_series(function(replace(about, gram=gram))).to_numpy())
        except TrimaskError:
            failed += 1
    if failed > (1 - _FEWEST) * draws:
        raise hidden(moments, [], f"{failed} of {draws} draws like this release give no number")
    frame = pd.DataFrame(np.array(found), columns=estimate.index)
    lost = f", {failed} without a number" if failed else ""
    return BootstrapResults(
        label=moments.label, nobs=moments.rows, sigma=moments.sigma, estimate=estimate, centre=centre, draws=frame,
        failed=failed, tables={"bootstrap": _table(estimate, centre, frame)},
        about=[("draws", f"{len(frame):,}{lost}")],
        remarks=("Noise by its own law, rows as normal; intervals are basic, corrected for bias.",),
    )  # fmt: skip


def _table(estimate: pd.Series[float], centre: pd.Series[float], draws: pd.DataFrame) -> EstimateTable:
    """Basic intervals: the draws' distances from their centre, turned about the estimate. Errors have one part."""
    away, unknown = draws - centre, np.full(len(estimate), np.nan)

    def ends(deviations: float) -> Matrix:
        tail = float(stats.norm.sf(deviations))
        low, high = away.quantile(1 - tail), away.quantile(tail)
        return np.column_stack([estimate - low, estimate - high])

    return EstimateTable(
        estimate.index, np.asarray(estimate, dtype=float), unknown, unknown, ends=ends, total=draws.std().to_numpy(),
        after={"bias": [f"{value:.3g}" for value in away.mean()]},
    )  # fmt: skip


def _series(value: Any) -> pd.Series[float]:
    if isinstance(value, pd.Series):
        return value.astype(float)
    values = np.atleast_1d(np.asarray(value, dtype=float)).ravel()
    names = ["value"] if len(values) == 1 else [f"value {i + 1}" for i in range(len(values))]
    return pd.Series(values, index=pd.Index(names))


def _people(moments: Moments, rng: np.random.Generator) -> Matrix:
    """The moments of as many normal rows with these ones: about their means where there is a `one`."""
    names = [column.name for column in moments.columns]
    n, G = moments.rows, moments.gram
    if ONES not in names:
        return _wishart(G / n, n, rng)
    one = names.index(ONES)
    mean = G[one] / G[one, one]
    spread = positive_part(G / n - np.outer(mean, mean))
    values, vectors = np.linalg.eigh(spread)
    drawn = mean + vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(len(values))) / np.sqrt(
        n
    )
    found: Matrix = _wishart(spread, n - 1, rng) + n * np.outer(drawn, drawn)
    return found


def _wishart(spread: Matrix, df: int, rng: np.random.Generator) -> Matrix:
    values, vectors = np.linalg.eigh(spread)
    p = len(values)
    lower = np.tril(rng.standard_normal((p, p)), -1)
    lower[np.diag_indices(p)] = np.sqrt(rng.chisquare(np.maximum(df - np.arange(p), 1)))
    half = (vectors * np.sqrt(np.maximum(values, 0.0))) @ lower
    found: Matrix = half @ half.T
    return found
