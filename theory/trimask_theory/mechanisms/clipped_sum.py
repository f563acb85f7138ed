"""How much of a row to clip, along which scaling and around which centre: what the vector-sum paper leaves open.

Statements, for rows N(centre, diag(sigma^2)), z = (x - centre) b and w_j = (b_j sigma_j)^2, Q = sum w_j chi^2_1:
- Constraint (25): P[|z| > 1/2] <= p_C, noise s_opt in each scaled coordinate. The error s_opt^2 sum b_j^{-2} does not
  change when (2 C s_opt)^2 sum b_j^{-2} is written for any multiple of b, so (25)'s best b is the direction that minimises
  C(b)^2 sum b_j^{-2}; Lemma 4.1's b minimises E|z|^2 sum b_j^{-2} instead. At the minimum w_j is proportional to
  sigma_j / sqrt(E[chi^2_j | Q = C^2]). A stationary point is found; that it is the least is not proved. Numerical.
- Clipping error: clipping is odd about the centre, so it has mean 0, and the squared error of the sum is
  n sum_j b_j^{-2} E[(1 - C/|z|)_+^2 z_j^2], exact. The total is this plus (2 C s_opt)^2 sum b_j^{-2}; the best
  p_C minimises it. It may be large: about its own centre a clipped row has no bias, about another it has.
- A private centre: with mu that of (epsilon, delta), a share of mu^2 buys the mean of rows clamped to public ranges
  (Algorithm 2), the rest Algorithm 3 about it. Gaussian mechanisms compose to mu (Dong, Roth, Su 2022): proved.
Behind both: d/dw_j P[Q > x] is the density of Q + w_j chi^2_2 at x, and E[g(Q) chi^2_j] = E g(Q + w_j chi^2_2).
Assumptions: the errors are of normal rows with these deviations about the true centre; privacy holds for any rows.
Derivation: docs/theory/mechanisms.md#sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize, minimize_scalar

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory.checks import matrix, positive_vector, probability, whole
from trimask_theory.gaussian import gdp, grid_gaussian, local_noise, weighted_chi2
from trimask_theory.gaussian.grid_gaussian import NormalSource
from trimask_theory.mechanisms import vector_sum
from trimask_theory.mechanisms.vector_sum import SumRelease

Array = NDArray[np.float64]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def ball_scaling(deviations: ArrayLike, clip_probability: float) -> Array:
    """Constraint (25): the b of least noise for which a share `clip_probability` of rows leaves the ball of radius 1/2.

    For up to about a hundred coordinates; `vector_sum.clipped` takes it as `scaling`.
    """
    sigma = positive_vector("deviations", deviations)
    share = probability("clip_probability", clip_probability)

    def error(log_w: Array) -> tuple[float, Array]:
        w = np.exp(log_w - log_w.mean())
        square = weighted_chi2.isf(share, w)
        inverse = sigma**2 / w
        # The gradient of the quantile is E[chi^2_j | Q = C^2] in w_j, by the ratio of two densities.
        density = np.array([_raised_density(square, w, j) for j in range(w.size)])
        part = w * density
        return math.log(square * inverse.sum()), part / part.sum() - inverse / inverse.sum()

    found = minimize(error, np.log(sigma), jac=True, method="BFGS", options={"gtol": 1e-7})
    w = np.exp(found.x - found.x.mean())
    return np.asarray(np.sqrt(w) / sigma / (2 * math.sqrt(weighted_chi2.isf(share, w))), dtype=np.float64)


def clipping_error(
    deviations: ArrayLike, rows: int, clip_probability: float, scaling: ArrayLike | None = None
) -> float:
    """E |sum of (clipped row - row)|^2 of normal rows about their own centre."""
    sigma, n = positive_vector("deviations", deviations), whole("rows", rows, 1)
    b = vector_sum.clipped_scaling(sigma) if scaling is None else np.asarray(scaling, dtype=np.float64)
    radius = vector_sum.clipping_radius(sigma, clip_probability, b)
    w = (b * sigma) ** 2
    total, known = 0.0, dict[float, float]()
    for j in range(w.size):
        weight = float(w[j])
        if weight not in known:
            tail = partial(_raised_tail, w, weight)
            known[weight] = _beyond(radius, tail, float(w.max()))
        total += sigma[j] ** 2 * known[weight]
    return n * total


def total_error(
    deviations: ArrayLike, rows: int, clip_probability: float, epsilon: float, delta: float
) -> float:
    """The expected squared error of Algorithm 3, noise and clipping, for normal rows about their own centre."""
    noise = vector_sum.clipped_error(deviations, clip_probability, epsilon, delta)
    return noise + clipping_error(deviations, rows, clip_probability)


def best_clip_probability(deviations: ArrayLike, rows: int, epsilon: float, delta: float) -> float:
    """The p_C with the least `total_error`, between 1e-12 and 0.9; the paper takes 1/rows."""
    sigma, n = positive_vector("deviations", deviations), whole("rows", rows, 1)
    found = minimize_scalar(
        lambda log_p: math.log(total_error(sigma, n, math.exp(log_p), epsilon, delta)),
        bounds=(math.log(1e-12), math.log(0.9)),
        method="bounded",
        options={"xatol": 1e-2},
    )
    return math.exp(float(found.x))


def with_private_centre(
    rows: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    deviations: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    source: NormalSource,
    share: float = 0.1,
    clip_probability: float | None = None,
) -> SumRelease:
    """Algorithm 3 about a centre found with `share` of the budget: the noisy mean of rows clamped to [lower, upper]."""
    x = matrix("rows", rows)
    low, high = (np.broadcast_to(np.asarray(v, dtype=np.float64), x.shape[1:]) for v in (lower, upper))
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (high > low).all()):
        raise ParameterError("upper", "finite and above lower in every coordinate")
    part = probability("share", share)
    mu = 1 / local_noise.calibrate(epsilon, delta).sigma
    spans, n = high - low, len(x)
    first = math.sqrt(part) * mu
    sd = spans / vector_sum.bounded_scaling(spans) / first
    noise = grid_gaussian.calibrate(sd, first)
    centre = np.clip(noise.release(np.clip(x, low, high).sum(axis=0), source) / n, low, high)
    rest = math.sqrt(1 - part) * mu
    # (epsilon, delta') is the same mechanism's guarantee at the budget that is left: only its mu counts.
    second = vector_sum.clipped(
        x,
        centre,
        deviations,
        epsilon=epsilon,
        delta=gdp.delta(epsilon, rest),
        source=source,
        clip_probability=clip_probability,
    )
    guarantee = Guarantee(
        neighbours=Neighbours("record"),
        basis="proved",
        because=f"two Gaussian mechanisms, {part:.3g} of mu squared for the centre; the deviations are taken as public",
        citation="Poulsen 2023, Algorithms 2 and 3; Dong, Roth, Su 2022, Corollary 3.3",
        epsilon=float(epsilon),
        delta=float(delta),
    )
    return SumRelease(second.value, second.noise, guarantee)


def _raised_density(x: float, w: Array, j: int) -> float:
    """f of Q + w_j chi^2_2 at x: an exponential of mean 2 w_j, so (P[Q + w_j chi^2_2 > x] - P[Q > x]) / (2 w_j)."""
    return (_raised_tail(w, float(w[j]), x) - weighted_chi2.sf(x, w)) / (2 * float(w[j]))


def _raised_tail(w: Array, weight: float, x: float) -> float:
    """P[Q + weight chi^2_2 > x]."""
    return weighted_chi2.sf(x, np.append(w, weight), np.append(np.ones(w.size), 2.0))


def _beyond(radius: float, tail: Callable[[float], float], largest: float) -> float:
    """E (1 - C/sqrt(q))_+^2, by parts: the integral of (1 - C/sqrt(q)) C q^{-3/2} P[q' > q] beyond C^2.

    In s = sqrt(q) - C it is 2 C s/(s + C)^3 P[..]; it ends where the largest weight's tail has fallen by e^-40.
    """
    end = math.sqrt(radius**2 + 80 * largest) - radius
    s = end / 2 * (_NODES + 1)
    values = [2 * radius * t / (t + radius) ** 3 * tail((t + radius) ** 2) for t in s]
    return end / 2 * float(_WEIGHTS @ np.array(values))
