"""delta(epsilon) between two rank-one noncentral Wishart laws, by quadrature of a positive integrand.

Statement. Let W be the Gram matrix of m normal rows of variance 1, one of them with mean x (law P) or x'
(law Q). The density of W relative to the central law is exp(-|x|^2/2) 0F1(; m/2; x^T W x/4), so the
privacy loss is
    L = (|x'|^2 - |x|^2)/2 + log 0F1(; m/2; x^T W x/4) - log 0F1(; m/2; x'^T W x'/4),
and delta(epsilon) = E_P[(1 - e^(epsilon - L))_+] depends on |x|, |x'| and the angle alone
(docs/theory/sharp-calibration.md#two-numbers). With rho = |Y x|/|x| and rho' = |Y x'|/|x'|: under P, rho is
noncentral chi (m, |x|^2), and given rho, rho'/sin is noncentral chi (m, (rho cos/sin)^2). L grows in rho
and falls in rho', so {L > epsilon} is {rho' < limit(rho)}: the inner integral stops at a known point and
no kink is ever inside a panel. Basis: numerical (Gauss-Legendre on both axes; every term is positive, so
the error is relative to delta).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from trimask_theory.gaussian.local_noise import log_delta as gaussian_log_delta
from trimask_theory.masking.hypergeometric import (
    DEPTH,
    gauss_legendre,
    inverse_log_0f1,
    log_0f1,
    log_density,
    log_sum,
    panels,
    window_above,
)

Array = NDArray[np.float64]

_TINY = 1e-300
"""Stands for zero under a logarithm."""

_PANEL = 4.5
"""Longest panel, in standard deviations (they are at most 1 on this axis)."""

_REACH = 14.0
"""How far from its mode rho is scanned: exp(-14^2/2) is far below any delta asked for."""

_STEEP = 1.5
"""A margin that changes faster than this (nearly parallel rows) gets panels of its own around its zero."""

_LEVELS = (-8.0, -3.0, 0.0, 3.0, 8.0)
"""Where those panels end, as values of the margin."""

_PARALLEL = 1e-6
"""A sine below this is a parallel pair to more digits than the answer carries."""


@dataclass(frozen=True, slots=True)
class Pair:
    """|x|, |x'| in units of sigma, and the cosine of their angle (its sign never matters)."""

    norm: float
    other_norm: float
    cosine: float

    @property
    def sine(self) -> float:
        """The sine of their angle."""
        return math.sqrt(max(0.0, (1.0 - self.cosine) * (1.0 + self.cosine)))

    def mirrored(self) -> Pair:
        """The same pair in the other direction."""
        return Pair(self.other_norm, self.norm, self.cosine)

    def scaled(self, factor: float) -> Pair:
        """Both rows multiplied by `factor`."""
        return Pair(self.norm * factor, self.other_norm * factor, self.cosine)


@dataclass(frozen=True, slots=True)
class Resolution:
    """How finely to integrate: points that look for the mass, and Gauss-Legendre nodes on each axis."""

    scan: int
    outer: int
    inner: int


FINE = Resolution(scan=96, outer=20, inner=28)


def log_delta(epsilon: float, m: int, pair: Pair) -> float:
    """log delta(epsilon) of the pair in the direction (x, x'); -inf where the loss never exceeds epsilon."""
    return log_deltas(epsilon, m, [pair], FINE)[0]


def log_deltas(epsilon: float, m: int, pairs: Sequence[Pair], resolution: Resolution) -> list[float]:
    """The same for several pairs at once, which costs little more than one."""
    result = [0.0] * len(pairs)
    oblique = []
    for place, pair in enumerate(pairs):
        if _below_every_float(epsilon, pair):
            result[place] = -math.inf
        elif pair.sine < _PARALLEL or pair.norm == 0.0 or pair.other_norm == 0.0:
            result[place] = _parallel(epsilon, m, pair.norm, pair.other_norm)
        else:
            oblique.append(place)
    if oblique:
        values = _oblique(epsilon, m, [pairs[place] for place in oblique], resolution)
        for place, value in zip(oblique, values, strict=True):
            result[place] = value
    return result


def _below_every_float(epsilon: float, pair: Pair) -> bool:
    """True where delta is under exp(-800): W is post-processing of x + N(0, I), whose delta is known."""
    square = (pair.norm - pair.other_norm) ** 2 + 2 * pair.norm * pair.other_norm * (1 - pair.cosine)
    return square == 0.0 or gaussian_log_delta(epsilon, 1 / math.sqrt(square)) < -800.0


def _parallel(epsilon: float, m: int, norm: float, other: float) -> float:
    """One dimension: L is monotone in rho, rising when |x| > |x'| and falling when |x| < |x'|."""
    b = 0.5 * m
    shift = 0.5 * (other - norm) * (other + norm)
    rising = norm > other
    if norm == other or (not rising and shift <= epsilon):
        return -math.inf

    def loss(rho: Array) -> Array:
        return shift + log_0f1(b, norm * rho) - log_0f1(b, other * rho)

    mode = math.sqrt(m - 1 + norm * norm)
    reach = math.sqrt(2 * DEPTH)
    # delta is stationary in the edge (the integrand vanishes there), so six digits of it are plenty.
    low, high = 0.0, 2.0 * (mode + _REACH)
    for _ in range(8):
        grid = np.linspace(low, high, 49)
        above = loss(grid) > epsilon
        if rising and not above[-1]:
            low, high = high, 16.0 * high
            continue
        last = int(np.argmax(above)) if rising else int(np.argmin(above))
        if not rising and above.all():
            return 0.0
        low, high = float(grid[max(last - 1, 0)]), float(grid[last])
        if high - low < 1e-6:
            break
    edge = 0.5 * (low + high)
    if rising:
        begin = max(edge, mode - reach)
        end = window_above(begin, mode)
    else:
        end = min(edge, mode + reach)
        begin = max(0.0, mode - math.hypot(max(mode - end, 0.0), reach))
    rho, weight = panels(np.linspace(begin, end, 2 + int((end - begin) / _PANEL)), 24)
    gain = -np.expm1(np.minimum(epsilon - loss(rho), -_TINY))
    return min(0.0, log_sum(log_density(m, norm * norm, rho) + np.log(weight * gain)))


def _oblique(epsilon: float, m: int, pairs: Sequence[Pair], resolution: Resolution) -> list[float]:
    """Two dimensions: rho outside, rho'/sin inside, up to limit(rho)/sin. Axis 0 runs over the pairs."""
    b = 0.5 * m
    norm, other, cosine, sine = (
        np.array(column)[:, None]
        for column in zip(*((p.norm, p.other_norm, p.cosine, p.sine) for p in pairs), strict=True)
    )
    cotangent = cosine / sine
    drop = epsilon - 0.5 * (other - norm) * (other + norm)  # L > epsilon: log 0F1(rho) - log 0F1(rho') > drop
    least = inverse_log_0f1(b, np.maximum(drop, 0.0)) / norm  # below it no rho' is far enough

    mode = np.sqrt(m - 1 + norm * norm)
    low = np.maximum(least, mode - _REACH)
    high = np.maximum(mode + _REACH, np.hypot(least, _REACH))
    # rho = low + (high - low) u^2: limit(rho) leaves zero like a square root, and is smooth in u.
    u = np.linspace(0.0, 1.0, resolution.scan + 1)
    scan = np.maximum(low + (high - low) * u * u, 1e-9)
    target = np.maximum(log_0f1(b, norm * scan) - drop, 0.0)
    ends = inverse_log_0f1(b, target[:, [0, -1]])
    ladder = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * np.linspace(0.0, 1.0, resolution.scan)
    rungs = np.sqrt(np.maximum(log_0f1(b, ladder), 0.0))
    limit = _interpolate(np.sqrt(target), rungs, ladder) / other
    # How many standard deviations the limit lies above the bulk of rho' given rho.
    margin = limit / sine - np.sqrt(m - 1 + (cotangent * scan) ** 2)
    mass = log_density(m, norm * norm, scan) + log_ndtr(margin)
    u, weight = panels(_outer_edges(u, scan, mass, margin), resolution.outer)
    rho = np.maximum(low + (high - low) * u * u, 1e-9)
    weight = weight * 2.0 * u * (high - low)

    target = np.maximum(log_0f1(b, norm * rho) - drop, 0.0)
    limit = inverse_log_0f1(b, target, _interpolate(np.sqrt(target), rungs, ladder)) / other
    shift = (cotangent * rho) ** 2
    bulk = np.sqrt(m - 1 + shift)
    # Minus the log density of rho'/sin bends by 1 + extra at its mode: 2 for a central law of many degrees, 1 where
    # the noncentrality rules. Above the mode the extra fades.
    extra = m / (m + 2 * shift)
    faded = extra * (bulk / (bulk + math.sqrt(2 * DEPTH))) ** 2
    end = np.minimum(limit / sine, bulk + np.sqrt(2 * DEPTH / (1 + faded)))
    below = np.maximum(bulk - end, 0.0)
    begin = np.maximum(0.0, bulk - np.sqrt(below * below + 2 * DEPTH / (1 + extra)))
    x, inner_weight = gauss_legendre(resolution.inner)
    width = (end - begin)[:, :, None]
    inner = begin[:, :, None] + width * x
    # epsilon - L = log 0F1(rho') - log 0F1(limit), which vanishes on the boundary.
    fall = log_0f1(b, (other * sine)[:, :, None] * inner) - target[:, :, None]
    gain = -np.expm1(np.minimum(fall, -_TINY))
    outer = log_density(m, norm * norm, rho) + np.log(np.maximum(weight, _TINY))
    terms = log_density(m, shift[:, :, None], inner) + np.log(gain * inner_weight * width + _TINY)
    terms += outer[:, :, None]
    return [min(0.0, log_sum(part)) for part in terms]


def _interpolate(x: Array, knots: Array, values: Array) -> Array:
    return np.stack([np.interp(*row) for row in zip(x, knots, values, strict=True)])


def _outer_edges(u: Array, scan: Array, mass: Array, margin: Array) -> Array:
    """For each pair, panels in u that cover the mass; padded with empty panels to a common number."""
    rows = [_edges_of(u, *row) for row in zip(scan, mass, margin, strict=True)]
    longest = max(len(row) for row in rows)
    return np.array([row + row[-1:] * (longest - len(row)) for row in rows])


def _edges_of(u: Array, rho: Array, mass: Array, margin: Array) -> list[float]:
    """No panel is longer than _PANEL in rho, and there are short ones around a steep zero of the margin."""
    held = np.nonzero(mass >= np.max(mass) - DEPTH)[
        0
    ]  # the largest itself, where DEPTH is below its last digit
    first, last = max(int(held[0]) - 1, 0), min(int(held[-1]) + 1, u.size - 1)
    steps = np.diff(margin) / np.diff(u)
    turns = np.nonzero(np.diff(np.sign(margin)))[0]
    marks = [float(u[last])]
    if any(abs(margin[turn + 1] - margin[turn]) > _STEEP * (rho[turn + 1] - rho[turn]) for turn in turns):
        for level in _LEVELS:
            cells = np.nonzero(np.diff(np.sign(margin - level)))[0]
            marks.extend((u[cells] + (level - margin[cells]) / steps[cells]).tolist())
    edges = [float(u[first])]
    for mark in sorted(mark for mark in marks if u[first] < mark <= u[last]):
        length = float(np.interp(mark, u, rho) - np.interp(edges[-1], u, rho))
        edges.extend(np.linspace(edges[-1], mark, math.ceil(length / _PANEL + 1e-9) + 1)[1:].tolist())
    return edges
