"""Independence and measures of effect of a table of counts: chi-square, risk difference, risk ratio, odds ratio.

The statements are `trimask.fit.crosstab`'s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import linalg, stats

from trimask.fit.groups import unit
from trimask.fit.noise import gram_covariance, outers
from trimask.moments import Matrix, Moments
from trimask.shown import Shown
from trimask_core.schema import ONES

__all__ = ["ChiSquare", "effects_of", "independence"]


@dataclass(frozen=True)
class ChiSquare(Shown):
    """A test of independence that counts the noise in.

    Attributes
    ----------
    statistic : float
        Pearson's without noise; smaller where noise explains a part.
    df : int
        Degrees of freedom.
    pvalue : float
        By the chi-square law.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.crosstab(data, "activity", "smoker").chi2.df
    2
    """

    statistic: float
    df: int
    pvalue: float

    def summary(self) -> str:
        """The test in a line."""
        return f"chi-square({self.df}) = {self.statistic:.4g}, p = {self.pvalue:.4g}"

    def __str__(self) -> str:
        return self.summary()


def independence(moments: Moments, U: Matrix, V: Matrix, counts: Matrix) -> ChiSquare | None:
    """The test of the counts of members U by V; None where a level has nobody left of the noise."""
    n, one = moments.rows, unit(moments.schema, ONES)
    r, c = counts.sum(axis=1) / n, counts.sum(axis=0) / n
    if np.min(r) <= 0 or np.min(c) <= 0:
        return None
    gap = (counts - n * np.outer(r, c))[1:, 1:].ravel()
    covariance = n * np.kron((np.diag(r) - np.outer(r, r))[1:, 1:], (np.diag(c) - np.outer(c, c))[1:, 1:])
    if not moments.exact:
        gradients = [
            outers(U[[i]], V[j])[0] - c[j] * outers(U[[i]], one)[0] - r[i] * outers(V[[j]], one)[0]
            for i in range(1, len(U))
            for j in range(1, len(V))
        ]
        covariance = covariance + gram_covariance(moments, np.array(gradients))
    statistic = float(gap @ linalg.solve(covariance, gap, assume_a="pos"))
    return ChiSquare(statistic, len(gap), float(stats.chi2.sf(statistic, len(gap))))


def effects_of(counts: pd.DataFrame, covariance: Matrix, outcome: str, reference: str) -> pd.DataFrame:
    """A row a level but the reference; gradients are those of functions of the cells, row by row."""
    N = counts.to_numpy()
    hit = list(counts.columns).index(outcome)
    base = list(counts.index).index(reference)

    def risk(i: int) -> tuple[float, float, Matrix, Matrix]:
        """Risk and odds of a row, with the gradients of risk and of the log odds."""
        inside, size = N[i, hit], N[i].sum()
        with np.errstate(divide="ignore", invalid="ignore"):
            p = inside / size if size > 0 else math.nan
            slope, odds = np.zeros_like(N), np.zeros_like(N)
            slope[i] = -p / size
            slope[i, hit] += 1 / size
            odds[i] = -1 / (size - inside)
            odds[i, hit] = 1 / inside
        return p, inside / (size - inside) if size != inside else math.nan, slope.ravel(), odds.ravel()

    def error(gradient: Matrix) -> float:
        return (
            math.sqrt(max(float(gradient @ covariance @ gradient), 0.0))
            if np.isfinite(gradient).all()
            else math.nan
        )

    p0, odds0, slope0, log0 = risk(base)
    found = {}
    for i, level in enumerate(counts.index):
        if i == base:
            continue
        p, odds, slope, log = risk(i)
        above = p > 0 and p0 > 0
        both = above and odds > 0 and odds0 > 0
        found[level] = {
            "risk": p,
            "risk difference": p - p0,
            "se rd": error(slope - slope0),
            "risk ratio": p / p0 if above else math.nan,
            "se log rr": error(slope / p - slope0 / p0) if above else math.nan,
            "odds ratio": odds / odds0 if both else math.nan,
            "se log or": error(log - log0) if both else math.nan,
        }
    return pd.DataFrame.from_dict(found, orient="index")
