"""Two groups against each other: counts, their intervals, a test of independence, and measures of effect.

Statement. With u_i and v_j the members of the rows' and columns' levels, N_ij = u_i^T G v_j. Moments agree with what the
schema knows, so counts add up to their margins and these to n. The noise covariance of the counts is that of the gradients
u_i v_j^T; the sampling one is the multinomial's, n (diag(p) - p p^T).
*Independence*: d_ij = N_ij - N_i. N_.j / n has, under independence, the sampling covariance
n (D_r - r r^T) x (D_c - c c^T) with r, c the shares, and the noise covariance of its gradient. The statistic is d^T C^- d
over all but one level of each, chi-square with (R - 1)(C - 1) degrees of freedom; without noise it is Pearson's.
*Effects* of a level against a reference: with risks p = N_ij / N_i. the difference, and ratio and odds ratio on the log
scale, by the delta method; without noise the textbook's errors. Shares of a row are cut to [0, 1].

Proved: the covariances. Asymptotic: chi-square and normal intervals. Counts may come out below zero where the noise exceeds
them; they are left so, because sums of them are then right, and intervals end at zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg, stats

from trimask.data.manifest import Shown
from trimask.errors import FormulaError
from trimask.fit.clipping import marked
from trimask.fit.design import common_level, membership, plain_name, unit
from trimask.fit.estimates import Estimates, EstimateTable, Framed
from trimask.fit.formula import nearest
from trimask.fit.noise import Source, counted, moments_of
from trimask.fit.report import Block
from trimask.moments.moments import Moments
from trimask_core.study.derived import ONES
from trimask_theory.mechanisms.noisy_regression import outers
from trimask_theory.moments.noise_law import Matrix


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
    gradients = [
        outers(U[[i]], V[j])[0] - c[j] * outers(U[[i]], one)[0] - r[i] * outers(V[[j]], one)[0]
        for i in range(1, len(U))
        for j in range(1, len(V))
    ]
    covariance = covariance + moments.law.covariance(np.array(gradients))
    statistic = float(gap @ linalg.solve(covariance, gap, assume_a="pos"))
    return ChiSquare(statistic, len(gap), float(stats.chi2.sf(statistic, len(gap))))


Parts = tuple[Matrix, Matrix]
"""The covariance of the cells by sampling and by noise."""


def _logs(counts: Matrix, hit: int) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Risk and odds of the outcome in each row, and the gradients of the risk and of the log odds in the cells."""
    size, inside = counts.sum(axis=1), counts[:, hit]
    slopes, odds = np.zeros((len(counts), *counts.shape)), np.zeros((len(counts), *counts.shape))
    with np.errstate(divide="ignore", invalid="ignore"):
        risk = np.where(size > 0, inside / size, np.nan)
        for i in range(len(counts)):
            slopes[i, i] = -risk[i] / size[i]
            slopes[i, i, hit] += 1 / size[i]
            odds[i, i] = -1 / (size[i] - inside[i])
            odds[i, i, hit] = 1 / inside[i]
        return risk, inside / (size - inside), slopes.reshape(len(counts), -1), odds.reshape(len(counts), -1)


def _errors(gradients: Matrix, parts: Parts) -> list[Matrix]:
    """The two parts of the standard errors of functions with these gradients; NaN where there is none."""
    known: NDArray[np.bool_] = np.asarray(np.isfinite(gradients).all(axis=1))
    clean = np.where(known[:, None], gradients, 0.0)
    return [
        np.where(known, np.sqrt(np.maximum(np.einsum("ai,ij,aj->a", clean, part, clean), 0.0)), np.nan)
        for part in parts
    ]


def effects_of(counts: pd.DataFrame, parts: Parts, outcome: str, reference: str) -> dict[str, EstimateTable]:
    """Each level against the reference; ratios have intervals and tests on the log scale."""
    base = list(counts.index).index(reference)
    risk, odds, slopes, logs = _logs(counts.to_numpy(), list(counts.columns).index(outcome))
    others = [at for at in range(len(counts)) if at != base]
    index = pd.Index([f"{counts.index[at]} vs {reference}" for at in others])

    def ratio(name: str, values: Matrix, gradients: Matrix) -> EstimateTable:
        with np.errstate(divide="ignore", invalid="ignore"):
            both = (values > 0) & (values[base] > 0)
            whole: Matrix = np.where(both, values / values[base], np.nan)
            found = whole[others]
            errors = [found * part for part in _errors((gradients - gradients[base])[others], parts)]
        return EstimateTable(
            index, found, *errors, scale="log", clear=0.0, bounds=(0.0, np.inf), null=1.0, head=name, style=3
        )

    with np.errstate(divide="ignore", invalid="ignore"):
        relative = slopes / risk[:, None]
    gap = _errors((slopes - slopes[base])[others], parts)
    difference = EstimateTable(
        index, (risk - risk[base])[others], *gap, bounds=(-1.0, 1.0), null=0.0, head="risk difference", style=4,
        caption=f"share with {counts.columns.name} = {outcome}",
    )  # fmt: skip
    return {
        "risk difference": difference,
        "risk ratio": ratio("risk ratio", risk, relative),
        "odds ratio": ratio("odds ratio", odds, logs),
    }


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CrosstabResults(Estimates):
    """What `fit.crosstab` found.

    Attributes
    ----------
    counts : DataFrame
        By level, rows x columns, adding up to `nobs`.
    cells : DataFrame
        A row a cell: estimate, std err, sampling and privacy parts.
    shares : DataFrame
        The counts of each row as shares of it, within 0 and 1; NaN where the noise leaves nothing to say.
    chi2 : ChiSquare, optional
        The test of independence; None where the noise hides a level.
    tables : mapping
        "cells", "shares", and each level of the rows against `reference` in the share of `outcome`: "risk difference",
        "risk ratio" and "odds ratio", for `table(of=...)` and `conf_int(of=...)`.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> table = trimask.fit.crosstab(data, "activity", "smoker")
    >>> table.shares.sum(axis=1).round(9).tolist()
    [1.0, 1.0, 1.0]
    """

    rows: str
    columns: str
    outcome: str
    reference: str
    counts: pd.DataFrame
    chi2: ChiSquare | None

    cells = Framed("cells")

    @property
    def shares(self) -> pd.DataFrame:
        """The counts of each row as shares of it."""
        found = self.estimates("shares")
        values = np.where(found.determined, found.values, np.nan).reshape(self.counts.shape)
        return pd.DataFrame(values, index=self.counts.index, columns=self.counts.columns)

    def blocks(self, alpha: float) -> list[Block]:
        """Counts with their intervals and shares of the row, then effects."""
        ends = self.conf_int(alpha).to_numpy().reshape((*self.counts.shape, 2))
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
        head = [self.rows, *map(str, self.counts.columns), "all"]
        first = Block(head, body, f"counts, {1 - alpha:.0%} intervals, shares of the row")
        effects = [
            table.block(alpha) for name, table in self.tables.items() if name not in ("cells", "shares")
        ]
        return [first, *effects]


@marked
def crosstab(
    dataset: Source, rows: str, columns: str, *, outcome: str | None = None, reference: str | None = None
) -> CrosstabResults:
    """Counts of one group by another, a test of independence, and risk differences, risk ratios and odds ratios.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    rows : str
        A categorical or yes-or-no attribute, also written C(group) or C(group, merge=[level, level]).
    columns : str
        Another.
    outcome : str, optional
        The level of `columns` whose share is compared; "yes", or the last level.
    reference : str, optional
        The level of `rows` it is compared with; the first or "no", or the commonest where that is rare.

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
    chi-square(2) = 1.614, p = 0.4463
    >>> table.conf_int(of="odds ratio").shape
    (2, 2)
    """
    moments = moments_of(dataset)
    if plain_name(rows) == plain_name(columns):
        raise FormulaError(f"{rows} against itself: name two groups")
    (left, U), (right, V) = (membership(group, moments.schema) for group in (rows, columns))
    rows, columns = plain_name(rows), plain_name(columns)
    outcome = right[-1] if outcome is None else _level(columns, outcome, right)
    people = dict(zip(left, U @ moments.gram @ unit(moments.schema, ONES), strict=True))
    reference = common_level(people) if reference is None else _level(rows, reference, left)
    gradients = np.array([outers(U[[i]], v)[0] for i in range(len(left)) for v in V])
    found, sampling, privacy = counted(moments, gradients)
    n = moments.rows
    index = pd.MultiIndex.from_product([left, right], names=[rows, columns])
    counts = pd.DataFrame(found.reshape(len(left), len(right)), index=left, columns=pd.Index(right))
    counts = counts.rename_axis(index=rows, columns=columns)
    parts = [np.sqrt(np.maximum(np.diag(part), 0.0)) for part in (sampling, privacy)]
    # A count that the noise exceeds is left below zero, because sums of them are then right; its interval ends at zero.
    cells = EstimateTable(
        index, found, *parts, ends=within(found, np.hypot(*parts), n), head="people", style="count"
    )
    each = [_logs(counts.to_numpy(), hit) for hit in range(len(right))]
    risks = np.column_stack([item[0] for item in each])
    gradients = np.stack([item[2] for item in each], axis=1).reshape(found.size, -1)
    shares = EstimateTable(
        index,
        risks.ravel(),
        *_errors(gradients, (sampling, privacy)),
        bounds=(0.0, 1.0),
        head="share",
        style="percent",
    )
    effects = effects_of(counts, (sampling, privacy), outcome, reference)
    chi2 = independence(moments, U, V, counts.to_numpy())
    notes = (
        ["A count below zero is one that the noise exceeds; its interval ends at zero."]
        if (found < 0).any()
        else []
    )
    if np.isnan([*effects["risk ratio"].estimate, *effects["odds ratio"].estimate]).any():
        notes.append("No ratio is given where a count in it is not above zero.")
    return CrosstabResults(
        what=f"{rows} by {columns},", label=moments.label, nobs=n, sigma=moments.sigma,
        tables={"cells": cells, "shares": shares, **effects}, remarks=tuple(notes),
        about=[("independence", "not known: the noise hides a level" if chi2 is None else chi2.summary())],
        rows=rows, columns=columns, outcome=outcome, reference=reference, counts=counts, chi2=chi2,
    )  # fmt: skip


def within(counts: Matrix, errors: Matrix, n: int) -> Callable[[float], Matrix]:
    """Intervals of counts at so many deviations, between nobody and everybody."""
    return lambda reach: np.clip(np.column_stack([counts - reach * errors, counts + reach * errors]), 0, n)


def _level(group: str, level: str, levels: list[str]) -> str:
    if level not in levels:
        raise FormulaError(f"{group} has no level {level}; {nearest(level, levels)}")
    return level
