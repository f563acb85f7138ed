"""Means, deviations and shares of columns, with intervals: the first table of a paper.

Statement. In scaled units a mean is m = G_1j / G_11. Where a dataset was read, G_11 is the number of people, and what
noise had made of it has already helped the other entries (`trimask.moments.identities`). Its privacy variance is that of the
gradient e_1 (e_j - m e_1)^T / G_11 under the law of the noise, its sampling variance v/n, whatever the rows' law (v the
variance). The variance is S_jj of `trimask.fit.covariance`, with the privacy part given there; its sampling part is
from fourth moments where the column's square is declared (`trimask.fit.covariance`), (1 - 2 p)^2 p (1 - p)/n for a
yes-or-no column, whose fourth moment its mean determines, and else 2 v^2/(n-1), for normal rows. Intervals of variances
and deviations are made on the scale of logarithms, which holds better at few rows.

A standard deviation is its root, with the error of first order. Shares are means of indicators; since moments agree with
what the schema knows, those of a group add up to 1, and counts to the number of people.

Proved: the noise variances. Asymptotic: normal intervals. Assumed: normal rows for the sampling part of a
variance whose column is neither yes-or-no nor has its square declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from trimask.errors import FormulaError, ParameterError
from trimask.fit.covariance import Covariance, covariance_of, doubt, select, warn_of
from trimask.fit.design import plain_name
from trimask.fit.noise import critical_value, moments_of, outer
from trimask.fit.report import Block, Facts, Report, figures, noise_notes, of_data, places_for
from trimask.moments.moments import Moments
from trimask_core.study.derived import ONES, Column
from trimask_theory.moments.noise_law import Matrix

if TYPE_CHECKING:
    from trimask.fit.noise import Source


_HEAD = ["estimate", "std err", "sampling", "privacy"]
_TABLES = ("means", "variances", "deviations", "shares")


@dataclass(frozen=True, eq=False, repr=False)
class DescribeResults(Report):
    """What `fit.describe` found, in original units.

    Attributes
    ----------
    means : DataFrame
        A row a column: estimate, std err, sampling and privacy parts.
    variances : DataFrame
        The same; `deviations` are their roots.
    shares : DataFrame
        A row a level of every group, and "yes" of every yes-or-no column: people, share and its errors.
    by_fourth : tuple
        Columns whose variance has an error from fourth moments.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.describe(data, ["age", "smoker"])
    >>> found.conf_int(of="shares").loc[("smoker", "yes"), 0] > 0.2
    np.True_
    """

    label: str
    nobs: int
    sigma: float
    means: pd.DataFrame
    variances: pd.DataFrame
    shares: pd.DataFrame
    by_fourth: tuple[str, ...] = ()
    """Columns whose variance has an error from fourth moments."""
    doubts: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def title(self) -> str:
        """What this is."""
        return f"Means, deviations and shares {of_data(self.sigma)}"

    @property
    def facts(self) -> Facts:
        """What the tables are of."""
        return [("data", self.label), ("rows", f"{self.nobs:,}"), ("noise sigma", f"{self.sigma:.4g}")]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        notes = noise_notes(self.sigma)
        measured = self._measured
        if len(measured):
            notes.append(f"Errors are those of the means; those in `deviations` {self._of_rows(measured)}.")
        notes += [f"Caution, for `deviations`: {message}." for message, _ in self.doubts]
        if (self.variances.loc[measured, "estimate"] <= 0).any():
            notes.append("A variance of zero or less is one that the noise hides.")
        if (self.shares["estimate"] < 0).any():
            notes.append("A share below zero is one that the noise exceeds; its interval ends at zero.")
        return tuple(notes)

    def _of_rows(self, measured: pd.Index) -> str:
        """How errors of deviations were made."""
        if not self.by_fourth:
            return "take rows as normal"
        if set(measured) <= set(self.by_fourth):
            return "are from fourth moments, whatever the law of the rows"
        return (
            f"are from fourth moments for {', '.join(self.by_fourth)}, and take rows as normal for the others"
        )

    @property
    def _measured(self) -> pd.Index:
        """The columns that are no indicators."""
        return self.means.index[~self.means.index.isin(self.shares["column"])]

    @property
    def deviations(self) -> pd.DataFrame:
        """Standard deviations; NaN where the noise hides the variance."""
        root = np.sqrt(self.variances["estimate"].where(self.variances["estimate"] > 0))
        parts = {name: self.variances[name] / (2 * root) for name in _HEAD[1:]}
        return pd.DataFrame({"estimate": root, **parts})

    def conf_int(self, alpha: float = 0.05, of: str = "means") -> pd.DataFrame:
        """Intervals of level 1 - alpha of the "means", "variances", "deviations" or "shares"; all but means end at zero."""
        if of not in _TABLES:
            raise ParameterError("of", "one of " + ", ".join(map(repr, _TABLES)), of)
        table: pd.DataFrame = getattr(self, of)
        reach = critical_value(alpha, self.nobs - 1) * table["std err"]
        low, high = table["estimate"] - reach, table["estimate"] + reach
        if of in ("variances", "deviations"):
            for said in self.doubts:
                warn_of(said)
            above = table["estimate"] > 0
            wide = np.exp((reach / table["estimate"].where(above)).clip(upper=50.0))
            # Where the noise hides the variance, an interval that ends at zero is all that can be said.
            plain = above & (table["estimate"] > 2 * reach)
            low = low.where(~plain, table["estimate"] / wide)
            high = high.where(~plain, table["estimate"] * wide)
        if of != "means":
            low, high = low.clip(lower=0.0), high.clip(lower=0.0)
        if of == "shares":
            low, high = low.clip(upper=1.0), high.clip(upper=1.0)
        return pd.DataFrame({0: low, 1: high})

    def blocks(self, alpha: float) -> list[Block]:
        """Means with deviations, then shares with counts."""
        ends = [f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]
        blocks, measured = [], self._measured
        if len(measured):
            table, limits, spread = self.means.loc[measured], self.conf_int(alpha), self.deviations
            rows = []
            for name, values in zip(measured, table[_HEAD].to_numpy(), strict=True):
                places = places_for(values[1], values[0])
                mean, *parts = figures(list(values), places)
                (deviation,) = figures([spread.loc[name, "estimate"]], places)
                rows.append(
                    [str(name), f"{mean} ({deviation})", *parts, *figures(list(limits.loc[name]), places)]
                )
            blocks.append(Block(["", "mean (SD)", *_HEAD[1:], *ends], rows, "means"))
        if len(self.shares):
            table, reach = self.shares, self.conf_int(alpha, "shares").to_numpy()
            rows = []
            for (group, level), people, values, limits_ in zip(
                table.index, table["people"], table[_HEAD].to_numpy(), reach, strict=True
            ):
                shown = [f"{value:.2%}" for value in values[1:]] + [f"{value:.1%}" for value in limits_]
                rows.append([f"{group} {level}", f"{people:,.0f} ({values[0]:.1%})", *shown])
            blocks.append(Block(["", "people (share)", *_HEAD[1:], *ends], rows, "shares"))
        return blocks

    def __repr__(self) -> str:
        return f"<DescribeResults of {len(self.means)} columns of {self.label}, {self.nobs:,} rows>"


def describe(dataset: Source, columns: Sequence[str] | None = None) -> DescribeResults:
    """Mean (SD) of measured columns and people (share) of groups and yes-or-no columns, with intervals; noise corrected.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    columns : list of str, optional
        Columns or groups, also written C(group); all but the ones column by default.

    Returns
    -------
    DescribeResults
        `means`, `deviations`, `variances` and `shares`, each with its errors; shares of a group add up to 1.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.describe(data, ["age", "C(activity)"])
    >>> found.means.loc["age", "estimate"].round()
    np.float64(51.0)
    >>> found.shares.loc["activity", "estimate"].sum().round(9)
    np.float64(1.0)
    """
    moments = moments_of(dataset)
    if not moments.schema.ones:
        raise FormulaError("this study has no ones column, so no mean can be taken")
    if isinstance(columns, str):
        raise ParameterError("columns", "a list of columns", columns)
    if columns is None:
        names = [column.name for column in moments.columns if column.name != ONES]
    else:
        groups = {item.name: item.levels for item in moments.schema.attributes if item.levels}
        names = []
        for asked in map(plain_name, columns):
            whole = [f"{asked}_{level}" for level in groups.get(asked, ())]
            # One at a time: a whole group of indicators is collinear only for what uses them together.
            names += whole or select(moments.schema, [asked])
    if not names:
        raise ParameterError("columns", "at least one column")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ParameterError("columns", f"different columns; {twice[0]} appears twice")
    found = [_one(moments, name) for name in names]
    means, variances = (pd.DataFrame([item[i] for item in found], index=pd.Index(names)) for i in (0, 1))
    shares = _shares(moments, means)
    measured = [name for name in names if name not in set(shares["column"])]
    known = {name: item[2] for name, item in zip(names, found, strict=True)}
    return DescribeResults(
        moments.label, moments.rows, moments.sigma, means, variances, shares,
        tuple(name for name in measured if known[name]), _doubts(moments, measured, known),
    )  # fmt: skip


def _doubts(
    moments: Moments, measured: Sequence[str], known: dict[str, bool]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What is to be said of intervals of deviations: of the columns with fourth moments, and of those without."""
    sides = [[name for name in measured if known[name] is side] for side in (True, False)]
    said = [
        doubt(covariance_of(moments, side), np.array([side == sides[0]]))
        for side in sides
        if 0 < len(side) < moments.rows - 1
    ]
    return tuple(item for item in said if item[0])


def _shares(moments: Moments, means: pd.DataFrame) -> pd.DataFrame:
    """The means of indicators, by group and level."""
    binary = {item.name for item in moments.schema.attributes if item.kind == "binary"}
    rows = []
    for column in moments.columns:
        if column.name in means.index and (column.level is not None or column.name in binary):
            at = (column.source, column.level or "yes")
            values = means.loc[column.name]
            rows.append((*at, column.name, moments.rows * values["estimate"], *values[_HEAD]))
    frame = pd.DataFrame(rows, columns=pd.Index(["group", "level", "column", "people", *_HEAD]))
    return frame.set_index(["group", "level"])


def _one(moments: Moments, name: str) -> tuple[dict[str, float], dict[str, float], bool]:
    column = next(item for item in moments.columns if item.name == name)
    covariance = covariance_of(moments, [name])
    n, h = moments.rows, column.half_range
    v = float(covariance.S[0, 0])
    known = max(v, 0.0)
    m = float(covariance.means[0])
    mean = _row(column.center + h * m, h**2 * known / n, h**2 * _mean_noise(moments, covariance))
    gradient = np.ones((1, 1, 1))
    privacy = float(covariance.privacy_variance(gradient)[0])
    sampling, fourth = _sampling(covariance, gradient, moments, column, m)
    return mean, _row(h**2 * v, h**4 * sampling, h**4 * privacy), fourth


def _mean_noise(moments: Moments, covariance: Covariance) -> float:
    """Privacy variance of the mean, scaled units."""
    one = [column.name for column in moments.columns].index(ONES)
    unit = np.eye(len(moments.gram))[one]
    gradient = outer(unit, covariance.W[:, 0]) / float(moments.gram[one, one])
    return float(moments.law.variance(gradient[None])[0])


def _sampling(
    covariance: Covariance, gradient: Matrix, moments: Moments, column: Column, m: float
) -> tuple[float, bool]:
    """Sampling variance of the variance, scaled units, and whether it is from fourth moments."""
    kinds = {attribute.name: attribute.kind for attribute in moments.schema.attributes}
    if column.level is None and kinds.get(column.name) != "binary":
        variances, known = covariance.sampling(gradient)
        return float(variances[0]), bool(known[0])
    p = min(max(column.center + column.half_range * m, 0.0), 1.0)
    return (1 - 2 * p) ** 2 * p * (1 - p) / moments.rows / column.half_range**4, True


def _row(estimate: float, sampling: float, privacy: float) -> dict[str, float]:
    parts = [estimate, (sampling + privacy) ** 0.5, sampling**0.5, privacy**0.5]
    return dict(zip(_HEAD, parts, strict=True))
