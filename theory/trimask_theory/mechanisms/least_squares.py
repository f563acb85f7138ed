"""Private ordinary least squares: M_LS and M_ALS.

Statement (NDIS, Lemma 1 and Theorem 4). The sketched solution (Pi B)^+ (Pi b), Pi with r rows of standard
normals, is asymptotically N(x, |e|^2 (B'B)^{-1}/r), x the least-squares solution and e its residual. For
data with and without row i, of leverage p in B and q in [B, b], the two normals are, in coordinates whitened
by B'B and up to rotation,

    N1 = N(0, I_d),  N2 = N(m u, (1-q)/(1-p)^2 along u and (1-q)/(1-p) elsewhere),  m^2 = r p (q-p)/(1-p)^2,

so delta depends on q, p, r and d alone. (Derived anew: Table 6 of the paper misprints W1's second weight.)
delta_ALS(q, p) is the larger of the two directions. M_LS (Figure 4) appends sigma I_{d+1} to [B, b] and draws
from the normal above: every row then has leverage p and residual q - p at most l^2/sigma^2, and sigma is such
that delta_ALS(2 l^2/sigma^2, l^2/sigma^2) <= delta. M_ALS (Figure 11) runs the sketch on the same data.

Assumptions. Neighbours differ by one row of [B, b], of norm at most l. Theorem 5 assumes that delta_ALS
increases with p and with q, each at a fixed other. That is false: at p = q the two means are the same. Its
proof and Figure 15 hold the residual q - p fixed instead, and that holds for their sizes but not for few
features and few rows: at d = r = eps = 1, delta_ALS(0.1, 0.05) < 1e-40 and delta_ALS(0.05, 0) > 1e-11. What
is assumed here is less: that delta_ALS(x q, x p) increases with x, as when the row is taken away bit by bit.
The largest delta over all leverages and residuals up to a bound is then on the outer edge of that set, where
it is searched for. In the paper's settings that is its corner, and the answer the paper's.

Numerical for M_LS, as that monotonicity is seen on grids and not proved; for M_ALS asymptotic in r as well.

Sharper, and ours: q is itself the leverage of a row among data that contain it, so q <= l^2/(l^2 + sigma^2),
and every p <= q occurs with the largest q (data of that row alone, turned towards b or away from it). Method
"sharp" takes the largest delta over those pairs, so no smaller sigma will do.
Derivation: docs/theory/mechanisms.md#least-squares and docs/theory/errata.md#ndis.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize_scalar

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory.checks import Calibration, matrix, non_negative, one_of, positive, probability, whole
from trimask_theory.gaussian.contour import QuadraticForm
from trimask_theory.gaussian.gaussian_pair import hockey_stick, largest_leverage, privacy_loss
from trimask_theory.gaussian.grid_gaussian import NormalSource

__all__ = [
    "calibrate",
    "canonical_pair",
    "delta",
    "relative_calibrate",
    "release",
    "sheffet_sigma",
    "sketch",
]

Array = NDArray[np.float64]

_CITATION = "Lu, Magdon-Ismail, Wei, Zikas: The Normal Distributions Indistinguishability Spectrum"
# How far, relatively, a maximum over the leverage may be missed; sigma is rounded up by as much.
_FLAT = 1e-7


def canonical_pair(q: float, p: float, reduced_dim: int, features: int) -> tuple[Array, Array, Array, Array]:
    """mean1, cov1, mean2, cov2 of the two normals, u being the first coordinate; for `gaussian_pair`."""
    q, p, r, d = _checked(q, p, reduced_dim, features)
    mean2, spread = np.zeros(d), np.full(d, (1 - q) / (1 - p))
    mean2[0] = math.sqrt(r * p * (q - p)) / (1 - p)
    spread[0] = (1 - q) / (1 - p) ** 2
    return np.zeros(d), np.eye(d), mean2, np.diag(spread)


def delta(epsilon: float, q: float, p: float, reduced_dim: int, features: int) -> float:
    """delta_ALS(q, p) of Definition 13, the larger direction: row i has leverage p in B and q in [B, b]."""
    epsilon = non_negative("epsilon", epsilon)
    return max(hockey_stick(loss, epsilon) for loss in _losses(*_checked(q, p, reduced_dim, features)))


def calibrate(
    epsilon: float,
    delta: float,
    reduced_dim: int,
    features: int,
    row_norm: float = 1.0,
    method: str = "theorem",
    mechanism: str = "LS",
) -> Calibration:
    """The sigma of M_LS (`mechanism` "LS") or M_ALS ("ALS") for rows of [B, b] of norm at most `row_norm`.

    `method` is "theorem" (leverage and residual each up to l^2/sigma^2, as in Figure 4) or "sharp" (their sum
    up to l^2/(l^2 + sigma^2)).
    """
    one_of("method", method, ("theorem", "sharp"))
    one_of("mechanism", mechanism, ("LS", "ALS"))
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    r, d = whole("reduced_dim", reduced_dim, 1), whole("features", features, 1)
    row_norm = positive("row_norm", row_norm)
    if method == "theorem":
        s = _limit(epsilon, delta, r, d, lambda fraction: 1 / max(fraction, 1 - fraction), 0.5)
        square = 1 / s
    else:
        s = _limit(epsilon, delta, r, d, lambda _: 1.0, 1.0)
        square = (1 - s) / s
    # The last factor is above the rounding of this line, so that sigma is not below what the search found.
    sigma = row_norm * math.sqrt(square) * (1 + 1e-15)
    return Calibration(sigma, _guarantee(epsilon, delta, row_norm, mechanism), method)


def relative_calibrate(
    epsilon: float,
    delta: float,
    reduced_dim: int,
    features: int,
    leverage: float,
    residual: float,
    row_norm: float = 1.0,
    method: str = "theorem",
    mechanism: str = "LS",
) -> Calibration:
    """M_LS relative to a set of data sets with the given largest leverage and residual (Figure 13).

    If no row of those sets has a delta above the target already, sigma is 0.
    """
    everywhere = calibrate(epsilon, delta, reduced_dim, features, row_norm, method, mechanism)
    lev, res = non_negative("leverage", leverage), non_negative("residual", residual)
    if lev + res >= 1 or _largest_in_box(epsilon, lev, res, int(reduced_dim), int(features)) > delta:
        return everywhere
    limits = f"holds only for data sets with leverages up to {lev:.4g} and residuals up to {res:.4g}; "
    return Calibration(0.0, _guarantee(epsilon, delta, row_norm, mechanism, limits), "relative")


def sheffet_sigma(epsilon: float, delta: float, reduced_dim: int, row_norm: float = 1.0) -> float:
    """The baseline: sigma^2 = 4 l^2 (sqrt(2 r ln(4/delta)) + ln(4/delta))/eps (Sheffet 2019; Figure 14)."""
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    r, row_norm = whole("reduced_dim", reduced_dim, 1), positive("row_norm", row_norm)
    log = math.log(4 / delta)
    return 2 * row_norm * math.sqrt((math.sqrt(2 * r * log) + log) / epsilon)


def release(gram: ArrayLike, reduced_dim: int, sigma: float, normals: NormalSource) -> Array:
    """One draw of M_LS, a number for each column of B, from D'D alone; D = [B, b], the response last."""
    products, r = _gram(gram), whole("reduced_dim", reduced_dim, 1)
    products = products + non_negative("sigma", sigma) ** 2 * np.eye(products.shape[0])
    try:
        # The last row of the lower factor of D'D is (L^{-1} B'b, |e|).
        lower = np.linalg.cholesky(products)
    except np.linalg.LinAlgError:
        raise ParameterError("gram", "positive definite, or sigma must be above 0") from None
    triangle, residual = lower[:-1, :-1], float(lower[-1, -1])
    noise = residual / math.sqrt(r) * normals.standard_normal((products.shape[0] - 1,))
    return np.asarray(solve_triangular(triangle, lower[-1, :-1] + noise, lower=True, trans="T"))


def sketch(factor: ArrayLike, reduced_dim: int, sigma: float, normals: NormalSource) -> Array:
    """One draw of M_ALS: least squares on Pi [D; sigma I], D = [B, b] or anything with the same D'D."""
    data = matrix("factor", factor, "a matrix of finite numbers with at least 2 columns", columns=2)
    rows = whole("reduced_dim", reduced_dim, data.shape[1])
    noise = non_negative("sigma", sigma)
    mixed = normals.standard_normal((rows, data.shape[0])) @ data
    mixed += noise * normals.standard_normal((rows, data.shape[1]))
    gram = mixed[:, :-1].T @ mixed[:, :-1]
    return np.asarray(cho_solve(cho_factor(gram), mixed[:, :-1].T @ mixed[:, -1]))


def _losses(q: float, p: float, r: int, d: int) -> tuple[QuadraticForm, QuadraticForm]:
    """The privacy losses of the canonical pair in both directions.

    The differences of variances are written out, as 2p - q - p^2 and p - q, for the digits of small
    leverages.
    """
    along, across = (1 - q) / (1 - p) ** 2, (1 - q) / (1 - p)
    gap_along, gap_across = (2 * p - q - p * p) / (1 - p) ** 2, (p - q) / (1 - p)
    shift2 = r * p * (q - p) / (1 - p) ** 2
    dof = [1.0, d - 1.0]
    there = privacy_loss(
        [gap_along / along, gap_across / across], [1 / along, 1 / across], [shift2 / along, 0.0], dof
    )
    back = privacy_loss([-gap_along, -gap_across], [along, across], [shift2, 0.0], dof)
    return there, back


def _both(epsilon: float, q: float, p: float, r: int, d: int) -> float:
    return max(hockey_stick(loss, epsilon) for loss in _losses(q, p, r, d))


def _largest_in_box(epsilon: float, leverage: float, residual: float, r: int, d: int) -> float:
    """The largest delta_ALS over leverages and residuals up to the given ones, found on the outer edge."""

    def delta_at(fraction: float) -> float:
        q = min(
            leverage / fraction if fraction > 0 else math.inf,
            residual / (1 - fraction) if fraction < 1 else math.inf,
        )
        return _both(epsilon, q, fraction * q, r, d)

    return max(_both(epsilon, leverage + residual, leverage, r, d), _worst(delta_at)[0])


def _limit(
    epsilon: float, target: float, r: int, d: int, edge: Callable[[float], float], end: float
) -> float:
    """The largest s, rounded down, with delta_ALS <= target for all q <= s edge(p/q).

    s is solved for at one fraction p/q, then the worst fraction is looked for at that s, in turn: every step
    lowers s, and the last one finds no worse fraction.
    """

    def delta_at(s: float, fraction: float) -> float:
        q = s * edge(fraction)
        return _both(epsilon, q, fraction * q, r, d)

    fraction = 0.5
    while True:
        s = largest_leverage(partial(delta_at, fraction=fraction), target, end)
        worst, fraction = _worst(partial(delta_at, s))
        if worst <= target * (1 + _FLAT):
            break
    step = 0.5 * _FLAT
    while worst * (1 + _FLAT) > target:
        s *= 1 - step
        step *= 2  # a delta near 1 hardly moves
        worst = _worst(partial(delta_at, s))[0]
    return s


def _worst(delta_at: Callable[[float], float]) -> tuple[float, float]:
    """The largest value over [0, 1] and where it is: the best of a grid, refined."""
    grid = [i / 16 for i in range(17)]
    values = [delta_at(fraction) for fraction in grid]
    best = int(np.argmax(values))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, 16)])
    found = minimize_scalar(
        lambda fraction: -delta_at(float(fraction)), bounds=around, method="bounded", options={"xatol": 1e-5}
    )
    return max((values[best], grid[best]), (-float(found.fun), float(found.x)))


def _guarantee(epsilon: float, delta: float, row_norm: float, mechanism: str, limits: str = "") -> Guarantee:
    monotone = (
        "delta is taken to increase as a row of fixed direction grows, seen on grids and not proved, "
        "and is maximised over the directions by search"
    )
    if mechanism == "ALS":
        monotone = f"the sketch is normal only in the limit of many rows; {monotone}"
    return Guarantee(
        neighbours=Neighbours("add-remove", row_norm=row_norm),
        basis="numerical" if mechanism == "LS" else "asymptotic",
        because=limits + monotone,
        citation=f"{_CITATION}, Theorems 4 and 5",
        epsilon=epsilon,
        delta=delta,
    )


def _checked(q: float, p: float, reduced_dim: int, features: int) -> tuple[float, float, int, int]:
    p, q = non_negative("p", p), non_negative("q", q)
    if p >= 1:
        raise ParameterError("p", "a leverage in [0, 1)", p)
    if not p <= q < 1:
        raise ParameterError("q", "a leverage in [p, 1): a further column never lowers it", q)
    return q, p, whole("reduced_dim", reduced_dim, 1), whole("features", features, 1)


def _gram(gram: ArrayLike) -> Array:
    said = "a square matrix of finite numbers, at least 2 x 2"
    products = matrix("gram", gram, said, columns=2, square=True)
    if (np.abs(products - products.T) > 1e-10 * np.abs(products).max()).any():
        raise ParameterError("gram", "symmetric")
    return 0.5 * (products + products.T)
