"""Private sums of rows whose coordinates have unequal ranges or spreads (Poulsen 2023).

Statement. Let s_opt be the analytic Gaussian scale of (epsilon, delta) at sensitivity 1 (Theorem 2).
- Algorithm 1, coordinates of range Delta_j: sd s_opt |Delta|_2 everywhere; error d s_opt^2 |Delta|_2^2.
- Algorithm 2: sd s_opt Delta_j / b_j with b_j = sqrt(Delta_j / sum Delta), the best b of norm 1 (Theorem 3);
  error s_opt^2 |Delta|_1^2.
- Algorithm 3, coordinates of standard deviation sigma_j about a known centre: scale by
  b_j = 1/sqrt(sigma_j sum sigma) (Lemma 4.1), clip to a ball of radius C, add sd 2 C s_opt, scale back; noise
  error (2 C s_opt)^2 (sum sigma)^2. C^2 is the upper p_C quantile of sum (b_j sigma_j)^2 chi^2_1.

Assumptions. Neighbours replace one row, so the number of rows is public. Privacy is proved for every data
set: rows within the stated ranges (1, 2), any rows at all (3), a centre and deviations that are public. The
errors of Algorithm 3 count the noise alone, and p_C is the clipped share only when the rows are normal with
the deviations stated. Theorem 4's bound on C is proved (it also follows from Laurent and Massart 2000,
Lemma 1); C is numerical.

Two corrections to the printed text: Algorithm 3 adds the centre inside the sum and then divides by b; the
sum is n centre + b^{-1} (clipped sum + noise). Section 5 prints the unscaled error as (2 C s_opt)^2; noise
is added in d coordinates, so it is d (2 C s_opt)^2, with which equal deviations give a gain of exactly 1.
Derivation: docs/theory/mechanisms.md#sums and docs/theory/errata.md#vector-sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory.checks import matrix, positive_vector, probability, vector, whole
from trimask_theory.gaussian import grid_gaussian, local_noise, weighted_chi2
from trimask_theory.gaussian.grid_gaussian import NormalSource

__all__ = [
    "SumRelease",
    "bounded_scaling",
    "clipped",
    "clipped_error",
    "clipping_radius",
    "elliptical",
    "elliptical_error",
    "gaussian",
    "gaussian_error",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SumRelease:
    """A private sum, the standard deviation of its noise in each coordinate, and its guarantee.

    How many rows were clipped is not here on purpose: it depends on the data and no budget was spent on it.
    """

    value: Array = field(repr=False)
    noise: Array
    guarantee: Guarantee

    @property
    def expected_error(self) -> float:
        """E |noise|^2, the expected squared error but for clipping."""
        return float(np.sum(self.noise**2))


def bounded_scaling(ranges: ArrayLike) -> Array:
    """Theorem 3: b_j = sqrt(Delta_j / sum Delta), the unit vector with the smallest error for Algorithm 2."""
    spans = positive_vector("ranges", ranges)
    return np.asarray(np.sqrt(spans / spans.sum()), dtype=np.float64)


def clipped_scaling(deviations: ArrayLike) -> Array:
    """Lemma 4.1: b_j = 1/sqrt(sigma_j sum sigma); scaled rows then have E |x|^2 = 1."""
    sigma = positive_vector("deviations", deviations)
    return np.asarray(1 / np.sqrt(sigma * sigma.sum()), dtype=np.float64)


def clipping_radius(
    deviations: ArrayLike, clip_probability: float, scaling: ArrayLike | None = None
) -> float:
    """C with P[|x b| > C] = p_C for x ~ N(0, diag(sigma^2)); `scaling` defaults to Lemma 4.1's b."""
    sigma = positive_vector("deviations", deviations)
    b = clipped_scaling(sigma) if scaling is None else positive_vector("scaling", scaling, sigma.size)
    share = probability("clip_probability", clip_probability)
    return math.sqrt(weighted_chi2.isf(share, (b * sigma) ** 2))


def theorem_4_radius(deviations: ArrayLike, rows: int) -> float:
    """Theorem 4's closed bound on C at p_C = 1/rows; refused where its condition fails."""
    sigma, rows = positive_vector("deviations", deviations), whole("rows", rows, 2)
    most = float(np.sum(sigma**2) / (18 * sigma.max() ** 2))
    if math.log(rows) > most:
        raise ParameterError(
            "rows", f"such that ln(rows) <= sum sigma_j^2/(18 sigma_max^2) = {most:.4g}", rows
        )
    return math.sqrt(1 + math.sqrt(8 * math.log(rows) * float(np.sum(sigma**2))) / float(sigma.sum()))


def gaussian_error(ranges: ArrayLike, epsilon: float, delta: float) -> float:
    """Equation (5): d s_opt^2 |Delta|_2^2."""
    spans = positive_vector("ranges", ranges)
    return spans.size * float(np.sum(spans**2)) * _s_opt(epsilon, delta) ** 2


def elliptical_error(ranges: ArrayLike, epsilon: float, delta: float) -> float:
    """Equation (6): s_opt^2 |Delta|_1^2."""
    spans = positive_vector("ranges", ranges)
    return float(spans.sum()) ** 2 * _s_opt(epsilon, delta) ** 2


def clipped_error(
    deviations: ArrayLike,
    clip_probability: float,
    epsilon: float,
    delta: float,
    scaling: ArrayLike | None = None,
) -> float:
    """Equation (9): (2 C s_opt)^2 sum b_j^{-2}, which is (2 C s_opt)^2 (sum sigma)^2 at Lemma 4.1's b."""
    sigma = positive_vector("deviations", deviations)
    b = clipped_scaling(sigma) if scaling is None else positive_vector("scaling", scaling, sigma.size)
    radius = clipping_radius(sigma, clip_probability, b)
    return (2 * radius * _s_opt(epsilon, delta)) ** 2 * float(np.sum(b**-2.0))


def theorem_4_error(deviations: ArrayLike, rows: int, epsilon: float, delta: float) -> float:
    """Theorem 4: an upper bound on `clipped_error` at p_C = 1/rows."""
    sigma = positive_vector("deviations", deviations)
    radius = theorem_4_radius(sigma, rows)
    return (2 * radius * _s_opt(epsilon, delta) * float(sigma.sum())) ** 2


def bounded_gain(ranges: ArrayLike) -> float:
    """Error of Algorithm 1 over that of Algorithm 2: d |Delta|_2^2 / |Delta|_1^2, in [1, d)."""
    spans = positive_vector("ranges", ranges)
    return spans.size * float(np.sum(spans**2)) / float(spans.sum()) ** 2


def clipped_gain(deviations: ArrayLike, clip_probability: float) -> float:
    """Error of clipping without scaling over that of Algorithm 3: what Figure 2 plots.

    At most d, proved: sum sigma_j^2 chi^2 <= (sum sigma)(sum sigma_j chi^2). At least 1 in
    every case computed, and in theory for small p_C: sigma^2 weakly majorises mean(sigma) sigma, so that its
    weighted sum has the larger quantiles far enough out.
    """
    sigma = positive_vector("deviations", deviations)
    plain = clipping_radius(sigma, clip_probability, np.ones(sigma.size))
    scaled = clipping_radius(sigma, clip_probability)
    return sigma.size * (plain / (scaled * float(sigma.sum()))) ** 2


def gaussian(
    rows: ArrayLike, lower: ArrayLike, upper: ArrayLike, *, epsilon: float, delta: float, source: NormalSource
) -> SumRelease:
    """Algorithm 1: one noise for every coordinate. Rows outside [lower, upper] are refused, not clipped."""
    x, spans = _bounded(rows, lower, upper)
    sd = np.full(spans.size, _s_opt(epsilon, delta) * float(np.linalg.norm(spans)))
    return _release(x.sum(axis=0), sd, source, epsilon, delta, "rows lie in public ranges", "Theorem 2")


def elliptical(
    rows: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    source: NormalSource,
    scaling: ArrayLike | None = None,
) -> SumRelease:
    """Algorithm 2: noise by range. `scaling` is any b of norm 1; Theorem 3's by default."""
    x, spans = _bounded(rows, lower, upper)
    b = bounded_scaling(spans) if scaling is None else positive_vector("scaling", scaling, spans.size)
    if not math.isclose(float(np.linalg.norm(b)), 1.0, rel_tol=1e-9):
        raise ParameterError("scaling", "a vector of norm 1", float(np.linalg.norm(b)))
    sd = _s_opt(epsilon, delta) * spans / b
    return _release(
        x.sum(axis=0), sd, source, epsilon, delta, "rows lie in public ranges", "Theorem 2 and Algorithm 2"
    )


def clipped(
    rows: ArrayLike,
    centre: ArrayLike,
    deviations: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    source: NormalSource,
    clip_probability: float | None = None,
    scaling: ArrayLike | None = None,
) -> SumRelease:
    """Algorithm 3, corrected: scale, clip around a public centre, add noise, scale back; p_C is 1/n if unset.

    A row outside the ball is moved toward the centre, onto it; that is what makes this private for any row.
    """
    x = matrix("rows", rows)
    n, d = x.shape
    mu, sigma = vector("centre", centre, d), positive_vector("deviations", deviations, d)
    b = clipped_scaling(sigma) if scaling is None else positive_vector("scaling", scaling, d)
    # 1/n is no probability below 1 for a single row; half the mass is then as good a default as any.
    radius = clipping_radius(sigma, min(1 / n, 0.5) if clip_probability is None else clip_probability, b)
    scaled = (x - mu) * b
    norms = np.linalg.norm(scaled, axis=1)
    factor = np.minimum(1.0, radius / np.maximum(norms, radius))
    total = n * mu + factor @ scaled / b
    # Two rows of the ball differ by at most its diameter.
    sd = _s_opt(epsilon, delta) * 2 * radius / b
    why = "every row is clipped to a public ball; the centre and deviations are taken as public"
    return _release(total, sd, source, epsilon, delta, why, "Algorithm 3")


def _release(
    total: Array, sd: Array, source: NormalSource, epsilon: float, delta: float, why: str, where: str
) -> SumRelease:
    guarantee = Guarantee(
        neighbours=Neighbours("record"),
        basis="proved",
        because=f"analytic Gaussian mechanism, {why}",
        citation=f"Poulsen 2023, {where}; Balle and Wang 2018, Theorem 8",
        epsilon=epsilon,
        delta=delta,
    )
    noise = grid_gaussian.calibrate(sd, 1 / _s_opt(epsilon, delta))
    return SumRelease(noise.release(total, source), noise.deviations, guarantee)


def _s_opt(epsilon: float, delta: float) -> float:
    return local_noise.calibrate(epsilon, delta).sigma


def _bounded(rows: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[Array, Array]:
    x = matrix("rows", rows)
    low, high = vector("lower", lower, x.shape[1]), vector("upper", upper, x.shape[1])
    if not np.all(high > low):
        raise ParameterError("upper", "above lower in every coordinate")
    # The guarantee rests on the ranges, so rows outside are refused, not moved; the message names no value.
    outside = np.flatnonzero(np.any((x < low) | (x > high), axis=0))
    if outside.size:
        raise ParameterError("rows", f"within [lower, upper]; columns {outside.tolist()} are not")
    return x, high - low
