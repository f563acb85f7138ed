"""Solving the sharp delta of a masked release for sigma and for epsilon.

Both solve at one pair of rows, look for a worse one (or a worse cell) there, and solve again until there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from scipy.optimize import brentq

from trimask_theory._wishart_pair import log_delta
from trimask_theory._worst_pair import Family, Found, worst
from trimask_theory.local_noise import analytic_scale

__all__ = ["crossing", "sharp_epsilon", "sharp_sigma"]


def crossing(log_curve: Callable[[float], float], goal: float, low: float) -> float:
    """The epsilon > low at which a curve that lies above the goal at `low` comes down to it."""
    step = 1.0
    while log_curve(low + step) > goal:
        low, step = low + step, 2 * step
    high = low + step
    # To so many digits of epsilon however small it is: the smaller, the steeper the curve.
    return float(
        brentq(lambda e: max(log_curve(e), -1e4) - goal, low, high, xtol=1e-300, rtol=1e-11, maxiter=500)
    )


def sharp_epsilon(goal: float, sigma: float, m: int, among: Family) -> float:
    """The epsilon >= 0 at which the largest log delta of the family is the goal."""
    root = 0.0
    found = worst(root, sigma, m, among)
    while found.log_delta > goal + 5e-8:
        before = root
        root = crossing(partial(log_delta, m=m, pair=found.pair.scaled(1 / sigma)), goal, root)
        if root <= before * (1 + 1e-9):
            # At a very small delta a cell's bound lies above its pair's own delta, which then leads no further.
            return crossing(lambda e: worst(e, sigma, m, among).log_delta, goal, root)
        found = worst(root, sigma, m, among)
    return root


def sharp_sigma(epsilon: float, delta: float, m: int, among: Family) -> float:
    """Solve at the pair that looks worst, look for a worse one at the sigma found, and solve again there."""
    goal = math.log(delta)
    # Large m: mu = |x x^T - x' x'^T|_F / (sqrt(2 m) sigma^2). Any m: Y^T Y is post-processing of x + N(0,
    # sigma^2 I), so the Gaussian mechanism at the largest separation suffices.
    scale = analytic_scale(epsilon, goal)
    sigma = min(among.separation * scale, math.sqrt(among.frobenius * scale / math.sqrt(2 * m)))
    found = worst(epsilon, sigma, m, among.only_ends())
    for _ in range(12):
        sigma = _solve(epsilon, scale, m, found, sigma)
        found = worst(epsilon, sigma, m, among)
        if found.log_delta <= goal + 5e-8:
            break
    return sigma


def _solve(epsilon: float, scale: float, m: int, found: Found, sigma: float) -> float:
    """The sigma at which one pair has the delta wanted, by the secant method from `found` at `sigma`.

    The unknown is the s at which the Gaussian mechanism would have the same delta: its logarithm is close
    to linear in log sigma, with slope 2 for many rows and 1 for few, where log delta itself bends strongly.
    """
    goal = math.log(scale)

    def height(log_delta_there: float) -> float:
        return math.log(analytic_scale(epsilon, min(max(log_delta_there, -1e5), -1e-12))) - goal

    before, at_before = math.log(sigma), height(found.log_delta)
    now = before - 0.5 * at_before
    for _ in range(30):
        if abs(now - before) < 1e-10:
            break
        at_now = height(log_delta(epsilon, m, found.pair.scaled(math.exp(-now))))
        slope = (at_now - at_before) / (now - before)
        before, at_before = now, at_now
        now -= at_now / min(max(slope, 0.3), 4.0)
    return math.exp(now)
