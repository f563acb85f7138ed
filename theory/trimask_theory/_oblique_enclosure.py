"""delta(epsilon) of two rows at an angle, enclosed: an integral over two dimensions in ball arithmetic.

Statement. The plane of `_oblique_plane` is divided into rectangles. Where L <= epsilon surely: nothing. Where L >= epsilon
surely: Gauss-Legendre, its error bounded by the integrand on ellipses in the complex plane. Elsewhere: between nothing and
length times width times a bound, and divided again, the largest of these bounds first.
Basis: proved, given that ball arithmetic encloses what it says. Derivation: docs/sharp-calibration.md#unit-enclosure.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trimask_theory._bessel_balls import LogBessel
from trimask_theory._oblique_plane import ObliquePair, Plane, Rectangle, up

__all__ = ["BITS", "ObliquePair", "enclose_oblique"]

BITS = 110
_PREC = 192
_MOST = 60_000
"""Rectangles looked at for one pair; what is then left is part of the upper end."""

_RULES = (2, 3, 4, 6, 8, 12)

_START = 0.7
"""Half the side of a first rectangle."""

_ANYTHING = 1e300


@dataclass(slots=True, eq=False)
class _Cell:
    """`most` is at least what the cell adds, in units of exp(about); `sure` says L >= epsilon everywhere."""

    place: Rectangle
    most: float = _ANYTHING
    sure: bool = False
    along_u: bool = True


def enclose_oblique(
    flint: Any, series: LogBessel, m: int, epsilon: float, pair: ObliquePair, about: float, tolerance: float
) -> tuple[float, float]:
    """(lower, upper) of delta, in units of exp(about), until they are no further apart than `tolerance`."""
    with flint.ctx.workprec(_PREC):
        return _Integral(flint, Plane(flint, series, m, epsilon, pair, about)).between(tolerance)


@lru_cache(maxsize=16)
def _rule(flint: Any, n: int) -> list[tuple[Any, Any]]:
    with flint.ctx.workprec(_PREC):
        return [flint.arb.legendre_p_root(n, k, weight=True) for k in range(n)]


class _Integral:
    def __init__(self, flint: Any, plane: Plane) -> None:
        self._flint, self._plane = flint, plane

    def between(self, tolerance: float) -> tuple[float, float]:
        heap: list[tuple[float, int, _Cell]] = []
        count = 0
        for cell in self._first():
            if self._look(cell):
                heapq.heappush(heap, (-cell.most, count, cell))
                count += 1
        total = self._flint.arb(0)
        open_ = math.fsum(-entry[0] for entry in heap)
        share = tolerance * 1e-4
        while heap and open_ > 0.8 * tolerance and count < _MOST:
            most, _, cell = heapq.heappop(heap)
            found = self._gauss(cell, share) if cell.sure else None
            if found is not None:
                total = total + found
            else:
                for part in _halves(cell):
                    if self._look(part):
                        heapq.heappush(heap, (-part.most, count, part))
                        count += 1
            # What is open is summed again at times: a running sum of doubles would forget.
            open_ += most
            if count % 64 < 2 or not math.isfinite(open_) or open_ <= 0.8 * tolerance:
                open_ = math.fsum(-entry[0] for entry in heap)
            else:
                open_ = max(open_, -heap[0][0] if heap else 0.0)
        left = math.fsum(-entry[0] for entry in heap)
        upper = math.nextafter(up(total) + left + self._plane.outside, math.inf)
        return max(math.nextafter(float(total.lower()), -math.inf), 0.0), upper

    def _first(self) -> list[_Cell]:
        """Rectangles over the window, which is turned; those outside go when they are looked at."""
        plane = self._plane
        c, s = plane.axes
        corners = [(r - plane.origin[0], x - plane.origin[1]) for r in plane.rho for x in plane.x]
        side = 2 * _START
        u = [(dr * c + dx * s) / side for dr, dx in corners]
        v = [(-dr * s + dx * c) / side for dr, dx in corners]
        places = [range(math.floor(min(w) - 1e-6), math.ceil(max(w) + 1e-6)) for w in (u, v)]
        return [
            _Cell(Rectangle((i + 0.5) * side, (j + 0.5) * side, _START, _START))
            for i in places[0]
            for j in places[1]
        ]

    def _look(self, cell: _Cell) -> bool:
        """Bound what a rectangle adds; False if that is nothing."""
        arb, plane, place = self._flint.arb, self._plane, cell.place
        rho, x, _ = plane.at(arb(place.u, place.du), arb(place.v, place.dv))
        if rho < plane.rho[0] or rho > plane.rho[1] or x < plane.x[0] or x > plane.x[1]:
            return False  # counted among the tails
        over = plane.over(place)
        if over is None:
            cell.most, cell.along_u = min(plane.near_zero(place), _ANYTHING), place.du >= place.dv
            return cell.most > 0
        if over.loss <= 0:
            return False
        gain = -((-over.loss.upper()).expm1())
        most = up(over.log_f.exp() * gain * (4 * arb(place.du) * place.dv))
        cell.most = most if 0 <= most < _ANYTHING else _ANYTHING
        cell.sure = bool(over.loss >= 0)
        cell.along_u = place.du >= place.dv if cell.sure else over.range_u >= over.range_v
        return True

    def _gauss(self, cell: _Cell, share: float) -> Any:
        """The integral over a rectangle as a ball, or None where no rule is good enough."""
        for reach in (0.8, 0.3):
            bound = self._plane.on_ellipses(cell.place, reach)
            if bound is None:
                continue
            for n in _RULES:
                error = self._error(cell.place, bound, reach, n)
                if error <= max(share, 1e-5 * cell.most):
                    return self._sum(cell.place, n) + self._flint.arb(0, error)
        return None

    def _error(self, place: Rectangle, bound: float, reach: float, n: int) -> float:
        """8 M r^(1-2n) / (r-1) on [-1, 1] for each axis: twice the best polynomial's distance, times the length."""
        arb = self._flint.arb
        total = arb(0)
        for half in (place.du, place.dv):
            r = (arb(reach) / half + ((arb(reach) / half) ** 2 + 1).sqrt()).lower()
            total = total + 8 * r ** (1 - 2 * n) / (r - 1)
        return up(total * 2 * bound * place.du * place.dv)

    def _sum(self, place: Rectangle, n: int) -> Any:
        arb = self._flint.arb
        total = arb(0)
        rule = _rule(self._flint, n)
        for place_u, weight_u in rule:
            u = place.u + place_u * place.du
            for place_v, weight_v in rule:
                log_f, loss = self._plane.point(*self._plane.at(u, place.v + place_v * place.dv))
                total = total + weight_u * weight_v * log_f.exp() * -((-loss).expm1())
        return total * place.du * place.dv


def _halves(cell: _Cell) -> tuple[_Cell, _Cell]:
    u, v, du, dv = cell.place
    if cell.along_u:
        return _Cell(Rectangle(u - du / 2, v, du / 2, dv)), _Cell(Rectangle(u + du / 2, v, du / 2, dv))
    return _Cell(Rectangle(u, v - dv / 2, du, dv / 2)), _Cell(Rectangle(u, v + dv / 2, du, dv / 2))
