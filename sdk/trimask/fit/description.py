"""Means and variances of columns, with intervals.

Statement. In scaled units a mean is m = G_1j / G_11. Where a dataset was read, G_11 is the number of people, and what
noise had made of it has already helped the other entries (`trimask.constrained`). Its privacy variance is that of the
gradient e_1 (e_j - m e_1)^T / G_11 under the law of the noise, its sampling variance v/n, whatever the rows' law (v the
variance). The variance is S_jj of `trimask.fit.covariance`, with the privacy part given there; its sampling part is
2 v^2/(n-1) for normal rows, and (1 - 2 p)^2 p (1 - p)/n for a yes-or-no column, whose fourth moment its mean determines.

Proved: the noise variances. Asymptotic: normal intervals. Assumed: normal rows for the sampling part of a
variance that is not of a yes-or-no column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from trimask.errors import FormulaError, ParameterError
from trimask.fit.covariance import NORMAL_ROWS, Covariance, covariance_of, select
from trimask.fit.noise import outer
from trimask.fit.report import Block, Facts, Report, figures, places_for
from trimask.fit.source import moments_of
from trimask.moments import Matrix, Moments
from trimask_core.schema import ONES, Column

if TYPE_CHECKING:
    from trimask.fit.source import Source

__all__ = ["DescribeResults", "describe"]

_HEAD = ["estimate", "std err", "sampling", "privacy"]


@dataclass(frozen=True, eq=False, repr=False)
class DescribeResults(Report):
    """`means` and `variances`, in original units: estimate, std err, sampling and privacy parts a column."""

    label: str
    nobs: int
    sigma: float
    means: pd.DataFrame
    variances: pd.DataFrame

    @property
    def title(self) -> str:
        """What this is."""
        return "Means and variances of a release, noise corrected"

    @property
    def facts(self) -> Facts:
        """What the tables are of."""
        return [("data", self.label), ("rows", f"{self.nobs:,}"), ("noise sigma", f"{self.sigma:.4g}")]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        notes = ["The noise is corrected for; privacy is its part of the standard error.", NORMAL_ROWS]
        if (self.variances["estimate"] <= 0).any():
            notes.append("A variance of zero or less is one that the noise hides.")
        return tuple(notes)

    def conf_int(self, alpha: float = 0.05, of: str = "means") -> pd.DataFrame:
        """Intervals of level 1 - alpha of the "means" or the "variances" (which end at zero)."""
        if not 0 < alpha < 1:
            raise ParameterError("alpha", "in (0, 1)", alpha)
        if of not in ("means", "variances"):
            raise ParameterError("of", "'means' or 'variances'", of)
        table = self.means if of == "means" else self.variances
        reach = float(stats.t.isf(alpha / 2, self.nobs - 1)) * table["std err"]
        low, high = table["estimate"] - reach, table["estimate"] + reach
        return pd.DataFrame({0: low if of == "means" else low.clip(lower=0.0), 1: high})

    def blocks(self, alpha: float) -> list[Block]:
        """A table of means and one of variances."""
        header = ["", *_HEAD, f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]
        blocks = []
        for of, table in (("means", self.means), ("variances", self.variances)):
            values = np.column_stack([table[_HEAD].to_numpy(), self.conf_int(alpha, of).to_numpy()])
            rows = [
                [str(name), *figures(list(row), places_for(row[1], row[0]))]
                for name, row in zip(table.index, values, strict=True)
            ]
            blocks.append(Block(header, rows, of))
        return blocks

    def __repr__(self) -> str:
        return f"<DescribeResults of {len(self.means)} columns of {self.label}, {self.nobs:,} rows>"


def describe(dataset: Source, columns: Sequence[str] | None = None) -> DescribeResults:
    """Mean and variance of columns, with intervals; noise corrected. By default of all but the ones column."""
    moments = moments_of(dataset)
    if not moments.schema.ones:
        raise FormulaError("this study has no ones column, so no mean can be taken")
    if isinstance(columns, str):
        raise ParameterError("columns", "a list of columns", columns)
    if columns is None:
        names = [column.name for column in moments.columns if column.name != ONES]
    else:
        # One at a time: a whole group of indicators is collinear only for what uses them together.
        names = [name for column in columns for name in select(moments.schema, [column])]
    found = [_one(moments, name) for name in names]
    means, variances = (pd.DataFrame([pair[i] for pair in found], index=pd.Index(names)) for i in (0, 1))
    return DescribeResults(moments.label, moments.rows, moments.sigma, means, variances)


def _one(moments: Moments, name: str) -> tuple[dict[str, float], dict[str, float]]:
    column = next(item for item in moments.columns if item.name == name)
    covariance = covariance_of(moments, [name])
    n, h = moments.rows, column.half_range
    v = float(covariance.S[0, 0])
    known = max(v, 0.0)
    m = float(covariance.means[0])
    mean = _row(column.center + h * m, h**2 * known / n, h**2 * _mean_noise(moments, covariance))
    gradient = np.ones((1, 1, 1))
    privacy = float(covariance.privacy_variance(gradient)[0])
    sampling = _sampling(covariance, gradient, moments, column, m)
    return mean, _row(h**2 * v, h**4 * sampling, h**4 * privacy)


def _mean_noise(moments: Moments, covariance: Covariance) -> float:
    """Privacy variance of the mean, scaled units."""
    one = [column.name for column in moments.columns].index(ONES)
    unit = np.eye(len(moments.gram))[one]
    gradient = outer(unit, covariance.W[:, 0]) / float(moments.gram[one, one])
    return float(moments.law.variance(gradient[None])[0])


def _sampling(covariance: Covariance, gradient: Matrix, moments: Moments, column: Column, m: float) -> float:
    """Sampling variance of the variance, scaled units."""
    kinds = {attribute.name: attribute.kind for attribute in moments.schema.attributes}
    if column.level is None and kinds.get(column.name) != "binary":
        return float(covariance.sampling_variance(gradient)[0])
    p = min(max(column.center + column.half_range * m, 0.0), 1.0)
    return (1 - 2 * p) ** 2 * p * (1 - p) / moments.rows / column.half_range**4


def _row(estimate: float, sampling: float, privacy: float) -> dict[str, float]:
    parts = [estimate, (sampling + privacy) ** 0.5, sampling**0.5, privacy**0.5]
    return dict(zip(_HEAD, parts, strict=True))
