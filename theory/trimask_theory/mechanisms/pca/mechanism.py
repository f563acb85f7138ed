"""Private principal components: the exponential mechanism, its adaptive form, and its rank-transformed form.

Statement. Algorithm 1 is sigma_beta-GDP (Theorem 2). Algorithm 3 spends mu on a private test of whether w is
achievable and on a private beta, then w on the components: sqrt(mu^2 + w^2)-GDP (Theorem 6). Algorithm 4 is
Algorithm 1 on centred, scaled ranks, sigma_beta-GDP for raw rows of any size (Theorem 7).

Assumptions. Those of `limits`; neighbours add or remove one row. Asymptotic throughout: nothing here is
proved at a fixed p. Source: Yun and Dudeja 2025, appendix A; the three sensitivities follow its Claim 5.
Derivation: docs/theory/mechanisms.md#pca-adaptive and docs/theory/mechanisms.md#pca-ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from scipy.stats import rankdata

from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory.checks import matrix, one_of, positive, whole
from trimask_theory.gaussian import gdp
from trimask_theory.gaussian.grid_gaussian import NormalSource
from trimask_theory.mechanisms.pca.limits import (
    Spectrum,
    from_rows,
    hilbert,
    hilbert_prime,
    hilbert_second,
    sigma_beta,
)
from trimask_theory.mechanisms.pca.sampling import approximate, gibbs

_PAPER = "Yun and Dudeja 2025"


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """Orthonormal private components in the columns, the beta they were drawn at, and the guarantee."""

    components: NDArray[np.float64] = field(repr=False)
    beta: float
    guarantee: Guarantee


@dataclass(frozen=True, slots=True, eq=False)
class AdaptiveRelease:
    """Private components, or None with `beta` None when the private test found the target not achievable."""

    components: NDArray[np.float64] | None = field(repr=False)
    beta: float | None
    guarantee: Guarantee

    @property
    def achievable(self) -> bool:
        """Whether the private test passed; this is safe to publish."""
        return self.components is not None


@dataclass(frozen=True, slots=True)
class Estimates:
    """The numbers beta depends on, theta^2 D, H(l_k) and s_min^2 (equation 27), or bounds on their change."""

    scaled_gap: float
    hilbert: float
    s_min_squared: float

    def as_array(self) -> NDArray[np.float64]:
        """In the order of the fields."""
        return np.array([self.scaled_gap, self.hilbert, self.s_min_squared])


def exponential(
    spectrum: Spectrum, beta: float, source: NormalSource, method: str = "approximate", sweeps: int = 50
) -> Release:
    """Algorithm 1 at a given beta, drawn by `sampling.approximate` or `sampling.gibbs`."""
    mu = sigma_beta(spectrum, beta)
    guarantee = Guarantee(
        neighbours=Neighbours("add-remove", row_norm=math.sqrt(spectrum.dimension)),
        basis="asymptotic",
        because=_limit(spectrum, spectrum.gap)
        + "; it holds for this data set's spectrum, and beta itself is not protected",
        citation=f"{_PAPER}, Theorem 2",
        mu=mu,
    )
    return Release(_draw(spectrum, beta, source, method, sweeps), beta, guarantee)


def estimates(spectrum: Spectrum) -> Estimates:
    """The quantities of equation (27), before any noise."""
    edge, theta2 = spectrum.leading[-1], spectrum.theta**2
    return Estimates(
        theta2 * spectrum.gap,
        float(hilbert(spectrum, edge)),
        -float(hilbert_prime(spectrum, edge)) / (2 * theta2),
    )


def sensitivities(spectrum: Spectrum) -> Estimates:
    """How far one row can move each of the estimates, to leading order in p (Claim 5).

    One row moves Sigma by p/n in Frobenius norm. The gap then moves by sqrt(2) p/n (Hoffman and Wielandt),
    H by |H'| p/n and H' by H'' p/n with H'' = (2/p) sum 1/(l_k - l_i)^3: the eigenvalue l_k moves by p/n,
    the others, averaged over p, by a smaller order.
    """
    n, p, edge = spectrum.rows, spectrum.dimension, spectrum.leading[-1]
    return Estimates(
        math.sqrt(2) * n / p**2,
        p / n * -float(hilbert_prime(spectrum, edge)),
        p**4 / (2 * n**3) * float(hilbert_second(spectrum, edge)),
    )


def privatise(spectrum: Spectrum, mu: float, source: NormalSource) -> Estimates:
    """Equation (28): a Gaussian mechanism of budget mu/sqrt(3) for each, s_min^2 raised by its margin."""
    deviation = math.sqrt(3) / positive("mu", mu) * sensitivities(spectrum).as_array()
    means = estimates(spectrum).as_array()
    # p^(1/3) deviations: a wrong "achievable" becomes rare as p grows while the margin itself vanishes.
    means[2] += _margin(spectrum) * deviation[2]
    noisy = np.maximum(means + deviation * source.standard_normal((3,)), 0.0)
    return Estimates(*map(float, noisy))


def pass_probability(spectrum: Spectrum, mu: float, target: float) -> float:
    """The probability that the test (29) finds `target` achievable with budget `mu`."""
    deviation = math.sqrt(3) / positive("mu", mu) * sensitivities(spectrum).s_min_squared
    room = positive("target", target) ** 2 - estimates(spectrum).s_min_squared
    return float(ndtr(room / deviation - _margin(spectrum)))


def adaptive(
    spectrum: Spectrum,
    mu: float,
    target: float,
    source: NormalSource,
    method: str = "approximate",
    sweeps: int = 50,
) -> AdaptiveRelease:
    """Algorithm 3: spend `mu` on choosing beta and `target` on the components, or answer "not achievable"."""
    w2 = positive("target", target) ** 2
    private = privatise(spectrum, mu, source)
    # The spectrum itself must not be shown: the gap in the text is the private one.
    gap = private.scaled_gap / spectrum.theta**2
    guarantee = Guarantee(
        neighbours=Neighbours("add-remove", row_norm=math.sqrt(spectrum.dimension)),
        basis="asymptotic",
        because=_limit(spectrum, gap, "private estimate of the ")
        + f"; the choice of beta costs {mu:.4g} and the components {target:.4g}",
        citation=f"{_PAPER}, Theorem 6",
        mu=gdp.compose(mu, target),
    )
    if w2 < private.s_min_squared:
        return AdaptiveRelease(None, None, guarantee)
    # Equation (30).
    beta = private.hilbert + 2 * private.scaled_gap * (
        w2 + math.sqrt(max(w2 * w2 - private.s_min_squared * w2, 0.0))
    )
    if beta <= hilbert(spectrum, spectrum.leading[-1]):
        # Noise can push beta below H(l_k), where only the exact law is defined; an error would reveal something about the
        # data.
        method = "gibbs"
    return AdaptiveRelease(_draw(spectrum, beta, source, method, sweeps), beta, guarantee)


def rank_transform(data: ArrayLike) -> NDArray[np.float64]:
    """r_ij = (2/n)(rank_ij - (n+1)/2), ties by average: centred, within (-1, 1) (equation 31)."""
    x = matrix("data", data)
    n = x.shape[0]
    ranks = np.asarray(rankdata(x, method="average", axis=0), dtype=np.float64)
    return np.asarray(2 / n * (ranks - (n + 1) / 2), dtype=np.float64)


def rank_transformed(
    data: ArrayLike,
    components: int,
    beta: float,
    source: NormalSource,
    method: str = "approximate",
    sweeps: int = 50,
) -> Release:
    """Algorithm 4: `exponential` on ranks. Needs the raw rows, so only who holds them can run it."""
    spectrum = from_rows(rank_transform(data), whole("components", components, 1))
    guarantee = Guarantee(
        neighbours=Neighbours("add-remove"),
        basis="asymptotic",
        because=_limit(spectrum, spectrum.gap)
        + "; it holds for this data set's rank spectrum, and beta itself is not protected",
        citation=f"{_PAPER}, Theorem 7",
        mu=sigma_beta(spectrum, beta),
    )
    return Release(_draw(spectrum, beta, source, method, sweeps), beta, guarantee)


def _draw(
    spectrum: Spectrum, beta: float, source: NormalSource, method: str, sweeps: int
) -> NDArray[np.float64]:
    if one_of("method", method, ("approximate", "gibbs")) == "gibbs":
        drawn = gibbs(spectrum, beta, source, sweeps)
    else:
        drawn = approximate(spectrum, beta, source)
    return np.asarray(drawn[0], dtype=np.float64)


def _margin(spectrum: Spectrum) -> float:
    return float(spectrum.dimension ** (1 / 3))


def _limit(spectrum: Spectrum, gap: float, whose: str = "") -> str:
    k = spectrum.components
    return (
        f"in the limit of many attributes, here p = {spectrum.dimension}, n/p^(3/2) = {spectrum.theta:.4g}, "
        f"{whose}gap l_{k} - l_{k + 1} = {gap:.4g}"
    )
