"""log 0F1(; m/2; t^2/4) and its slope in ball arithmetic, for every t >= 0 at the price of one polynomial.

Statement. y(t) = 0F1(; m/2; t^2/4) has (log y)' = A(t) = I_(m/2)(t) / I_(m/2-1)(t), which increases from 0 to 1 and is
concave.
 - Up to t = 2 sqrt(m): the power series of y, cut where a geometric bound on the rest is negligible.
 - Beyond: pieces [e, 3e/2] with one interpolating polynomial each. A at its nodes is the continued fraction
   A_nu = 1 / (2 (nu+1)/t + A_(nu+1)), begun far up between two bounds, which every step narrows by A^2. A is a sum of
   2t / (t^2 + j^2) over the zeros of a Bessel function, which grow with nu, so A falls in nu; and |t^2 + j^2| >=
   (|t|^2 + j^2) cos(arg t), so |A| <= 1/cos(arg t) in the right half plane: that bounds the error of interpolation
   (`_beyond`). log y is the integral.
Basis: proved, given that ball arithmetic encloses what it says. Derivation: docs/theory/sharp-calibration.md#unit-enclosure.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

_NODES = 32
_RATIO = 1.5
_SPREAD = 8.5
"""Sum of the semi-axes of the ellipse around a piece in which A is bounded, in half-lengths of the piece."""

_MOST_STEPS = 400_000
_PAD = 1e-9
"""A piece is valid a little beyond its ends, where a ball may reach."""


class _Piece(NamedTuple):
    centre: Any
    half: Any
    slope: Any
    integral: Any
    log_y: Any


class LogBessel:
    """log y and A of one m; pieces are made where they are first wanted."""

    def __init__(self, flint: Any, m: int, bits: int) -> None:
        arb = flint.arb
        self._flint, self._m, self._bits = flint, m, bits
        self.first = 2.0 * math.sqrt(m)
        terms, k, size = [arb(1)], 0, 0.0
        z = self.first**2 / 4
        while size > -bits - 8 or z > 0.25 * k * (0.5 * m + k):
            k += 1
            terms.append(terms[-1] / ((arb(m) / 2 + (k - 1)) * k))
            size += math.log2(z / ((0.5 * m + k - 1) * k))
        # Every later term is at most half the one before: the rest is below the last one, which is below 2^-bits.
        self._rest = arb(0, 2.0**-bits)
        self._y = flint.arb_poly(terms)
        self._y_slope = self._y.derivative()
        self._pieces: list[_Piece] = []

    def log_y(self, t: Any) -> Any:
        """log 0F1(; m/2; t^2/4)."""
        at = float(t.mid())
        if at <= self.first:
            return (self._y(t * t / 4) + self._rest).log()
        piece = self._piece(at)
        return piece.log_y + piece.half * piece.integral((t - piece.centre) / piece.half)

    def slope(self, t: Any) -> Any:
        """A(t), of one number."""
        at = float(t.mid())
        if at <= self.first:
            z = t * t / 4
            # y' as a series in z has terms below those of y times their number: the same rest, times t.
            return (
                t / 2 * (self._y_slope(z) + self._rest * 2 * len(self._y_slope)) / (self._y(z) + self._rest)
            )
        piece = self._piece(at)
        return piece.slope((t - piece.centre) / piece.half)

    def slopes(self, t: Any) -> Any:
        """A over a whole ball t > 0, as A increases."""
        return self.slope(t.lower()).union(self.slope(t.upper()))

    def _piece(self, at: float) -> _Piece:
        place = max(int(math.log(at / self.first) / math.log(_RATIO)), 0)
        while len(self._pieces) <= place:
            self._pieces.append(self._next(len(self._pieces)))
        return self._pieces[place]

    def _next(self, place: int) -> _Piece:
        arb = self._flint.arb
        # int() and log() may put a t at an end into the neighbour: _PAD covers that.
        left, right = (self.first * _RATIO ** (place + more) for more in (0, 1))
        left, right = left * (1 - _PAD), right * (1 + _PAD)
        centre, half = (arb(left) + arb(right)) / 2, (arb(right) - arb(left)) / 2
        slope = self._interpolated(centre, half) + self._flint.arb_poly(
            [self._beyond(float(centre), float(half))]
        )
        integral = slope.integral()
        start = arb(left)
        before = self.log_y(start) if place == 0 else self._end_of(self._pieces[-1], start)
        return _Piece(centre, half, slope, integral, before - half * integral(arb(-1)))

    def _interpolated(self, centre: Any, half: Any) -> Any:
        """The polynomial in (t - centre) / half that equals A in the Chebyshev points, by its Chebyshev coefficients."""
        arb, poly = self._flint.arb, self._flint.arb_poly
        angles = [arb(2 * k + 1) / (2 * _NODES) for k in range(_NODES)]
        values = [self._fraction(centre + half * angle.cos_pi()) for angle in angles]
        total = poly([sum(values, arb(0)) / _NODES])
        before, now, twice = poly([1]), poly([0, 1]), poly([0, 2])
        for k in range(1, _NODES):
            weight = sum((v * (angle * k).cos_pi() for v, angle in zip(values, angles, strict=True)), arb(0))
            total = total + now * poly([weight * 2 / _NODES])
            before, now = now, twice * now - before
        return total

    def _end_of(self, piece: _Piece, t: Any) -> Any:
        return piece.log_y + piece.half * piece.integral((t - piece.centre) / piece.half)

    def _beyond(self, centre: float, half: float) -> Any:
        """The error of interpolation in Chebyshev points: at most 4 M r^-(n-1) / (r - 1) with |A| <= M on the ellipse."""
        arb, r = self._flint.arb, _SPREAD
        sine = arb(half) * (arb(r) + 1 / arb(r)) / 2 / arb(centre)  # the ellipse lies in this disc's cone
        bound = 4 / (1 - sine * sine).sqrt() * arb(r) ** (1 - _NODES) / (arb(r) - 1)
        return arb(0, float(bound.upper()) * (1 + 1e-9))

    def _fraction(self, t: Any) -> Any:
        """A(t) by its continued fraction, from a step far up.

        There A_(nu+1) < A_nu gives A_nu > sqrt(c^2/4 + 1) - c/2 with c = 2 (nu+1)/t, and the same at nu + 1 an upper bound.
        """
        arb, at = self._flint.arb, float(t.mid())
        wanted, steps, order = self._bits * math.log(2) - math.log(max(at, 1.0)), 0, 0.5 * self._m - 1
        # A_nu is about t / (nu + sqrt(nu^2 + t^2)): how many steps narrow what is about 1/t wide as far as wanted.
        block = 16
        gone = 0.0
        while gone < wanted and steps < _MOST_STEPS:
            nu = order + steps + block / 2
            gone += 2 * block * math.log((nu + math.hypot(nu, at)) / at)
            steps += block
            block = max(16, steps // 16)
        inverse = 1 / t
        top = arb(self._m)  # 2 (nu + 1)
        low, lower = ((((top + 2 * more) * inverse / 2) ** 2 + 1).sqrt() - (top + 2 * more) * inverse / 2
                      for more in (steps, steps + 1))  # fmt: skip
        found = low.union(1 / ((top + 2 * steps) * inverse + lower))
        for step in range(steps - 1, -1, -1):
            found = 1 / ((top + 2 * step) * inverse + found)
        return found
