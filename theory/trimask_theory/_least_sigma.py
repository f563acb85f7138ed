"""The least noise at which a bound on delta that falls in sigma comes down to its goal."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq
from scipy.special import ndtri_exp

__all__ = ["least_sigma"]


def least_sigma(curve: Callable[[float], float], goal: float, start: float) -> float:
    """The root in sigma of a log delta that falls in sigma, moved up to where it is at most `goal`."""
    wanted = -float(ndtri_exp(goal))

    def short(variance: float) -> float:
        # In normal deviates the tail is close to linear in sigma^2, so that the root takes few steps.
        return wanted + max(float(ndtri_exp(min(curve(math.sqrt(variance)), -1e-12))), -1e3)

    low = high = start * start
    while short(low) <= 0:
        low /= 2
    while short(high) > 0:
        low, high = high, 2 * high
    root = float(brentq(short, low, high, xtol=1e-13 * high, rtol=1e-13))
    step = 1e-14
    while short(root) > 0:
        root *= 1 + step
        step *= 2
    return math.sqrt(root) * (1 + 1e-13)
