"""Covariances of columns from noisy second moments, and the error of anything computed from them.

Setting. `one` is the ones column, m the vector of means G_1j / G_11, w_j = e_j - m_j e_1 the direction that
centres column j, so that S = W^T G W / (n - 1) with W = (w_1 .. w_k) estimates the covariance matrix in scaled units.
Without a ones column nothing can be centred: S is about zero and W is made of unit vectors.

Statement. A function f of S with symmetric gradient A (df = tr(A dS)) has, to first order,
    privacy variance   that of the gradient W A W^T / (n - 1) under the law of the noise (`trimask_theory.noise_law`)
    sampling variance  (2/n) tr(A S A S), if the rows are normal.
The means may be held fixed: S is stationary in them. The second is the Wishart law. Where the squares and products that f
is made of are declared, fourth moments are there and the sampling variance is taken from them
(`trimask.fit.fourth`), whatever the law of the rows; second moments of other columns cannot tell what other rows would
give.

The centred sum falls short of the truth on average by the noise in the means, n Cov[m_i, m_j], as it does by S from
sampling; both are added back.

Proved: the noise law, the shortfall to leading order. Asymptotic: the delta method. Assumed: normal rows, for
the sampling part alone and where there are no fourth moments; results say so, and warn (`trimask.fit.coverage`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimask.errors import CollinearColumns, ParameterError
from trimask.fit.design import find_column, level_columns
from trimask.fit.fourth import fourth_moments
from trimask.fit.noise import gram_covariance, outers
from trimask.fit.signal import check_signal
from trimask.moments import Matrix, Moments
from trimask_core.schema import ONES, Schema

__all__ = ["Covariance", "covariance_of", "numeric_columns", "select"]


@dataclass(frozen=True, eq=False)
class Covariance:
    """S of the columns `names`, in scaled units, the directions W, and the means they were centred at."""

    names: tuple[str, ...]
    S: Matrix
    W: Matrix
    means: Matrix
    moments: Moments
    centred: bool

    @property
    def rows(self) -> int:
        """Rows behind it."""
        return self.moments.rows

    @property
    def degrees(self) -> int:
        """Rows, less one if means were taken out."""
        return self.rows - self.centred

    def sampling_variance(self, gradients: Matrix) -> Matrix:
        """The sampling variance of functions with these gradients (m x k x k, symmetric)."""
        return self.sampling(gradients)[0]

    def sampling(self, gradients: Matrix) -> tuple[Matrix, NDArray[np.bool_]]:
        """Sampling variances, and which of them come from fourth moments; the others take rows as normal."""
        AS = gradients @ self.S
        normal = np.maximum(2 / self.degrees * np.einsum("aij,aji->a", AS, AS), 0.0)
        fourth = fourth_moments(self.moments, self.W @ gradients @ self.W.T / self.degrees)
        return np.where(fourth.known, fourth.variances, normal), fourth.known

    def privacy_variance(self, gradients: Matrix) -> Matrix:
        """The privacy variance of functions with these gradients."""
        return self.moments.law.variance(self.W @ gradients @ self.W.T / self.degrees)

    def check(self) -> float:
        """The signal, or an error: what inverts S needs all of it to stand out of the noise."""
        return check_signal(self.degrees * self.S, self.W, self.moments, self.names)

    def deviations(self) -> Matrix:
        """Standard deviations in scaled units, or `NoiseExceedsSignal` naming a column the noise hides."""
        for j, value in enumerate(np.diag(self.S)):
            one = np.ix_([j], [j])
            if self.moments.exact and value <= 1e-14 * float(self.W[:, j] @ self.W[:, j]):
                raise CollinearColumns([self.names[j]], f"{self.names[j]} is the same on every row")
            if value <= 0:  # which this refuses
                check_signal(self.degrees * self.S[one], self.W[:, [j]], self.moments, (self.names[j],))
        found: Matrix = np.sqrt(np.diag(self.S))
        return found


def numeric_columns(schema: Schema) -> list[str]:
    """Every column but the ones column and the indicators of groups."""
    return [column.name for column in schema.columns if column.name != ONES and column.level is None]


def select(schema: Schema, columns: Sequence[str] | None, what: str = "columns") -> list[str]:
    """The columns asked for, checked; all numeric ones by default. Whole groups are collinear when centred."""
    if isinstance(columns, str):
        raise ParameterError(what, "a list of columns", columns)
    chosen = numeric_columns(schema) if columns is None else [str(name) for name in columns]
    if not chosen:
        raise ParameterError(what, "at least one column")
    for name in chosen:
        find_column(name, schema)
    twice = sorted({name for name in chosen if chosen.count(name) > 1})
    if twice:
        raise ParameterError(what, f"different columns; {twice[0]} appears twice")
    for levels in level_columns(schema):
        if schema.ones and set(levels) <= set(chosen):
            raise CollinearColumns(
                levels, f"{', '.join(levels)} add up to one on every row: leave one level out"
            )
    return chosen


def covariance_of(moments: Moments, names: Sequence[str]) -> Covariance:
    """The covariance of checked columns."""
    index = {column.name: j for j, column in enumerate(moments.columns)}
    at = [index[name] for name in names]
    k, n = len(at), moments.rows
    if n <= k + 1:
        raise ParameterError("rows", f"more than the {k} columns and one", n)
    block = moments.gram[np.ix_(at, at)]
    W = np.eye(len(index))[:, at]
    if ONES not in index:
        return Covariance(tuple(names), block / n, W, np.zeros(k), moments, False)
    one = index[ONES]
    size = float(moments.gram[one, one])
    if size <= 0:
        check_signal(moments.gram[np.ix_([one], [one])], np.eye(len(index))[:, [one]], moments, (ONES,))
    means = moments.gram[at, one] / size
    W[one] -= means
    S = block - size * np.outer(means, means)
    if not moments.exact:
        unit = np.eye(len(index))[one]
        S = S + gram_covariance(moments, outers(W.T, unit)) / size
    S = S / (n - 1)
    return Covariance(tuple(names), (S + S.T) / 2, W, means, moments, True)
