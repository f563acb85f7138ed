"""The least favourable pair of neighbouring rows of a masked release, found at calibration time.

Statement. By the domination lemma (docs/sharp-calibration.md, step 6) delta grows with the Gram matrix of
(x, x') in the Loewner order. Adding an orthogonal part to x' alone, to x alone, or one common part to
both, leaves only
  record, p >= 2:  |x| = |x'| = R at an angle in (0, 90] degrees;
  unit, p >= 2:    |x - x'| = d with max(|x|, |x'|) = R, or |x| = |x'| = R at distance at most d;
  p = 1:           |x| - |x'| = d with |x'| in [0, R - d], or the one pair (R, 0) where d >= R.
Each is a curve. Basis: the reduction to the curve is proved; the maximum along it is a search, except
where the curve is a single pair (`Family.single`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from trimask_theory._wishart_pair import COARSE, Pair, log_delta, log_deltas

__all__ = ["Family", "Found", "family", "worst"]

Curve = Callable[[float], Pair]

_INTERIOR = (0.04, 0.15, 0.35, 0.6, 0.85)
"""Where a curve is looked at between its ends; the losses are smooth on the scale of the whole curve."""


_NEAR = 0.03
"""How far along its curve the worst pair is followed from one sigma to the next."""


@dataclass(frozen=True, slots=True)
class Family:
    """Curves of pairs on [0, 1] at sigma = 1, with the ends that are expected to be worst."""

    ends: tuple[Pair, ...]
    curves: tuple[Curve, ...]
    separation: float
    """The largest |x - x'|."""

    @property
    def frobenius(self) -> float:
        """The largest |x x^T - x' x'^T|_F among the ends."""
        return max(_frobenius(pair) for pair in self.ends)

    @property
    def single(self) -> bool:
        """True where no maximisation is left: one pair, in both directions."""
        return not self.curves

    def only_ends(self) -> Family:
        """The family without its curves, for a first look."""
        return Family(self.ends, (), self.separation)


@dataclass(frozen=True, slots=True)
class Found:
    """The largest log delta over a family, the pair (at sigma = 1) that reaches it, and its place."""

    log_delta: float
    pair: Pair
    curve: int = -1
    place: float = 0.0


def _equal_norms(row_norm: float, widest: float) -> Curve:
    return lambda at: Pair(row_norm, row_norm, math.cos(at * widest))


def _at_distance(row_norm: float, distance: float, least: float) -> Curve:
    def pair(at: float) -> Pair:
        other = least + at * (row_norm - least)
        cosine = (row_norm * row_norm + other * other - distance * distance) / (2 * row_norm * other)
        return Pair(row_norm, other, min(1.0, max(0.0, cosine)))

    return pair


def _one_attribute(row_norm: float, step: float) -> Curve:
    return lambda at: Pair(step + at * (row_norm - step), at * (row_norm - step), 1.0)


def _mirrored(curve: Curve) -> Curve:
    return lambda at: curve(at).mirrored()


def _frobenius(pair: Pair) -> float:
    """|x x^T - x' x'^T|_F, which orders pairs when m is large."""
    inner = pair.norm * pair.other_norm * pair.cosine
    return math.sqrt(max(pair.norm**4 + pair.other_norm**4 - 2 * inner * inner, 0.0))


def family(row_norm: float, distance: float, attributes: int) -> Family:
    """The pairs that can be worst for rows of norm at most `row_norm` and neighbours within `distance`."""
    if attributes == 1:
        step = min(distance, row_norm)
        top = Pair(row_norm, row_norm - step, 1.0)
        along = _one_attribute(row_norm, step)
        curves = (along, _mirrored(along)) if step < row_norm else ()
        return Family((top, top.mirrored()), curves, step)
    if distance >= math.sqrt(2) * row_norm:
        widest = math.sqrt(2) * row_norm
        return Family((Pair(row_norm, row_norm, 0.0),), (_equal_norms(row_norm, math.pi / 2),), widest)
    # From the shortest x' at this distance (parallel, or orthogonal where the distance exceeds R) to |x'|
    # = R.
    wide = distance > row_norm
    least = math.sqrt((distance - row_norm) * (distance + row_norm)) if wide else row_norm - distance
    first = Pair(row_norm, least, 0.0 if wide else 1.0)
    angle = 2 * math.asin(0.5 * distance / row_norm)
    last = Pair(row_norm, row_norm, math.cos(angle))
    edge = _at_distance(row_norm, distance, least)
    return Family(
        (first, first.mirrored(), last), (edge, _mirrored(edge), _equal_norms(row_norm, angle)), distance
    )


def worst(epsilon: float, sigma: float, m: int, among: Family, near: Found | None = None) -> Found:
    """The largest log delta(epsilon) over the family at sigma; `near` was found at a sigma close by."""

    def value(pair: Pair) -> float:
        return log_delta(epsilon, m, pair.scaled(1 / sigma))

    best = max((Found(value(pair), pair) for pair in among.ends), key=lambda found: found.log_delta)
    if among.single:
        return best
    pairs = [curve(place).scaled(1 / sigma) for curve in among.curves for place in _INTERIOR]
    coarse = np.reshape(log_deltas(epsilon, m, pairs, COARSE), (len(among.curves), len(_INTERIOR)))
    for number in np.argsort(-coarse.max(axis=1)):
        top = int(np.argmax(coarse[number]))
        # A coarse value is right to 1%; what falls further short of the best cannot be worse.
        if coarse[number, top] < best.log_delta - 0.01:
            break
        places = (0.0, *_INTERIOR, 1.0)
        bounds = (places[top], places[top + 2])
        if near is not None and near.curve == number and bounds[0] <= near.place <= bounds[1]:
            bounds = (max(bounds[0], near.place - _NEAR), min(bounds[1], near.place + _NEAR))
        place, there = _climb(among.curves[number], value, bounds)
        if there > best.log_delta:
            best = Found(there, among.curves[number](place), int(number), place)
    return best


def _climb(curve: Curve, value: Callable[[Pair], float], bounds: tuple[float, float]) -> tuple[float, float]:
    """Where on the curve, between the bounds, the value is largest, and that value."""
    found = minimize_scalar(
        lambda at: -value(curve(float(at))), bounds=bounds, method="bounded", options={"xatol": 1e-3}
    )
    return float(found.x), -float(found.fun)
