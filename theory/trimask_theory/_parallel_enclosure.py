"""delta(epsilon) of two parallel rows, enclosed: the two tails of noncentral chi laws at the likelihood ratio's crossing.

Statement. One attribute, or two rows on one line: L is monotone in rho, rising if a > b, falling if a < b
(docs/sharp-calibration.md#remaining-pairs). So delta = P[S] - e^epsilon Q[S], S = {rho > t} or {rho < t}, L(t) = epsilon.
A t near that gives a lower bound; with L(t1) <= epsilon <= L(t2) proved in balls, what lies between t1 and t2 adds at most
P[t1 < rho < t2] (1 - e^(epsilon - L)) at its better end.
Basis: proved, given that ball arithmetic encloses what it says. Derivation: docs/sharp-calibration.md#unit-enclosure.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trimask_theory._enclosure import BITS, Series
from trimask_theory._hypergeometric import log_0f1

__all__ = ["enclose_parallel"]

_CLOSE = 1e-9
_BEYOND = 40.0


def enclose_parallel(flint: Any, m: int, epsilon: float, a: Any, b: Any, about: float) -> tuple[float, float]:
    """(lower, upper) of delta for norms `a` and `b`, thin balls in units of sigma, in the direction (a, b).

    `about` says how small a delta must still be told from nothing, as a logarithm. rho is looked at up to
    sqrt(m + a^2) + s with s^2/2 = 40 - about, beyond which there is less than exp(-s^2/2).
    """
    norm, other = float(a.mid()), float(b.mid())
    beyond = math.sqrt(2 * (_BEYOND - min(about, 0.0)))
    widest = math.hypot(math.sqrt(m), norm) + beyond
    if norm < other and (b * b - a * a) / 2 <= epsilon:
        return 0.0, 0.0  # L falls from there
    place = _crossing(m, epsilon, norm, other, widest) if norm != other else None
    if place is None:
        return 0.0, _without_crossing(flint, m, epsilon, a, b, widest, beyond)
    steepest = max(float(log_0f1(0.5 * m, np.array([n * place]))[0]) - n * n / 2 for n in (norm, other))
    bits = BITS + math.ceil((max(steepest, 0.0) - min(about, 0.0)) / math.log(2))
    with flint.ctx.workprec(bits + 64):
        low, high = (max(place * (1 + side * _CLOSE), 1e-300) for side in (-1, 1))
        laws = [Series(flint, m, n, high, bits, square=ball**2) for n, ball in ((norm, a), (other, b))]
        scale = flint.arb(epsilon).exp()
        ends = []
        for at in (low, high):
            grids = [law.at([at]) for law in laws]
            ends.append(([grid.shifted[1] for grid in grids], [grid.ratio[1] for grid in grids]))
        (F_low, l_low), (F_high, l_high) = ends
        between = F_high[0] - F_low[0]
        if norm > other:
            sure = l_low[0] <= scale * l_low[1] and l_high[0] >= scale * l_high[1]
            gain = 1 - scale * l_high[1] / l_high[0]
            found = (1 - F_high[0]) - scale * (1 - F_high[1])
        else:
            sure = l_low[0] >= scale * l_low[1] and l_high[0] <= scale * l_high[1]
            gain = 1 - scale * l_low[1] / l_low[0]
            found = F_low[0] - scale * F_low[1]
        lower = max(math.nextafter(float(found.lower()), -math.inf), 0.0)
        if not sure:
            return lower, 1.0
        upper = (found + between * gain).max(flint.arb(0))
        return lower, min(math.nextafter(float(upper.upper()), math.inf), 1.0)


def _without_crossing(
    flint: Any, m: int, epsilon: float, a: Any, b: Any, widest: float, beyond: float
) -> float:
    """An upper end where L does not reach epsilon below `widest`: what is beyond it, or one."""
    norm, other = float(a.mid()), float(b.mid())
    if norm < other:
        return 1.0
    with flint.ctx.workprec(BITS + 64):
        laws = [Series(flint, m, n, widest, BITS, square=ball**2) for n, ball in ((norm, a), (other, b))]
        ratios = [law.at([widest]).ratio[1] for law in laws]
        if not ratios[0] <= flint.arb(epsilon).exp() * ratios[1]:
            return 1.0
    return min(math.exp(-beyond * beyond / 2) * (1 + 1e-6) + 5e-324, 1.0)


def _crossing(m: int, epsilon: float, norm: float, other: float, widest: float) -> float | None:
    """About where L = epsilon, in doubles; None if that is nowhere below `widest`."""
    shift = 0.5 * (other - norm) * (other + norm) - epsilon

    def above(rho: float) -> bool:
        both = log_0f1(0.5 * m, np.array([norm * rho, other * rho]))
        return bool(shift + both[0] - both[1] > 0)

    low, high = 0.0, widest
    if above(low) == above(high):
        return None
    start = above(low)
    for _ in range(90):
        middle = 0.5 * (low + high)
        if above(middle) == start:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
