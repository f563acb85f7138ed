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

What X B_0 shows of one person to whoever has not B_0 and knows everybody else's rows: its law, and a mu for it.

Statement. B_0 is Haar, so S = X X^T is sufficient. X_- and Z are the others' answers and noise columns, G = Z Z^T. S gives
v = x X_-^T + z Z^T and q = |x|^2 + |z|^2. To tell x (h = 1) from x' (h = 0) is to see, with w = (x - x') X_-^T,
mu_1^2 = w G^-1 w^T / tau^2 and k = p2 - n + 1,

    s = mu_1 h + N(0, 1)   and then   r = chi-square(k) + h ((|x|^2 - |x'|^2)/tau^2 + mu_1^2 - 2 mu_1 s),

where tau^4 mu_1^2 is |w|^2 over a chi-square of k + 1 degrees that does not depend on h. Proved: this law, and that it is
mu-Gaussian but for a stated probability (`trimask_core.rows.noise_columns.row_mu`). docs/theory/collection.md#claim.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import null_space, solve_triangular

from trimask_core.basics.errors import ParameterError
from trimask_core.rows.noise_columns import row_mu
from trimask_theory import checks

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


Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Statistics:
    """(mu_1, s, r) of every draw."""

    mu: Matrix
    s: Matrix
    r: Matrix


def statistics(
    answers: Matrix, noise: Matrix, row: Matrix, first: Matrix, second: Matrix, tau: float
) -> Statistics:
    """Of `row`, which is `first` or `second`: the others' `answers` are (draws, n - 1, p1), all `noise` (draws, n, p2)."""
    z, others = noise[:, 0], noise[:, 1:]
    gram = others @ others.transpose(0, 2, 1)
    w = answers @ (first - second)
    v = answers @ (row - second) + np.einsum("dj,dij->di", z, others)
    solved = np.linalg.solve(gram, np.stack((w, v), axis=2)) / tau**2
    mu = np.sqrt(np.einsum("di,di->d", w, solved[:, :, 0]))
    s = np.einsum("di,di->d", v, solved[:, :, 0]) / mu
    length = (row @ row - second @ second + np.einsum("dj,dj->d", z, z)) / tau**2
    return Statistics(mu, s, length - np.einsum("di,di->d", v, solved[:, :, 1]))


def attack(
    rows: int,
    noise_columns: int,
    tau: float,
    *,
    distance: float,
    others: float,
    gap: float,
    draws: int,
    rng: np.random.Generator,
) -> float:
    """How often the likelihood ratio tells x from x' at even odds, over `draws` of each.

    `distance` is |x - x'|, `others` the length of X_-^T along it, `gap` is |x|^2 - |x'|^2.
    """
    k = noise_columns - rows + 1
    right = 0
    for h in (0, 1):
        mu = distance * others / (tau * tau * np.sqrt(rng.chisquare(k + 1, draws)))
        s = mu * h + rng.standard_normal(draws)
        moved = gap / tau**2 + mu * mu - 2 * mu * s
        r = rng.chisquare(k, draws) + h * moved
        with np.errstate(invalid="ignore", divide="ignore"):
            likelier = (0.5 * k - 1) * (np.log(r - moved) - np.log(r)) + 0.5 * moved
        # Where one of the two laws has nothing the other is certain.
        likelier = np.where(r <= moved, -np.inf, np.where(r <= 0, np.inf, likelier))
        loss = mu * s - 0.5 * mu * mu + likelier
        right += int(((loss > 0) == bool(h)).sum())
    return right / (2 * draws)


def proved_mu(
    *,
    distance: float,
    others: float,
    gap: float,
    rows: int,
    noise_columns: int,
    tau: float,
    failure: float,
) -> float:
    """mu for one pair of rows: `distance`, `others` and `gap` as in `attack`; but for probability `failure`."""
    checks.whole("rows", rows, 1)
    products = checks.non_negative("distance", distance) * checks.non_negative("others", others)
    tau, failure = checks.positive("tau", tau), checks.probability("failure", failure)
    if not math.isfinite(gap):
        return math.inf
    return row_mu(products, abs(gap), noise_columns - rows + 1, tau, failure / 3)
