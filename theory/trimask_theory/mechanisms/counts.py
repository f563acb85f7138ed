"""Counts and sums by group with noise for what one record can move of them together.

Statement. Values that one replaced record moves by at most D in the Euclidean norm, with Gaussian noise of deviation D s on
each, are (epsilon, delta)-DP at the analytic Gaussian scale s, and 1/s-GDP. D is `trimask_theory.moments.sensitivity`'s:
sqrt 2 for a table, sqrt(2 G) for the histograms of G questions, max((high - low)^2, 2 max(low^2, high^2) + 2) under the
root for a number's sums by group beside the counts.

Assumptions. Every person has one of the stated levels, and a number within the stated bounds; neighbours replace one
record, so the number of rows is public. Proved. Derivation: docs/theory/verified-moments.md#prices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory.checks import positive
from trimask_theory.gaussian import grid_gaussian, local_noise
from trimask_theory.gaussian.grid_gaussian import NormalSource

_CITATION = "Balle and Wang 2018, Theorem 8; Dong, Roth, Su 2022"


@dataclass(frozen=True, slots=True, eq=False)
class CountsRelease:
    """Noisy values, the deviation of the noise on each, and the guarantee."""

    values: NDArray[np.float64]
    noise: float
    guarantee: Guarantee


def release(
    values: ArrayLike,
    moved: float,
    normals: NormalSource,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
) -> CountsRelease:
    """One draw at epsilon and delta, or mu, of values that one record moves by at most `moved`."""
    if mu is not None and epsilon is None and delta is None:
        scale = 1 / positive("mu", mu)
    elif mu is None and epsilon is not None and delta is not None:
        scale = local_noise.calibrate(epsilon, delta).sigma
    else:
        raise ParameterError("price", "epsilon and delta, or mu")
    given = np.asarray(values, dtype=np.float64)
    sigma = math.nextafter(moved * scale, math.inf)
    grid = grid_gaussian.calibrate(np.full(given.shape, sigma), 1 / scale)
    because = f"Gaussian mechanism on values that a replaced record moves by at most {moved:.6g}"
    guarantee = Guarantee(Neighbours("record"), "proved", because, _CITATION, epsilon, delta, 1 / scale)
    return CountsRelease(grid.release(given, normals), float(grid.deviations[0]), guarantee)
