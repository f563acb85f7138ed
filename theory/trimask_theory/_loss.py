"""The privacy loss of a pair of normal distributions, and its hockey-stick divergence.

Statement. After a change of coordinates a pair of normals is a product of coordinates in which N1 is
standard and N2 is a normal of another mean and variance. With ratio rho_j = (variance under N1)/(variance
under N2), deficit a_j = 1 - rho_j and shift y_j = (difference of means)/(standard deviation under N2), the
loss ln dN1/dN2 under N1 is

    L = sum_j [ -ln(rho_j)/2 + y_j^2/2 - a_j Z_j^2/2 + sqrt(rho_j) y_j Z_j ],   Z standard normal

(NDIS, Theorem 1, with A = diag(a), b_j = -sqrt(rho_j) y_j and c = eps - the constant), and

    delta(eps) = E[(1 - e^{eps - L})_+].

Proposition 16 of the paper writes this as P[W1 <= t] - e^eps P[W2 <= t], with noncentralities b^2/a^2 that
grow without bound as a_j -> 0 and a difference that loses every digit in the tail. Here it is one contour
integral with the kernel 1/(s (s + 1)), the Laplace transform of (1 - e^{-y})_+: nothing is subtracted and
a_j = 0 is no special case.

Assumptions. Independent coordinates; rho_j > 0.
Numerical, with a relative error about 1e-14 times the condition of the inputs.
Derivation: docs/theory/gaussian-pairs.md#spectrum.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from trimask_theory._contour import QuadraticForm, log_tail

__all__ = ["hockey_stick", "largest_leverage", "privacy_loss"]

# Above this many standard deviations below the mean, 1 - delta is the smaller side and is integrated instead.
_FAR_BELOW = 2.0
# Far below what the subtraction behind a deficit leaves, and far above where y^2/a would overflow.
_NO_DEFICIT = 1e-30
_LOG_UNDERFLOW = -750.0


def privacy_loss(deficit: ArrayLike, ratio: ArrayLike, shift2: ArrayLike, dof: ArrayLike) -> QuadraticForm:
    """L as a quadratic form; `deficit` is 1 - `ratio`, given apart because it is known to more digits.

    `shift2` is y_j^2 summed over the `dof_j` coordinates that share the ratio.
    """
    given = (np.asarray(values, dtype=np.float64) for values in (deficit, ratio, shift2, dof))
    a, rho, y2, k = np.broadcast_arrays(*given)
    a = np.where(np.abs(a) < _NO_DEFICIT, 0.0, a)
    used = (k > 0) & ((a != 0) | (y2 != 0))
    a, rho, y2, k = a[used], rho[used], y2[used], k[used]
    log_rho = np.where(np.abs(a) < 0.5, np.log1p(-np.minimum(a, 0.5)), np.log(rho))
    half: NDArray[np.float64] = -0.5 * k * log_rho
    vertex = half + 0.5 * y2 / np.where(a == 0, 1.0, a)
    return QuadraticForm(
        alpha=-a,
        dof=k,
        beta2=rho * y2,
        centre=half + 0.5 * y2,
        edge=np.where(a == 0, half + 0.5 * y2, vertex),
    )


def hockey_stick(loss: QuadraticForm, epsilon: float) -> float:
    """delta(eps) = E[(1 - e^{eps - L})_+] for eps >= 0."""
    if loss.alpha.size == 0 or epsilon >= loss.support()[1]:
        return 0.0
    if loss.mean() - epsilon > _FAR_BELOW * math.sqrt(loss.variance()):
        # Between the poles the same integral is E[min(1, e^{eps - L})] = 1 - delta.
        return -math.expm1(log_tail(loss, epsilon, (0.0, -1.0), (-1.0, 0.0)))
    return min(1.0, math.exp(log_tail(loss, epsilon, (0.0, -1.0), (0.0, math.inf))))


def largest_leverage(delta_at: Callable[[float], float], target: float, end: float) -> float:
    """The largest leverage below `end` with delta_at(leverage) <= target, rounded down, as delta_at increases."""

    def excess(log_leverage: float) -> float:
        found = delta_at(math.exp(log_leverage))
        return (math.log(found) if found > 0 else _LOG_UNDERFLOW) - math.log(target)

    high = math.log(end) + math.log1p(-1e-9)
    if excess(high) <= 0:
        return math.exp(high)
    low = high - 8
    while excess(low) > 0:
        low -= 8
    leverage = math.exp(float(brentq(excess, low, high, xtol=1e-13, rtol=1e-13)))
    step = 1e-13
    while delta_at(leverage) * (1 + 1e-12) > target:
        leverage *= 1 - step
        step *= 2  # a delta near 1 hardly moves
    return leverage
