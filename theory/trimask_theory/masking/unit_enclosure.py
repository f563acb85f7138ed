"""delta(epsilon) for neighbours within a distance, enclosed: a true pair from below, every cell's pair from above.

Statement. The curve of pairs that can be worst (`sharp`) is covered by cells, and a cell by one pair at least as bad
(docs/theory/sharp-calibration.md#cells). In double precision the cells are chosen: divided where quadrature finds the cell's
pair above the worst true pair by more than a part of the width asked for. Then each cell's pair is enclosed in ball
arithmetic, a pair far below the worst only as far as it takes to see that. The upper end is the largest of their upper
ends, the lower end that of one true pair. Which cells there are is a choice and needs no proof; that they cover the curve
is by construction. Basis: proved, given that ball arithmetic encloses what it says. Derivation:
docs/theory/sharp-calibration.md#unit-enclosure.

A masked release asks for this one, or for that of one dominating pair (docs/theory/sharp-calibration.md#enclosure).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from trimask_core.basics.errors import ParameterError
from trimask_theory.masking.enclosure import LARGEST_DEGREES, enclose, enclose_parallel, require_flint
from trimask_theory.masking.oblique_enclosure import BITS, LogBessel, ObliquePair, enclose_oblique
from trimask_theory.masking.sharp import smooth
from trimask_theory.masking.wishart_pair import FINE, Pair, log_deltas

_PLACES = 65
_DEEPEST = 12
"""A cell is halved at most so often."""

_FOR_CELLS, _FOR_TRUE = 0.45, 0.15
"""Parts of the width that cells and the true pair's enclosure may take; the cells' enclosures have the rest."""


_NOISE = 1e-6
"""More than two quadratures differ by: of places as good as each other the first is taken, at the ends of the curve."""


class UnitSetting(NamedTuple):
    """Rows of norm at most R, neighbours within d, noise sigma; d below sqrt(2) R, and below R for one attribute."""

    epsilon: float
    m: int
    row_norm: float
    distance: float
    sigma: float
    one_attribute: bool


class _Cell(NamedTuple):
    """Places [low, high] / 2^depth of the curve, in one direction."""

    number: int
    depth: int
    mirrored: bool

    @property
    def ends(self) -> tuple[float, float]:
        return math.ldexp(self.number, -self.depth), math.ldexp(self.number + 1, -self.depth)

    def halves(self) -> tuple[_Cell, _Cell]:
        return self._replace(number=2 * self.number, depth=self.depth + 1), self._replace(
            number=2 * self.number + 1, depth=self.depth + 1
        )


def enclose_unit(flint: Any, setting: UnitSetting, width: float) -> tuple[float, float]:
    """(lower, upper) of delta, no further apart than `width` of it where the cells allow."""
    curve = _Curve(flint, setting)
    place, mirrored, seen = curve.best()
    cells = list(curve.chosen(seen + math.log1p(_FOR_CELLS * width)))
    lower, _ = curve.enclosed(curve.balls(place, place, mirrored), seen, _FOR_TRUE * width)
    upper = 0.0
    for cell, height in cells:
        # What may be lost on this cell before it is above the width, in units of exp(seen).
        room = max(1 + 0.98 * width - math.exp(min(height - seen, 1.0)), 0.25 * width)
        upper = max(upper, curve.enclosed(curve.balls(*cell.ends, cell.mirrored), seen, room)[1])
    return lower, min(upper, 1.0)


class _Curve:
    """The pairs that can be worst, on [0, 1], in doubles and in balls."""

    def __init__(self, flint: Any, setting: UnitSetting) -> None:
        self._flint, self._setting = flint, setting
        R, d = setting.row_norm, setting.distance
        self.least = math.sqrt((d - R) * (d + R)) if d > R else R - d
        self._bessel: LogBessel | None = None

    def _rows(self, low: float, high: float) -> tuple[float, float, float, float]:
        """The longer row of the longest pair, the other of the longest and of the shortest: `cover` of `sharp`."""
        s = self._setting
        if s.one_attribute:
            span = s.row_norm - s.distance
            return min(s.distance + smooth(high) * span, s.row_norm), smooth(low) * span, 0.0, 0.0
        span = s.row_norm - self.least
        return s.row_norm, self.least + smooth(high) * span, self.least + smooth(low) * span, s.distance

    def pair(self, low: float, high: float, mirrored: bool) -> Pair:
        """The pair of a cell, in units of sigma; of one place if low = high."""
        R, longer, shorter, d = self._rows(low, high)
        if self._setting.one_attribute or longer == 0.0:
            found = Pair(R, longer, 1.0)
        else:
            inner = ((R - d) * (R + d) + shorter * shorter) / 2
            found = Pair(R, longer, min(1.0, max(0.0, inner / (R * longer))))
        return (found.mirrored() if mirrored else found).scaled(1 / self._setting.sigma)

    def balls(self, low: float, high: float, mirrored: bool) -> ObliquePair:
        """The same in balls, without rounding. A cell's `inner` is a little smaller, and its row a little longer: worse."""
        with self._flint.ctx.workprec(BITS + 80):
            arb, slack = self._flint.arb, 0.0 if low == high else 2.0**-48
            R, longer, shorter, d = (arb(value) for value in self._rows(low, high))
            sigma = arb(self._setting.sigma)
            if self._setting.one_attribute:
                if low == high:  # at the distance exactly
                    longer = R - arb(self._setting.distance)
                a, b, inner = R * (1 + slack), longer * (1 - arb(slack)), None
            else:
                inner = (((R - d) * (R + d) + shorter * shorter) / 2 * (1 - arb(slack))).max(arb(0))
                a, b, inner = R, longer * (1 + slack), inner / sigma**2
                if low == high == 0.0 and self._setting.distance <= self._setting.row_norm:
                    b, inner = R - arb(self._setting.distance), None  # parallel
            a, b = a / sigma, b / sigma
            return ObliquePair(b, a, inner) if mirrored else ObliquePair(a, b, inner)

    def best(self) -> tuple[float, bool, float]:
        """A place and direction of the curve at which log delta is about as large as anywhere, and that."""
        low, high = 0.0, 1.0
        best = (0.0, False, -math.inf)
        for _ in range(3):
            places = [low + (high - low) * k / (_PLACES - 1) for k in range(_PLACES)]
            for mirrored in (False, True):
                heights = self._heights([(at, at, mirrored) for at in places])
                top = max(range(_PLACES), key=heights.__getitem__)
                if heights[top] > best[2] + _NOISE:
                    best = (places[top], mirrored, heights[top])
            step = (high - low) / (_PLACES - 1)
            low, high = max(best[0] - step, 0.0), min(best[0] + step, 1.0)
        ends = self._heights([(end, end, mirrored) for end in (0.0, 1.0) for mirrored in (False, True)])
        for place, height in enumerate(ends):
            if height > best[2] - _NOISE:  # an end is cheaper to enclose than what is beside it
                return float(place // 2), bool(place % 2), height
        return best

    def _heights(self, places: list[tuple[float, float, bool]]) -> list[float]:
        s = self._setting
        return log_deltas(s.epsilon, s.m, [self.pair(*place) for place in places], FINE)

    def chosen(self, goal: float) -> Iterator[tuple[_Cell, float]]:
        """Cells that cover the curve in both directions, none above the goal if that can be had."""
        left = [_Cell(number, 2, mirrored) for mirrored in (False, True) for number in range(4)]
        while left:
            heights = self._heights([(*cell.ends, cell.mirrored) for cell in left])
            high = [h > goal and cell.depth < _DEEPEST for cell, h in zip(left, heights, strict=True)]
            yield from ((c, h) for c, h, divide in zip(left, heights, high, strict=True) if not divide)
            left = [part for c, divide in zip(left, high, strict=True) if divide for part in c.halves()]

    def enclosed(self, pair: ObliquePair, unit: float, tolerance: float) -> tuple[float, float]:
        """(lower, upper) of one pair's delta; `tolerance` in units of exp(unit)."""
        s, flint = self._setting, self._flint
        if pair.inner is None:
            return enclose_parallel(flint, s.m, s.epsilon, pair.a, pair.b, unit)
        if self._bessel is None:
            with flint.ctx.workprec(BITS + 80):
                self._bessel = LogBessel(flint, s.m, BITS)
        lower, upper = enclose_oblique(flint, self._bessel, s.m, s.epsilon, pair, unit, tolerance)
        with flint.ctx.workprec(BITS + 80):
            scale = flint.arb(unit).exp()
            ends = (scale * lower).lower(), (scale * upper).upper()
        return math.nextafter(float(ends[0]), -math.inf), math.nextafter(float(ends[1]), math.inf)


WIDTHS = {"record": 1e-3, "unit": 1e-2}
"""How wide an enclosure of delta may be, as a part of it, if nothing else is asked for."""

LARGEST_OF_CELLS = 100_000
"""Beyond it nearly parallel rows ask for continued fractions of millions of steps, or their delta is not told from one."""


def enclosed(
    epsilon: float, m: int, row_norm: float, distance: float, sigma: float,
    one_attribute: bool, about: float, width: float,
) -> tuple[float, float]:  # fmt: skip
    """(lower, upper) of delta for rows of norm at most `row_norm` within `distance`; `about` is log delta, about."""
    flint = require_flint()
    # Every pair of rows is then allowed, as in `sharp`.
    if distance >= (1.0 if one_attribute else math.sqrt(2)) * row_norm:
        return enclose(epsilon, m, row_norm, sigma, one_attribute, about, width)
    largest = LARGEST_DEGREES if one_attribute else LARGEST_OF_CELLS
    if m > largest:
        raise ParameterError(
            "rows", f"at most about {largest:,} with certified=True and 'unit' neighbours", m
        )
    setting = UnitSetting(epsilon, m, row_norm, distance, sigma, one_attribute)
    return enclose_unit(flint, setting, width)
