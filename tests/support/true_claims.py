"""Promises that a test's study keeps, found with what devices check them with."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from trimask_core.claims import gaussian_delta
from trimask_core.rows import masked_delta

__all__ = ["masked_epsilon", "moments_epsilon"]

DELTA = 1e-6


@lru_cache(maxsize=256)
def masked_epsilon(sigma: float, rows: int, attributes: int, row_norm: float) -> float:
    """epsilon at delta = 1e-6 of a masked release; 1 where no device works it out."""
    if attributes < 2 or rows <= attributes:
        return 1.0
    return _least(lambda e: masked_delta.delta(e, sigma, rows, attributes, row_norm))


def moments_epsilon(sigma: float, radius_squared: float) -> float:
    """epsilon at delta = 1e-6 of verified moments."""
    distance = math.sqrt(2) * (
        radius_squared if radius_squared >= 2 else 2 * math.sqrt(max(radius_squared - 1, 1e-9))
    )
    return _least(lambda e: gaussian_delta(e, sigma / distance))


def _least(delta_at: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    while delta_at(high) > DELTA and high < 1e6:
        low, high = high, 2 * high
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if delta_at(middle) <= DELTA else (middle, high)
    return high
