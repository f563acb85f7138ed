"""Sampling variances of what a Gram matrix gives, from the fourth moments that declared squares and products carry.

Statement. A function of the Gram matrix with gradient A (df = tr(A dG)) is, to first order, a sum over people of
q = z^T A z, z a person's columns, so its sampling variance is n Var[q] whatever the law of the rows. q is a
polynomial in what people were asked (`trimask.identities`). If it is a combination u^T z of the study's columns,
because the squares and products in it are declared, then the sum of q^2 is u^T G u and
    n Var[q] is estimated by n/(n - 1) (u^T G u - tr(A G)^2 / n):
fourth moments stand in the second moments of squares and products. A variance needs the square of its column, a correlation
both squares and the product, k columns all k (k + 1)/2 of them; of yes-or-no columns and levels squares are known anyway.
The noise in u^T G u has the law of the release. Where it is not `CLEAR` of it, or q is no combination, nothing is
given, and the caller takes rows as normal.

Asymptotic: the delta method, of which this is the sandwich. At a few hundred rows with heavy tails it is still short: the
estimate of n Var[q] is itself uncertain and correlated with the estimate (`docs/accuracy.md` has the coverage measured).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from trimask.identities import column_polynomials
from trimask.moments import Matrix, Moments
from trimask_core.schema import Schema
from trimask_theory.noise_law import positive_part

__all__ = ["CLEAR", "Fourth", "fourth_moments"]

CLEAR = 4.0
"""Noise standard errors by which a sum of squares must clear zero: one of them moves the error by an eighth at most."""
_ZERO = 1e-8  # relative; polynomials have coefficients of the order of 1


@dataclass(frozen=True, eq=False)
class Fourth:
    """`variances` of the functions asked for, NaN where the columns do not carry them, and the combinations u."""

    variances: Matrix
    directions: Matrix
    carried: NDArray[np.bool_]
    """Whether q is a combination of the columns, noise or not."""

    totals: Matrix
    """tr(A G), the sums of q."""

    def covariance(self, moments: Moments) -> Matrix | None:
        """The sampling covariance of all the functions together, or None if the variance of one is not there."""
        if not np.all(self.known):
            return None
        n, u = moments.rows, self.directions
        found: Matrix = (u @ moments.gram @ u.T - np.outer(self.totals, self.totals) / n) * n / max(n - 1, 1)
        # Noise may leave a small negative eigenvalue beside variances that are clear of it.
        return found if moments.exact else positive_part((found + found.T) / 2)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which variances are there."""
        return ~np.isnan(self.variances)


def fourth_moments(moments: Moments, gradients: Matrix) -> Fourth:
    """The sampling variances of functions of the Gram matrix with these gradients (m x p x p, symmetric)."""
    n, p = moments.rows, len(moments.gram)
    size = np.max(np.abs(gradients), axis=(1, 2), initial=0.0)
    used = tuple(
        np.flatnonzero(np.any(np.abs(gradients) > 1e-14 * size[:, None, None], axis=(0, 1))).tolist()
    )
    m = len(gradients)
    if not used:
        return Fourth(np.full(m, np.nan), np.zeros((m, p)), np.zeros(m, dtype=bool), np.zeros(m))
    products, columns, inverse = _spans(moments.schema, used)
    pairs = list(combinations_with_replacement(used, 2))
    first, second = np.array(pairs).T
    weights = gradients[:, first, second] * np.where(first == second, 1.0, 2.0)
    q = weights @ products
    u = q @ inverse
    carried = np.linalg.norm(q - u @ columns, axis=1) <= _ZERO * np.linalg.norm(q, axis=1)
    total = np.einsum("aij,ij->a", gradients, moments.gram)
    spread = np.einsum("ai,ij,aj->a", u, moments.gram, u) - total**2 / n
    noise = np.zeros(len(u))
    if not moments.exact and carried.any():
        noise[carried] = np.sqrt(moments.law.variance(np.einsum("ai,aj->aij", u[carried], u[carried])))
    clear = carried & (spread > CLEAR * noise)
    return Fourth(np.where(clear, spread * n / max(n - 1, 1), np.nan), u, carried, total)


@lru_cache(maxsize=32)
def _spans(schema: Schema, used: tuple[int, ...]) -> tuple[Matrix, Matrix, Matrix]:
    """Products of the columns used, and all columns, as rows over monomials; and what takes the first to combinations."""
    polynomials, rules = column_polynomials(schema)
    held = [polynomials[column.name] for column in schema.columns]
    products = [rules.product(held[i], held[j]) for i, j in combinations_with_replacement(used, 2)]
    place: dict[tuple[str, ...], int] = {}
    for polynomial in [*held, *products]:
        for monomial in polynomial:
            place.setdefault(monomial, len(place))
    rows = np.zeros((len(held) + len(products), len(place)))
    for row, polynomial in zip(rows, [*held, *products], strict=True):
        for monomial, part in polynomial.items():
            row[place[monomial]] = part
    columns = rows[: len(held)]
    inverse: Matrix = np.linalg.pinv(columns).astype(np.float64)
    return rows[len(held) :], columns, inverse
