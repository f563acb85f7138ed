"""Exact tail integrals of Gaussian quadratic forms, by one contour through the saddle point.

Statement. Let Q = sum_j (e_j + alpha_j |Z_j|^2 / 2 + beta_j . Z_j), Z_j standard normal in k_j dimensions.
Its cumulant generating function is

    K(s) = sum_j [ e_j s - (k_j/2) ln(1 - alpha_j s) + beta_j^2 s^2 / (2 (1 - alpha_j s)) ],

and, for real poles p_i and an interval of the real axis free of singularities,

    I(x) = (1/2 pi i) int e^{K(s) - s x} prod_i |s - p_i|^{-1} ds

through that interval is a tail of Q: pole 0 gives P[Q > x] to its right and P[Q <= x] to its left; poles 0
and -1 give E[(1 - e^{x-Q})_+], the hockey-stick divergence, to the right of 0. (|s - p| stands for +-(s -
p), the sign being the one that is positive on the interval.) A tail is one integral of one sign, so it has
full relative accuracy: there is no subtraction of two nearly equal probabilities anywhere.

Numerical. The path is the hyperbola Delta(u) = kappa (sin(theta + iu) - sin theta) around the saddle, on
which the integrand is analytic in a strip, so the trapezoidal rule converges geometrically (Trefethen and
Weideman, "The exponentially convergent trapezoidal rule", 2014). Every quantity is computed relative to the
saddle, which leaves the rounding of the exponent as the only error: about 1e-16 times the square root of the
degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# The first step; it is halved until two results agree to _AGREE. A form of several scales may have a narrow
# feature far below the peak that two coarse rules miss alike, so nothing is extrapolated from a looser
# agreement.
_STEP = 0.25
_AGREE = 3e-13
_HALVINGS = 7
_BLOCK = 16
# Nodes below e^-_DEPTH of the largest are left out; a path that climbs above e^_CLIMB of the saddle is not
# used.
_DEPTH = 40.0
_LOG_UNDERFLOW = -800.0
_CLIMB = 1.0
_WIDEST = 0.7  # the largest |theta|, below pi/4 so that a normal term still decays along the path


@dataclass(frozen=True, slots=True)
class QuadraticForm:
    """The random variable Q of the module's statement, one entry of each array for one j.

    `centre` is e_j and `edge` is e_j - beta_j^2/(2 alpha_j), the value at the vertex of the parabola. Both
    are given, each exact, since either may be the one that does not cancel: `edge` is 0 for a weighted
    chi-square and `centre` is the short one for a privacy loss. Where alpha_j = 0 the two are the same.
    """

    alpha: Array
    dof: Array
    beta2: Array
    centre: Array
    edge: Array

    def mean(self) -> float:
        return math.fsum(self.centre) + math.fsum(0.5 * self.dof * self.alpha)

    def variance(self) -> float:
        return float((0.5 * self.dof * self.alpha**2 + self.beta2).sum())

    def has_normal_term(self) -> bool:
        return bool(((self.alpha == 0) & (self.beta2 > 0)).any())

    def support(self) -> tuple[float, float]:
        """The least and the greatest value of Q (not attained, but for a constant)."""
        if self.has_normal_term():
            return -math.inf, math.inf
        vertex = math.fsum(self.edge)
        low = -math.inf if (self.alpha < 0).any() else vertex
        high = math.inf if (self.alpha > 0).any() else vertex
        return low, high

    def strip(self) -> tuple[float, float]:
        """The interval of s on which the moment generating function exists."""
        most, least = float(self.alpha.max(initial=0.0)), float(self.alpha.min(initial=0.0))
        return (1 / least if least < 0 else -math.inf), (1 / most if most > 0 else math.inf)


class _Exponent:
    """f(s) = K(s) - s x - sum_i ln|s - p_i|, convex on the interval, expanded about a real point c."""

    def __init__(self, form: QuadraticForm, x: float, poles: Sequence[float]) -> None:
        self.form, self.x = form, x
        self.poles = np.asarray(poles, dtype=np.float64)

    def slopes(self, c: float) -> tuple[float, float]:
        """f'(c) and f''(c)."""
        form = self.form
        inverse = 1 / (1 - form.alpha * c)
        ratio = form.alpha * inverse
        gap = 1 / (c - self.poles)
        first = self._linear(c, inverse) + 0.5 * float(form.dof @ ratio) - float(gap.sum())
        second = 0.5 * float(form.dof @ ratio**2) + float(form.beta2 @ inverse**3) + float(gap @ gap)
        return first, second

    def skew(self, c: float, width: float) -> float:
        """f'''(c) width^3, which bends the path of steepest descent."""
        form = self.form
        inverse = 1 / (1 - form.alpha * c)
        ratio = form.alpha * inverse * width
        cubes = float(form.dof @ ratio**3) + 3 * float((form.beta2 * width**2) @ (ratio * inverse**3))
        return cubes - 2 * float(((width / (c - self.poles)) ** 3).sum())

    def _linear(self, c: float, inverse: Array) -> float:
        """The derivative at c of everything but the logarithms, each term in the form that does not
        cancel."""
        form = self.form
        far = np.abs(form.alpha * c) > 1
        alpha = np.where(far, form.alpha, 1.0)
        near_slope = form.beta2 * c * inverse * (1 + 0.5 * form.alpha * c * inverse)
        slope = np.where(far, 0.5 * form.beta2 / alpha * inverse**2, near_slope)
        return math.fsum([*np.where(far, form.edge, form.centre).tolist(), -self.x]) + math.fsum(
            slope.tolist()
        )

    def value(self, c: float) -> float:
        """f(c)."""
        form = self.form
        far = np.abs(form.alpha * c) > 1
        alpha = np.where(far, form.alpha, 1.0)
        inverse = 1 / (1 - form.alpha * c)
        bend = np.where(far, 0.5 * form.beta2 / alpha * c * inverse, 0.5 * form.beta2 * c * c * inverse)
        shift = math.fsum([*np.where(far, form.edge, form.centre).tolist(), -self.x])
        logs = -0.5 * form.dof * np.log1p(-form.alpha * c)
        return (
            c * shift + math.fsum(bend.tolist()) + math.fsum(logs) - math.fsum(np.log(np.abs(c - self.poles)))
        )

    def expand(self, c: float) -> _Expansion:
        form = self.form
        inverse = 1 / (1 - form.alpha * c)
        active = form.beta2 > 0
        branched = form.alpha != 0
        return _Expansion(
            linear=self._linear(c, inverse),
            power=np.concatenate([0.5 * form.dof[branched], np.ones_like(self.poles)]),
            rate=np.concatenate([(-form.alpha * inverse)[branched], 1 / (c - self.poles)]),
            bend=(0.5 * form.beta2 * inverse**3)[active],
            bend_rate=(-form.alpha * inverse)[active],
        )


@dataclass(frozen=True, slots=True)
class _Expansion:
    """f(c + Delta) - f(c), without cancellation for small Delta."""

    linear: float
    power: Array
    rate: Array
    bend: Array
    bend_rate: Array

    def __call__(self, delta: NDArray[np.complex128]) -> tuple[Array, Array]:
        """Real and imaginary parts. numpy's complex log1p rounds 1 + z first, hence the real arithmetic."""
        real = np.multiply.outer(delta.real, self.rate)
        imag = np.multiply.outer(delta.imag, self.rate)
        out_real = self.linear * delta.real - (0.5 * np.log1p(real * (2 + real) + imag * imag)) @ self.power
        out_imag = self.linear * delta.imag - np.arctan2(imag, 1 + real) @ self.power
        if self.bend.size:
            bent = delta * delta * ((1 / (1 + np.multiply.outer(delta, self.bend_rate))) @ self.bend)
            out_real += bent.real
            out_imag += bent.imag
        return out_real, out_imag


def _saddle(exponent: _Exponent, low: float, high: float) -> float:
    """The minimum of the convex f on (low, high), to a hundredth of its width: Newton inside a bracket."""
    scale = 1 / math.sqrt(exponent.form.variance())
    start = min(0.5 * (high - low), scale)
    c = low + start if abs(low) <= abs(high) else high - start
    for _ in range(400):
        first, second = exponent.slopes(c)
        if first * first <= 1e-4 * second:
            return c
        if first < 0:
            low = c
        else:
            high = c
        step = c - first / second
        if low < step < high:
            c = step
        elif math.isinf(high):
            c += max(abs(c), scale)
        elif math.isinf(low):
            c -= max(abs(c), scale)
        else:
            c = 0.5 * (low + high)
    return c


def _trapezoid(expansion: _Expansion, kappa: float, theta: float) -> float | None:
    """(1/2 pi i) times the integral of e^{f - f(c)} along the hyperbola; None if the path climbs too far."""
    sin, cos = math.sin(theta), math.cos(theta)
    # With very many degrees of freedom the exponent itself is only known to this much.
    agree = max(_AGREE, 32 * np.finfo(np.float64).eps * abs(expansion.linear) * kappa)

    def heights(u: Array) -> tuple[Array, Array]:
        delta = np.empty(u.size, dtype=np.complex128)
        delta.real = kappa * sin * 2 * np.sinh(0.5 * u) ** 2
        delta.imag = kappa * cos * np.sinh(u)
        real, imag = expansion(delta)
        size = np.exp(np.minimum(real, 2 * _CLIMB))
        along = cos * np.cosh(u) * np.cos(imag) + sin * np.sinh(u) * np.sin(imag)
        return kappa * size * along, real + u

    total, count = 0.0, 0
    while True:
        u = _STEP * np.arange(count, count + _BLOCK, dtype=np.float64)
        values, depth = heights(u)
        if (depth - u > _CLIMB).any() or not np.isfinite(values).all():
            return None
        total += float(values.sum()) - (0.5 * float(values[0]) if count == 0 else 0.0)
        count += _BLOCK
        if (depth[-2:] < -_DEPTH).all():
            break
        if count > 64 * _BLOCK:
            return None
    step, previous = _STEP, _STEP * total
    for _ in range(_HALVINGS):
        values, _ = heights(step * (np.arange(count, dtype=np.float64) + 0.5))
        total += float(values.sum())
        count, step = 2 * count, 0.5 * step
        current = step * total
        if abs(current - previous) <= agree * abs(current):
            return current / math.pi
        previous = current
    return None


def log_tail(form: QuadraticForm, x: float, poles: Sequence[float], between: tuple[float, float]) -> float:
    """ln I(x) of the module's statement, the path crossing the real axis `between` the two given points.

    The caller has made sure that Q is not constant and that x is inside its support.
    """
    strip = form.strip()
    low, high = max(between[0], strip[0]), min(between[1], strip[1])
    exponent = _Exponent(form, x, poles)
    c = _saddle(exponent, low, high)
    width = 1 / math.sqrt(exponent.slopes(c)[1])
    peak, expansion = exponent.value(c), exponent.expand(c)
    if peak + math.log(width) < _LOG_UNDERFLOW:
        return peak + math.log(width)  # no float holds the tail; its order of magnitude is enough
    for theta in _angles(form, x, exponent.skew(c, width)):
        # The foci of the hyperbola stay between the singularities next to the saddle.
        kappa = min(width, (c - low) / (1 + math.sin(theta)), (high - c) / (1 - math.sin(theta)))
        result = _trapezoid(expansion, kappa, theta)
        if result is not None and result > 0:
            return peak + math.log(result)
    raise ArithmeticError(f"the contour integral did not converge at x = {x!r}")


def _angles(form: QuadraticForm, x: float, skew: float) -> list[float]:
    """Slopes of the path's arms to try, widest first; a path that will not do mostly shows at its first nodes.

    Far out the integrand is e^{-s (x - vertex)} times a power of s (and a Gaussian, which decays along any
    of these paths), so the arms bend to the side where that decays. A large normal term may still make it
    climb on the way; the bend f'''/(6 f'') of the path of steepest descent, and at last the vertical, are
    then followed.
    """
    vertex = math.fsum(form.edge)
    widest = math.copysign(_WIDEST, x - vertex) if x != vertex else 0.0
    steepest = math.copysign(min(_WIDEST, math.atan(abs(skew) / 3)), skew)
    return [widest, widest / 2, widest / 4, steepest, widest / 8, 0.0]
