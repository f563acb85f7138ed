"""The central baseline: D'D with Gaussian noise.

Statement. For rows x, y of norm at most l, |x x^T - y y^T|_F^2 = |x|^4 + |y|^4 - 2 (x . y)^2 <= 2 l^4, so the
Gram matrix has L2 sensitivity sqrt(2) l^2 for a replaced record, attained by orthogonal rows. In the
coordinates that make the Frobenius norm Euclidean (off-diagonal entries times sqrt(2)) isotropic noise is
sigma on the diagonal and sigma/sqrt(2) off it, symmetric: (epsilon, delta)-DP at sigma = sqrt(2) l^2 s with s the
analytic Gaussian scale, and 1/s-GDP. (Dwork, Talwar, Thakurta, Zhang 2014 give every entry the larger noise.)

Assumptions. Rows of norm at most l; neighbours replace one record. Proved.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory.checks import Calibration, matrix, positive, within
from trimask_theory.gaussian import grid_gaussian, local_noise
from trimask_theory.gaussian.grid_gaussian import NormalSource

_CITATION = "Dwork, Talwar, Thakurta, Zhang 2014; Balle and Wang 2018, Theorem 8"
_NORMS = (1e-100, 1e100)
_BECAUSE = "Gaussian mechanism on the Gram matrix, whose sensitivity for a replaced record is sqrt(2) l^2"


def calibrate(epsilon: float, delta: float, row_norm: float = 1.0) -> Calibration:
    """sigma for (epsilon, delta) and rows of norm at most `row_norm`."""
    scale = local_noise.calibrate(epsilon, delta).sigma
    return _calibration(scale, positive("row_norm", row_norm), float(epsilon), float(delta))


def calibrate_mu(mu: float, row_norm: float = 1.0) -> Calibration:
    """sigma for mu-GDP and rows of norm at most `row_norm`."""
    return _calibration(1 / positive("mu", mu), positive("row_norm", row_norm), None, None)


def _calibration(scale: float, row_norm: float, epsilon: float | None, delta: float | None) -> Calibration:
    within("row_norm", row_norm, *_NORMS)
    guarantee = Guarantee(
        Neighbours("record", row_norm=row_norm), "proved", _BECAUSE, _CITATION, epsilon, delta, 1 / scale
    )
    return Calibration(math.nextafter(math.sqrt(2) * row_norm**2 * scale, math.inf), guarantee, "analytic")


def release(gram: ArrayLike, sigma: float, row_norm: float, normals: NormalSource) -> NDArray[np.float64]:
    """One draw: symmetric, noise of variance sigma^2 on the diagonal and sigma^2/2 off it, on a public grid.

    `sigma` is a calibration's for the same `row_norm`; the two say how fine the grid must be (`grid_gaussian`).
    """
    products = matrix("gram", gram, "a square matrix of finite numbers", square=True)
    upper = np.triu_indices(products.shape[0])
    deviations = np.where(upper[0] == upper[1], 1.0, math.sqrt(0.5)) * positive("sigma", sigma)
    mu = math.sqrt(2) * positive("row_norm", row_norm) ** 2 / sigma
    noisy = np.empty_like(products)
    noisy[upper] = grid_gaussian.calibrate(deviations, mu).release(
        ((products + products.T) / 2)[upper], normals
    )
    noisy.T[upper] = noisy[upper]
    return noisy
