"""The least favourable pair of neighbouring rows of a masked release, found at calibration time.

Statement. By the domination lemma (docs/theory/calibration.md#domination) delta grows with the Gram matrix of
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimask_theory._wishart_pair import COARSE, FINE, Pair, Resolution, log_deltas

__all__ = ["Family", "Found", "family", "worst"]

Array = NDArray[np.float64]
Curve = Callable[[float], Pair]

_FIVE = np.linspace(-1.0, 1.0, 5)

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
        if other == 0.0:  # d = R: the pair (R, 0)
            return Pair(row_norm, 0.0, 1.0)
        cosine = ((row_norm - distance) * (row_norm + distance) + other * other) / (2 * row_norm * other)
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

    def values(pairs: Sequence[Pair], resolution: Resolution) -> list[float]:
        return log_deltas(epsilon, m, [pair.scaled(1 / sigma) for pair in pairs], resolution)

    best = max(
        (Found(*found) for found in zip(values(among.ends, FINE), among.ends, strict=True)), key=_height
    )
    if among.single:
        return best
    inside = [curve(place) for curve in among.curves for place in _INTERIOR]
    coarse = np.reshape(values(inside, COARSE), (len(among.curves), len(_INTERIOR)))
    # A coarse value is right to 2%; a curve that falls further short of the best everywhere is left alone.
    close = [number for number, row in enumerate(coarse) if row.max() > best.log_delta - 0.02]
    rest = (0.0, *_INTERIOR, 1.0)
    spans = []
    for number in close:
        top = int(np.argmax(coarse[number]))
        followed = near is not None and near.curve == number and rest[top] <= near.place <= rest[top + 2]
        spans.append(
            (near.place, _NEAR) if near is not None and followed else _middle(rest[top], rest[top + 2])
        )
    for _ in range(3 if close else 0):
        # Five places across each span, a parabola through the best three, a span a sixth as wide at its top.
        tried = [np.clip(centre + reach * _FIVE, 0.0, 1.0) for centre, reach in spans]
        pairs = [
            among.curves[number](float(at)) for number, row in zip(close, tried, strict=True) for at in row
        ]
        heights = np.reshape(values(pairs, FINE), (len(close), _FIVE.size))
        for number, row, there in zip(close, tried, heights, strict=True):
            top = int(np.argmax(there))
            place = float(row[top])
            best = max(
                best, Found(float(there[top]), among.curves[number](place), number, place), key=_height
            )
        spans = [
            (_parabola_top(row, there), reach / 6)
            for row, there, (_, reach) in zip(tried, heights, spans, strict=True)
        ]
    return best


def _height(found: Found) -> float:
    return found.log_delta


def _middle(low: float, high: float) -> tuple[float, float]:
    return 0.5 * (low + high), 0.5 * (high - low)


def _parabola_top(places: Array, heights: Array) -> float:
    """The top of the parabola through the highest place and its neighbours, or that place if there is none."""
    top = min(max(int(np.argmax(heights)), 1), places.size - 2)
    (a, b, c), (fa, fb, fc) = places[top - 1 : top + 2], heights[top - 1 : top + 2]
    finite = math.isfinite(fa + fb + fc)
    bend = (fb - fa) * (c - b) - (fc - fb) * (b - a) if finite else 0.0
    if bend <= 0:
        return float(places[int(np.argmax(heights))])
    turn = 0.5 * ((fb - fa) * (c - b) * (c + b) - (fc - fb) * (b - a) * (b + a)) / bend
    return float(min(max(turn, a), c))
