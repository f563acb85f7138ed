"""The exact indistinguishability spectrum of two normal distributions.

Statement (NDIS, Theorem 1). For N1 = N(mu1, S1) and N2 = N(mu2, S2),

    delta_{N1,N2}(eps) = max_S (P[N1 in S] - e^eps P[N2 in S]) = E[max(0, 1 - exp(Z'AZ/2 + b'Z + c))],

where U A U' = I - S1^{1/2} S2^{-1} S1^{1/2} (the theorem prints the first exponent as -1/2; its proof has
+1/2), b = -U' S1^{1/2} S2^{-1} (mu1 - mu2), c = eps + ln sqrt(det S1/det S2) - (mu1 - mu2)' S2^{-1} (mu1 -
mu2)/2. The pair is (eps, delta)-close when both directions are at most delta; eps = 0 is the total variation
distance. Assumptions. Both covariances positive definite, and well enough conditioned for the answer to mean
something. Proved; the expectation is evaluated numerically, as one contour integral (below) with full
relative accuracy.
Misprints of the paper: docs/theory/errata.md#ndis.

Statement (the privacy loss of the pair, and its hockey-stick divergence). After a change of coordinates a pair of normals
is a product of coordinates in which N1 is standard and N2 is a normal of another mean and variance. With ratio rho_j =
(variance under N1)/(variance under N2), deficit a_j = 1 - rho_j and shift y_j = (difference of means)/(standard deviation
under N2), the loss ln dN1/dN2 under N1 is

    L = sum_j [ -ln(rho_j)/2 + y_j^2/2 - a_j Z_j^2/2 + sqrt(rho_j) y_j Z_j ],   Z standard normal

(NDIS, Theorem 1, with A = diag(a), b_j = -sqrt(rho_j) y_j and c = eps - the constant), and

    delta(eps) = E[(1 - e^{eps - L})_+].

Proposition 16 of the paper writes this as P[W1 <= t] - e^eps P[W2 <= t], with noncentralities b^2/a^2 that
grow without bound as a_j -> 0 and a difference that loses every digit in the tail. Here it is one contour
integral with the kernel 1/(s (s + 1)), the Laplace transform of (1 - e^{-y})_+: nothing is subtracted and
a_j = 0 is no special case.

Assumptions. Independent coordinates; rho_j > 0.
Numerical, with a relative error about 1e-14 times the condition of the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import brentq

from trimask_core.basics.errors import ParameterError
from trimask_theory.checks import non_negative, probability
from trimask_theory.gaussian.contour import QuadraticForm, log_tail
from trimask_theory.gaussian.grid_gaussian import NormalSource

# Above this many standard deviations below the mean, 1 - delta is the smaller side and is integrated instead.
_FAR_BELOW = 2.0
# Far below what the subtraction behind a deficit leaves, and far above where y^2/a would overflow.
_NO_DEFICIT = 1e-30
_LOG_UNDERFLOW = -750.0


def privacy_loss(deficit: ArrayLike, ratio: ArrayLike, shift2: ArrayLike, dof: ArrayLike) -> QuadraticForm:
    """L as a quadratic form; `deficit` is 1 - `ratio`, given apart because it is known to more digits.

    `shift2` is y_j^2 summed over the `dof_j` coordinates that share the ratio.
    """
    given = (np.asarray(values, dtype=np.float64) for values in (deficit, ratio, shift2, dof))
    a, rho, y2, k = np.broadcast_arrays(*given)
    a = np.where(np.abs(a) < _NO_DEFICIT, 0.0, a)
    used = (k > 0) & ((a != 0) | (y2 != 0))
    a, rho, y2, k = a[used], rho[used], y2[used], k[used]
    log_rho = np.where(np.abs(a) < 0.5, np.log1p(-np.minimum(a, 0.5)), np.log(rho))
    half: NDArray[np.float64] = -0.5 * k * log_rho
    vertex = half + 0.5 * y2 / np.where(a == 0, 1.0, a)
    return QuadraticForm(
        alpha=-a,
        dof=k,
        beta2=rho * y2,
        centre=half + 0.5 * y2,
        edge=np.where(a == 0, half + 0.5 * y2, vertex),
    )


def hockey_stick(loss: QuadraticForm, epsilon: float) -> float:
    """delta(eps) = E[(1 - e^{eps - L})_+] for eps >= 0."""
    if loss.alpha.size == 0 or epsilon >= loss.support()[1]:
        return 0.0
    if loss.mean() - epsilon > _FAR_BELOW * math.sqrt(loss.variance()):
        # Between the poles the same integral is E[min(1, e^{eps - L})] = 1 - delta.
        return -math.expm1(log_tail(loss, epsilon, (0.0, -1.0), (-1.0, 0.0)))
    return min(1.0, math.exp(log_tail(loss, epsilon, (0.0, -1.0), (0.0, math.inf))))


def largest_leverage(delta_at: Callable[[float], float], target: float, end: float) -> float:
    """The largest leverage below `end` with delta_at(leverage) <= target, rounded down, as delta_at increases."""

    def excess(log_leverage: float) -> float:
        found = delta_at(math.exp(log_leverage))
        return (math.log(found) if found > 0 else _LOG_UNDERFLOW) - math.log(target)

    high = math.log(end) + math.log1p(-1e-9)
    if excess(high) <= 0:
        return math.exp(high)
    low = high - 8
    while excess(low) > 0:
        low -= 8
    leverage = math.exp(float(brentq(excess, low, high, xtol=1e-13, rtol=1e-13)))
    step = 1e-13
    while delta_at(leverage) * (1 + 1e-12) > target:
        leverage *= 1 - step
        step *= 2  # a delta near 1 hardly moves
    return leverage


Array = NDArray[np.float64]

# Beyond this condition number (in units where both diagonals are near 1) under six digits of delta are left.
_WORST_CONDITION = 1e10


@dataclass(frozen=True, slots=True)
class Spectrum:
    """delta at each epsilon: `forward` is delta_{N1,N2}, `backward` is delta_{N2,N1}."""

    epsilons: tuple[float, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]

    @property
    def worst(self) -> tuple[float, ...]:
        """The larger direction: the pair is (epsilon, worst)-close."""
        return tuple(map(max, self.forward, self.backward))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A Monte Carlo delta; with probability at least 1 - gamma the true one is in [low, high]."""

    delta: float
    low: float
    high: float
    gamma: float
    samples: int


def delta(mean1: ArrayLike, cov1: ArrayLike, mean2: ArrayLike, cov2: ArrayLike, epsilon: float) -> float:
    """delta_{N1,N2}(epsilon), one direction. In one dimension numbers will do, cov being the variance."""
    epsilon = non_negative("epsilon", epsilon)
    pair = _checked(mean1, cov1, mean2, cov2)
    return hockey_stick(privacy_loss(*_reduce(*pair), 1), epsilon)


def spectrum(
    mean1: ArrayLike, cov1: ArrayLike, mean2: ArrayLike, cov2: ArrayLike, epsilons: Sequence[float] | Array
) -> Spectrum:
    """Both directions at every epsilon."""
    points = tuple(
        non_negative("epsilons", value) for value in np.atleast_1d(np.asarray(epsilons, dtype=float))
    )
    difference, first, second = _checked(mean1, cov1, mean2, cov2)
    there = privacy_loss(*_reduce(difference, first, second), 1)
    back = privacy_loss(*_reduce(difference, second, first), 1)
    return Spectrum(
        epsilons=points,
        forward=tuple(hockey_stick(there, point) for point in points),
        backward=tuple(hockey_stick(back, point) for point in points),
    )


def estimate(
    mean1: ArrayLike,
    cov1: ArrayLike,
    mean2: ArrayLike,
    cov2: ArrayLike,
    epsilon: float,
    alpha: float,
    gamma: float,
    normals: NormalSource | None = None,
) -> Estimate:
    """delta_{N1,N2}(epsilon) within alpha, with probability at least 1 - gamma, by Monte Carlo.

    NDIS, Corollary 1: the mean of m = ln(2/gamma)/(2 alpha^2) draws of a variable in [0, 1), by Hoeffding.
    """
    epsilon = non_negative("epsilon", epsilon)
    alpha, gamma = probability("alpha", alpha), probability("gamma", gamma)
    a, rho, y2 = _reduce(*_checked(mean1, cov1, mean2, cov2))
    source: NormalSource = np.random.default_rng() if normals is None else normals
    b = np.sqrt(rho * y2)
    c = epsilon + 0.5 * math.fsum(np.log(rho)) - 0.5 * math.fsum(y2)
    samples = math.ceil(math.log(2 / gamma) / (2 * alpha**2))
    total, left = 0.0, samples
    while left:
        rows = min(left, max(1, 1_000_000 // a.size))
        z = source.standard_normal((rows, a.size))
        exponent = (z * z) @ (0.5 * a) + z @ b + c
        total += float(-np.expm1(np.minimum(exponent, 0.0)).sum())
        left -= rows
    mean = total / samples
    return Estimate(mean, max(0.0, mean - alpha), min(1.0, mean + alpha), gamma, samples)


def _reduce(difference: Array, cov1: Array, cov2: Array) -> tuple[Array, Array, Array]:
    """Deficits a, ratios rho = 1 - a and squared shifts y^2 of the pair in its own coordinates (second statement above).

    With S2 = L L', the eigenvectors V of L^{-1} (S2 - S1) L^{-T} = V a V' diagonalise the pair. Taking the
    difference first keeps the digits of a where the covariances are close, and makes a = 0 exact where equal.
    """
    lower = np.linalg.cholesky(cov2)
    half = solve_triangular(lower, cov2 - cov1, lower=True)
    core = solve_triangular(lower, half.T, lower=True)
    a, vectors = np.linalg.eigh(0.5 * (core + core.T))
    # What rounding leaves of a 0 would give a bounded loss a support without end.
    a[np.abs(a) < 4 * a.size * np.finfo(np.float64).eps * np.abs(a).max()] = 0.0
    # A sum of squares, so that a small ratio keeps its digits where 1 - a has lost them.
    back = solve_triangular(lower, vectors, lower=True, trans="T")
    rayleigh = ((np.linalg.cholesky(cov1).T @ back) ** 2).sum(axis=0)
    rho = np.where(np.abs(a) < 0.5, 1 - a, rayleigh)
    y = back.T @ difference
    return a, rho, y * y


def _checked(
    mean1: ArrayLike, cov1: ArrayLike, mean2: ArrayLike, cov2: ArrayLike
) -> tuple[Array, Array, Array]:
    """mu1 - mu2, S1 and S2, in units in which the two diagonals are about reciprocal.

    The units are powers of two, so that S1 - S2 keeps every digit.
    """
    first, second = _mean("mean1", mean1), _mean("mean2", mean2)
    if first.size != second.size:
        raise ParameterError("mean2", f"as long as mean1, which has {first.size} numbers", second.size)
    left, right = _covariance("cov1", cov1, first.size), _covariance("cov2", cov2, first.size)
    unit = np.exp2(np.round(-0.25 * (np.log2(left.diagonal()) + np.log2(right.diagonal()))))
    square = np.outer(unit, unit)
    _refuse_ill_conditioned("cov1", left)
    _refuse_ill_conditioned("cov2", right)
    return (first - second) * unit, left * square, right * square


def _mean(name: str, value: ArrayLike) -> Array:
    mean = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if mean.ndim != 1 or not mean.size or not np.isfinite(mean).all():
        raise ParameterError(name, "a number or a vector of finite numbers", value)
    return mean


def _covariance(name: str, value: ArrayLike, size: int) -> Array:
    cov = np.atleast_2d(np.asarray(value, dtype=np.float64))
    if cov.shape != (size, size):
        raise ParameterError(name, f"a {size} x {size} matrix, as the means have {size} numbers", cov.shape)
    if not np.isfinite(cov).all():
        raise ParameterError(name, "a matrix of finite numbers")
    if (np.abs(cov - cov.T) > 1e-12 * np.abs(cov).max()).any():
        raise ParameterError(name, "symmetric")
    if (cov.diagonal() <= 0).any():
        raise ParameterError(name, "positive definite: a variance on its diagonal is not above 0")
    return 0.5 * (cov + cov.T)


def _refuse_ill_conditioned(name: str, cov: Array) -> None:
    unit = cov.diagonal() ** -0.5
    eigenvalues = np.linalg.eigvalsh(cov * np.outer(unit, unit))
    least, most = float(eigenvalues[0]), float(eigenvalues[-1])
    rounding = cov.shape[0] * np.finfo(np.float64).eps * most
    if least < -rounding:
        raise ParameterError(name, f"positive definite: its correlation has the eigenvalue {least:.3g}")
    if least <= rounding:
        rank = int((eigenvalues > rounding).sum())
        raise ParameterError(
            name,
            f"positive definite: it has rank {rank} of {cov.shape[0]}, so there is no density, "
            "and distributions on different supports have delta = 1 at every epsilon",
        )
    if most > _WORST_CONDITION * least:
        raise ParameterError(
            name,
            f"well conditioned: its correlation has condition number {most / least:.3g}, and above "
            f"{_WORST_CONDITION:.0e} rounding would decide delta",
        )
