"""log 0F1(; b; y) for every order b >= 1/2 and every y >= 0, without cancellation; and the noncentral chi law by it.

Statement. With nu = b - 1, t = 2 sqrt(y), w = sqrt(1 + (t/nu)^2) and u = w - 1,
    log 0F1(; b; y) = nu (u - log(1 + u/2)) - log(1 + u)/2 + sum_k (D_k(1/w) - D_k(1)) / nu^k,
the uniform (Debye) expansion of I_nu written so that the logarithms of Gamma(b), of t^nu and of I_nu, each
of size nu log nu, are never formed: a privacy loss of 1e-5 is wanted where they are 1e8.
Orders below `DEBYE_ORDER` step down from there by the recurrence 0F1(b-1) = 0F1(b) + y/(b(b-1)) 0F1(b+1),
whose terms are all positive; long arrays of such orders read a table made that way, and beyond it use
Hankel's expansion.
Basis: numerical. Against mpmath the error is below 2e-14 of the value plus 1e-17, and 2e-13 absolute for
orders under DEBYE_ORDER (tests/theory), for t up to 1e10.

Statement (the noncentral chi law, in logarithms: accurate in its tails and to 10^7 dimensions). rho = |N(mean, I_m)|, the
norm of a normal vector, has density
    2 rho^(m-1) (2^(m/2) Gamma(m/2))^-1 exp(-(rho^2 + nc)/2) 0F1(; m/2; nc rho^2/4),  nc = |mean|^2.
Basis: the density is exact; `log_sf` is Gauss-Legendre quadrature of a positive integrand, so that its
error is relative to the tail and not to one. Working with rho and not rho^2 keeps the standard deviation
between 0.6 and 1 for every m and every noncentrality, which is what fixed quadrature windows need.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ive

Array = NDArray[np.float64]

DEBYE_ORDER = 24.0
"""Orders nu at least this large use the expansion; its last term kept is then below 1e-16."""

_TERMS = 10

_FEW = 256
"""Up to this many values scipy's Bessel function is faster than the vectorised recurrence."""

_CELL = 0.025
_CELLS = 2560
"""Low orders are tabulated for t up to 64 sqrt(b), in cells so short that the interpolant errs by 1e-14."""

_AMOS_LIMIT = 1e4
"""Arguments to which scipy's Bessel function keeps full accuracy at every order under DEBYE_ORDER."""


def _debye_log_polynomials(terms: int) -> list[list[Fraction]]:
    """D_1..D_terms, the logarithm of the series sum_k U_k(p) nu^-k, as coefficients of powers of p.

    U_{k+1}(p) = p^2 (1 - p^2) U_k'(p) / 2 + (1/8) int_0^p (1 - 5 q^2) U_k(q) dq  (DLMF 10.41.9).
    """
    u: list[list[Fraction]] = [[Fraction(1)]]
    for _ in range(terms):
        last = u[-1]
        following = [Fraction(0)] * (len(last) + 3)
        for power, coefficient in enumerate(last):
            following[power + 1] += coefficient * (Fraction(power, 2) + Fraction(1, 8 * (power + 1)))
            following[power + 3] -= coefficient * (Fraction(power, 2) + Fraction(5, 8 * (power + 3)))
        u.append(following)
    # k U_k = sum_{j=1..k} j D_j U_{k-j}, from differentiating exp(sum D_k z^k) = sum U_k z^k.
    d: list[list[Fraction]] = [[]]
    for k in range(1, terms + 1):
        total = list(u[k])
        for j in range(1, k):
            for power, coefficient in enumerate(d[j]):
                for other, factor in enumerate(u[k - j]):
                    total[power + other] -= Fraction(j, k) * coefficient * factor
        d.append(total)
    return d[1:]


_DEBYE = [np.array([float(c) for c in polynomial]) for polynomial in _debye_log_polynomials(_TERMS)]
_DEBYE_AT_ONE = [float(sum(polynomial)) for polynomial in _debye_log_polynomials(_TERMS)]


@lru_cache(maxsize=256)
def _debye_coefficients(nu: float) -> tuple[float, ...]:
    """sum_k (D_k(p) - D_k(1)) / nu^k as one polynomial in p, highest power first (for Horner)."""
    merged = np.zeros(3 * _TERMS + 1)
    for k, (polynomial, at_one) in enumerate(zip(_DEBYE, _DEBYE_AT_ONE, strict=True), start=1):
        merged[: polynomial.size] += polynomial / nu**k
        merged[0] -= at_one / nu**k
    top = int(np.max(np.nonzero(np.abs(merged) > 1e-18)[0], initial=0))
    return tuple(merged[top::-1].tolist())


def stirling_remainder(a: float) -> float:
    """lgamma(a) - ((a - 1/2) log a - a + log(2 pi)/2), by its own series where that would cancel."""
    if a < 12:
        return math.lgamma(a) - ((a - 0.5) * math.log(a) - a + 0.5 * math.log(2 * math.pi))
    z = 1 / (a * a)
    series = 1 / 12 - z * (1 / 360 - z * (1 / 1260 - z * (1 / 1680 - z * (1 / 1188 - z * 691 / 360360))))
    return series / a


def _debye(nu: float, t: Array, scaled: bool) -> Array:
    x = t / nu
    w = np.hypot(1.0, x)
    u = x * (x / (1.0 + w))
    p = 1.0 / w
    coefficients = _debye_coefficients(nu)
    correction = np.full_like(p, coefficients[0])
    for coefficient in coefficients[1:]:
        correction *= p
        correction += coefficient
    # u - x = 1/(w + x) - 1 keeps log 0F1 - t accurate where both are large.
    head = 1.0 / (w + x) - 1.0 if scaled else u
    result: Array = nu * (head - np.log1p(0.5 * u)) - 0.5 * np.log1p(u) + correction
    return result


def _low_order(b: float, t: Array, scaled: bool) -> tuple[Array, Array]:
    """(log 0F1, 0F1(b+1)/0F1(b)) for orders under the expansion's reach, by the recurrence."""
    steps = math.ceil(DEBYE_ORDER + 1 - b)
    order = b + steps
    value = _debye(order - 1, t, scaled)
    ratio = np.exp(_debye(order, t, scaled) - value)
    y = 0.25 * t * t
    excess = np.zeros_like(t)  # the product of the factors so far, less one: accurate where 0F1 is close to 1
    for _ in range(steps):
        step = y / (order * (order - 1.0)) * ratio
        ratio = 1.0 / (1.0 + step)
        excess += step * (1.0 + excess)
        order -= 1.0
    return value + np.log1p(excess), ratio


def _by_bessel(b: float, t: Array, scaled: bool) -> Array:
    """log 0F1 from scipy's I_nu(t) e^-t: fewer, slower steps, the faster way for a few values of low order.

    Where y < b/4 the powers would underflow or cancel, and the defining series needs a dozen terms.
    """
    y = 0.25 * t * t
    small = y < 0.25 * b
    safe = np.where(small, 1.0, t)
    value = math.lgamma(b) - (b - 1.0) * np.log(0.5 * safe) + np.log(ive(b - 1.0, safe))
    if not scaled:
        value += safe
    if small.any():
        value[small] = np.log1p(_series(b, y[small])) - (t[small] if scaled else 0.0)
    result: Array = value
    return result


def _series(b: float, y: Array) -> Array:
    """0F1(; b; y) - 1 for y < b/4."""
    total = np.zeros_like(y)
    for k in range(12, 0, -1):
        total = (1.0 + total) * (y / (k * (b + k - 1.0)))
    return total


def _large_argument(b: float, t: Array, scaled: bool) -> Array:
    """log 0F1 by Hankel's expansion of I_nu (DLMF 10.40.1), for t beyond the table."""
    series = np.zeros_like(t)
    for k in range(22, 0, -1):
        series = (1.0 + series) * (((2 * k - 1) ** 2 - 4 * (b - 1.0) ** 2) / (8 * k)) / t
    value = math.lgamma(b) - (b - 1.0) * np.log(0.5 * t) - 0.5 * np.log(2 * math.pi * t) + np.log1p(series)
    result: Array = value if scaled else value + t
    return result


@lru_cache(maxsize=8)
def _table(b: float) -> tuple[float, Array]:
    """(step, coefficients) of a quintic Hermite interpolant of log 0F1(; b; t^2/4) on _CELLS cells of t.

    With f = log 0F1(; b; t^2/4) and r the ratio, f' = t r/(2b) and f'' = 1 - (2b-1) r/(2b) - f'^2, all exact.
    """
    step = _CELL * math.sqrt(max(1.0, b))
    knots = step * np.arange(_CELLS + 1.0)
    value, ratio = _low_order(b, knots, False)
    slope = knots / (2 * b) * ratio
    bend = (1.0 - (2 * b - 1) / (2 * b) * ratio - slope * slope) * (0.5 * step * step)
    slope *= step
    rise = np.diff(value) - slope[:-1] - bend[:-1]
    turn = np.diff(slope) - 2 * bend[:-1]
    curl = np.diff(bend)
    rows = [
        value[:-1],
        slope[:-1],
        bend[:-1],
        10 * rise - 4 * turn + curl,
        -15 * rise + 7 * turn - 2 * curl,
        6 * rise - 3 * turn + curl,
    ]
    return step, np.stack(rows)


def _by_table(b: float, t: Array, scaled: bool) -> Array:
    """log 0F1 of low order for many values, nearly all of them inside the table."""
    step, coefficients = _table(b)
    place = t / step
    cell = np.minimum(place, _CELLS - 1.0).astype(np.intp)
    place -= cell
    value = coefficients[5][cell]
    for row in coefficients[4::-1]:
        value *= place
        value += row[cell]
    if scaled:
        value -= t
    outside = t > step * _CELLS
    if outside.any():
        value[outside] = _large_argument(b, t[outside], scaled)
    result: Array = value
    return result


def _value(b: float, t: Array, scaled: bool) -> Array:
    if b - 1.0 >= DEBYE_ORDER:
        return _debye(b - 1.0, t, scaled)
    return _by_bessel(b, t, scaled) if _few(t) else _by_table(b, t, scaled)


def _few(t: Array) -> bool:
    return t.size <= _FEW and float(np.max(t, initial=0.0)) < _AMOS_LIMIT


def log_0f1(b: float, t: Array) -> Array:
    """log 0F1(; b; t^2/4) = log of Gamma(b) (t/2)^(1-b) I_(b-1)(t), for t >= 0."""
    return _value(b, t, scaled=False)


def log_0f1_scaled(b: float, t: Array) -> Array:
    """log 0F1(; b; t^2/4) - t, accurate where t is large."""
    return _value(b, t, scaled=True)


def log_0f1_and_ratio(b: float, t: Array) -> tuple[Array, Array]:
    """log 0F1(; b; t^2/4) and 0F1(; b+1; t^2/4) / 0F1(; b; t^2/4).

    The derivative of the first in y = t^2/4 is the second over b, and in t it is t/(2b) times the second.
    """
    if b - 1.0 < DEBYE_ORDER and not _few(t):
        return _low_order(b, t, False)
    value = log_0f1(b, t)
    return value, np.exp(log_0f1(b + 1.0, t) - value)


def inverse_log_0f1(b: float, target: Array, start: Array | None = None) -> Array:
    """The t >= 0 with log 0F1(; b; t^2/4) = target >= 0.

    log 0F1(; b; y) is increasing and concave in y and lies below both y/b and 2 sqrt(y), so Newton's
    method from the larger of the two lower bounds climbs to the root and never passes it; from any other
    `start` it does so after one step.
    """
    floor = np.maximum(b * target, 0.25 * target * target)
    y = floor if start is None else np.maximum(floor, 0.25 * start * start)
    for _ in range(60):
        t = 2.0 * np.sqrt(y)
        value, ratio = log_0f1_and_ratio(b, t)
        step = b * (target - value) / ratio
        y = np.maximum(y + step, floor)
        # Newton doubles the digits: a step of 1e-8 leaves an error of rounding size.
        if not np.any(np.abs(step) > 1e-8 * y + 1e-15 * b):
            break
    result: Array = 2.0 * np.sqrt(y)
    return result


DEPTH = 30.0
"""Quadrature windows end where the integrand has fallen by exp(-DEPTH) from its largest value."""


@lru_cache(maxsize=32)
def gauss_legendre(nodes: int) -> tuple[Array, Array]:
    """Nodes and weights on [0, 1]."""
    x, weight = np.polynomial.legendre.leggauss(nodes)
    return 0.5 * (x + 1.0), 0.5 * weight


def panels(edges: Array, nodes: int) -> tuple[Array, Array]:
    """Composite Gauss-Legendre nodes and weights on consecutive intervals, along the last axis."""
    x, weight = gauss_legendre(nodes)
    widths = np.diff(edges)[..., None]
    shape = (*edges.shape[:-1], -1)
    return (edges[..., :-1, None] + widths * x).reshape(shape), (widths * weight).reshape(shape)


def log_sum(log_terms: Array) -> float:
    """log of the sum of exp(log_terms); -inf for nothing."""
    top = float(np.max(log_terms, initial=-math.inf))
    if not math.isfinite(top):
        return -math.inf
    return top + math.log(float(np.sum(np.exp(log_terms - top))))


def log_density(m: int, noncentrality: Array | float, rho: Array) -> Array:
    """log density at rho > 0; `noncentrality` is a number, or an array that broadcasts against rho."""
    b = 0.5 * m
    constant = -0.5 * math.log(math.pi) - stirling_remainder(b)
    centre = np.sqrt(np.asarray(noncentrality, dtype=np.float64))
    t = centre * rho
    h = np.maximum(rho * rho / m, 1e-15) - 1.0  # so near to zero the density is nothing
    # Which of two equal forms loses fewer digits depends on whether the noncentrality or m rules.
    if float(np.min(centre)) ** 2 > m:
        head = 0.5 * m + 0.5 * (m - 1) * np.log1p(h) - 0.5 * (rho - centre) ** 2
        scaled: Array = constant + head + log_0f1_scaled(b, t)
        return scaled
    head = -0.5 * (m * h - (m - 1) * np.log1p(h)) - 0.5 * centre * centre
    plain: Array = constant + head + log_0f1(b, t)
    return plain


def window_above(start: float, mode: float) -> float:
    """Where a density of standard deviation at most 1 has fallen by exp(-DEPTH) from its value at `start`."""
    if start <= mode:
        return mode + math.sqrt(2 * DEPTH)
    ahead = start - mode
    return mode + math.sqrt(ahead * ahead + 2 * DEPTH)


def log_sf(m: int, noncentrality: float, x: float) -> float:
    """log P[chi^2_m(noncentrality) > x]."""
    if x <= 0:
        return 0.0
    start = math.sqrt(x)
    mode = math.sqrt(max(m - 1, 0) + noncentrality)
    begin = max(start, mode - math.sqrt(2 * DEPTH))
    end = window_above(begin, mode)
    pieces = max(1, math.ceil((end - begin) / 5.0))
    rho, weight = panels(np.linspace(begin, end, pieces + 1), 24)
    return min(0.0, log_sum(log_density(m, noncentrality, rho) + np.log(weight)))
