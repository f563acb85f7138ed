"""delta of a masked release at the pair of rows that is proved to be the worst, in plain Python: for devices.

Statement. For one person's whole record of norm at most R, at least two attributes, the worst two rows are orthogonal and
of norm R (docs/sharp-calibration.md#angle-theorem). With m = rows - attributes, a = R/sigma and
g(r) = log 0F1(; m/2; (a r)^2/4) the privacy loss is g(u) - g(v), where u is noncentral chi (m, a^2) and v, independent of
it, central chi (m). So
    delta(epsilon) = E[H(v*)],  g(v*) = g(u) - epsilon,  H(l) = E[(1 - e^(g(v) - g(l)))_+] = int_0^l F g' e^(g - g(l)),
F the distribution of v (by parts): one pass over a grid, every term positive. g' = a I_(m/2)(a r)/I_(m/2 - 1)(a r), by
backward recurrence from Amos' upper bound, an even number of steps, so that it is never below the true one.
Basis: numerical, by Simpson's rule; the result is raised by `MARGIN`, more than it can err
(tests/theory/test_masked_delta.py holds it to the statistics library over a grid of settings).
"""

from __future__ import annotations

import math
from itertools import accumulate

__all__ = ["MARGIN", "delta"]

MARGIN = 5e-4
_PANEL = 0.05  # in standard deviations (which are at most 1 on this axis)
_REACH = 9.0  # how far from the modes anything weighs: e^(-81/2) is far below any delta
_TINY = 1e-12  # stands for 0 under a logarithm
_FURTHEST = 80.0  # R/sigma beyond which there is no noise to speak of


def delta(epsilon: float, sigma: float, rows: int, attributes: int, row_norm: float) -> float:
    """delta at `epsilon` of noise `sigma`, raised by `MARGIN`; 1 where the noise is too small for the grid."""
    m, a = rows - attributes, row_norm / sigma if sigma > 0 else math.inf
    if m < 1 or attributes < 2 or not a <= _FURTHEST:
        return 1.0
    r, width = _grid(m, a)
    slope = [a * _ratio(0.5 * m - 1, a * x) for x in r]
    g = _cumulated(slope, width)
    log_central = [(m - 1) * math.log(x) - 0.5 * x * x for x in r]
    central = _normalised(log_central, width)
    # The noncentral density is the central one times e^g, but for a factor.
    shifted = _normalised([f + y for f, y in zip(log_central, g, strict=True)], width)
    below = _cumulated(central, width)
    lost = _inner(g, slope, below, width)
    return min(1.0, (1 + MARGIN) * width * _outer(epsilon, g, shifted, below, lost))


def _grid(m: int, a: float) -> tuple[list[float], float]:
    """Points half a panel apart around both modes, as far as anything weighs; and how far apart."""
    low = max(0.0, math.sqrt(m - 1) - _REACH)
    high = math.sqrt(m - 1 + a * a) + _REACH
    panels = math.ceil((high - low) / _PANEL)
    width = 0.5 * (high - low) / panels
    return [max(low + width * k, _TINY) for k in range(2 * panels + 1)], width


def _ratio(order: float, z: float) -> float:
    """I_(order + 1)(z) / I_order(z), order >= -1/2, rounded up."""
    steps = 16 if order < 50 else 8
    top = order + steps
    found = z / (top + 0.5 + math.hypot(z, top + 0.5))
    twice = 2.0 / z
    for k in range(steps):
        found = 1.0 / ((top - k) * twice + found)
    return found


def _cumulated(values: list[float], width: float) -> list[float]:
    """The integral from the first point to each, by parabolas through three points."""
    pieces = [0.0]
    for k in range(0, len(values) - 2, 2):
        left, middle, right = values[k], values[k + 1], values[k + 2]
        pieces.append(width * (5 * left + 8 * middle - right) / 12)
        pieces.append(width * (5 * right + 8 * middle - left) / 12)
    return list(accumulate(pieces))


def _normalised(logs: list[float], width: float) -> list[float]:
    """A density from the logarithm of something in proportion to it."""
    top = max(logs)
    values = [math.exp(x - top) for x in logs]
    whole = _cumulated(values, width)[-1]
    return [value / whole for value in values]


def _inner(g: list[float], slope: list[float], below: list[float], width: float) -> list[float]:
    """H at every point: what is lost to a v below it."""
    found = [0.0]
    for k in range(0, len(g) - 2, 2):
        f = [max(below[j], 0.0) * slope[j] for j in (k, k + 1, k + 2)]
        first, second = math.exp(g[k] - g[k + 1]), math.exp(g[k + 1] - g[k + 2])
        half = width * (5 * f[0] * first + 8 * f[1] - f[2] / second) / 12
        found.append(found[-1] * first + max(half, 0.0))
        whole = width * (f[0] * first * second + 4 * f[1] * second + f[2]) / 3
        found.append(found[-2] * first * second + whole)
    return found


def _outer(
    epsilon: float, g: list[float], density: list[float], below: list[float], lost: list[float]
) -> float:
    """The sum over u of its density times H at g(u) - epsilon, where dH/dg = F - H."""
    total, k = 0.0, 0
    for y, weight in zip(g, density, strict=True):
        target = y - epsilon
        if target <= g[0]:
            continue
        while g[k + 1] < target:
            k += 1
        span = g[k + 1] - g[k]
        t = (target - g[k]) / span
        left, right = span * (below[k] - lost[k]), span * (below[k + 1] - lost[k + 1])
        rise = lost[k + 1] - lost[k]
        # The cubic with these values and slopes.
        at = lost[k] + t * (left + t * (3 * rise - 2 * left - right + t * (left + right - 2 * rise)))
        total += weight * max(at, 0.0)
    return total
