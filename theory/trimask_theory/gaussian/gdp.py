"""Gaussian differential privacy: trade-off curves, conversion to and from (epsilon, delta), composition.

Statement. A mechanism is mu-GDP when telling two neighbouring data sets apart from its output is at least as
hard as telling N(0, 1) from N(mu, 1): a test that errs with probability alpha on the first errs with at least
T(alpha) = Phi(Phi^{-1}(1 - alpha) - mu) on the second (Dong, Roth, Su 2022, Definition 2.6). It is then
(epsilon, delta(epsilon))-DP for every epsilon >= 0 at once, and only for those (Corollary 2.13), with
delta(epsilon) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2).

Assumptions. None on the data. Proved; the numbers are double precision, relative error below 1e-12 wherever
delta is representable, and `log_delta` goes on below that. `epsilon` and `mu` are rounded to the safe side of what
`log_delta` computes, so that the exact delta is at most the one asked for times 1 + 1e-12.
Derivation: docs/theory/gaussian-pairs.md#equal-covariance.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr, ndtri

from trimask_core.basics.errors import ParameterError
from trimask_theory.checks import non_negative, probability

__all__ = ["compose", "delta", "dp_trade_off", "epsilon", "log_delta", "mu", "trade_off"]

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_ULP = 2.0**-52


def trade_off(alpha: ArrayLike, mu: float) -> NDArray[np.float64]:
    """T(alpha), the smallest type II error of a level-alpha test against a mu-GDP mechanism."""
    # Phi^{-1}(1 - a) = -Phi^{-1}(a); the right side keeps its digits for small a.
    return np.asarray(ndtr(-ndtri(_levels(alpha)) - non_negative("mu", mu)), dtype=np.float64)


def dp_trade_off(alpha: ArrayLike, epsilon: float, delta: float = 0.0) -> NDArray[np.float64]:
    """The trade-off curve of (epsilon, delta)-DP: two lines and the axis (Wasserman and Zhou 2010)."""
    epsilon = non_negative("epsilon", epsilon)
    if not 0 <= delta <= 1:
        raise ParameterError("delta", "a number in [0, 1]", delta)
    levels = _levels(alpha)
    # e^epsilon overflows beyond 709, where the steep line has left the unit square anyway.
    steep = 1 - delta - math.exp(min(epsilon, 700.0)) * levels
    return np.maximum(np.maximum(steep, math.exp(-epsilon) * (1 - delta - levels)), 0.0)


def log_delta(epsilon: float, mu: float) -> float:
    """The logarithm of `delta`, usable where delta itself underflows."""
    epsilon, mu = non_negative("epsilon", epsilon), non_negative("mu", mu)
    return _log_delta(epsilon, mu) if mu > 0 else -math.inf


def delta(epsilon: float, mu: float) -> float:
    """The smallest delta at which every mu-GDP mechanism is (epsilon, delta)-DP."""
    return math.exp(log_delta(epsilon, mu))


def epsilon(delta: float, mu: float) -> float:
    """The smallest epsilon at which every mu-GDP mechanism is (epsilon, delta)-DP, rounded up."""
    target, mu = math.log(probability("delta", delta)), non_negative("mu", mu)
    if mu == 0 or _log_delta(0.0, mu) <= target:
        return 0.0
    # delta(e) <= Phi(mu/2 - e/mu) <= exp(-(e/mu - mu/2)^2 / 2), so this much is enough.
    enough = mu * (mu / 2 + math.sqrt(-2 * target))
    return _root(lambda e: _log_delta(e, mu) - target, 0.0, enough, towards=1)


def mu(epsilon: float, delta: float) -> float:
    """The largest mu at which every mu-GDP mechanism is (epsilon, delta)-DP, rounded down."""
    epsilon, target = non_negative("epsilon", epsilon), math.log(probability("delta", delta))
    low = high = 1.0
    while _log_delta(epsilon, low) > target:
        low /= 2
    while _log_delta(epsilon, high) <= target:
        high *= 2
    return _root(lambda m: _log_delta(epsilon, m) - target, low, high, towards=-1)


def compose(*mus: float) -> float:
    """mu of running mechanisms one after another on the same data (Dong, Roth, Su, Corollary 3.3)."""
    return math.hypot(*(non_negative("mu", each) for each in mus))


def _levels(alpha: ArrayLike) -> NDArray[np.float64]:
    levels = np.asarray(alpha, dtype=np.float64)
    if not np.all((levels >= 0) & (levels <= 1)):
        raise ParameterError("alpha", "numbers in [0, 1]")
    return levels


def _log_delta(epsilon: float, mu: float) -> float:
    # With a = mu/2 - epsilon/mu and b = a - mu, phi(a) = e^epsilon phi(b): delta = phi(a) (R(a) - R(b)) for
    # the Mills ratio R(x) = Phi(x)/phi(x) = int_0^oo exp(x s - s^2/2) ds; e^epsilon never has to be formed.
    shift = epsilon / mu
    a, b = mu / 2 - shift, -mu / 2 - shift
    log_density = -0.5 * a * a - _HALF_LOG_2PI
    if log_density == -math.inf:
        return -math.inf
    root = math.sqrt(a * a + 4)
    peak = 2 / (root - a) if a < 0 else (root + a) / 2
    if mu * peak < 0.3:
        # R(a) - R(b) would cancel; its integral int_0^oo exp(a s - s^2/2)(1 - exp(-mu s)) ds has one sign.
        # The interval ends where the integrand has fallen by e^-60.
        end = math.sqrt(a * a + 120)
        end = 120 / (end - a) if a < 0 else end + a
        s = end / 2 * (_NODES + 1)
        integral = end / 2 * float(_WEIGHTS @ (np.exp(a * s - s * s / 2) * -np.expm1(-mu * s)))
        return log_density + math.log(integral)
    if a <= 0:
        return log_density + math.log(_mills(a) - _mills(b))
    return math.log1p(-math.exp(log_density) * (_mills(-a) + _mills(b)))


def _mills(x: float) -> float:
    return math.sqrt(math.pi / 2) * float(erfcx(-x / math.sqrt(2)))


def _root(excess: Callable[[float], float], low: float, high: float, towards: int) -> float:
    """The zero of a monotone function, moved a few units in the last place to where excess <= 0."""
    if excess(high if towards > 0 else low) == 0:
        return high if towards > 0 else low
    zero = float(brentq(excess, low, high, xtol=1e-300, rtol=4 * _ULP, maxiter=200))
    step = _ULP
    while excess(zero) > 0:
        zero *= 1 + towards * step
        step *= 2
    return zero
