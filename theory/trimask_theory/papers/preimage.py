"""Another data set, other masks, the same view: what Theorems 3.6 and 3.7 of the triple matrix-masking paper construct.

Statement. A right provider that also has the public data sees M_L = A X1 and M_R = (X1, X2) B. For every orthogonal P
there are noise columns U2 and masks A~, B~ with A~ (P X1) = M_L and (P X1, U2) B~ = M_R: no data set in the orbit of X1
is ruled out. A~ = A P^T in both.
- Theorem 3.6, B invertible, X = (X1, X2) of rank n <= p: U2 = P X2 and B~ = (X; X*)^{-1} (P^T X; X*) B, X* any completion.
- Theorem 3.7, B orthogonal, condition (3.5): U2 U2^T = M_R M_R^T - P X1 X1^T P^T, positive definite by (3.5), and B~ turns
  the rows of (P X1, U2) into those of M_R, which have the same Gram matrix.
- Lemma 3.3: a permutation P keeps the type of every answer, so it stays possible when types are known.

Assumptions: noise columns may take any value. Basis: proved, by construction. It says what is possible, not that all
of it is as likely as before: that is Theorem 3.8, which is false (docs/theory/collection.md#claim).
Derivation: docs/theory/collection.md#condition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import null_space, solve_triangular

from trimask_core.basics.errors import ParameterError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Preimage:
    """Answers, noise columns and a right mask that give the same masked rows; the left mask is A P^T."""

    answers: Array
    noise: Array
    right_mask: Array


def with_invertible_mask(
    answers: ArrayLike, noise: ArrayLike, right_mask: ArrayLike, turn: ArrayLike
) -> Preimage:
    """Theorem 3.6: for the orthogonal `turn` P, (P X1, P X2, B~) with (P X1, P X2) B~ = (X1, X2) B."""
    x1, x2, p = _matrices(answers, noise, turn)
    x, b = np.hstack([x1, x2]), np.asarray(right_mask, dtype=np.float64)
    n, columns = x.shape
    if b.shape != (columns, columns):
        raise ParameterError("right_mask", f"a {columns} x {columns} matrix", b.shape)
    if n > columns or np.linalg.matrix_rank(x) < n:
        raise ParameterError("noise", "such that (X1, X2) has the rank n of its rows", x.shape)
    rest = null_space(x).T
    mask = np.linalg.solve(np.vstack([x, rest]), np.vstack([p.T @ x, rest])) @ b
    return Preimage(p @ x1, p @ x2, mask)


def with_orthogonal_mask(
    answers: ArrayLike, noise: ArrayLike, right_mask: ArrayLike, turn: ArrayLike
) -> Preimage:
    """Theorem 3.7: for the orthogonal `turn` P, (P X1, U2, B~), B~ orthogonal; refused where condition (3.5) fails.

    What is refused may have a preimage for this P all the same: (3.5) is enough for every P at once.
    """
    x1, x2, p = _matrices(answers, noise, turn)
    b = np.asarray(right_mask, dtype=np.float64)
    n, columns = len(x1), x1.shape[1] + x2.shape[1]
    if b.shape != (columns, columns) or not np.allclose(b @ b.T, np.eye(columns), atol=1e-9):
        raise ParameterError("right_mask", f"an orthogonal {columns} x {columns} matrix", b.shape)
    least = np.linalg.svd(x2, compute_uv=False)[-1] if x2.shape[1] >= n else 0.0
    if not least > np.linalg.norm(x1, 2):
        raise ParameterError(
            "noise", "large enough for condition (3.5): lambda_min(X2 X2^T) > lambda_max(X1 X1^T)"
        )
    seen = np.hstack([x1, x2]) @ b
    turned = p @ x1
    lower = np.linalg.cholesky(seen @ seen.T - turned @ turned.T)
    other = np.hstack([lower, np.zeros((n, x2.shape[1] - n))])
    candidate = np.hstack([turned, other])
    # Both have the Gram matrix L L^T, so L^{-1} of either has orthonormal rows; complements go to complements.
    root = np.linalg.cholesky(seen @ seen.T)
    here, there = (solve_triangular(root, m, lower=True) for m in (candidate, seen))
    mask = here.T @ there + null_space(candidate) @ null_space(seen).T
    return Preimage(turned, other, mask)


def _matrices(answers: ArrayLike, noise: ArrayLike, turn: ArrayLike) -> tuple[Array, Array, Array]:
    x1, x2, p = (np.asarray(m, dtype=np.float64) for m in (answers, noise, turn))
    if x1.ndim != 2 or x2.ndim != 2 or len(x1) != len(x2):
        raise ParameterError("noise", "a matrix with as many rows as the answers", x2.shape)
    n = len(x1)
    if p.shape != (n, n) or not np.allclose(p @ p.T, np.eye(n), atol=1e-9):
        raise ParameterError("turn", f"an orthogonal {n} x {n} matrix", p.shape)
    return x1, x2, p
