"""Means of a column by group, with a test that they are equal.

Statement. With u_g the members of level g and y the column, the mean is u_g^T G y / u_g^T G one, which is the coefficient of
u_g in the least-squares fit of y on all levels without an intercept. Its noise error is that of such a fit
(`trimask_theory.noisy_regression`); a difference of means is a combination of two coefficients, with an error of its own.
The sampling part is the residual variance over the group's size: one variance for all groups, since a variance within one
group needs third moments. For a yes-or-no column it is p (1 - p) over the size, which needs no such assumption.
The F test is Wald's, of equal means; without noise it is the analysis of variance.

Proved and asymptotic: as for least squares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from trimask.errors import FormulaError, ParameterError
from trimask.fit.critical_value import critical_value
from trimask.fit.design import find_column
from trimask.fit.groups import membership, plain_name, unit
from trimask.fit.hypothesis import FTest, joint
from trimask.fit.report import Block, Facts, Report, figures, noise_notes, of_data, places_for
from trimask.fit.signal import check_signal
from trimask.fit.source import moments_of
from trimask.moments import Matrix, Moments
from trimask_core.schema import ONES, Column
from trimask_theory.noisy_regression import Combination, NoisyFit, fit

if TYPE_CHECKING:
    from trimask.fit.source import Source

__all__ = ["MeansResults", "means"]

_PARTS = ["estimate", "std err", "sampling", "privacy"]


@dataclass(frozen=True, eq=False, repr=False)
class MeansResults(Report):
    """What `fit.means` found.

    Attributes
    ----------
    means : DataFrame
        A row a level: estimate, std err, sampling and privacy parts.
    differences : DataFrame
        The same, to `reference`.
    counts : Series
        The people of each level, which add up to `nobs`.
    equal : FTest
        The test of equal means.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.means(data, "systolic", by="activity", reference="high")
    >>> found.differences.index.tolist()
    ['low', 'medium']
    """

    label: str
    nobs: int
    sigma: float
    response: str
    unit: str
    by: str
    reference: str
    pooled: bool
    counts: pd.Series[float]
    means: pd.DataFrame
    differences: pd.DataFrame
    equal: FTest

    @property
    def title(self) -> str:
        """What this is."""
        return f"Means of {self.response} by {self.by}, {of_data(self.sigma)}"

    @property
    def facts(self) -> Facts:
        """What the tables are of."""
        measured = [("unit", self.unit)] if self.unit else []
        test = f"F({self.equal.df_num}, {self.equal.df_denom:,}) = {self.equal.fvalue:.4g}, p = {self.equal.pvalue:.4g}"
        return [("data", self.label), ("rows", f"{self.nobs:,}"), *measured, ("equal means", test)]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        of = (
            "The sampling part takes one variance for all groups: a group's own needs third moments."
            if self.pooled
            else "The sampling part is that of a share."
        )
        return (*noise_notes(self.sigma), of)

    def conf_int(self, alpha: float = 0.05, of: str = "means") -> pd.DataFrame:
        """Intervals of the means, or of the differences.

        Parameters
        ----------
        alpha : float
            One less the level of the intervals: 0.05 for 95 %.
        of : "means" or "differences"
            Which.

        Returns
        -------
        DataFrame
            Lower ends in column 0, upper ends in column 1.
        """
        if of not in ("means", "differences"):
            raise ParameterError("of", "'means' or 'differences'", of)
        table = self.means if of == "means" else self.differences
        reach = critical_value(alpha, self.nobs - len(self.means)) * table["std err"]
        return pd.DataFrame({0: table["estimate"] - reach, 1: table["estimate"] + reach})

    def blocks(self, alpha: float) -> list[Block]:
        """Means with the size of each group, then differences to the reference."""
        ends = [f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]
        found = []
        for of, table in (("means", self.means), ("differences", self.differences)):
            values = np.column_stack([table[_PARTS].to_numpy(), self.conf_int(alpha, of).to_numpy()])
            rows = []
            for name, row in zip(table.index, values, strict=True):
                size = [f"{self.counts[name]:,.0f}"] if of == "means" else []
                called = str(name) if of == "means" else f"{name} - {self.reference}"
                rows.append([called, *size, *figures(list(row), places_for(row[1], row[0]))])
            head = ["", *(["people"] if of == "means" else []), *_PARTS, *ends]
            found.append(Block(head, rows, of))
        return found

    def __repr__(self) -> str:
        return f"<MeansResults of {self.response} by {self.by} in {self.label}>"


def means(dataset: Source, y: str, by: str, *, reference: str | None = None) -> MeansResults:
    """Means of a column in each level of a group, differences to a reference, and a test that all are equal.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    y : str
        A column; a yes-or-no one gives shares.
    by : str
        A categorical or yes-or-no attribute, or bins; also written C(group).
    reference : str, optional
        The level that differences are to; the first by default.

    Returns
    -------
    MeansResults
        `means` and `differences` with errors, `counts`, and `equal`, the F test.

    Raises
    ------
    NoiseExceedsSignal
        A level that cannot be told from nobody.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.means(data, "systolic", by="activity")
    >>> found.means["estimate"].round().to_dict()
    {'low': 130.0, 'medium': 126.0, 'high': 121.0}
    >>> found.equal.pvalue < 0.001
    True
    """
    moments = moments_of(dataset)
    by = plain_name(by)
    levels, U = membership(by, moments.schema)
    column = moments.columns[find_column(y, moments.schema)]
    if column.source == by:
        raise FormulaError(f"{y} is {by} itself; fit.describe has its shares")
    if reference is not None and reference not in levels:
        raise FormulaError(f"{by} has no level {reference}; there are {', '.join(levels)}")
    base = 0 if reference is None else levels.index(reference)
    n, k = moments.rows, len(levels)
    if n <= k:
        raise ParameterError("rows", f"more than the {k} levels", n)
    gram = U @ moments.gram @ U.T
    check_signal((gram + gram.T) / 2, U.T, moments, tuple(f"{by}_{level}" for level in levels))
    one = unit(moments.schema, ONES)
    # In original units: y = center * one + half_range * scaled.
    found = fit(
        moments.gram, moments.law, n, U.T, column.center * one + column.half_range * unit(moments.schema, y)
    )
    share = _is_share(moments, column)
    if share:
        found = _with_shares(found, U @ moments.gram @ one)
    contrasts = np.delete(np.eye(k) - np.eye(k)[base], base, axis=0)
    differences = found.combination(contrasts)
    others = [level for at, level in enumerate(levels) if at != base]
    words = " = ".join(levels)
    return MeansResults(
        label=moments.label,
        nobs=n,
        sigma=moments.sigma,
        response=y,
        unit=next((item.unit for item in moments.schema.attributes if item.name == column.source), ""),
        by=by,
        reference=levels[base],
        pooled=not share,
        counts=pd.Series(U @ moments.gram @ one, index=pd.Index(levels), name="people"),
        means=_table(found.combination(), levels),
        differences=_table(differences, others),
        equal=joint(differences, n - k, words),
    )


def _is_share(moments: Moments, column: Column) -> bool:
    kinds = {item.name: item.kind for item in moments.schema.attributes}
    return column.level is not None or kinds.get(column.name) == "binary"


def _with_shares(found: NoisyFit, counts: Matrix) -> NoisyFit:
    p = np.clip(found.coefficients, 0.0, 1.0)
    return replace(found, drawn=np.diag(p * (1 - p) / counts))


def _table(found: Combination, names: list[str]) -> pd.DataFrame:
    parts = [found.standard_errors, np.sqrt(np.diag(found.cov_sampling)), np.sqrt(np.diag(found.cov_widened))]
    return pd.DataFrame(
        np.column_stack([found.estimates, *parts]), index=pd.Index(names), columns=pd.Index(_PARTS)
    )
