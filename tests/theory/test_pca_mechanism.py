"""pca releases: guarantees, the adaptive mechanism's sensitivities and error rates, the rank transform."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from bench.genotypes import genotypes
from trimask_core.basics.errors import ParameterError
from trimask_theory.mechanisms import pca


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    return genotypes(np.random.default_rng(1))[0]


@pytest.fixture(scope="module")
def spectrum(data: np.ndarray) -> pca.Spectrum:
    return pca.from_rows(pca.rank_transform(data), 2)


def scaled(p: int) -> pca.Spectrum:
    """One family of spectra at n = p^{3/2}: two spikes over a bulk spread evenly on (0, 0.6).

    Without eigenvectors, which the estimates do not use, so that p can be large.
    """
    values = np.concatenate([[3.0, 1.6], 0.6 * (np.arange(p - 2)[::-1] + 0.5) / (p - 2)])
    return pca.Spectrum(values, np.empty((p, 0)), round(p**1.5), 2)


def moved(s: pca.Spectrum, index: int, sign: int) -> pca.Spectrum:
    """The spectrum after adding (+1) or removing (-1) the row sqrt(p) u_index; no other eigenvector turns."""
    values = s.rows * s.eigenvalues
    values[index] += sign * s.dimension
    values /= s.rows + sign
    return pca.Spectrum(np.sort(values)[::-1], s.eigenvectors, s.rows + sign, s.components)


def test_sensitivities_are_attained_in_the_limit() -> None:
    # A row along u_k moves l_k by p/n, the most one row can: the change of H and s_min^2 over the stated
    # bound tends to 1 from p = 10^2 to 10^5. Were H'' (1/p) sum 1/(l_k - l_i)^3, the last would tend to 2.
    distances = []
    for p in (100, 1000, 10000, 100000):
        s = scaled(p)
        bound, before = pca.sensitivities(s).as_array(), pca.estimates(s).as_array()
        change = np.max(
            [np.abs(pca.estimates(moved(s, 1, sign)).as_array() - before) for sign in (1, -1)], axis=0
        )
        distances.append(np.abs(change / bound - 1)[1:])
    assert np.all(np.diff(distances, axis=0) < 0)
    assert distances[-1].max() < 0.02


def test_no_single_row_moves_the_estimates_beyond_the_stated_sensitivity_in_the_limit() -> None:
    # Rows along u_k, u_{k+1}, mixtures of them and at random, both at p = 400: 12% is the allowance for p.
    s = replace(scaled(400), eigenvectors=np.eye(400))
    bound, before = pca.sensitivities(s).as_array(), pca.estimates(s).as_array()
    generator = np.random.default_rng(0)
    rows = [np.eye(400)[i] for i in (0, 1, 2, 399)]
    rows += [np.cos(a) * np.eye(400)[1] + np.sin(a) * np.eye(400)[2] for a in np.linspace(0, np.pi, 9)]
    rows += [generator.standard_normal(400) for _ in range(4)]
    changes = [
        np.abs(pca.estimates(s.with_row(20 * r / np.linalg.norm(r))).as_array() - before) / bound
        for r in rows
    ]
    assert np.max(changes, axis=0) == pytest.approx([0.7, 1.0, 1.0], abs=0.12)


def test_estimates_are_the_quantities_of_theorem_2(spectrum: pca.Spectrum) -> None:
    found = pca.estimates(spectrum)
    assert found.scaled_gap == pytest.approx(spectrum.theta**2 * spectrum.gap)
    assert found.hilbert == pytest.approx(pca.plateau(spectrum).beta_low)
    assert found.s_min_squared == pytest.approx(pca.plateau(spectrum).mu ** 2)


def test_privatised_estimates_have_the_stated_mean_and_spread(spectrum: pca.Spectrum) -> None:
    generator = np.random.default_rng(1)
    drawn = np.array([pca.privatise(spectrum, 5.0, generator).as_array() for _ in range(4000)])
    deviation = np.sqrt(3) / 5.0 * pca.sensitivities(spectrum).as_array()
    mean = pca.estimates(spectrum).as_array()
    mean[2] += 200 ** (1 / 3) * deviation[2]
    # At mu = 5 no value is near 0. Six tests, each failing by chance once in 10^4.
    for column in range(3):
        z = (drawn[:, column] - mean[column]) / deviation[column]
        assert abs(z.mean()) * np.sqrt(4000) < stats.norm.isf(5e-5)
        assert stats.chi2(4000).cdf(np.sum(z**2)) == pytest.approx(0.5, abs=0.49995)


def test_negative_privatised_values_become_zero(spectrum: pca.Spectrum) -> None:
    generator = np.random.default_rng(2)
    drawn = np.array([pca.privatise(spectrum, 0.05, generator).as_array() for _ in range(200)])
    assert drawn.min() == 0.0
    assert np.any(drawn[:, 0] == 0.0)


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.9, 0.98])
def test_the_private_test_errs_at_the_stated_rate(rate: float) -> None:
    # A target placed where the test should pass with probability `rate`; each fails by chance once in 10^4.
    values = np.concatenate([[1.4, 0.8], np.linspace(0.3, 0.02, 22)])
    s = pca.from_covariance(np.diag(values), 200, 2)
    deviation = np.sqrt(3) / 4.0 * pca.sensitivities(s).s_min_squared
    target = np.sqrt(pca.plateau(s).mu ** 2 + (24 ** (1 / 3) + stats.norm.ppf(rate)) * deviation)
    assert pca.pass_probability(s, 4.0, target) == pytest.approx(rate, abs=1e-9)
    generator = np.random.default_rng(3)
    passed = sum(pca.adaptive(s, 4.0, target, generator, sweeps=1).achievable for _ in range(1500))
    assert stats.binomtest(passed, 1500, rate).pvalue > 1e-4


def test_the_private_test_is_wrong_rarely_where_it_should_be(spectrum: pca.Spectrum) -> None:
    # Lemma 4: at and below s_min the test passes with probability at most Phi(-p^(1/3)), 2.5e-9 at p = 200;
    # well above, it fails as rarely.
    lowest = pca.plateau(spectrum).mu
    assert pca.pass_probability(spectrum, 1.0, lowest) == pytest.approx(
        stats.norm.cdf(-(200 ** (1 / 3))), rel=1e-9
    )
    assert pca.pass_probability(spectrum, 1.0, 0.9 * lowest) < 2.5e-9
    assert pca.pass_probability(spectrum, 1.0, 1.5) > 1 - 1e-9
    generator = np.random.default_rng(4)
    assert not any(pca.adaptive(spectrum, 1.0, lowest, generator).achievable for _ in range(20))
    assert all(pca.adaptive(spectrum, 1.0, 1.5, generator).achievable for _ in range(20))


def test_adaptive_release_composes_and_finds_beta_near_the_oracle(spectrum: pca.Spectrum) -> None:
    generator = np.random.default_rng(5)
    releases = [pca.adaptive(spectrum, 1.0, 1.5, generator) for _ in range(200)]
    betas = np.array([release.beta for release in releases])
    # The margin in s_min^2 makes beta a little conservative; its noise is mostly the gap's.
    oracle = pca.beta_for(spectrum, 1.5)
    assert betas.mean() == pytest.approx(oracle, rel=0.1)
    release = releases[0]
    assert release.components is not None
    assert release.components.T @ release.components == pytest.approx(np.eye(2), abs=1e-12)
    assert release.guarantee.mu == pytest.approx(np.hypot(1.0, 1.5))
    assert release.guarantee.basis == "asymptotic"
    assert "n/p^(3/2) = 0.8853" in str(release.guarantee)
    # The true gap must not be told.
    assert "private estimate of the gap" in str(release.guarantee)
    assert f"{spectrum.gap:.4g}" not in str(release.guarantee)


def test_adaptive_answers_not_achievable_without_components(spectrum: pca.Spectrum) -> None:
    release = pca.adaptive(spectrum, 1.0, 0.1, np.random.default_rng(6))
    assert (release.components, release.beta, release.achievable) == (None, None, False)
    assert release.guarantee.mu == pytest.approx(np.hypot(1.0, 0.1))


def test_adaptive_falls_back_to_the_exact_law_when_noise_lowers_beta() -> None:
    # A budget so small that the private gap is often 0 and beta = H plus noise; no draw may fail.
    values = np.concatenate([[1.4, 0.8], np.linspace(0.3, 0.02, 22)])
    s = pca.from_covariance(np.diag(values), 200, 2)
    generator = np.random.default_rng(7)
    drawn = [pca.adaptive(s, 0.4, 5.0, generator, sweeps=2) for _ in range(60)]
    low = [r for r in drawn if r.beta is not None and r.beta <= pca.plateau(s).beta_low]
    assert low
    for release in low:
        assert release.components is not None
        assert release.components.T @ release.components == pytest.approx(np.eye(2), abs=1e-12)


@pytest.mark.parametrize("method", ["approximate", "gibbs"])
def test_exponential_release_states_an_asymptotic_guarantee(spectrum: pca.Spectrum, method: str) -> None:
    beta = pca.beta_for(spectrum, 1.0)
    release = pca.exponential(spectrum, beta, np.random.default_rng(8), method, sweeps=2)
    assert release.components.shape == (200, 2)
    assert release.guarantee.mu == pytest.approx(1.0)
    assert release.guarantee.basis == "asymptotic"
    text = str(release.guarantee)
    assert "n/p^(3/2) = 0.8853" in text
    assert f"gap l_2 - l_3 = {spectrum.gap:.4g}" in text
    assert release.guarantee.neighbours.relation == "add-remove"
    assert release.guarantee.neighbours.row_norm == pytest.approx(np.sqrt(200))


def test_rank_transform_averages_ties_and_keeps_the_norm_bound() -> None:
    ranks = pca.rank_transform([[3.0, 1.0], [3.0, 5.0], [-1.0, 2.0], [10.0, 9.0]])
    expected = [[0.0, -1.5], [0.0, 0.5], [-1.5, -0.5], [1.5, 1.5]]
    assert ranks == pytest.approx(np.array(expected) / 2)
    heavy = np.random.default_rng(9).standard_cauchy((101, 7))
    transformed = pca.rank_transform(heavy)
    assert np.linalg.norm(transformed, axis=1).max() < np.sqrt(7)
    assert transformed.mean(axis=0) == pytest.approx(np.zeros(7), abs=1e-12)
    assert pca.rank_transform(np.exp(heavy / 1e3)) == pytest.approx(transformed)


def test_rank_transformed_release_uses_the_rank_spectrum(data: np.ndarray, spectrum: pca.Spectrum) -> None:
    release = pca.rank_transformed(data, 2, 4.0, np.random.default_rng(10))
    assert release.guarantee.mu == pytest.approx(pca.sigma_beta(spectrum, 4.0))
    assert release.guarantee.neighbours.row_norm is None
    assert "Theorem 7" in release.guarantee.citation
    kept = np.sum((spectrum.eigenvectors[:, :2].T @ release.components) ** 2)
    assert kept == pytest.approx(pca.overlap(spectrum, 4.0).sum(), abs=0.15)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda s, g: pca.exponential(s, 4.0, g, method="exact"), "method"),
        (lambda s, g: pca.exponential(s, 0.01, g), "beta"),
        (lambda s, g: pca.adaptive(s, 0.0, 1.0, g), "mu"),
        (lambda s, g: pca.adaptive(s, 1.0, -1.0, g), "target"),
        (lambda _s, _g: pca.rank_transform([[1.0, np.inf]]), "data"),
        (lambda _, g: pca.rank_transformed(np.eye(3), 0, 1.0, g), "components"),
    ],
)
def test_invalid_parameters_are_named(spectrum: pca.Spectrum, call, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call(spectrum, np.random.default_rng(0))
    assert caught.value.parameter == name
