"""Two groups against each other: counts, their intervals, a test of independence, and measures of effect.

Statement. With u_i and v_j the members of the rows' and columns' levels, N_ij = u_i^T G v_j. Moments agree with what the
schema knows, so counts add up to their margins and these to n. The noise covariance of the counts is that of the gradients
u_i v_j^T; the sampling one is the multinomial's, n (diag(p) - p p^T).
*Independence*: d_ij = N_ij - N_i. N_.j / n has, under independence, the sampling covariance
n (D_r - r r^T) x (D_c - c c^T) with r, c the shares, and the noise covariance of its gradient. The statistic is d^T C^- d
over all but one level of each, chi-square with (R - 1)(C - 1) degrees of freedom; without noise it is Pearson's.
*Effects* of a level against a reference: with risks p = N_ij / N_i. the difference, and ratio and odds ratio on the log
scale, by the delta method; without noise the textbook's errors.

Proved: the covariances. Asymptotic: chi-square and normal intervals. Counts may come out below zero where the noise exceeds
them; they are left so, because sums of them are then right, and intervals end at zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import linalg, stats

from trimask.data.catalogue import Shown
from trimask.errors import FormulaError
from trimask.fit.design import membership, plain_name, unit
from trimask.fit.formula import nearest
from trimask.fit.noise import critical_value, gram_covariance, moments_of
from trimask.fit.report import Block, Facts, Report, figures, of_data, places_for
from trimask.moments.moments import Moments
from trimask_core.study.derived import ONES
from trimask_theory.mechanisms.noisy_regression import outers
from trimask_theory.moments.noise_law import Matrix

if TYPE_CHECKING:
    from trimask.fit.noise import Source


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


_PARTS = ["estimate", "std err", "sampling", "privacy"]
_EFFECTS = {"risk difference": "se rd", "risk ratio": "se log rr", "odds ratio": "se log or"}


@dataclass(frozen=True, eq=False, repr=False)
class CrosstabResults(Report):
    """What `fit.crosstab` found.

    Attributes
    ----------
    counts : DataFrame
        By level, rows x columns, adding up to `nobs`.
    cells : DataFrame
        A row a cell: estimate, std err, sampling and privacy parts.
    chi2 : ChiSquare, optional
        The test of independence; None where the noise hides a level.
    effects : DataFrame
        Each level of the rows against `reference` in the share of `outcome`: risk difference, risk ratio and odds ratio
        (the last two with errors of their logarithms); NaN where a count is not above zero.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> table = trimask.fit.crosstab(data, "activity", "smoker")
    >>> table.shares.sum(axis=1).round(9).tolist()
    [1.0, 1.0, 1.0]
    """

    label: str
    nobs: int
    sigma: float
    rows: str
    columns: str
    outcome: str
    reference: str
    counts: pd.DataFrame
    cells: pd.DataFrame
    chi2: ChiSquare | None
    effects: pd.DataFrame

    @property
    def title(self) -> str:
        """What this is."""
        return f"{self.rows} by {self.columns}, {of_data(self.sigma)}"

    @property
    def facts(self) -> Facts:
        """What the tables are of."""
        test = "not known: the noise hides a level" if self.chi2 is None else self.chi2.summary()
        return [("data", self.label), ("rows", f"{self.nobs:,}"), ("independence", test)]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        notes = ["The noise is corrected for, and is in the intervals and the test."] if self.sigma else []
        if (self.counts.to_numpy() < 0).any():
            notes.append("A count below zero is one that the noise exceeds; its interval ends at zero.")
        if self.effects[["risk ratio", "odds ratio"]].isna().to_numpy().any():
            notes.append("No ratio is given where a count in it is not above zero.")
        return tuple(notes)

    @property
    def shares(self) -> pd.DataFrame:
        """The counts of each row as shares of it; NaN in a row that the noise leaves nobody in."""
        size = self.counts.sum(axis=1)
        return self.counts.div(size.where(size > 0), axis=0)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals of the counts, by cell, within 0 and `nobs`.

        Parameters
        ----------
        alpha : float
            One less the level of the intervals: 0.05 for 95 %.

        Returns
        -------
        DataFrame
            Lower ends in column 0, upper ends in column 1.
        """
        reach = critical_value(alpha) * self.cells["std err"]
        low, high = self.cells["estimate"] - reach, self.cells["estimate"] + reach
        return pd.DataFrame({0: low.clip(0, self.nobs), 1: high.clip(0, self.nobs)})

    def effect_intervals(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals of the risk difference, risk ratio and odds ratio.

        Parameters
        ----------
        alpha : float
            One less the level of the intervals: 0.05 for 95 %.

        Returns
        -------
        DataFrame
            A row a level, a lower and an upper end an effect.
        """
        z, table = critical_value(alpha), self.effects
        ratio = table[["risk ratio", "odds ratio"]].to_numpy()
        errors = z * table[["se log rr", "se log or"]].to_numpy()
        difference, spread = table["risk difference"], z * table["se rd"]
        return pd.DataFrame(
            {
                ("risk difference", 0): (difference - spread).clip(lower=-1),
                ("risk difference", 1): (difference + spread).clip(upper=1),
                ("risk ratio", 0): ratio[:, 0] * np.exp(-errors[:, 0]),
                ("risk ratio", 1): ratio[:, 0] * np.exp(errors[:, 0]),
                ("odds ratio", 0): ratio[:, 1] * np.exp(-errors[:, 1]),
                ("odds ratio", 1): ratio[:, 1] * np.exp(errors[:, 1]),
            },
            index=table.index,
        )

    def blocks(self, alpha: float) -> list[Block]:
        """Counts with their intervals and shares of the row, then effects."""
        shape = (*self.counts.shape, 2)
        ends = self.conf_int(alpha).to_numpy().reshape(shape)
        head = [self.rows, *map(str, self.counts.columns), "all"]
        body = []
        parts = zip(self.counts.index, self.counts.to_numpy(), self.shares.to_numpy(), ends, strict=True)
        for level, row, shares, limits in parts:
            cells = [
                f"{value:,.0f} [{low:,.0f}, {high:,.0f}] {'-' if math.isnan(share) else f'{share:.1%}'}"
                for value, share, (low, high) in zip(row, shares, limits, strict=True)
            ]
            body.append([str(level), *cells, f"{row.sum():,.0f}"])
        total = self.counts.sum()
        body.append(["all", *(f"{value:,.0f}" for value in total), f"{total.sum():,.0f}"])
        intervals = self.effect_intervals(alpha)
        effects = []
        for at, level in enumerate(self.effects.index):
            shown = []
            for name, error in _EFFECTS.items():
                value, spread = float(self.effects[name].iloc[at]), float(self.effects[error].iloc[at])
                ends_of = [float(intervals[name, end].iloc[at]) for end in (0, 1)]
                best, low, high = figures([value, *ends_of], min(places_for(spread, value), 3))
                shown.append(f"{best} [{low}, {high}]")
            effects.append(
                [f"{level} vs {self.reference}", *figures([float(self.effects["risk"].iloc[at])], 4), *shown]
            )
        caption = f"share with {self.columns} = {self.outcome}"
        return [
            Block(head, body, f"counts, {1 - alpha:.0%} intervals, shares of the row"),
            Block(["", "risk", "risk difference", "risk ratio", "odds ratio"], effects, caption),
        ]

    def __repr__(self) -> str:
        return f"<CrosstabResults of {self.rows} by {self.columns} in {self.label}>"


def crosstab(
    dataset: Source, rows: str, columns: str, *, outcome: str | None = None, reference: str | None = None
) -> CrosstabResults:
    """Counts of one group by another, a test of independence, and risk differences, risk ratios and odds ratios.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    rows : str
        A categorical or yes-or-no attribute, also written C(group).
    columns : str
        Another.
    outcome : str, optional
        The level of `columns` whose share is compared; "yes", or the last level.
    reference : str, optional
        The level of `rows` it is compared with; the first, or "no".

    Returns
    -------
    CrosstabResults
        Counts that add up to their margins; noise and sampling are both in its errors.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> table = trimask.fit.crosstab(data, "activity", "smoker")
    >>> int(table.counts.sum().sum().round())
    2000
    >>> print(table.chi2)
    chi-square(2) = 1.051, p = 0.5913
    >>> table.effect_intervals().shape
    (2, 6)
    """
    moments = moments_of(dataset)
    rows, columns = plain_name(rows), plain_name(columns)
    if rows == columns:
        raise FormulaError(f"{rows} against itself: name two groups")
    left, U = membership(rows, moments.schema)
    right, V = membership(columns, moments.schema)
    outcome = right[-1] if outcome is None else _level(columns, outcome, right)
    reference = left[0] if reference is None else _level(rows, reference, left)
    gradients = np.array([outers(U[[i]], v)[0] for i in range(len(left)) for v in V])
    found = np.einsum("aij,ij->a", gradients, moments.gram)
    n = moments.rows
    share = np.maximum(found, 0.0) / n
    sampling = n * (np.diag(share) - np.outer(share, share))
    privacy = np.zeros_like(sampling) if moments.exact else gram_covariance(moments, gradients)
    index = pd.MultiIndex.from_product([left, right], names=[rows, columns])
    parts = np.array([np.maximum(np.diag(part), 0.0) for part in (sampling + privacy, sampling, privacy)])
    cells = pd.DataFrame(np.column_stack([found, np.sqrt(parts).T]), index=index, columns=pd.Index(_PARTS))
    counts = pd.DataFrame(found.reshape(len(left), len(right)), index=left, columns=pd.Index(right))
    return CrosstabResults(
        label=moments.label,
        nobs=n,
        sigma=moments.sigma,
        rows=rows,
        columns=columns,
        outcome=outcome,
        reference=reference,
        counts=counts.rename_axis(index=rows, columns=columns),
        cells=cells,
        chi2=independence(moments, U, V, counts.to_numpy()),
        effects=effects_of(counts, sampling + privacy, outcome, reference),
    )


def _level(group: str, level: str, levels: list[str]) -> str:
    if level not in levels:
        raise FormulaError(f"{group} has no level {level}; {nearest(level, levels)}")
    return level
