"""What the view of all right providers shows: the exact law of X B_0 for one person, and the mu that is proved for it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from trimask_core.rows.noise_columns import (
    CHECK_DIRECTIONS,
    _least_chi_square,
    _least_smooth,
    default_noise_columns,
    least_tau,
    noise_columns_mu,
)
from trimask_core.rows.study import right_providers_mu
from trimask_theory.papers import triple_masking as right_view

Matrix = NDArray[np.float64]


def best_guess(mu: float) -> float:
    """The chance of guessing right which of two equally likely answers, mu apart, was given."""
    return float(norm.cdf(mu / 2))


def test_the_proved_mu_at_the_settings_it_was_first_estimated_for() -> None:
    # n = 256, p2 = 1024, tau = 1.67 R: estimated 0.36 to 0.41, measured 0.44 +- 0.09.
    assert 0.41 < noise_columns_mu(256, 6, 1024, 1.0, 0.0, 1.67, 1e-3) < 0.49
    assert 0.41 < noise_columns_mu(256, 6, 1024, 1.0, 0.0, 1.67, 1e-9) < 0.56
    # A study made with defaults: about 0.03 for a block, twice that for the largest.
    r, p2 = math.sqrt(6), default_noise_columns(256, 1e-9)
    tau = least_tau(511, 6, p2, r, 0.5, 1e-9, CHECK_DIRECTIONS)
    assert 0.02 < noise_columns_mu(256, 6, p2, r, 0.5, tau, 1e-9, CHECK_DIRECTIONS) < 0.04
    assert noise_columns_mu(511, 6, p2, r, 0.5, tau, 1e-9, CHECK_DIRECTIONS) < 0.07


def test_too_few_noise_columns_say_nothing() -> None:
    assert noise_columns_mu(20, 2, 21, 1.0, 0.0, 1.0, 1e-9) == math.inf
    assert noise_columns_mu(20, 2, 200, 1.0, 0.0, 0.0, 1e-9) == math.inf


@pytest.mark.parametrize("degrees", [3, 19, 144, 769])
@pytest.mark.parametrize("failure", [1e-2, 1e-6, 2e-10])
def test_the_two_ends_of_a_chi_square(degrees: int, failure: float) -> None:
    least = _least_chi_square(degrees, failure)
    assert 0 < least <= chi2.ppf(failure, degrees)
    r = _least_smooth(degrees, failure)
    # The density continued below r with the bend it has at r: of both, at most `failure` lies there.
    half = 0.5 * degrees
    slope, bend = (half - 1) / r - 0.5, (half - 1) / r**2
    below = np.linspace(0, 12 / math.sqrt(bend), 200_001)
    continued = np.trapezoid(chi2.pdf(r, degrees) * np.exp(-slope * below - bend * below**2 / 2), below)
    assert chi2.cdf(r, degrees) <= continued * (1 + 1e-9) <= failure * (1 + 1e-6)


def test_the_law_of_what_the_gram_matrix_says_of_a_row() -> None:
    """(s, r, kappa) drawn from full matrices has the law the proof says it has: means and variances within 5 sigma."""
    rng = np.random.default_rng(31)
    n, p1, p2, tau, draws = 6, 2, 30, 0.9, 20_000
    x, other = np.array([1.0, 0.0]), np.array([-1.0, 0.0])
    answers = rng.uniform(-0.7, 0.7, (n - 1, p1))
    noise = tau * rng.standard_normal((draws, n, p2))
    for row, h in ((other, 0.0), (x, 1.0)):
        found = right_view.statistics(np.broadcast_to(answers, (draws, n - 1, p1)), noise, row, x, other, tau)
        k = p2 - n + 1
        shift = found.mu * h
        s = found.s - shift
        # r = chi-square(k) + h (gap + mu^2 - 2 mu s), gap = (|x|^2 - |x'|^2)/tau^2 = 0 here
        r = found.r - h * (found.mu**2 - 2 * found.mu * found.s)
        for values, mean, variance in ((s, 0.0, 1.0), (r, k, 2 * k)):
            assert abs(values.mean() - mean) < 5 * math.sqrt(variance / draws)
            assert values.var() == pytest.approx(variance, rel=0.08)
        assert abs(np.corrcoef(s, r)[0, 1]) < 5 / math.sqrt(draws)
        w = answers @ (x - other)
        kappa = (w @ w) / tau**4 / found.mu**2
        assert kappa.mean() == pytest.approx(k + 1, rel=0.02)
        assert kappa.var() == pytest.approx(2 * (k + 1), rel=0.08)


@pytest.mark.parametrize(
    ("n", "p2", "tau"), [(8, 140, 1.0), (32, 200, 1.5), (256, 1024, 1.67), (40, 240, 0.9)]
)
def test_the_best_attack_stays_below_the_proved_mu(n: int, p2: int, tau: float) -> None:
    """Likelihood-ratio attack on the worst data (everybody alike, x against -x): 200,000 draws a side, 5 sigma."""
    rng = np.random.default_rng(32)
    draws, failure = 200_000, 1e-3
    bound = noise_columns_mu(n, 1, p2, 1.0, 0.0, tau, failure)
    right = right_view.attack(
        n, p2, tau, distance=2.0, others=math.sqrt(n - 1), gap=0.0, draws=draws, rng=rng
    )
    spread = 5 * math.sqrt(0.25 / (2 * draws))
    assert right - spread <= best_guess(bound) + failure
    # Nor is the bound empty: the attack reaches about half of its mu.
    assert right - spread > best_guess(0.45 * bound)


def test_theorem_3_8_fails_and_the_bound_does_not() -> None:
    """n = 2, p2 = 20, tau = 0.6, X1 = (1, 0) or (0, 1): two rows differ, so twice the mu of one."""
    rng = np.random.default_rng(33)
    draws = 400_000
    noise = 0.6 * rng.standard_normal((draws, 2, 20))
    lengths = (noise**2).sum(axis=2)
    lengths[:, 0] += 1.0
    guessed = float((lengths[:, 0] > lengths[:, 1]).mean())
    assert guessed == pytest.approx(0.626, abs=0.004)
    # One row is 1 or 0 beside a row of zeros: no inner product moves, its length by 1/tau^2.
    one = right_view.proved_mu(
        distance=1.0, others=0.0, gap=1.0, rows=2, noise_columns=20, tau=0.6, failure=0.02
    )
    assert guessed <= best_guess(2 * one) + 2 * 0.02
    assert best_guess(2 * one) < 0.9


def test_with_b0_a_row_is_hidden_by_its_own_noise_alone() -> None:
    mu = right_providers_mu(2 * math.sqrt(6), 0.5, 2.0**-26)
    assert mu == pytest.approx(4 * math.sqrt(6), rel=1e-9)
    assert mu > 4 * math.sqrt(6)
    assert right_providers_mu(1.0, 2.0**-26, 2.0**-26) == math.inf
