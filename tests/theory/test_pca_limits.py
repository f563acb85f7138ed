"""pca: the spectrum's functions, the two theorems, calibration and the refusals."""

from __future__ import annotations

import numpy as np
import pytest

from bench.genotypes import genotypes
from trimask_core.basics.errors import ParameterError
from trimask_theory.mechanisms import pca
from trimask_theory.mechanisms.pca.limits import hilbert_prime, hilbert_second


@pytest.fixture(scope="module")
def ranks() -> np.ndarray:
    # p = 200, n = 2,504, the shape of the paper's set.
    return pca.rank_transform(genotypes(np.random.default_rng(1))[0])


def random_spectrum(seed: int, p: int = 40, n: int = 900, k: int = 2) -> pca.Spectrum:
    generator = np.random.default_rng(seed)
    values = np.concatenate([[5.0, 3.0, 2.2][:k], generator.uniform(0.1, 1.2, p - k)])
    basis = pca.haar(p, p, 1, generator)[0]
    return pca.from_covariance((basis * values) @ basis.T, n, k)


def test_hilbert_and_derivatives_match_finite_differences() -> None:
    s = random_spectrum(0)
    g, h = 3.0, 1e-5
    assert float(pca.hilbert(s, g)) == pytest.approx(np.sum(1 / (g - s.bulk)) / 40, rel=1e-12)
    slope = (pca.hilbert(s, g + h) - pca.hilbert(s, g - h)) / (2 * h)
    assert float(hilbert_prime(s, g)) == pytest.approx(float(slope), rel=1e-8)
    bend = (hilbert_prime(s, g + h) - hilbert_prime(s, g - h)) / (2 * h)
    assert float(hilbert_second(s, g)) == pytest.approx(float(bend), rel=1e-8)
    assert hilbert_prime(s, g) < 0 < hilbert_second(s, g)


def test_synthetic_set_has_the_published_shape(ranks: np.ndarray) -> None:
    # Seed 1 was kept out of 0 to 3 for this, so it guards the generator and is no evidence for the theorem.
    # Figure 4: beta = 1.2, 3.97, 8.47 at mu = 0.5, 1, 1.5 for k = 2; Figure 5: only 1.5 achievable for k = 3.
    assert ranks.shape == (2504, 200)
    two, three = pca.from_rows(ranks, 2), pca.from_rows(ranks, 3)
    assert [pca.beta_for(two, mu) for mu in (0.5, 1.0, 1.5)] == pytest.approx([1.2, 3.97, 8.47], rel=0.05)
    assert 1.0 < pca.plateau(three).mu < 1.5
    # Section 1: 0.16, 3.19 and 19.17-DP at beta = 0.01, 0.2 and 1.2.
    pure = [pca.pure_epsilon(two, beta) for beta in (0.01, 0.2, 1.2)]
    assert pure == pytest.approx([0.16, 3.19, 19.17], abs=0.006)


@pytest.mark.parametrize("seed", range(5))
def test_beta_for_inverts_sigma_beta_above_the_plateau(seed: int) -> None:
    s = random_spectrum(seed)
    lowest = pca.plateau(s)
    for mu in lowest.mu * np.array([1.0, 1.001, 1.5, 10.0]):
        assert pca.sigma_beta(s, pca.beta_for(s, mu)) == pytest.approx(mu, rel=1e-6)
    assert pca.beta_for(s, lowest.mu) == pytest.approx(lowest.beta_high, rel=1e-6)


def test_sigma_beta_is_flat_then_rises_and_joins_smoothly() -> None:
    s = random_spectrum(3)
    flat = pca.plateau(s)
    betas = np.linspace(flat.beta_low, flat.beta_high, 50)[1:]
    assert [pca.sigma_beta(s, b) for b in betas] == pytest.approx([flat.mu] * 49, rel=1e-12)
    rising = [pca.sigma_beta(s, b) for b in flat.beta_high * np.linspace(1, 20, 200)]
    assert np.all(np.diff(rising) > 0)
    # Both value and slope agree at the join: the excess over the plateau is quadratic.
    assert pca.sigma_beta(s, flat.beta_high * (1 + 1e-4)) == pytest.approx(flat.mu, rel=1e-6)


@pytest.mark.parametrize("place", [0.2, 0.7, 1.0, 1.5, 8.0])
def test_worst_neighbour_maximises_the_variance_and_attains_sigma_beta(place: float) -> None:
    # The variance of the log-likelihood ratio for x = sqrt(p)(sqrt(t) u_k + sqrt(1-t) u_{k+1}), derived from
    # Algorithm 2: (-t^2 H'/2 + t(1-t)(beta-H)/D)/theta^2. Searched over t, its maximum is sigma_beta^2; for
    # beta low on the plateau the paper's printed min{1, ratio} has a negative ratio and would fail here.
    s = random_spectrum(4)
    flat = pca.plateau(s)
    beta = flat.beta_low + place * (flat.beta_high - flat.beta_low)
    t = np.linspace(0, 1, 100001)
    slope = float(hilbert_prime(s, s.leading[-1]))
    variance = (-(t**2) * slope / 2 + t * (1 - t) * (beta - flat.beta_low) / s.gap) / s.theta**2
    assert variance.max() == pytest.approx(pca.sigma_beta(s, beta) ** 2, rel=1e-8)
    x = pca.worst_neighbour(s, beta)
    assert np.linalg.norm(x) == pytest.approx(np.sqrt(s.dimension))
    assert (s.eigenvectors[:, 1] @ x) ** 2 / s.dimension == pytest.approx(t[variance.argmax()], abs=2e-5)


def test_no_random_neighbour_beats_the_worst_one() -> None:
    # The full variance (12) for any row, from Algorithm 2 to leading order in 1/p: with y = U^T x / sqrt(p),
    # (1/theta^2)(sum_{jl} K_jl y_j^2 y_l^2 / 2 + sum_{j,i} (beta - H_j) y_j^2 y_i^2 / (l_j - l_i)).
    s = random_spectrum(5, k=3)
    beta = 2 * pca.plateau(s).beta_high
    differences = s.leading[:, None] - s.bulk
    kernel = (1 / differences) @ (1 / differences).T / s.dimension
    excess = (beta - pca.hilbert(s, s.leading))[:, None] / differences
    generator = np.random.default_rng(8)
    rows = generator.standard_normal((20000, s.dimension)) * np.exp(
        generator.normal(0, 2, (20000, s.dimension))
    )
    worst = s.eigenvectors.T @ pca.worst_neighbour(s, beta)
    squares = np.vstack([rows, worst]) ** 2
    squares /= squares.sum(axis=1, keepdims=True)
    top, rest = squares[:, :3], squares[:, 3:]
    variance = np.einsum("nj,jl,nl->n", top, kernel, top) / 2 + np.einsum("nj,ji,ni->n", top, excess, rest)
    variance /= s.theta**2
    assert variance[-1] == pytest.approx(pca.sigma_beta(s, beta) ** 2, rel=1e-9)
    assert variance[:-1].max() <= variance[-1] * (1 + 1e-9)


def test_overlap_and_errors_follow_the_phase_transitions() -> None:
    s = random_spectrum(6, k=3)
    h = pca.hilbert(s, s.leading)
    assert pca.overlap(s, float(h[0]) * 0.9) == pytest.approx([0, 0, 0])
    between = float(h[1] + h[2]) / 2
    assert pca.overlap(s, between) == pytest.approx([1 - h[0] / between, 1 - h[1] / between, 0.0])
    assert pca.spectral_error(s, between) == pytest.approx(1.0)
    beta = 4 * float(h[2])
    assert pca.spectral_error(s, beta) == pytest.approx(0.25)
    assert pca.frobenius_error(s, beta) == pytest.approx(2 * np.sum(h / beta))


def test_with_row_is_the_covariance_of_the_longer_data_set(ranks: np.ndarray) -> None:
    s = pca.from_rows(ranks[:, :30], 2)
    x = pca.worst_neighbour(s, 3 * pca.plateau(s).beta_high)
    longer = np.vstack([ranks[:, :30], x])
    expected = pca.from_covariance(longer.T @ longer / len(longer), len(longer), 2)
    added = s.with_row(x)
    assert added.eigenvalues == pytest.approx(expected.eigenvalues, abs=1e-12)
    assert added.covariance == pytest.approx(expected.covariance, abs=1e-12)
    assert added.rows == 2505


def test_a_missing_gap_is_refused_with_the_reason() -> None:
    with pytest.raises(ParameterError, match=r"gap l_2 - l_3 is positive.*not determined"):
        pca.from_covariance(np.diag([1.5, 0.5, 0.5, 0.25]), 50, 2)
    assert pca.from_covariance(np.diag([3.0, 1.0, 1.0, 0.5]) / 2, 50, 1).gap == pytest.approx(1.0)


GOOD = np.diag([2.0, 1.0, 0.5])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: pca.from_covariance(np.ones((2, 3)), 10, 1), "covariance"),
        (lambda: pca.from_covariance([[1.0, 0.5], [0.1, 0.2]], 10, 1), "covariance"),
        (lambda: pca.from_covariance(np.diag([3.0, np.nan]), 10, 1), "covariance"),
        (lambda: pca.from_covariance(np.diag([3.0, 1.0]), 10, 1), "covariance"),
        (lambda: pca.from_covariance(GOOD / 2, 0, 1), "rows"),
        (lambda: pca.from_covariance(GOOD / 2, 10, 3), "components"),
        (lambda: pca.from_covariance(GOOD / 2, 10, 0), "components"),
        (lambda: pca.from_rows([[2.0, 0.0], [0.0, 1.0]], 1), "data"),
        (lambda: pca.from_rows([1.0, 0.0], 1), "data"),
        (lambda: pca.hilbert(pca.from_covariance(GOOD / 2, 10, 1), 0.5), "at"),
        (lambda: pca.overlap(pca.from_covariance(GOOD / 2, 10, 1), 0), "beta"),
        (lambda: pca.sigma_beta(pca.from_covariance(GOOD / 2, 10, 1), 1e-3), "beta"),
        (lambda: pca.worst_neighbour(pca.from_covariance(GOOD / 2, 10, 1), 1e-3), "beta"),
        (lambda: pca.beta_for(pca.from_covariance(GOOD / 2, 10, 1), 1e-3), "mu"),
        (lambda: pca.from_covariance(GOOD / 2, 10, 1).with_row([1.0]), "row"),
    ],
)
def test_invalid_parameters_are_named(call, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.parameter == name


def test_the_bound_at_a_fixed_p_on_the_circle() -> None:
    """p = 2, k = 1: the angle's density is known, so delta is one integral; no row reaches the bound, some come near."""
    n, beta, p = 12, 3.0, 2
    angle = np.linspace(0, np.pi, 20_001)
    frames = np.stack((np.cos(angle), np.sin(angle)))

    def law(covariance: np.ndarray) -> np.ndarray:
        weights = np.exp(0.5 * p * beta * np.einsum("ia,ij,ja->a", frames, covariance, frames))
        return np.asarray(weights / np.trapezoid(weights, angle))

    base = np.diag([0.5, 0.1])
    spectrum = pca.from_covariance(base, n, 1)
    reach = 0.5 * pca.pure_epsilon(spectrum, beta)
    largest = 0.0
    for turn in np.linspace(0, np.pi, 13):
        row = np.sqrt(p) * np.array([np.cos(turn), np.sin(turn)])
        pair = law(base), law(base + np.outer(row, row) / n)
        assert np.abs(np.log(pair[0] / pair[1])).max() <= reach
        for epsilon in (0.0, 0.1, 0.3):
            bound = pca.finite_delta(spectrum, beta, epsilon)
            for a, b in (pair, pair[::-1]):
                found = float(np.trapezoid(np.maximum(a - np.exp(epsilon) * b, 0.0), angle))
                assert found <= bound
                largest = max(largest, found / bound if epsilon == 0.0 else 0.0)
    assert largest > 0.5
    assert pca.finite_delta(spectrum, beta, reach) == 0.0


def test_the_bound_at_a_fixed_p_is_the_worst_two_points() -> None:
    spectrum = random_spectrum(3)
    beta, epsilon = 0.7, 0.2
    reach = 0.5 * pca.pure_epsilon(spectrum, beta)
    top = np.linspace(epsilon, reach, 200_001)[:-1]
    mass = (np.exp(reach) - np.exp(top)) / np.expm1(reach)
    worst = float(np.max(mass * -np.expm1(epsilon - top)))
    assert pca.finite_delta(spectrum, beta, epsilon) == pytest.approx(worst, rel=1e-6)
