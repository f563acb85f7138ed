"""Linear discriminant analysis by declared group indicators, from noisy second moments.

Statement. Membership of group g is a combination u_g of columns, one for its members and zero for others, so with
s_g = u_g^T G X the sum over its members and n_g their number,
    W = X^T X - sum_g s_g s_g^T / n_g   (within),   B = sum_g s_g s_g^T / n_g - n mean mean^T   (between),
and discriminant directions solve B v = l W v. The covariance of the noise in s_g (`trimask_theory.noise_law`) is taken off
s_g s_g^T, and off the square of the overall mean alike; then W and B are unbiased but for the noise in n_g, which is of
lower order.

Estimates only. A group indicator is not normal, so the sampling law used elsewhere does not hold for it, and no
standard error is given. For two groups the direction is that of least squares of the indicator on the columns:
`fit.ols` gives errors there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg

from trimask.errors import CollinearColumns, FormulaError, NoiseExceedsSignal, ParameterError
from trimask.fit.covariance import numeric_columns, select
from trimask.fit.groups import membership, plain_name
from trimask.fit.noise import gram_covariance, outers
from trimask.fit.report import Block, Facts, Report, of_data
from trimask.fit.signal import CLEAR_SIGNAL, check_signal
from trimask.fit.source import moments_of
from trimask.moments import Matrix, Moments
from trimask_core.schema import ONES

if TYPE_CHECKING:
    from trimask.fit.source import Source

__all__ = ["DiscriminantResults", "discriminant"]


@dataclass(frozen=True, eq=False, repr=False)
class DiscriminantResults(Report):
    """Directions, group means and classification functions, in original units. No standard errors.

    Attributes
    ----------
    priors : Series
        Shares of the groups.
    means : DataFrame
        A row a column, a column a group.
    directions : DataFrame
        Scaled to within-group variance one.
    separation : Series
        Between-group variance along each; zero where the noise hides it.
    functions : DataFrame
        A column a group, a constant and coefficients: a person belongs where the sum is largest.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.discriminant(data, "activity", ["systolic", "salt"])
    >>> found.priors.sum().round(9), (found.separation >= 0).all()
    (np.float64(1.0), np.True_)
    """

    label: str
    nobs: int
    sigma: float
    group: str
    priors: pd.Series[float]
    means: pd.DataFrame
    directions: pd.DataFrame
    separation: pd.Series[float]
    functions: pd.DataFrame

    @property
    def title(self) -> str:
        """What this is."""
        return f"Linear discriminant {of_data(self.sigma)}"

    @property
    def facts(self) -> Facts:
        """What the tables are of."""
        return [
            ("data", self.label),
            ("rows", f"{self.nobs:,}"),
            ("noise sigma", f"{self.sigma:.4g}"),
            ("group", self.group),
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        lost = [str(name) for name, value in self.separation.items() if value == 0]
        hidden = (
            [f"{', '.join(lost)}: the noise hides the separation; the direction means nothing."]
            if lost
            else []
        )
        return (
            "Estimates only: no standard error is known for them from second moments.",
            "For two groups, fit.ols of the indicator has the same direction, with errors.",
            *hidden,
        )

    def blocks(self, alpha: float) -> list[Block]:  # noqa: ARG002  no intervals here
        """Group means, directions and classification functions."""
        share = pd.DataFrame([self.priors.rename("share")])
        separate = pd.DataFrame([self.separation.rename("separation")])
        tables = (
            ("groups", pd.concat([share, self.means])),
            ("directions", pd.concat([separate, self.directions])),
            ("classification functions", self.functions),
        )
        return [
            Block(
                ["", *map(str, table.columns)],
                [
                    [str(n), *(f"{v:.4g}" for v in row)]
                    for n, row in zip(table.index, table.to_numpy(), strict=True)
                ],
                caption,
            )
            for caption, table in tables
        ]

    def __repr__(self) -> str:
        return f"<DiscriminantResults of {self.group} in {self.label}>"


def discriminant(dataset: Source, group: str, columns: Sequence[str] | None = None) -> DiscriminantResults:
    """Linear discriminant of a group by other columns, noise corrected.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    group : str
        A categorical or yes-or-no attribute, also written C(group).
    columns : list of str, optional
        What tells the groups apart; all numeric columns by default.

    Returns
    -------
    DiscriminantResults
        Directions, group means and classification functions: estimates, without errors.

    Raises
    ------
    NoiseExceedsSignal
        A level that the noise leaves nobody in.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.discriminant(data, "activity", ["systolic", "salt"])
    >>> found.means.round().loc["systolic"].to_dict()
    {'low': 130.0, 'medium': 126.0, 'high': 121.0}
    """
    moments = moments_of(dataset)
    schema = moments.schema
    group = plain_name(group)
    levels, U = membership(group, schema)
    if columns is None:
        columns = [name for name in numeric_columns(schema) if name != group]
    names = select(schema, columns)
    if group in names or set(names) & {f"{group}_{level}" for level in levels}:
        raise FormulaError(f"{group} cannot tell its own groups apart: leave it out of the columns")
    index = {column.name: j for j, column in enumerate(moments.columns)}
    at = [index[name] for name in names]
    n, k, K = moments.rows, len(at), len(levels)
    if n <= k + K:
        raise ParameterError("rows", f"more than the {k} columns and {K} groups", n)
    groups = scatter(moments, U, at, group, levels)
    counts, centers, W = groups.counts, groups.centers, groups.within
    # The direction of a column within groups is e_j - sum_g center_gj u_g.
    directions = np.eye(len(index))[:, at] - U.T @ centers
    check_signal((n - K) * W, directions, moments, tuple(names))
    between = groups.between
    values, vectors = linalg.eigh(between, W)
    keep = min(K - 1, k)
    values, vectors = values[::-1][:keep], vectors[:, ::-1][:, :keep]
    vectors = vectors * np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(keep)])

    half = np.array([moments.columns[j].half_range for j in at])
    center = np.array([moments.columns[j].center for j in at])
    priors = counts / n
    original = centers * half + center
    slopes = linalg.solve(W, centers.T, assume_a="pos").T / half
    # The same constant for every group may be added: what is compared are differences.
    scaled = np.log(priors) - 0.5 * np.einsum("gi,gi->g", centers, slopes * half)
    constants = scaled - slopes @ center
    named = pd.Index(names)
    labels = pd.Index([f"LD{i + 1}" for i in range(keep)])
    functions = pd.DataFrame(slopes.T, index=named, columns=pd.Index(levels))
    first = pd.DataFrame([constants], index=pd.Index(["constant"]), columns=pd.Index(levels))
    return DiscriminantResults(
        label=moments.label,
        nobs=n,
        sigma=moments.sigma,
        group=group,
        priors=pd.Series(priors, index=pd.Index(levels), name="share"),
        means=pd.DataFrame(original.T, index=named, columns=pd.Index(levels)),
        directions=pd.DataFrame(vectors / half[:, None], index=named, columns=labels),
        # Noise taken off may leave a between-group variance below zero, which none can be.
        separation=pd.Series(np.maximum(values, 0.0), index=labels, name="separation", dtype=float),
        functions=pd.concat([first, functions]),
    )


@dataclass(frozen=True, eq=False)
class Scatter:
    """Group sizes, which add up to n, group means and the two covariances, in scaled units."""

    counts: Matrix
    centers: Matrix
    within: Matrix
    between: Matrix


def scatter(moments: Moments, U: Matrix, at: list[int], group: str, levels: list[str]) -> Scatter:
    """What the groups u_g (rows of U) make of the columns `at`, with the noise taken off."""
    n, G = moments.rows, moments.gram
    one = [column.name for column in moments.columns].index(ONES)
    counts = U @ G[:, one]
    unit = np.eye(len(G))
    spread = np.sqrt(moments.law.variance(outers(U, unit[one])))
    _refuse_empty(moments, counts, spread, group, levels)
    counts = counts * (n / counts.sum())
    sums = U @ G[:, at]
    X = G[np.ix_(at, at)]

    def noise_of(u: Matrix) -> Matrix:
        return gram_covariance(moments, outers(unit[at], u))

    noise = np.array([noise_of(u) for u in U])
    squares = np.einsum("gi,gj->gij", sums, sums) - noise
    among = np.einsum("gij,g->ij", squares, 1 / counts)
    total = sums.sum(axis=0)
    # The noise in the sum over everybody, by the same formula with u the sum of all u_g.
    common = noise_of(U.sum(axis=0))
    between = among / n - (np.outer(total, total) - common) / n**2
    return Scatter(counts, sums / counts[:, None], (X - among) / (n - len(counts)), (between + between.T) / 2)


def _refuse_empty(moments: Moments, counts: Matrix, noise: Matrix, group: str, levels: list[str]) -> None:
    """A group must stand out of the noise in its count; otherwise what can be done without it is said."""
    g = int(np.argmin(counts - CLEAR_SIGNAL * noise))
    name = f"{group}_{levels[g]}"
    if moments.exact:
        if counts[g] < 0.5:
            raise CollinearColumns(
                [name], f"{group}: nobody is {levels[g]}; {_instead(group, levels, counts > 0.5)}"
            )
        return
    if counts[g] >= CLEAR_SIGNAL * noise[g]:
        return
    # A count grows as n; its noise as sqrt(n) with Theorem 3.4's sigma, at most as n^(1/4) with a sharp one.
    factor = CLEAR_SIGNAL * noise[g] / max(counts[g] + 2 * noise[g], noise[g] / 2)
    rows = math.ceil(moments.rows * factor ** (4 / 3 if moments.noise_falls_with_rows else 2))
    raise NoiseExceedsSignal(
        [name], max(rows, moments.rows + 1), None,
        f"the noise exceeds the signal: about {max(counts[g], 0):,.0f} people are {group} = {levels[g]}, with a noise of "
        f"{noise[g]:,.0f}. It would take a pooled release of at least about {max(rows, moments.rows + 1):,} rows; "
        + _instead(group, levels, counts >= CLEAR_SIGNAL * noise),
    )  # fmt: skip


def _instead(group: str, levels: list[str], seen: NDArray[np.bool_]) -> str:
    """What a level that can be seen allows: the same direction by least squares, with errors."""
    there = [level for level, clear in zip(levels, seen, strict=True) if clear]
    column = group if levels == ["no", "yes"] else f"{group}_{there[0]}" if there else group
    if not there or len(levels) == 2:
        return "with these rows its groups cannot be told apart"
    return f"fit.ols of {column} on the columns tells {there[0]} from all others, with errors"
