"""Solving the sharp delta of a masked release for sigma and for epsilon, at its least favourable pair of neighbouring rows.

Both solve at one pair of rows, look for a worse one (or a worse cell) there, and solve again until there is none.

Statement. delta grows with the Gram matrix of (x, x') in the Loewner order (docs/theory/sharp-calibration.md#domination)
and,
at fixed norms, does not increase with |<x, x'>| (docs/theory/sharp-calibration.md#angle-theorem). So
  record, p >= 2:  the orthogonal pair (R, R) is worst for every epsilon;
  record, p = 1:   the pair (R, 0) is, in one direction or the other;
  unit, p >= 2:    |x| = R, |x - x'| = d and |x'| = r remain, r from the shortest possible to R, both directions;
  unit, p = 1:     |x| = a and |x'| = a - d, a from d to R, both directions.
A curve of pairs is covered by cells (docs/theory/sharp-calibration.md#cells): one pair that need not be allowed is at
least as
bad as every pair of a cell, and the largest delta over the cells is returned. Cells that lie below a pair of the curve
are not divided any further, which changes nothing about that maximum.
Basis: proved; the deltas compared are quadratures. With 1,024 cells that is within 0.1 % of the curve's
maximum, 0.4 % for few rows at epsilon = 20.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

from scipy.optimize import brentq

from trimask_theory.gaussian.local_noise import analytic_scale
from trimask_theory.masking.wishart_pair import FINE, Pair, log_delta, log_deltas

_LEVELS = (4, 16, 64, 256, 1024)
"""Into how many cells a curve is divided, step by step."""

_BATCH = 64

_LEAST = -750.0
"""Below the logarithm of the smallest double."""

_NOISE = 1e-7
"""More than two quadratures of one log delta differ by."""


class Curve(NamedTuple):
    """Pairs on [0, 1]: `pair(at)`, and `cover(low, high)`, a pair at least as bad as all between the two."""

    pair: Callable[[float], Pair]
    cover: Callable[[float, float], Pair]

    def mirrored(self) -> Curve:
        """The same pairs in the other direction."""
        return Curve(lambda at: self.pair(at).mirrored(), lambda low, high: self.cover(low, high).mirrored())


@dataclass(frozen=True, slots=True)
class Family:
    """The pairs at sigma = 1 that can be worst: `ends`, and curves between them where one pair does not dominate."""

    ends: tuple[Pair, ...]
    curves: tuple[Curve, ...]
    separation: float
    """The largest |x - x'|."""

    @property
    def frobenius(self) -> float:
        """The largest |x x^T - x' x'^T|_F among the ends."""
        return max(_frobenius(pair) for pair in self.ends)

    def only_ends(self) -> Family:
        """The family without its curves, for a first look."""
        return Family(self.ends, (), self.separation)


@dataclass(frozen=True, slots=True)
class Found:
    """A log delta that no pair of a family exceeds, and the pair (at sigma = 1) it belongs to."""

    log_delta: float
    pair: Pair


def _frobenius(pair: Pair) -> float:
    """|x x^T - x' x'^T|_F, which orders pairs when m is large."""
    inner = pair.norm * pair.other_norm * pair.cosine
    return math.sqrt(max(pair.norm**4 + pair.other_norm**4 - 2 * inner * inner, 0.0))


def smooth(at: float) -> float:
    """Short cells at both ends of a curve, where the worst pair mostly is."""
    return at * at * (3 - 2 * at)


def _at_distance(row_norm: float, distance: float, least: float) -> Curve:
    """|x| = R, |x'| = r from `least` to R, |x - x'| = d: the inner product c(r) = (R^2 - d^2 + r^2)/2 increases."""

    def cover(low: float, high: float) -> Pair:
        # Longer than every x' of the cell, and at least as close to a right angle: Loewner order and angle theorem.
        shorter, longer = (least + smooth(at) * (row_norm - least) for at in (low, high))
        if longer == 0.0:  # d = R: the pair (R, 0)
            return Pair(row_norm, 0.0, 1.0)
        inner = ((row_norm - distance) * (row_norm + distance) + shorter * shorter) / 2
        return Pair(row_norm, longer, min(1.0, max(0.0, inner / (row_norm * longer))))

    return Curve(lambda at: cover(at, at), cover)


def _one_attribute(row_norm: float, step: float) -> Curve:
    """|x| = a from d to R and |x'| = a - d: moving the norms apart makes delta larger."""

    def cover(low: float, high: float) -> Pair:
        return Pair(step + smooth(high) * (row_norm - step), smooth(low) * (row_norm - step), 1.0)

    return Curve(lambda at: cover(at, at), cover)


@lru_cache(maxsize=256)
def family(row_norm: float, distance: float, attributes: int) -> Family:
    """The pairs that can be worst for rows of norm at most `row_norm` and neighbours within `distance`."""
    if attributes == 1:
        step = min(distance, row_norm)
        top = Pair(row_norm, row_norm - step, 1.0)
        curve = _one_attribute(row_norm, step)
        return Family((top, top.mirrored()), (curve, curve.mirrored()) if step < row_norm else (), step)
    if distance >= math.sqrt(2) * row_norm:
        return Family((Pair(row_norm, row_norm, 0.0),), (), math.sqrt(2) * row_norm)
    # From the shortest x' at this distance (parallel, or orthogonal where the distance exceeds R) to |x'| = R.
    wide = distance > row_norm
    least = math.sqrt((distance - row_norm) * (distance + row_norm)) if wide else row_norm - distance
    curve = _at_distance(row_norm, distance, least)
    first, last = curve.pair(0.0), curve.pair(1.0)
    return Family((first, first.mirrored(), last), (curve, curve.mirrored()), distance)


def worst(epsilon: float, sigma: float, m: int, among: Family) -> Found:
    """The largest log delta(epsilon) at sigma over the family's pairs, or over the cells that cover them."""

    # Among many pairs, what no double can hold is as good as the least of them.
    floor = _LEAST if among.curves else -math.inf

    def values(pairs: Sequence[Pair]) -> list[float]:
        scaled = [pair.scaled(1 / sigma) for pair in pairs]
        parts = [scaled[start : start + _BATCH] for start in range(0, len(scaled), _BATCH)]
        return [max(value, floor) for part in parts for value in log_deltas(epsilon, m, part, FINE)]

    best = max((Found(*both) for both in zip(values(among.ends), among.ends, strict=True)), key=_height)
    if not among.curves:
        return best
    # No cell that holds the worst lies below a pair that was seen.
    seen = best.log_delta
    places = [(curve, number) for curve in among.curves for number in range(_LEVELS[0])]
    for cells, finer in zip(_LEVELS, (*_LEVELS[1:], None), strict=True):
        covers = [curve.cover(number / cells, (number + 1) / cells) for curve, number in places]
        heights = values(covers)
        top = max(range(len(places)), key=heights.__getitem__)
        if finer is None:
            return Found(max(heights[top], seen), covers[top])
        curve, number = places[top]
        seen = max(seen, *values([curve.pair((number + part) / cells) for part in (0.25, 0.75)]))
        parts = finer // cells
        # In the far tails quadratures differ by more than the cells do: the highest one is always kept.
        kept = [place for place, height in zip(places, heights, strict=True) if height >= seen - _NOISE]
        places = [
            (curve, number * parts + part) for curve, number in kept or [places[top]] for part in range(parts)
        ]
    raise AssertionError("the last level returns")


def _height(found: Found) -> float:
    return found.log_delta


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


@lru_cache(maxsize=1024)  # a plan asks the same of every study it draws up
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


@lru_cache(maxsize=1024)
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
