"""Noise on the data itself, with no mask: Y = X + C, setting (A) of the masked-noise paper.

Statement. C has i.i.d. N(0, sigma^2) entries. With s = sigma/Delta, Delta the L2 sensitivity, the exact
curve is
    delta(epsilon) = Phi(1/(2s) - epsilon s) - e^epsilon Phi(-1/(2s) - epsilon s)
(Balle and Wang 2018; Theorem 2 of the vector-sum paper), for every epsilon > 0. Method "analytic" inverts
it. Theorem 3.2 of the masked-noise paper (delta < 1/2, epsilon < 1), with z the upper delta-quantile of
N(0, 1): sigma >= (z/epsilon)(1 + 1/(2 z^2)) suffices, sigma >= z/epsilon is necessary for its condition
(5). Corollary 3.3 (delta < 0.05, epsilon < 1): 1.7 sqrt(ln 1/delta)/epsilon suffices, and sqrt(ln 1/delta)/epsilon is
necessary for (5). The latter rests on sqrt(ln 1/delta) < z, which holds below delta = 0.0314 alone; `method="explicit"`
is refused above (docs/theory/errata.md#masked-noise). "classic" is sqrt(2 ln(1.25/delta))/epsilon, epsilon < 1
(Dwork and Roth 2014, Theorem 3.22; Theorem 1 of the vector-sum paper): `delta` of it is Corollary 5 of NDIS, far below
what it claims.
Assumptions: neighbours at L2 distance at most Delta; continuous Gaussian noise. Basis: proved.
Derivation: docs/theory/calibration.md#local-noise.

Laplace noise, which the masked-noise paper names beside the Gaussian: (epsilon, 0)-DP in the L1 norm.

Statement. X + C with C i.i.d. Laplace of scale b is (Delta_1/b, 0)-DP for neighbours at L1 distance at most Delta_1 (Dwork,
McSherry, Nissim, Smith 2006), and no better: one coordinate that moves by Delta_1 attains it. For one coordinate
delta(epsilon) = 1 - exp((epsilon - Delta_1/b)/2) for epsilon < Delta_1/b and 0 from there on, exactly.
For rows of L2 norm at most R in p attributes Delta_1 is 2 R sqrt(p), so the deviation sqrt(2) b grows as sqrt(p), where
Gaussian noise does not depend on p: that is why the paper takes the latter. A mask does not help: Laplace noise in more
than one row is not the same after a turn, and the masked guarantee needs that.
"""

from __future__ import annotations

import math
from typing import Literal

from scipy.optimize import brentq
from scipy.special import ndtri

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory import checks
from trimask_theory.checks import Calibration
from trimask_theory.gaussian import gdp

Method = Literal["analytic", "sufficient", "necessary", "corollary", "explicit", "classic"]

_MARGIN = 1e-12
"""An analytic sigma is raised by this part of itself, more than the rounding errors of the curve move it."""

_CITATION = {
    "analytic": "Balle and Wang 2018, Theorem 8",
    "sufficient": "Ding, Wu, Miao, Chen, Theorem 3.2, (12)",
    "necessary": "Ding, Wu, Miao, Chen, Theorem 3.2, (11)",
    "corollary": "Ding, Wu, Miao, Chen, Corollary 3.3",
    "explicit": "Ding, Wu, Miao, Chen, Corollary 3.3, the necessary half",
    "classic": "Dwork and Roth 2014, Theorem 3.22; Poulsen 2023, Theorem 1",
}

EXPLICIT_LIMIT = 0.0314
"""sqrt(ln 1/delta) is below the normal's upper delta-quantile for delta up to this, and above it from 0.0315 to 0.05."""

_LIMIT = {"sufficient": 0.5, "necessary": 0.5, "corollary": 0.05, "explicit": EXPLICIT_LIMIT, "classic": 1.0}


def log_delta(epsilon: float, s: float) -> float:
    """log of the exact curve at s = sigma/Delta > 0: 1/s-Gaussian differential privacy."""
    return gdp.log_delta(epsilon, 1 / s)


def analytic_scale(epsilon: float, goal: float) -> float:
    """The smallest s = sigma/Delta with log delta(epsilon) <= goal < 0, to rounding error."""

    def excess(log_s: float) -> float:
        return max(log_delta(epsilon, math.exp(log_s)), -1e6) - goal

    # A normal tail of size delta lies at about sqrt(-2 log delta) + epsilon/mu = 1/(2 s) + epsilon s.
    tail = math.sqrt(-2 * goal) + 1.0
    # No s above 1/delta is needed for any epsilon.
    start = math.log(math.hypot(tail, math.sqrt(2 * epsilon)) + tail) - math.log(2 * epsilon)
    low = high = min(start, -goal)
    while excess(low) <= 0:
        low -= 0.25
    while excess(high) > 0:
        high += 0.25
    return math.exp(float(brentq(excess, low, high, xtol=1e-15, rtol=1e-14)))


def delta(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """The exact delta at epsilon of Gaussian noise `sigma` at the given L2 sensitivity; 1 at sigma = 0."""
    epsilon = checks.positive("epsilon", epsilon)
    sigma = checks.non_negative("sigma", sigma)
    sensitivity = checks.positive("sensitivity", sensitivity)
    s = sigma / sensitivity
    if s == 0.0 or not math.isfinite(1.0 / s):
        return 1.0
    return min(1.0, math.exp(log_delta(epsilon, s)))


def calibrate(
    epsilon: float, delta: float, sensitivity: float = 1.0, method: Method = "analytic"
) -> Calibration:
    """The noise for (epsilon, delta). "necessary" and "explicit" are lower bounds: they state the delta they really give."""
    epsilon = checks.positive("epsilon", epsilon)
    delta = checks.probability("delta", delta)
    sensitivity = checks.positive("sensitivity", sensitivity)
    checks.one_of("method", method, _CITATION)
    if method != "analytic":
        limit = _LIMIT[method]
        if epsilon >= 1:
            raise ParameterError("epsilon", f"in (0, 1) for method {method!r}", epsilon)
        if delta >= limit:
            raise ParameterError("delta", f"in (0, {limit}) for method {method!r}", delta)
    if method == "analytic":
        scale = analytic_scale(epsilon, math.log(delta)) * (1 + _MARGIN)
        because = "exact curve of the Gaussian mechanism, for every epsilon"
    elif method == "corollary":
        scale = 1.7 * math.sqrt(math.log(1 / delta)) / epsilon
        because = "explicit sufficient bound for epsilon < 1 and delta < 0.05"
    elif method == "classic":
        scale = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        because = "explicit sufficient bound for epsilon < 1"
    else:
        z = -float(ndtri(delta))
        scale = math.sqrt(math.log(1 / delta)) / epsilon if method == "explicit" else z / epsilon
        because = "sufficient for epsilon < 1 and delta < 1/2"
        if method == "sufficient":
            scale *= 1 + 0.5 / (z * z)
        else:
            delta = math.exp(log_delta(epsilon, scale))
            kind = "no more than the" if method == "explicit" else "the"
            because = (
                f"{kind} least noise for which P[loss > epsilon] <= the delta asked for; "
                "the delta stated is what it gives by the exact curve"
            )
    sigma = math.nextafter(scale * sensitivity, math.inf)
    guarantee = Guarantee(
        neighbours=Neighbours("unit", distance=sensitivity),
        basis="proved",
        because=because,
        citation=_CITATION[method],
        epsilon=epsilon,
        delta=delta,
        mu=sensitivity / sigma,
    )
    return Calibration(sigma, guarantee, method)


def laplace_calibrate(epsilon: float, sensitivity: float = 1.0) -> Calibration:
    """The noise of (epsilon, 0)-DP at an L1 sensitivity; `sigma` is its standard deviation, sqrt(2) times its scale."""
    epsilon = checks.positive("epsilon", epsilon)
    sensitivity = checks.positive("sensitivity", sensitivity)
    sigma = math.sqrt(2) * sensitivity / epsilon * (1 + 1e-15)
    guarantee = Guarantee(
        neighbours=Neighbours("unit", distance=sensitivity),
        basis="proved",
        because="the log density of Laplace noise has slope 1/scale in every coordinate; distances are in the L1 norm",
        citation="Dwork, McSherry, Nissim, Smith 2006",
        epsilon=epsilon,
        delta=0.0,
    )
    return Calibration(sigma, guarantee, "laplace")


def laplace_delta(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """The exact delta at epsilon of Laplace noise of deviation `sigma` on one number that moves by `sensitivity`."""
    epsilon, sigma = checks.non_negative("epsilon", epsilon), checks.positive("sigma", sigma)
    loss = checks.positive("sensitivity", sensitivity) * math.sqrt(2) / sigma
    return -math.expm1((epsilon - loss) / 2) if epsilon < loss else 0.0
