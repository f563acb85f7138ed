"""Canonical correlations between two sets of columns, from noisy second moments.

Statement. Directions a, b with a^T S_xx a = b^T S_yy b = 1 and a^T S_xy b = r, from the singular values of
S_xx^-1/2 S_xy S_yy^-1/2, have
    dr = a^T dS_xy b - (r/2) (a^T dS_xx a + b^T dS_yy b),
and errors follow by `trimask.fit.covariance`; the sampling part is (1 - r^2)^2/n for normal rows, the textbook's.
This holds for a correlation clear of its neighbours and of zero; one that is not gets no error (NaN). Directions
are estimates only: no error is given for them.

The directions are chosen to make r large, so r is too large on average. Lawley (1959), for p and q columns and normal rows:
    E[r_k] - rho_k = (1 - rho_k^2)/(2 n rho_k) [p + q - 2 - rho_k^2 + 2 (1 - rho_k^2) D_k],
    D_k = sum_{j != k} rho_j^2/(rho_k^2 - rho_j^2),
up to 1/n^2. `adjusted` has it taken off, estimates in place of rho, and n = (1 - r_k^2)^2 / (std err)^2 in place of
the number of rows, so that noise and fourth moments count as the fewer normal rows that would have that error:
**approximate** there. Intervals are about `adjusted`. What stays is that errors are given to correlations that look
clear of their neighbours: where they are so by chance, what is shown was selected for being large, and holds less
often. Asymptotic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import linalg

from trimask.fit.components import CLEAR_GAP
from trimask.fit.covariance import covariance_of, select
from trimask.fit.coverage import NORMAL_ROWS, doubt, rows_notes, warn_of
from trimask.fit.critical_value import critical_value
from trimask.fit.noise import outer
from trimask.fit.report import Block, Facts, Report, figures, noise_notes, of_data
from trimask.fit.source import moments_of
from trimask.moments import Matrix

if TYPE_CHECKING:
    from trimask.fit.source import Source

__all__ = ["CanonicalResults", "canonical_correlations"]

_CHOSEN = (
    "Directions are chosen to make correlations large; adjusted has that taken off (Lawley 1959), and intervals are about "
    "it. A correlation that looks clear of the next one by chance is still too large."
)


@dataclass(frozen=True, eq=False, repr=False)
class CanonicalResults(Report):
    """What `fit.canonical_correlations` found.

    Attributes
    ----------
    correlations : DataFrame
        A row a pair of variates: estimate, adjusted (for being the largest), std err, sampling, privacy.
    x_weights : DataFrame
        Of standardised columns, giving variates of variance one.
    y_weights : DataFrame
        The same for the other side.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.canonical_correlations(data, ["age", "salt"], ["systolic", "smoker"])
    >>> found.x_weights.index.tolist()
    ['age', 'salt']
    """

    label: str
    nobs: int
    sigma: float
    correlations: pd.DataFrame
    x_weights: pd.DataFrame
    y_weights: pd.DataFrame
    of_rows: tuple[str, ...] = (NORMAL_ROWS,)

    @property
    def title(self) -> str:
        """What this is."""
        return f"Canonical correlations {of_data(self.sigma)}"

    @property
    def facts(self) -> Facts:
        """What the tables are of."""
        return [("data", self.label), ("rows", f"{self.nobs:,}"), ("noise sigma", f"{self.sigma:.4g}")]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        notes = [
            *noise_notes(self.sigma),
            *self.of_rows,
            _CHOSEN,
        ]
        if self.correlations["std err"].isna().any():
            notes.append("A correlation without an error is too close to its neighbour or to zero for one.")
        return (*notes, "Weights are estimates only.")

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals about `adjusted`, by Fisher's transformation; NaN where there is no error.

        Parameters
        ----------
        alpha : float
            One less the level of the intervals: 0.05 for 95 %.

        Returns
        -------
        DataFrame
            Lower ends in column 0, upper ends in column 1.
        """
        r = self.correlations["adjusted"].to_numpy()
        reach = critical_value(alpha) * self.correlations["std err"].to_numpy() / (1 - r**2)
        ends = np.tanh(np.column_stack([np.arctanh(r) - reach, np.arctanh(r) + reach]))
        return pd.DataFrame(ends, index=self.correlations.index)

    def blocks(self, alpha: float) -> list[Block]:
        """The correlations, then the weights of either side."""
        values = np.column_stack([self.correlations.to_numpy(), self.conf_int(alpha).to_numpy()])
        rows = [
            [str(name), *figures(list(row), 4)]
            for name, row in zip(self.correlations.index, values, strict=True)
        ]
        head = ["", *map(str, self.correlations.columns), f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]
        weights = [
            Block(
                ["", *map(str, table.columns)],
                [
                    [str(n), *figures(list(row), 3)]
                    for n, row in zip(table.index, table.to_numpy(), strict=True)
                ],
                caption,
            )
            for caption, table in (("weights of x", self.x_weights), ("weights of y", self.y_weights))
        ]
        return [Block(head, rows), *weights]

    def __repr__(self) -> str:
        return f"<CanonicalResults, {len(self.correlations)} correlations in {self.label}>"


def canonical_correlations(dataset: Source, x: Sequence[str], y: Sequence[str]) -> CanonicalResults:
    """Canonical correlations between the columns `x` and the columns `y`, noise corrected.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    x : list of str
        Columns on one side; of a group leave one level out.
    y : list of str
        Columns on the other side.

    Returns
    -------
    CanonicalResults
        Correlations with errors, and the weights of either side.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.canonical_correlations(data, ["age", "salt"], ["systolic", "smoker"])
    >>> found.correlations.loc["CC1", ["estimate", "std err"]].round(2).tolist()
    [0.78, 0.04]
    """
    moments = moments_of(dataset)
    left, right = select(moments.schema, x, "x"), select(moments.schema, y, "y")
    covariance = covariance_of(moments, select(moments.schema, [*left, *right], "x and y"))
    covariance.check()
    p, count = len(left), min(len(left), len(right))
    S = covariance.S
    Lx, Ly = linalg.cholesky(S[:p, :p], lower=True), linalg.cholesky(S[p:, p:], lower=True)
    middle = linalg.solve_triangular(Lx, S[:p, p:], lower=True)
    U, r, Vt = linalg.svd(linalg.solve_triangular(Ly, middle.T, lower=True).T)
    a = linalg.solve_triangular(Lx, U[:, :count], lower=True, trans="T")
    b = linalg.solve_triangular(Ly, Vt[:count].T, lower=True, trans="T")
    a, b = _signed(a, b)
    gradients = np.zeros((count, *S.shape))
    for i in range(count):
        whole_a = np.concatenate([a[:, i], np.zeros(len(right))])
        whole_b = np.concatenate([np.zeros(p), b[:, i]])
        square = np.outer(whole_a, whole_a) + np.outer(whole_b, whole_b)
        gradients[i] = outer(whole_a, whole_b) - r[i] / 2 * square
    (sampling, known), privacy = covariance.sampling(gradients), covariance.privacy_variance(gradients)
    errors = np.sqrt(sampling + privacy)
    ladder = np.concatenate([r, [0.0]])
    for i in range(count):
        gap = np.min(np.abs(np.delete(ladder, i) - r[i]))
        if gap < CLEAR_GAP * errors[i]:
            errors[i] = sampling[i] = privacy[i] = np.nan
    index = pd.Index([f"CC{i + 1}" for i in range(count)])
    d = np.sqrt(np.diag(S))
    parts = [r[:count], _adjusted(r[:count], errors, S.shape[0]), errors, np.sqrt(sampling), np.sqrt(privacy)]
    table = dict(zip(["estimate", "adjusted", "std err", "sampling", "privacy"], parts, strict=True))
    said = doubt(covariance, known)
    warn_of(said)
    return CanonicalResults(
        label=moments.label,
        nobs=moments.rows,
        sigma=moments.sigma,
        correlations=pd.DataFrame(table, index=index),
        x_weights=pd.DataFrame(a * d[:p, None], index=pd.Index(left), columns=index),
        y_weights=pd.DataFrame(b * d[p:, None], index=pd.Index(right), columns=index),
        of_rows=rows_notes(known, said),
    )


def _signed(a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
    """Signs by which the largest weight of x is positive."""
    sign = np.sign(a[np.argmax(np.abs(a), axis=0), np.arange(a.shape[1])])
    return a * sign, b * sign


def _adjusted(r: Matrix, errors: Matrix, columns: int) -> Matrix:
    """Lawley's correction; NaN where there is no error."""
    found = np.full(len(r), np.nan)
    for k in np.flatnonzero(np.isfinite(errors)):
        own = r[k] ** 2
        others = np.delete(r, k) ** 2
        bracket = columns - 2 - own + 2 * (1 - own) * float(np.sum(others / (own - others)))
        found[k] = r[k] - errors[k] ** 2 / (2 * r[k] * (1 - own)) * bracket
    return found
