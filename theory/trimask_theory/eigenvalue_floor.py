"""The relative form of projection and least squares, made private: a tested floor under the spectrum.

Statement. With noise of variance s^2 in every direction, a row of norm at most l has leverage at most
l^2/(l^2 + f + s^2) when the smallest eigenvalue of the other rows' Gram matrix is at least f. A calibration that
needs l^2/(l^2 + S^2) (method "sharp" of `projection` and `least_squares`) is therefore met by s^2 = S^2 - f, and
by no noise at all once f >= S^2: the "no noise" of relative DP (NDIS, Theorem 6; Figure 13).

Relative DP takes the bound as given. Read off the data without a price it would leak something about them, so here it is
paid for: adding or removing a row moves the smallest eigenvalue by at most l^2 (Weyl), replacing one by at most l^2 as
well; a Gaussian mechanism with (e1, d1) releases it, and m = z sd below it, z the upper d_m-quantile, is above the true
one with probability d_m only. Removing a row lowers it by at most l^2 once more, hence f = max(0, noisy - m - l^2). With
the mechanism at (e2, d2) for a replaced record, the two together are (e1 + e2, d1 + d_m + d2)-DP: adaptive composition on
the event that the floor holds, d_m off it (the propose-test-release argument of Dwork and Lei 2009).

Assumptions. Rows of norm at most l; a replaced record. Proved, given the mechanism's own guarantee.
Derivation: docs/theory/mechanisms.md#eigenvalue-floor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from trimask_core.errors import ParameterError
from trimask_theory import grid_gaussian, local_noise
from trimask_theory._checks import non_negative, positive, probability
from trimask_theory.normal_source import NormalSource

__all__ = ["FloorTest", "reduced_sigma"]


@dataclass(frozen=True, slots=True)
class FloorTest:
    """A private lower bound on the spectrum that costs (epsilon, delta), half of delta for its own failure."""

    epsilon: float
    delta: float
    row_norm: float

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        probability("delta", self.delta)
        positive("row_norm", self.row_norm)

    @property
    def noise(self) -> grid_gaussian.GridGaussian:
        """The noise on the smallest eigenvalue."""
        return _noise(self.epsilon, self.delta / 2, self.row_norm**2)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on the smallest eigenvalue."""
        return float(self.noise.deviations[0])

    @property
    def margin(self) -> float:
        """How far below the noisy eigenvalue the floor is put: z sd + l^2."""
        # Half a step for the rounding to the grid, which may have raised the eigenvalue.
        rounding = math.ldexp(0.5, self.noise.exponents[0])
        return self.deviation * -float(ndtri(self.delta / 2)) + self.row_norm**2 + 2 * rounding

    def floor(self, gram: ArrayLike, normals: NormalSource) -> float:
        """One draw of f."""
        matrix = np.asarray(gram, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
            raise ParameterError("gram", "a square matrix of finite numbers", matrix.shape)
        smallest = float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])
        return max(0.0, float(self.noise.release([smallest], normals)[0]) - self.margin)


@lru_cache(maxsize=64)
def _noise(epsilon: float, delta: float, sensitivity: float) -> grid_gaussian.GridGaussian:
    sigma = local_noise.calibrate(epsilon, delta, sensitivity).sigma
    return grid_gaussian.calibrate([sigma], sensitivity / sigma)


def reduced_sigma(sigma: float, floor: float) -> float:
    """sqrt(S^2 - f), or 0: what is left of a "sharp" calibration's noise above the floor."""
    square = non_negative("sigma", sigma) ** 2 - non_negative("floor", floor)
    return math.sqrt(square) if square > 0 else 0.0
