"""delta(epsilon) of two rows at an angle, enclosed: an integral over two dimensions in ball arithmetic.

Statement. The plane described below is divided into rectangles. Where L <= epsilon surely: nothing. Where L >= epsilon
surely: Gauss-Legendre, its error bounded by the integrand on ellipses in the complex plane. Elsewhere: between nothing and
length times width times a bound, and divided again, the largest of these bounds first.
Basis: proved, given that ball arithmetic encloses what it says. Derivation: docs/theory/sharp-calibration.md#unit-enclosure.
The error of n nodes on [-1, 1] is at most 8 M r^(1-2n)/(r - 1), where M is a bound on the ellipse with foci +-1 and sum of
semi-axes r (twice the length times the distance to the best polynomial of degree 2n - 1). One variable is complex at a time.
On the ellipse |y(t)| <= y(Re t), because y(t) is a mean of e^(tz) over real z; Re rho^2 = xi^2 - eta^2 and |rho|^2 = xi^2 +
eta^2 for rho = xi + i eta, and likewise for q and x; and Re t is less than t at the real point by cot theta eta_rho eta_q at
most, so e^(-t) y(t) at Re t grows by no more than that times 1 - A, A = (log y)' as below.

Statement (the plane: density, loss, and bounds all over a rectangle). Let the rows have norms a, b (sigma = 1) and the angle
theta in (0, 90] degrees. With rho = |Y x|/a, q = |Y x'| / (b sin) and x = q - rho cot, the central law has the density
    f_0 = (2 / (2^(m/2) Gamma(m/2)))^2 (rho q)^(m-1) exp(-rho^2/2 - x^2/2) e^(-t) y(t),   t = cot rho q,
y(t) = 0F1(; m/2; t^2/4), and delta is the integral of f_0 (l_a - e^epsilon l_b)_+ with l_a = e^(-a^2/2) y(a rho),
l_b = e^(-b^2/2) y(b sin q). The axes (u, v) are those of (rho, x), turned so that {L = epsilon} is nearly straight.
Outside the window: the two lengths are Lipschitz functions of normal vectors, so each tail is below exp(-s^2/2).
Basis: proved, likewise.

Statement (log y and its slope for every t >= 0, at the price of one polynomial). (log y)' is A(t) = I_(m/2)(t) /
I_(m/2-1)(t), which increases from 0 to 1 and is concave.
 - Up to t = 2 sqrt(m): the power series of y, cut where a geometric bound on the rest is negligible.
 - Beyond: pieces [e, 3e/2] with one interpolating polynomial each. A at its nodes is the continued fraction
   A_nu = 1 / (2 (nu+1)/t + A_(nu+1)), begun far up between two bounds, which every step narrows by A^2. A is a sum of
   2t / (t^2 + j^2) over the zeros of a Bessel function, which grow with nu, so A falls in nu; and |t^2 + j^2| >=
   (|t|^2 + j^2) cos(arg t), so |A| <= 1/cos(arg t) in the right half plane: that bounds the error of interpolation
   (`_beyond`). log y is the integral.
Basis: proved, given that ball arithmetic encloses what it says. Derivation: docs/theory/sharp-calibration.md#unit-enclosure.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trimask_theory.masking.hypergeometric import inverse_log_0f1, log_0f1, log_density

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


_BEYOND = 12.0
"""The tails outside the window are below exp(-_BEYOND) of delta."""


class ObliquePair(NamedTuple):
    """Norms in units of sigma and the inner product, as thin balls; no inner product for rows on one line."""

    a: Any
    b: Any
    inner: Any | None


class Rectangle(NamedTuple):
    """Its centre, and half its sides."""

    u: float
    v: float
    du: float
    dv: float


class Over(NamedTuple):
    """What holds all over a rectangle: log of f_0 l_a from above, L - epsilon as a ball, how much either axis moves L."""

    log_f: Any
    loss: Any
    range_u: float
    range_v: float
    rho: Any
    q: Any
    t: Any


def up(value: Any) -> float:
    """The upper end of a ball as a double, rounded up."""
    return math.nextafter(float(value.upper()), math.inf)


class Plane:
    """Of one pair at one epsilon, in units of exp(about)."""

    def __init__(
        self, flint: Any, series: LogBessel, m: int, epsilon: float, pair: ObliquePair, about: float
    ) -> None:
        arb = flint.arb
        self._flint, self._series, self._m, self._about = flint, series, m, about
        self._epsilon = arb(epsilon)
        self._a, self._b = pair.a, pair.b
        cosine = pair.inner / (pair.a * pair.b)
        self._sin = (1 - cosine * cosine).sqrt()
        self._cos, self._cot = cosine, cosine / self._sin
        self._constant = 2 * (arb(2).log() * (1 - arb(m) / 2) - (arb(m) / 2).lgamma()) - arb(about)
        self._window()
        self._turn()
        # The axes are doubles: what d(rho) dx is of du dv is one but for rounding.
        self._constant = self._constant + (arb(self.axes[0]) ** 2 + arb(self.axes[1]) ** 2).log()

    def _window(self) -> None:
        m, a, cot = self._m, float(self._a.mid()), float(self._cot.mid())
        s = math.sqrt(2 * (_BEYOND + math.log(3) - self._about))
        arb = self._flint.arb
        # Four tails: rho and q, below and above; a little more, as the window's ends are doubles.
        self.outside = up(4.001 * (-(arb(s) ** 2) / 2 - arb(self._about)).exp())
        self.rho = (max(math.sqrt(max(a * a + m - 1, 0.0)) - s, 0.0), math.hypot(a, math.sqrt(m)) + s)
        # sqrt(cot^2 rho^2 + m) - cot rho falls in rho.
        low, high = self.rho
        self.x = (
            math.sqrt(max((cot * high) ** 2 + m - 1, 0.0)) - cot * high - s - 1e-6,
            math.hypot(cot * low, math.sqrt(m)) - cot * low + s + 1e-6,
        )

    def _turn(self) -> None:
        """Axes through the point of {L = epsilon} where f_0 l_a is largest, v against the slope of L. Found in doubles."""
        m, a, b = self._m, float(self._a.mid()), float(self._b.mid())
        sine, cot, cosine = (float(value.mid()) for value in (self._sin, self._cot, self._cos))
        half = 0.5 * m
        rho = np.linspace(max(self.rho[0], 1e-3), self.rho[1], 400)
        drop = float(self._epsilon.mid()) - 0.5 * (b - a) * (b + a)
        target = log_0f1(half, a * rho) - drop
        fits = target > 0
        if not fits.any():
            self.origin, self.axes = (float(rho[-1]), 0.0), (1.0, 0.0)
            return
        rho = rho[fits]
        q = inverse_log_0f1(half, target[fits]) / (b * sine)
        height = log_density(m, a * a, rho) + log_density(m, (cot * rho) ** 2, np.maximum(q, 1e-9))
        best = int(np.argmax(height))
        r, length = float(rho[best]), float(q[best])
        left = float(self._series.slope(self._flint.arb(a * r)).mid()) * a
        right = float(self._series.slope(self._flint.arb(max(b * sine * length, 1e-6))).mid()) * b
        across = (left - right * cosine, -right * sine)
        size = math.hypot(*across)
        self.origin = (r, length - cot * r)
        # v is along the slope, u at right angles to it: (rho, x) = origin + u (c, s) + v (-s, c).
        self.axes = (across[1] / size, -across[0] / size)

    def at(self, u: Any, v: Any) -> tuple[Any, Any, Any]:
        """rho, x and q at a point or over a ball of points."""
        c, s = self.axes
        rho = self.origin[0] + u * c - v * s
        x = self.origin[1] + u * s + v * c
        return rho, x, rho * self._cot + x

    def over(self, cell: Rectangle, wider: float = 0.0) -> Over | None:
        """Bounds all over a rectangle, `wider` on every side; None where rho or q may be zero.

        log(f_0 l_a) and L are what they are at the centre, give or take their largest slopes times half the sides.
        """
        arb, n, cot, series = self._flint.arb, self._m - 1, self._cot, self._series
        c, s = self.axes
        du, dv = cell.du + wider, cell.dv + wider
        rho, x, _ = self.at(arb(cell.u, du), arb(cell.v, dv))
        # The ball of q from those of u and v: cot (c u - s v) + (s u + c v), not from rho and x apart.
        mid_rho, mid_x, mid_q = self.at(arb(cell.u), arb(cell.v))
        q = mid_q + (cot * c + s) * arb(0, du) + (c - cot * s) * arb(0, dv)
        if not (rho > 0 and q > 0):
            return None
        other = self._sin * q
        t = cot * rho * q
        gap = 1 - series.slopes(t)
        d_rho = n / rho + n * cot / q - rho - gap * cot * (q + cot * rho)
        d_x = n / q - x - gap * cot * rho
        slope_a, slope_b = self._a * series.slopes(self._a * rho), self._b * series.slopes(self._b * other)
        d_rho = d_rho + slope_a  # of log f_0 + log l_a
        f_u, f_v = d_rho * c + d_x * s, d_x * c - d_rho * s
        loss_rho, loss_x = slope_a - slope_b * self._cos, -slope_b * self._sin
        loss_u, loss_v = loss_rho * c + loss_x * s, loss_x * c - loss_rho * s
        log_f, loss = self.point(mid_rho, mid_x, mid_q)
        range_u, range_v = loss_u.abs_upper() * du, loss_v.abs_upper() * dv
        return Over(
            log_f + f_u.abs_upper() * du + f_v.abs_upper() * dv,
            loss + arb(0, 1) * (range_u + range_v),
            float(range_u),
            float(range_v),
            rho,
            q,
            t,
        )

    def point(self, rho: Any, x: Any, q: Any) -> tuple[Any, Any]:
        """log(f_0 l_a) in units of exp(about), and L - epsilon."""
        series = self._series
        t = self._cot * rho * q
        log_a = series.log_y(self._a * rho) - self._a * self._a / 2
        log_b = series.log_y(self._b * self._sin * q) - self._b * self._b / 2
        central = (rho * q).log() * (self._m - 1) - (rho * rho + x * x) / 2 - t + series.log_y(t)
        return self._constant + central + log_a, log_a - log_b - self._epsilon

    def near_zero(self, cell: Rectangle) -> float:
        """The same where rho or q may be zero: each factor at the end where it is largest."""
        arb = self._flint.arb
        rho, x, q = self.at(arb(cell.u, cell.du), arb(cell.v, cell.dv))
        if not (rho.upper() > 0 and q.upper() > 0):
            return 0.0
        top = rho.upper()
        square = x.abs_lower() ** 2 + rho.abs_lower() ** 2
        log_f = (top * q.upper()).log() * (self._m - 1) - square / 2 + self._series.log_y(self._a * top)
        found = (self._constant + log_f - self._a * self._a / 2).exp() * (4 * arb(cell.du) * cell.dv)
        return min(up(found), 1e300)

    def on_ellipses(self, cell: Rectangle, reach: float) -> float | None:
        """A bound on |f_0 (l_a - e^epsilon l_b)| where u, or v, moves off the real line by at most `reach`.

        |0F1(; b; t^2/4)| is at most its value at Re t, since it is a mean of e^(tz) over real z; |rho|, |q| and the
        squares are looked at one by one.
        """
        # Semi-axes of the ellipse: imaginary `reach`, real hypot(half the side, reach), less than half + reach.
        over = self.over(cell, reach)
        if over is None:
            return None
        arb, n = self._flint.arb, self._m - 1
        worst = arb(0)
        y2 = arb(reach) ** 2
        c, s = (arb(axis) for axis in self.axes)
        low_rho, low_q, low_t = over.rho.lower(), over.q.lower(), over.t.lower()
        for y_rho, y_x in ((c, s), (-s, c)):
            y_q = self._cot * y_rho + y_x
            growth = y2 * (n * y_rho**2 / low_rho**2 + n * y_q**2 / low_q**2 + y_rho**2 + y_x**2) / 2
            less = (self._cot * y_rho * y_q * y2).max(arb(0)).upper()
            if not low_t >= less:
                return None
            growth = growth + less * (1 - self._series.slope((low_t - less).lower()))
            worst = worst.max(growth.upper())
        ratio = 1 + (-over.loss.lower()).exp()
        found = up((over.log_f + worst).exp() * ratio)
        return found if math.isfinite(found) else None


BITS = 110
_PREC = 192
_RULES = (2, 3, 4, 6, 8, 12)
_ANYTHING = 1e300
_MOST = 60_000
"""Rectangles looked at for one pair; what is then left is part of the upper end."""

_START = 0.7
"""Half the side of a first rectangle."""


@dataclass(slots=True, eq=False)
class _Cell:
    """`most` is at least what the cell adds, in units of exp(about); `sure` says L >= epsilon everywhere."""

    place: Rectangle
    most: float = _ANYTHING
    sure: bool = False
    along_u: bool = True

    def halves(self) -> tuple[_Cell, _Cell]:
        u, v, du, dv = self.place
        if self.along_u:
            return _Cell(Rectangle(u - du / 2, v, du / 2, dv)), _Cell(Rectangle(u + du / 2, v, du / 2, dv))
        return _Cell(Rectangle(u, v - dv / 2, du, dv / 2)), _Cell(Rectangle(u, v + dv / 2, du, dv / 2))


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
                for part in cell.halves():
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
