"""The noise of verified moments: calibration against exact values, the rounding argument counted out, room in the field."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from bench.moments_law import moments_law
from trimask_core.basics.errors import ImpossibleStudy, ParameterError
from trimask_core.moments.totals import entry_noise
from trimask_theory.gaussian import gdp, grid_gaussian
from trimask_theory.mechanisms import noisy_gram
from trimask_theory.moments import moments_noise
from trimask_theory.moments.moments_noise import check_overflow, entries


def exact_delta(epsilon: float, mu: float) -> float:
    with mpmath.workdps(80):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return float(mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("delta", [0.1, 1e-6, 1e-15])
@pytest.mark.parametrize(("providers", "honest"), [(2, 1), (3, 2), (16, 15)])
def test_sigma_reaches_delta_and_no_more(epsilon: float, delta: float, providers: int, honest: int) -> None:
    found = moments_noise.calibrate(epsilon, delta, 6.0, providers, honest)
    mu = math.sqrt(2) * 6 / found.sigma
    assert exact_delta(epsilon, mu) + moments_noise.slack(epsilon, honest) <= delta
    assert exact_delta(epsilon, mu * (1 + 1e-8)) > delta
    assert found.guarantee.mu == pytest.approx(mu, rel=1e-13)
    assert found.guarantee.basis == "proved"
    assert f"fewer than {honest} of the {providers}" in found.guarantee.because
    assert moments_noise.delta(epsilon, found.sigma, 6.0, honest) <= delta * (1 + 1e-9)
    assert moments_noise.epsilon(delta, found.sigma, 6.0, honest) == pytest.approx(epsilon, rel=1e-7)


def test_the_same_noise_as_the_central_gram_of_the_same_radius() -> None:
    for square in (2.0, 5.0, 21.0):
        central = noisy_gram.calibrate(1.0, 1e-6, math.sqrt(square)).sigma
        found = moments_noise.calibrate(1.0, 1e-6, square, 3, 2)
        assert found.sigma == pytest.approx(central, rel=1e-12)
        assert found.total_sigma == pytest.approx(central * math.sqrt(1.5), rel=1e-12)


def test_noise_grows_with_the_radius_and_falls_with_epsilon_and_delta() -> None:
    radii = [moments_noise.calibrate(1.0, 1e-6, square, 2).sigma for square in (1.1, 1.9, 2.0, 2.1, 6.0)]
    assert radii == sorted(radii)
    for values in (
        [moments_noise.calibrate(e, 1e-6, 6.0, 2).sigma for e in (8.0, 2.0, 0.5, 0.1)],
        [moments_noise.calibrate(1.0, d, 6.0, 2).sigma for d in (1e-2, 1e-5, 1e-9)],
    ):
        assert values == sorted(values)


@pytest.mark.parametrize("square", [1.01, 1.3, 1.9, 2.0, 3.0, 6.0])
def test_sensitivity_is_never_exceeded_and_attained(square: float) -> None:
    """Distances of random and of extreme records; the extreme pair reaches the bound."""
    rng = np.random.default_rng(3)
    r = math.sqrt(square - 1)
    a = rng.standard_normal((4000, 2, 3))
    a *= (r * rng.uniform(0, 1, (4000, 2)) ** 0.2 / np.linalg.norm(a, axis=2))[:, :, None]
    x, y = (np.column_stack([np.ones(4000), a[:, i]]) for i in (0, 1))
    far = np.linalg.norm(x[:, :, None] * x[:, None] - y[:, :, None] * y[:, None], axis=(1, 2))
    bound = moments_noise.sensitivity(square)
    assert far.max() <= bound
    cosine = max(-1.0, -1 / r**2)
    u = np.array([1, r, 0])
    w = np.array([1, r * cosine, r * math.sqrt(1 - cosine**2)])
    assert np.linalg.norm(np.outer(u, u) - np.outer(w, w)) == pytest.approx(bound, rel=1e-9)


def test_noise_for_a_given_mu() -> None:
    sigma = moments_noise.sensitivity(6.0) / 0.25
    assert moments_noise.mu(sigma, 6.0, 2) == pytest.approx(0.25, rel=1e-12)
    assert moments_noise.epsilon(1e-6, sigma, 6.0, 2) == pytest.approx(gdp.epsilon(1e-6, 0.25), rel=1e-9)


def test_coalitions_that_leave_fewer_or_more_honest() -> None:
    found = moments_noise.calibrate(1.0, 1e-6, 6.0, 4, 3)
    mu = moments_noise.mu(found.sigma, 6.0, 3)
    assert moments_noise.mu(found.sigma, 6.0, 3, 1) == pytest.approx(mu * math.sqrt(3))
    epsilons = [moments_noise.epsilon(1e-6, found.sigma, 6.0, 3, left) for left in (1, 2, 3, 4)]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[2] == pytest.approx(1.0, rel=1e-7)
    assert epsilons[0] == pytest.approx(gdp.epsilon(1e-6, mu * math.sqrt(3)), rel=1e-9)
    with pytest.raises(ParameterError, match="left"):
        moments_noise.epsilon(1e-6, found.sigma, 6.0, 3, 0)


@pytest.mark.parametrize(("providers", "honest"), [(1, 1), (2, 2), (3, 0)])
def test_parties_that_cannot_be(providers: int, honest: int) -> None:
    with pytest.raises(ParameterError):
        moments_noise.calibrate(1.0, 1e-6, 6.0, providers, honest)


def test_radius_has_room_for_the_constant() -> None:
    with pytest.raises(ParameterError, match="radius_squared"):
        moments_noise.calibrate(1.0, 1e-6, 1.0, 2)


def test_epsilon_so_large_that_rounding_would_cost_delta() -> None:
    with pytest.raises(ParameterError, match="rounding"):
        moments_noise.calibrate(150.0, 1e-9, 6.0, 3, 2)


def rounded(deviation: float, reach: int) -> np.ndarray:
    """P(round(N(0, d^2)) = k), k = -reach .. reach, from the nearer tail."""
    k = np.abs(np.arange(-reach, reach + 1))
    return np.asarray(ndtr(-(k - 0.5) / deviation) - ndtr(-(k + 0.5) / deviation))


def worst_delta(one: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    grow = math.exp(epsilon)
    return max(float(np.maximum(one - grow * other, 0).sum()), float(np.maximum(other - grow * one, 0).sum()))


@pytest.mark.parametrize("deviation", [1, 2, 4])
@pytest.mark.parametrize("shift", [(1, 0), (1, 1), (3, 2)])
def test_one_honest_provider_counted_out(deviation: int, shift: tuple[int, int]) -> None:
    """Two whole totals that differ by `shift`: every answer enumerated, delta is at most the Gaussian mechanism's."""
    reach = 40 * deviation
    law = rounded(deviation, reach)
    here = np.outer(law, law)
    there = np.roll(here, shift, axis=(0, 1))
    mu = math.hypot(*shift) / deviation
    for epsilon in (0.0, 0.3, 1.0, 3.0):
        found, bound = worst_delta(here, there, epsilon), gdp.delta(epsilon, mu)
        assert found <= bound * (1 + 1e-9) + 1e-15
        assert found > 0.2 * bound  # not an empty statement


@pytest.mark.parametrize("honest", [2, 3, 4])
@pytest.mark.parametrize("deviation", [1, 1.5, 2])
def test_sums_of_rounded_noise_counted_out(honest: int, deviation: float) -> None:
    """The exact sum of rounded Gaussians is within tv of the rounded sum with uniforms; delta within the slack."""
    reach = 60
    one = rounded(deviation, reach)
    total = one
    for _ in range(honest - 1):
        total = np.convolve(total, one)
    # Rounded N(0, h d^2) + U_1 + .. + U_(h-1): the uniforms by quadrature.
    nodes, weights = np.polynomial.legendre.leggauss(12)
    k = np.arange(-honest * reach, honest * reach + 1)
    wide = deviation * math.sqrt(honest)
    like = np.zeros(len(k))
    for picks in itertools.product(range(12), repeat=honest - 1):
        at = k - sum(nodes[i] / 2 for i in picks)
        share = math.prod(weights[i] / 2 for i in picks)
        near = np.abs(at)
        like += share * (ndtr(-(near - 0.5) / wide) - ndtr(-(near + 0.5) / wide))
    apart = 0.5 * float(np.abs(total - like).sum())
    bound = math.exp(grid_gaussian.log_total_variation(deviation, honest))
    assert apart <= bound + 1e-13
    for epsilon in (0.3, 1.0):
        slack = math.exp(grid_gaussian.log_slack(epsilon, deviation, honest, 1))
        assert worst_delta(total, np.roll(total, 1), epsilon) <= gdp.delta(epsilon, 1 / wide) + slack


def test_rounded_sums_of_one_are_exact_and_bounds_fall() -> None:
    assert grid_gaussian.log_total_variation(1, 1) == -math.inf
    falling = [grid_gaussian.log_total_variation(d, 2) for d in (2, 3, 4, 256)]
    assert falling == sorted(falling, reverse=True)
    assert moments_noise.slack(50.0, 16) < 1e-28
    assert moments_noise.slack(1.0, 1) == 0


def test_entry_deviations_are_never_less_than_asked_and_hardly_more() -> None:
    for sigma, w_j, w_l, honest, diagonal in itertools.product(
        (0.7, 8.3, 431.7), (1, 3, 1000), (1, 1000), (1, 2, 5), (True, False)
    ):
        asked = sigma * w_j * w_l / math.sqrt(honest * (1 if diagonal else 2))
        noise = entry_noise(sigma, w_j, w_l, honest, diagonal)
        assert asked <= noise.deviation <= asked * 1.004
        assert noise.sigma >= 256


def test_published_noise_is_at_least_sigma_in_every_direction() -> None:
    """Entry by entry, h providers have variance sigma^2 on the diagonal and half of it off it; the count has none."""
    sigma, widths = 12.5, [1000, 1, 37]
    law = moments_law(sigma, widths, 3, 2)
    assert law.variances[0, 0] == 0
    for j, index, _ in entries(sigma, widths, 2):
        asked = sigma**2 * (1 if j == index else 0.5) * 3 / 2
        assert asked <= law.variances[j, index] <= 1.009 * asked
    assert sum(1 for _ in entries(sigma, widths, 2)) == 9


@pytest.mark.parametrize("deviation", [4, 11])
def test_variance_of_a_rounded_gaussian(deviation: int) -> None:
    law = rounded(deviation, 12 * deviation)
    k = np.arange(-12 * deviation, 12 * deviation + 1)
    assert float(law @ k**2) == pytest.approx(deviation**2 + 1 / 12, rel=1e-12)


def test_totals_that_fit_and_totals_that_do_not() -> None:
    sigma = moments_noise.calibrate(1.0, 1e-6, 6.0, 2).sigma
    check_overflow([1000] * 5, [1000] * 5, 10**8, sigma, 2)
    check_overflow([1] * 5, [1] * 5, 10**9, sigma, 2)
    with pytest.raises(ImpossibleStudy, match=r"age times age.*steps coarser") as caught:
        check_overflow([10**6], [10**6], 10**6, sigma, 2, names=["age"])
    assert caught.value.reason == "overflow"
    with pytest.raises(ImpossibleStudy, match="raise epsilon"):
        check_overflow([10**6], [10**6], 10, 1e6, 2)
    with pytest.raises(ParameterError, match="largest"):
        check_overflow([10, 10], [10], 10, sigma, 2)


def test_overflow_is_refused_at_the_boundary_exactly() -> None:
    """One column of width 1: 2^shift N + 12 deviations against 2^59, one person apart."""
    sigma = 1024.0
    noise = entry_noise(sigma, 1, 1, 1, True)
    far = math.ceil(12 * math.sqrt(2) * noise.sigma) + 2
    most = (2**59 - far - 1) // 2**20
    assert noise.shift == 0
    check_overflow([1], [2**10], most, sigma, 2)
    with pytest.raises(ImpossibleStudy):
        check_overflow([1], [2**10], most + 1, sigma, 2)


def test_first_moments_are_checked_too() -> None:
    """A column whose ball keeps its square small may still have sums that do not fit: w far below the largest z."""
    with pytest.raises(ImpossibleStudy, match="the sum of x over"):
        check_overflow([1], [2**40], 2**20, 10.0, 2, names=["x"])
