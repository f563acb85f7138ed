"""Promises that a test's study keeps, found with what devices check them with."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from trimask_core.rows.study import right_providers_mu
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_core.study.signed import gaussian_delta, masked_delta

__all__ = ["DISCRETE", "masked_epsilon", "moments_epsilon", "towards_right_providers"]

DELTA = 1e-6
DISCRETE = 1e-20
"""What noise on the grid adds to epsilon, at the most, in any study of a test."""


@lru_cache(maxsize=256)
def masked_epsilon(sigma: float, rows: int, attributes: int, row_norm: float) -> float:
    """epsilon at delta = 1e-6 of a masked release; 1 where no device works it out."""
    if attributes < 2 or rows <= attributes:
        return 1.0
    return _least(lambda e: masked_delta(e, sigma, rows, attributes, row_norm))


def moments_epsilon(sigma: float, radius_squared: float) -> float:
    """epsilon at delta = 1e-6 of verified moments."""
    distance = math.sqrt(2) * (
        radius_squared if radius_squared >= 2 else 2 * math.sqrt(max(radius_squared - 1, 1e-9))
    )
    return _least(lambda e: gaussian_delta(e, sigma / distance))


def towards_right_providers(row_norm: float, sigma: float, step: float) -> Guarantee:
    """What all right providers together can tell of a record."""
    near = Neighbours("record", row_norm, 2 * row_norm)
    mu = right_providers_mu(2 * row_norm, sigma, step)
    return Guarantee(near, "numerical", "a test's claim", "none", mu=mu, discrete_epsilon=DISCRETE)


def _least(delta_at: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    while delta_at(high) > DELTA and high < 1e6:
        low, high = high, 2 * high
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if delta_at(middle) <= DELTA else (middle, high)
    return high
