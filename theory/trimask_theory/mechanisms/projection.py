"""Private random projection: D'G + N, and the random linear combination (one column).

Statement (NDIS, Theorem 2; it prints exp(-eps), its proof has exp(+eps)). Let D be D1 with one row more, of
leverage p in D, and G a matrix of r columns of standard normals. Then

    delta_{D'G, D1'G}(eps) = P[chi2_r >= (1-p) t/p] - e^eps P[chi2_r >= t/p],  t = 2 eps - r ln(1-p),

it is at least the other direction's delta, and it increases with p (Proposition 3). Hence the mechanism M_RP
(Figure 3): with s the leverage at which delta(s) = delta, adding normal noise of variance l^2/s to every
entry keeps every leverage below s, for rows of norm at most l (Theorem 3). M_RLC is the case r = 1.

Sharper, and ours: a row is itself part of the data, so v'(D'D + sigma^2 I)^{-1} v <= l^2/(l^2 + sigma^2), and
sigma^2 = l^2 (1/s - 1) is enough. It is also necessary: the data set of that row alone attains the bound.

Assumptions. Neighbours differ by one row of norm at most l; the mechanism sees only D'D, so masked data will do.
Proved; the two tails are evaluated as one integral (`gaussian_pair`), which keeps the digits of a small delta.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory.checks import Calibration, matrix, non_negative, one_of, positive, probability, whole
from trimask_theory.gaussian.gaussian_pair import hockey_stick, largest_leverage, privacy_loss
from trimask_theory.gaussian.grid_gaussian import NormalSource

__all__ = ["calibrate", "delta", "factor", "leverage_limit", "relative_calibrate", "release"]

_CITATION = "Lu, Magdon-Ismail, Wei, Zikas: The Normal Distributions Indistinguishability Spectrum"


def delta(epsilon: float, leverage: float, reduced_dim: int) -> float:
    """The delta of a projection to `reduced_dim` columns for a row of the given leverage (Theorem 2)."""
    epsilon = non_negative("epsilon", epsilon)
    reduced_dim = whole("reduced_dim", reduced_dim, 1)
    p = non_negative("leverage", leverage)
    if p > 1:
        raise ParameterError("leverage", "a number in [0, 1]", leverage)
    if p == 1:  # the row is alone in its direction: its absence is seen with certainty
        return 1.0
    loss = privacy_loss([-p / (1 - p)], [1 / (1 - p)], [0.0], [reduced_dim])
    return hockey_stick(loss, epsilon)


def leverage_limit(epsilon: float, delta: float, reduced_dim: int) -> float:
    """The largest leverage s, rounded down, at which the projection alone is (epsilon, delta)-private."""
    epsilon, target = positive("epsilon", epsilon), probability("delta", delta)
    reduced_dim = whole("reduced_dim", reduced_dim, 1)
    return largest_leverage(lambda p: _delta(epsilon, p, reduced_dim), target, 1.0)


def calibrate(
    epsilon: float, delta: float, reduced_dim: int, row_norm: float = 1.0, method: str = "theorem"
) -> Calibration:
    """M_RP: the noise that makes D'G + N (epsilon, delta)-private, for any rows of norm up to `row_norm`.

    `method` is "theorem" (sigma = l/sqrt(s), Theorem 3) or "sharp" (sigma = l sqrt(1/s - 1), exact).
    """
    one_of("method", method, ("theorem", "sharp"))
    row_norm = positive("row_norm", row_norm)
    s = leverage_limit(epsilon, delta, reduced_dim)
    square = 1 / s if method == "theorem" else (1 - s) / s
    bound = "l^2/sigma^2" if method == "theorem" else "l^2/(l^2 + sigma^2), which one row alone attains"
    guarantee = Guarantee(
        neighbours=Neighbours("add-remove", row_norm=row_norm),
        basis="proved",
        because=f"delta increases with a row's leverage, and the noise keeps that below {bound}",
        citation=f"{_CITATION}, Theorems 2 and 3",
        epsilon=float(epsilon),
        delta=float(delta),
    )
    # The last factor is above the rounding of this line, so that sigma is not below what the search found.
    return Calibration(row_norm * math.sqrt(square) * (1 + 1e-15), guarantee, method)


def relative_calibrate(
    epsilon: float,
    delta: float,
    reduced_dim: int,
    leverage: float,
    row_norm: float = 1.0,
    method: str = "theorem",
) -> Calibration:
    """M_RP relative to a set of data sets whose largest leverage is `leverage` (Theorem 6).

    If that is already within `leverage_limit`, the projection's own randomness is enough and sigma is 0.
    """
    largest = non_negative("leverage", leverage)
    if largest > 1:
        raise ParameterError("leverage", "a number in [0, 1]", leverage)
    everywhere = calibrate(epsilon, delta, reduced_dim, row_norm, method)
    if largest > leverage_limit(epsilon, delta, reduced_dim):
        return everywhere
    guarantee = Guarantee(
        neighbours=everywhere.guarantee.neighbours,
        basis="proved",
        because=f"Theorem 6: holds only for data sets in which no row's leverage is above {largest:.4g}",
        citation=f"{_CITATION}, Theorem 6",
        epsilon=float(epsilon),
        delta=float(delta),
    )
    return Calibration(0.0, guarantee, "relative")


def factor(gram: ArrayLike) -> NDArray[np.float64]:
    """Some F with F'F = D'D; a Gram matrix of less than full rank has one too."""
    products = matrix("gram", gram, "a square matrix of finite numbers", square=True)
    values, vectors = np.linalg.eigh(0.5 * (products + products.T))
    rounding = 1e-10 * float(np.abs(products).max())
    if values[0] < -rounding or (np.abs(products - products.T) > rounding).any():
        raise ParameterError("gram", "symmetric and positive semidefinite")
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T, dtype=np.float64)


def release(factor: ArrayLike, reduced_dim: int, sigma: float, normals: NormalSource) -> NDArray[np.float64]:
    """One draw of D'G + N, with d rows and `reduced_dim` columns (Figure 3; `reduced_dim` = 1 is M_RLC).

    `factor` is D, or anything with the same D'D (masked data A D, a triangular factor): the columns of D'G
    are independent N(0, D'D), so they depend on nothing else. N is d x r (Figure 3 prints n x r).
    """
    data = matrix("factor", factor, "a matrix of finite numbers")
    columns = whole("reduced_dim", reduced_dim, 1)
    noise = non_negative("sigma", sigma)
    projected: NDArray[np.float64] = data.T @ normals.standard_normal((data.shape[0], columns))
    return projected + noise * normals.standard_normal((data.shape[1], columns))


_delta = delta  # for the functions that have a parameter of that name
