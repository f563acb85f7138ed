"""The discrete Gaussian against its exact law, its limit, and OpenDP's."""

from __future__ import annotations

import math

import numpy as np
import opendp.prelude as dp
import pytest
from numpy.typing import NDArray
from scipy import stats

from trimask_core.basics.errors import ParameterError
from trimask_core.basics.randomness import DeterministicRandom, DiscreteGaussian


def exact_pmf(sigma: float, reach: int) -> NDArray[np.float64]:
    """P(x), x = -reach..reach; the mass left out is below 1e-20 for reach >= 10 sigma."""
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2.0 * sigma * sigma))
    return np.asarray(weights / weights.sum())


def chi_square_p(values: NDArray[np.int64], sigma: int) -> float:
    """Goodness of fit, cells with an expected count below 10 pooled into the two tails."""
    reach = 12 * sigma + 4
    pmf = exact_pmf(sigma, reach)
    inner = np.flatnonzero(pmf * values.size >= 10)
    low, high = inner[0] - reach, inner[-1] - reach
    clipped = np.clip(values, low, high)
    observed = np.bincount(clipped - low, minlength=high - low + 1)
    expected = pmf[inner].copy()
    expected[0] += pmf[: inner[0]].sum()
    expected[-1] += pmf[inner[-1] + 1 :].sum()
    return float(stats.chisquare(observed, expected * values.size).pvalue)


def draw(sigma: int, count: int) -> NDArray[np.int64]:
    return np.array(
        DiscreteGaussian(sigma, DeterministicRandom(f"noise {sigma}")).samples(count), dtype=np.int64
    )


@pytest.mark.parametrize("sigma", [1, 2, 3, 10])
def test_exact_law_at_small_sigma(sigma: int) -> None:
    """Chi-square at 15,000 draws, set for 1e-6 each."""
    assert chi_square_p(draw(sigma, 15_000), sigma) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1, 2, 5, 40])
def test_exact_law_at_length(sigma: int) -> None:
    """The same at a million draws: relative errors of 1% in the tail cells would show. Set for 1e-6 each."""
    assert chi_square_p(draw(sigma, 1_000_000), sigma) > 1e-6


def test_the_chi_square_test_would_notice() -> None:
    """A rounded normal of sigma 1, which is not the discrete Gaussian, fails the same test."""
    rounded = np.rint(np.random.default_rng(1).normal(0, 1, 15_000)).astype(np.int64)
    assert chi_square_p(rounded, 1) < 1e-9


def test_moments_at_a_study_s_sigma() -> None:
    """sigma = 1e8 steps: the normal to all digits. KS and four moments at 20,000 draws, set for 1e-6 each."""
    sigma = 10**8
    z = draw(sigma, 20_000) / sigma
    assert stats.kstest(z, "norm").pvalue > 1e-6
    for power, mean, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        assert abs((z**power).mean() - mean) < 4.9 * math.sqrt(variance / z.size)


def test_low_bits_are_uniform_at_a_study_s_sigma() -> None:
    """No residue of the scale in the last byte: chi-square on 256 cells, set for 1e-6."""
    low = draw(10**8, 20_000) & 0xFF
    assert stats.chisquare(np.bincount(low, minlength=256)).pvalue > 1e-6


@pytest.mark.parametrize("sigma", [3, 50_000])
def test_two_samples_with_opendp(sigma: int) -> None:
    """OpenDP's sampler as the oracle (its draws cannot be seeded): two-sample tests, set for 1e-9 each."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    oracle = np.array(dp.m.make_gaussian(*space, scale=float(sigma))([0] * 8_000))
    ours = draw(sigma, 8_000)
    if sigma > 100:
        assert stats.ks_2samp(ours, oracle).pvalue > 1e-9
    else:
        reach = 3 * sigma
        table = [
            np.bincount(np.clip(x, -reach, reach) + reach, minlength=2 * reach + 1) for x in (ours, oracle)
        ]
        assert stats.chi2_contingency(np.array(table)).pvalue > 1e-9


def test_sigma_is_a_whole_number_of_steps() -> None:
    for bad in (0, -3):
        with pytest.raises(ParameterError, match="sigma"):
            DiscreteGaussian(bad, DeterministicRandom("x"))


def test_it_repeats_with_its_source_only() -> None:
    first, again, other = (DiscreteGaussian(1000, DeterministicRandom(label)) for label in "aab")
    assert (one := first.samples(20)) == again.samples(20)
    assert one != other.samples(20)
    assert one != first.samples(20)
