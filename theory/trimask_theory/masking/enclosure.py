"""delta(epsilon) of a masked record between two numbers that no rounding error can cross.

Statement. By the angle theorem (docs/theory/sharp-calibration.md#angle-theorem) the worst pair of records is orthogonal with
both norms R. The two lengths rho, rho' of docs/theory/sharp-calibration.md#two-numbers are then independent: the pair of
laws
is the product of one experiment, chi_m(R^2) against chi_m, with its mirror image. Its likelihood ratio
l(rho) = exp(-R^2/2) 0F1(; m/2; R^2 rho^2/4) increases, and on a grid of rho
 - an upper bound: all of a cell's probability is moved to the cell's two ends so that both laws keep their mass, which
   only spreads l and so makes the laws easier to tell apart; the cell without an upper end gives its surplus away;
 - a lower bound: P[S] - e^epsilon Q[S] for an event S made of cells.
Both are sums of positive terms over the grid, found in ball arithmetic (python-flint) and rounded outward; their
distance falls with the square of the step. The grid may lie anywhere, so it is placed in double precision.
One attribute leaves the experiment and its mirror image each by itself.
Basis: proved, given that ball arithmetic encloses what it says. Derivation: docs/theory/sharp-calibration.md#enclosure.

Statement (two parallel rows: the two tails of noncentral chi laws at the likelihood ratio's crossing). One attribute, or
two rows on one line: L is monotone in rho, rising if a > b, falling if a < b
(docs/theory/sharp-calibration.md#remaining-pairs).
So delta = P[S] - e^epsilon Q[S], S = {rho > t} or {rho < t}, L(t) = epsilon. A t near that gives a lower bound; with
L(t1) <= epsilon <= L(t2) proved in balls, what lies between t1 and t2 adds at most P[t1 < rho < t2] (1 - e^(epsilon - L))
at its better end. Basis: proved, given that ball arithmetic encloses what it says. Derivation:
docs/theory/sharp-calibration.md#unit-enclosure.
"""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from trimask_core.basics.errors import ParameterError
from trimask_theory.masking.hypergeometric import log_0f1

LARGEST_DEGREES = 10_000_000
"""Beyond it the series would take many minutes."""

BITS = 140
"""Bits behind the point that a probability is found to."""

_FIRST, _MOST = 96, 6144
"""Cells of the first grid and of the last."""


class _Grid(NamedTuple):
    """Balls at the ends of the cells, from rho = 0: F under chi_m, F under chi_m(R^2), and l."""

    central: list[Any]
    shifted: list[Any]
    ratio: list[Any]


def require_flint() -> Any:
    """The module `flint`, or an error that names the extra it comes with."""
    try:
        import flint
    except ImportError:
        raise ParameterError(
            "certified", "used with python-flint, which is missing: pip install 'trimask-theory[certified]'"
        ) from None
    return flint


def enclose(
    epsilon: float, m: int, row_norm: float, sigma: float, one_attribute: bool, about: float, width: float
) -> tuple[float, float]:
    """(lower, upper) of delta at `epsilon` for records of norm `row_norm` at noise `sigma` and m degrees of freedom.

    `about` is log delta as far as it is known: it says how far into the tails the grid must reach. The grid is refined
    until the interval is no wider than `width` times its upper end, or the grid has its most cells.
    """
    flint = require_flint()
    if m > LARGEST_DEGREES:
        raise ParameterError("rows", f"at most about {LARGEST_DEGREES:,} with certified=True", m)
    norm = row_norm / sigma  # the grid's; the laws have the quotient itself
    reach = math.sqrt(2 * (12.0 - max(about, -700.0)))
    low, high = max(math.sqrt(m) - reach, 0.0), math.hypot(math.sqrt(m), norm) + reach
    # Where l is large a small error of a probability is multiplied by it.
    steepest = float(log_0f1(0.5 * m, np.array([norm * high]))[0]) - norm * norm / 2
    bits = BITS + math.ceil(max(steepest - about, 0.0) / math.log(2))
    bounds = _bounds_of_one if one_attribute else _bounds_of_two
    lower, upper, cells = 0.0, 1.0, _FIRST
    with flint.ctx.workprec(bits + 64):
        series = Series(flint, m, norm, high, bits, (flint.arb(row_norm) / flint.arb(sigma)) ** 2)
        scale = flint.arb(epsilon).exp()
        while True:
            below, above = bounds(flint, scale, series.at(np.linspace(low, high, cells + 1)[1:].tolist()))
            # Both ends are exact binary numbers; as doubles they are rounded outward.
            lower = max(lower, math.nextafter(float(below.lower()), -math.inf))
            upper = min(upper, math.nextafter(float(above.upper()), math.inf))
            if upper - lower <= width * upper or cells >= _MOST:
                return lower, upper
            cells *= 2


class Series:
    """F and l in balls. a = m/2, x = rho^2/2, t_j = x^(a+j) e^-x / Gamma(a+j+1).

    F_m = sum t_j at the first place, and from place to place the integral of its density. The Poisson mixture behind the
    noncentral law, its sums exchanged, is F_(m,R) = F_m - sum t_j P[Poisson(R^2/2) > j]. Both that and 0F1 are short
    polynomials, cut where a bound on the rest is negligible.
    """

    def __init__(self, flint: Any, m: int, norm: float, high: float, bits: int, square: Any) -> None:
        """`square` is R^2 as a ball, `norm` about R: it only says where to cut."""
        arb = flint.arb
        self._flint, self._m, self._bits = flint, m, bits
        self._a, self._half = arb(m) / 2, square / 2
        self._log_start = -(self._a + 1).lgamma()
        more, self._poisson_rest = self._poisson_tails(bits)
        coefficients = [arb(1)]
        for j in range(1, len(more)):
            coefficients.append(coefficients[-1] / (self._a + j))
        self._shift = flint.arb_poly([c * tail for c, tail in zip(coefficients, more, strict=True)])
        ratios, z = [arb(1)], 0.25 * (norm * high) ** 2
        size = 0.0  # log2 of the last term at the largest z, in double precision: it only says when to stop
        while size > -bits or z > 0.4 * len(ratios) * (0.5 * m + len(ratios) - 1):
            k = len(ratios)
            ratios.append(ratios[-1] / ((self._a + (k - 1)) * k))
            size += math.log2(max(z, 1e-300) / ((0.5 * m + k - 1) * k))
        self._ratios, self._last, self._k = flint.arb_poly(ratios), ratios[-1], len(ratios) - 1

    def _poisson_tails(self, bits: int) -> tuple[list[Any], Any]:
        """P[Poisson(R^2/2) > j] for j = 0, 1, ..., and a ball that holds every later one."""
        tails, mass, j = [], (-self._half).exp(), 0
        left = 1 - mass
        while True:
            tails.append(left)
            j += 1
            mass = mass * self._half / j
            left = left - mass
            # Beyond 2 (R^2/2) the masses fall at least by halves.
            if j + 1 > 2 * float(self._half.upper()) and float(mass.upper()) < 2.0 ** -min(bits, 1000):
                return tails, self._flint.arb(0).union(mass)

    def _start(self, x: Any) -> Any:
        return (self._a * x.log() - x + self._log_start).exp()

    def at(self, places: list[float]) -> _Grid:
        """Balls at rho = 0 and at `places`, which increase."""
        arb = self._flint.arb
        grid = _Grid([arb(0)], [arb(0)], [(-self._half).exp()])
        central = self._first(arb(places[0]))
        for before, place in zip([places[0], *places], places, strict=False):
            rho = arb(place)
            if place > before:
                central = central + self._between(before, place)
            x = rho**2 / 2
            z, last, k = self._half * x, self._last, self._k
            step = z / ((self._a + k) * (k + 1))
            rest = arb(0).union(
                last * z**k * step / (1 - step)
            )  # below a geometric series from the last term
            grid.central.append(central)
            grid.shifted.append(central - self._start(x) * self._shift(x) - self._poisson_rest)
            grid.ratio.append((-self._half).exp() * (self._ratios(z) + rest))
        return grid

    def _first(self, rho: Any) -> Any:
        """F_m at the lowest place, by its series."""
        arb, x = self._flint.arb, rho**2 / 2
        term = self._start(x)
        total, j, small = term, 0, arb(2) ** -self._bits
        while True:
            j += 1
            step = x / (self._a + j)
            term = term * step
            total = total + term
            if step < 1 and term < small * (1 - step):
                return total + arb(0).union(term * step / (1 - step))

    def _between(self, left: float, right: float) -> Any:
        """The probability of a cell under chi_m: its density is analytic, and flint bounds the quadrature's error."""
        acb, power = self._flint.acb, self._flint.arb(self._m - 1)
        constant = acb(self._log_start + (self._a.log() + self._flint.arb(2).log() * (1 - self._a)))

        def density(rho: Any, analytic: bool) -> Any:
            return (power * rho.log(analytic) - rho * rho / 2 + constant).exp()

        return acb.integral(density, acb(left), acb(right)).real


def _cells(values: list[Any]) -> list[Any]:
    """The probability of each cell; the last one has no upper end."""
    return [right - left for left, right in pairwise(values)] + [1 - values[-1]]


def _at_the_ends(grid: _Grid) -> tuple[list[Any], Any]:
    """Mass of chi_m at each end, and what chi_m(R^2) has where chi_m has nothing, after every cell is split.

    The mass q_b at a cell's upper end and q_a at its lower one solve q_a + q_b = Q, l_a q_a + l_b q_b = P.
    """
    q, p = _cells(grid.central), _cells(grid.shifted)
    masses = [0 * q[0] for _ in grid.ratio]
    for cell, (left, right) in enumerate(pairwise(grid.ratio)):
        upper = (p[cell] - left * q[cell]) / (right - left)
        masses[cell] = masses[cell] + (q[cell] - upper)
        masses[cell + 1] = masses[cell + 1] + upper
    masses[-1] = masses[-1] + q[-1]
    return masses, p[-1] - grid.ratio[-1] * q[-1]


def _bounds_of_two(flint: Any, scale: Any, grid: _Grid) -> tuple[Any, Any]:
    """The experiment times its mirror image: sum over k, l of q_k q_l (l_k - e^epsilon l_l)_+."""
    arb = flint.arb
    masses, surplus = _at_the_ends(grid)
    ratio = grid.ratio
    scaled = [scale * value for value in ratio]
    count = [arb(0), *accumulate(masses)]
    weighted = [arb(0), *accumulate(q * value for q, value in zip(masses, scaled, strict=True))]
    above, end = surplus, 0
    for q, value in zip(masses, ratio, strict=True):
        while end < len(ratio) and scaled[end] < value:
            end += 1
        inner = value * count[end] - weighted[end]
        beyond = end
        while beyond < len(ratio) and not scaled[beyond] > value:  # too close to be told apart
            inner = inner + masses[beyond] * (value - scaled[beyond]).max(arb(0))
            beyond += 1
        above = above + q * inner
    q_cells, p_cells = _cells(grid.central), _cells(grid.shifted)
    # About P/Q of each cell: it chooses the event, so that its error costs width and not validity.
    means = [((left + right) / 2).mid() for left, right in pairwise([*ratio, ratio[-1]])]
    under, factor = arb(0), scale.mid()
    end = 0
    for q, p, mean in zip(q_cells, p_cells, means, strict=True):
        while end < len(ratio) - 1 and factor * means[end] < mean:
            end += 1
        # rho in this cell and rho' below the grid's place `end`: any event gives a lower bound.
        under = under + p * grid.central[end] - scale * q * grid.shifted[end]
    return under, above


def _bounds_of_one(flint: Any, scale: Any, grid: _Grid) -> tuple[Any, Any]:
    """The larger of the experiment's and its mirror image's delta."""
    arb = flint.arb
    masses, surplus = _at_the_ends(grid)
    rising, falling = surplus, arb(0)
    for q, value in zip(masses, grid.ratio, strict=True):
        rising = rising + q * (value - scale).max(arb(0))
        falling = falling + q * (1 - scale * value).max(arb(0))
    under = arb(0)
    for central, shifted in zip(grid.central, grid.shifted, strict=True):
        under = under.max((1 - shifted) - scale * (1 - central)).max(central - scale * shifted)
    return under, rising.max(falling)


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
