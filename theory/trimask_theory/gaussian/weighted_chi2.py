"""The distribution of a weighted sum of chi-squares and a normal: sum_j w_j chi2'_{k_j}(lambda_j) + tau Z.

Statement. cdf(x) = P[Q <= x] and sf(x) = P[Q > x] by inversion of the moment generating function

    prod_j (1 - 2 w_j s)^{-k_j/2} exp(lambda_j w_j s / (1 - 2 w_j s)) * exp(tau^2 s^2 / 2)

along a contour through its saddle point (`contour`); weights may have any sign.
Assumptions. The terms are independent; k_j > 0, not necessarily whole; lambda_j >= 0.
Numerical, with a relative error below 1e-10 (seen: about 1e-14) down to probabilities of 1e-14 and far below,
since the smaller of the two tails is always the one integrated, never one minus the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr

from trimask_core.basics.errors import ParameterError
from trimask_theory.checks import non_negative
from trimask_theory.gaussian.contour import QuadraticForm, log_tail


def cdf(
    x: float,
    weights: ArrayLike,
    dofs: ArrayLike = 1,
    noncentralities: ArrayLike = 0,
    normal_scale: float = 0,
) -> float:
    """P[Q <= x] for Q = sum_j weights_j chi2'_{dofs_j}(noncentralities_j) + normal_scale Z."""
    form, scale = _form(weights, dofs, noncentralities, normal_scale)
    lower, upper = _log_tails(form, _abscissa("x", x) / scale)
    return math.exp(lower) if lower <= upper else -math.expm1(upper)


def sf(
    x: float,
    weights: ArrayLike,
    dofs: ArrayLike = 1,
    noncentralities: ArrayLike = 0,
    normal_scale: float = 0,
) -> float:
    """P[Q > x], the complement of `cdf`, with the same relative accuracy in its own tail."""
    form, scale = _form(weights, dofs, noncentralities, normal_scale)
    lower, upper = _log_tails(form, _abscissa("x", x) / scale)
    return math.exp(upper) if upper < lower else -math.expm1(lower)


def isf(
    probability: float,
    weights: ArrayLike,
    dofs: ArrayLike = 1,
    noncentralities: ArrayLike = 0,
    normal_scale: float = 0,
) -> float:
    """The x with sf(x) = probability; the ends of the support for 1 and 0."""
    if not 0 <= probability <= 1:  # also refuses nan
        raise ParameterError("probability", "a number in [0, 1]", probability)
    form, scale = _form(weights, dofs, noncentralities, normal_scale)
    low, high = form.support()
    if low == high:
        return low * scale
    if probability in (0, 1):
        return (high if probability == 0 else low) * scale
    if math.log(probability) <= _log_tails(form, form.mean())[1]:
        return scale * _solve(form, high, lambda x: _log_tails(form, x)[1] - math.log(probability), 1.0)
    return scale * _solve(form, low, lambda x: _log_tails(form, x)[0] - math.log1p(-probability), -1.0)


def _solve(form: QuadraticForm, end: float, excess: Callable[[float], float], sign: float) -> float:
    """The root of `excess` between the mean and one end of the support."""
    inner, step = form.mean(), math.sqrt(form.variance())
    while True:
        outer = inner + sign * step
        if sign * (outer - end) >= 0:
            outer = 0.5 * (inner + end)  # halving the way to the end never reaches it
        if outer == inner or excess(outer) <= 0:
            break
        inner, step = outer, 2 * step
    if outer == inner:
        return outer
    return float(brentq(excess, inner, outer, xtol=1e-300, rtol=8.9e-16))


def _log_tails(form: QuadraticForm, x: float) -> tuple[float, float]:
    """ln P[Q <= x] and ln P[Q > x]; the larger of the two from the smaller."""
    low, high = form.support()
    if low == high:  # a constant
        return (0.0, -math.inf) if x >= low else (-math.inf, 0.0)
    if x <= low or x >= high:
        return (-math.inf, 0.0) if x <= low else (0.0, -math.inf)
    if not form.alpha.any():
        z = x / math.sqrt(form.variance())
        return float(log_ndtr(z)), float(log_ndtr(-z))
    # The median is always near the mean, so neither tail is small on its wrong side.
    if x >= form.mean():
        upper = min(log_tail(form, x, (0.0,), (0.0, math.inf)), 0.0)
        return math.log1p(-math.exp(upper)), upper
    lower = min(log_tail(form, x, (0.0,), (-math.inf, 0.0)), 0.0)
    return lower, math.log1p(-math.exp(lower))


def _form(
    weights: ArrayLike, dofs: ArrayLike, noncentralities: ArrayLike, normal_scale: float
) -> tuple[QuadraticForm, float]:
    """Q divided by a scale, so that no square overflows, with equal weights joined."""
    weight = _vector("weights", weights, "finite numbers")
    dof = _like("dofs", dofs, weight.size, "finite numbers > 0")
    shift = _like("noncentralities", noncentralities, weight.size, "finite numbers >= 0")
    tau = non_negative("normal_scale", normal_scale)
    if (dof <= 0).any():
        raise ParameterError("dofs", "finite numbers > 0", float(dof.min()))
    if (shift < 0).any():
        raise ParameterError("noncentralities", "finite numbers >= 0", float(shift.min()))
    scale = max(float(np.abs(weight).max(initial=0.0)), tau) or 1.0
    distinct, which = np.unique(weight / scale, return_inverse=True)
    dof, shift = (np.bincount(which, values, distinct.size).astype(np.float64) for values in (dof, shift))
    kept = distinct != 0
    distinct, dof, shift = distinct[kept], dof[kept], shift[kept]
    normal = [tau / scale] if tau > 0 else []
    none = [0.0] * len(normal)
    form = QuadraticForm(
        alpha=np.append(2 * distinct, none),
        dof=np.append(dof, none),
        beta2=np.append(4 * distinct**2 * shift, np.square(normal)),
        centre=np.append(distinct * shift, none),
        edge=np.append(np.zeros_like(distinct), none),
    )
    return form, scale


def _abscissa(name: str, value: float) -> float:
    number = float(value)
    if math.isnan(number):
        raise ParameterError(name, "a number", value)
    return number


def _vector(name: str, values: ArrayLike, allowed: str) -> NDArray[np.float64]:
    try:
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise ParameterError(name, allowed, values) from None
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ParameterError(name, f"one number or a vector of {allowed}", values)
    return array


def _like(name: str, values: ArrayLike, size: int, allowed: str) -> NDArray[np.float64]:
    array = _vector(name, values, allowed)
    if array.size not in (1, size):
        raise ParameterError(name, f"one number or as many as the {size} weights", f"{array.size} numbers")
    return np.broadcast_to(array, (size,)).copy()
