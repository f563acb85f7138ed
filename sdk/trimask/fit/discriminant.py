"""Linear discriminant analysis by declared group indicators, from noisy second moments.

Statement. Membership of group g is a combination u_g of columns, one for its members and zero for others, so with
s_g = u_g^T G X the sum over its members and n_g their number,
    W = X^T X - sum_g s_g s_g^T / n_g   (within),   B = sum_g s_g s_g^T / n_g - n mean mean^T   (between),
and discriminant directions solve B v = l W v. The noise in s_g has covariance s^2 (|u_g|^2 X^T X + n_g I) +
n s^4 |u_g|^2 I (`trimask.fit.noise`), which is taken off s_g s_g^T; then W and B are unbiased but for the noise
in n_g, which is of lower order.

Estimates only. A group indicator is not normal, so the sampling law used elsewhere does not hold for it, and no
standard error is given. For two groups the direction is that of least squares of the indicator on the columns:
`fit.ols` gives errors there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import linalg

from trimask.errors import FormulaError, NoiseExceedsSignal, ParameterError
from trimask.fit.covariance import numeric_columns, select
from trimask.fit.formula import nearest
from trimask.fit.report import Block, Facts, Report
from trimask.fit.signal import check_signal
from trimask.fit.source import moments_of
from trimask.moments import Matrix, Moments
from trimask_core.schema import ONES, Schema

if TYPE_CHECKING:
    from trimask.fit.source import Source

__all__ = ["DiscriminantResults", "discriminant"]


@dataclass(frozen=True, eq=False, repr=False)
class DiscriminantResults(Report):
    """Directions, group means and classification functions, in original units. No standard errors.

    `directions` scale to within-group variance one; `separation` is the between-group variance along each.
    `functions` has, a group a column, a constant and coefficients: a person belongs where the sum is largest.
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
        return "Linear discriminant on a masked release, noise corrected"

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
        return (
            "The noise is corrected for. Estimates only: no standard error is known for them after masking.",
            "For two groups, fit.ols of the indicator has the same direction, with errors.",
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
    """Linear discriminant of a categorical or binary attribute by other columns, noise corrected."""
    moments = moments_of(dataset)
    schema = moments.schema
    levels, U = _membership(group, schema)
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
    counts, sums, squares = _groups(moments, U, at, group, levels)

    X = moments.gram[np.ix_(at, at)]
    mean = sums.sum(axis=0) / n
    among = np.einsum("gij,g->ij", squares, 1 / counts)
    W = (X - among) / (n - K)
    centers = sums / counts[:, None]
    # The direction of a column within groups is e_j - sum_g center_gj u_g.
    noise = np.eye(k) + centers.T @ (U @ U.T) @ centers
    check_signal((n - K) * W, noise, moments, tuple(names))
    between = (among - n * np.outer(mean, mean)) / n
    values, vectors = linalg.eigh((between + between.T) / 2, W)
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
        separation=pd.Series(np.asarray(values), index=labels, name="separation", dtype=float),
        functions=pd.concat([first, functions]),
    )


def _membership(group: str, schema: Schema) -> tuple[list[str], Matrix]:
    """The levels, and the combinations of columns (a row a level) that are one on their members."""
    if not schema.ones:
        raise FormulaError("this study has no ones column, so groups cannot be counted")
    attribute = next((item for item in schema.attributes if item.name == group), None)
    if attribute is None or attribute.kind not in ("categorical", "binary"):
        known = [item.name for item in schema.attributes if item.kind in ("categorical", "binary")]
        hint = nearest(group, known) if known else "it has none"
        raise FormulaError(f"this study has no group {group}; {hint}")
    index = {column.name: j for j, column in enumerate(schema.columns)}
    if attribute.kind == "binary":
        U = np.zeros((2, len(index)))
        U[:, index[ONES]] = 0.5
        U[:, index[group]] = [-0.5, 0.5]  # scaled: -1 for no, 1 for yes
        return ["no", "yes"], U
    U = np.zeros((len(attribute.levels), len(index)))
    for g, level in enumerate(attribute.levels):
        U[g, index[f"{group}_{level}"]] = 1.0
    return list(attribute.levels), U


def _groups(
    moments: Moments, U: Matrix, at: list[int], group: str, levels: list[str]
) -> tuple[Matrix, Matrix, Matrix]:
    """Group sizes (which add up to n), sums, and s_g s_g^T with the noise taken off."""
    n, s, G = moments.rows, moments.sigma, moments.gram
    one = [column.name for column in moments.columns].index(ONES)
    counts = U @ G[:, one]
    if np.min(counts) <= 1:
        empty = levels[int(np.argmin(counts))]
        raise NoiseExceedsSignal(
            [f"{group}_{empty}"], n, None,
            f"{group} {empty} has nobody in it, or too few to be seen above the noise: merge levels in the study",
        )  # fmt: skip
    counts = counts * (n / counts.sum())
    sums = U @ G[:, at]
    X = G[np.ix_(at, at)]
    size = np.einsum("gi,gi->g", U, U)
    noise = s**2 * (size[:, None, None] * X + counts[:, None, None] * np.eye(len(at)))
    noise = noise + n * s**4 * size[:, None, None] * np.eye(len(at))
    return counts, sums, np.einsum("gi,gj->gij", sums, sums) - noise
