"""gaussian_pair against closed forms, quadrature in one dimension, and Monte Carlo in twelve."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from trimask_core.basics.errors import ParameterError
from trimask_theory.gaussian import gaussian_pair, weighted_chi2
from trimask_theory.mechanisms import projection

PUBLISHED = json.loads((Path(__file__).parents[1] / "vectors" / "published-values.json").read_text())


def wishart(rng, size):
    sample = rng.normal(size=(size, 3 * size))
    return sample @ sample.T / (3 * size)


def equal_covariance(t, epsilon):
    """Phi(t/2 - eps/t) - e^eps Phi(-t/2 - eps/t), t the Mahalanobis distance, at 60 digits."""
    with mp.workdps(60):
        t, epsilon = mp.mpf(float(t)), mp.mpf(float(epsilon))
        return float(mp.ncdf(t / 2 - epsilon / t) - mp.exp(epsilon) * mp.ncdf(-t / 2 - epsilon / t))


@pytest.mark.parametrize("row", PUBLISHED["ndis_one_dimension"]["rows"])
def test_published_one_dimension(row):
    first, second = (row["mean1"], row["var1"]), (row["mean2"], row["var2"])
    assert gaussian_pair.delta(*first, *second, row["epsilon"]) == pytest.approx(row["delta12"], rel=1e-11)
    assert gaussian_pair.delta(*second, *first, row["epsilon"]) == pytest.approx(row["delta21"], rel=1e-11)


@pytest.mark.parametrize("t", [1e-7, 1e-3, 0.3, 1.0, 6.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 0.01, 1.0, 10.0])
def test_equal_covariance(t, epsilon):
    expected = equal_covariance(t, epsilon)
    found = gaussian_pair.delta(t, 1.0, 0.0, 1.0, epsilon)
    assert found == pytest.approx(expected, rel=1e-11, abs=1e-300)


def test_equal_covariance_in_twelve_dimensions():
    rng = np.random.default_rng(5)
    cov, difference = wishart(rng, 12), rng.normal(size=12)
    t = math.sqrt(difference @ np.linalg.solve(cov, difference))
    for epsilon in (0.0, 1.0, 15.0):
        found = gaussian_pair.delta(difference, cov, np.zeros(12), cov, epsilon)
        assert found == pytest.approx(equal_covariance(t, epsilon), rel=1e-9)


def one_dimension(mean, var1, var2, epsilon):
    """P[N1 in S] - e^eps P[N2 in S] on the interval, or its complement, where the density ratio exceeds e^eps."""
    with mp.workdps(150):
        mean, v1, v2 = (mp.mpf(float(v)) for v in (mean, var1, var2))
        epsilon = mp.mpf(float(epsilon))
        # ln ratio = a x^2 + b x + c - eps, N1 = N(mean, v1), N2 = N(0, v2)
        a, b = (1 / v2 - 1 / v1) / 2, mean / v1
        c = -(mean**2) / (2 * v1) + mp.log(v2 / v1) / 2 - epsilon
        discriminant = b * b - 4 * a * c
        if discriminant <= 0:
            return 0.0
        low, high = sorted((-b + sign * mp.sqrt(discriminant)) / (2 * a) for sign in (-1, 1))

        def mass(centre, variance):
            below = mp.ncdf((low - centre) / mp.sqrt(variance))
            above = mp.ncdf((centre - high) / mp.sqrt(variance))
            return below + above if a > 0 else 1 - below - above

        return float(mass(mean, v1) - mp.exp(epsilon) * mass(0, v2))


@pytest.mark.parametrize("var1", [1e-6, 0.5, 1 - 1e-9, 1 + 1e-6, 1.02, 4.0, 1e5])
@pytest.mark.parametrize("mean", [0.0, 1e-3, 0.5, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.5, 8.0])
def test_one_dimension(mean, var1, epsilon):
    expected = one_dimension(mean, var1, 1.0, epsilon)
    found = gaussian_pair.delta(mean, var1, 0.0, 1.0, epsilon)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-290)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_projection_pair(epsilon):
    rng = np.random.default_rng(3)
    data, columns = rng.normal(size=(40, 3)), 4
    whole, less = data.T @ data, data[1:].T @ data[1:]
    leverage = data[0] @ np.linalg.solve(whole, data[0])
    found = gaussian_pair.spectrum(
        np.zeros(12), np.kron(np.eye(columns), whole), np.zeros(12), np.kron(np.eye(columns), less), [epsilon]
    )
    assert found.forward[0] == pytest.approx(projection.delta(epsilon, leverage, columns), rel=1e-10)
    assert found.backward[0] <= found.forward[0] * (1 + 1e-12)


def test_difference_of_two_tails_where_it_does_not_cancel():
    # NDIS, Proposition 16: P[W1 <= t] - e^eps P[W2 <= t].
    rng = np.random.default_rng(8)
    size, epsilon = 6, 0.7
    mean, cov1, cov2 = 0.5 * rng.normal(size=size), wishart(rng, size), wishart(rng, size)
    values, vectors = np.linalg.eigh(cov1)
    root = (vectors * np.sqrt(values)) @ vectors.T
    a, u = np.linalg.eigh(np.eye(size) - root @ np.linalg.solve(cov2, root))
    b = -u.T @ root @ np.linalg.solve(cov2, mean)
    c = epsilon + 0.5 * np.linalg.slogdet(cov1)[1] - 0.5 * np.linalg.slogdet(cov2)[1]
    c -= 0.5 * mean @ np.linalg.solve(cov2, mean)
    t = float(np.sum(b**2 / a) - 2 * c)
    first = weighted_chi2.cdf(t, a, 1, b**2 / a**2)
    second = weighted_chi2.cdf(t, a / (1 - a), 1, b**2 / (a**2 * (1 - a)))
    found = gaussian_pair.delta(mean, cov1, np.zeros(size), cov2, epsilon)
    assert found == pytest.approx(first - math.exp(epsilon) * second, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_monte_carlo_in_twelve_dimensions(epsilon):
    # Samples of N1 and the two densities themselves, nothing of the reduction under test. The half-width below
    # is Hoeffding's at a failure probability of 1e-9 for each of the 6 comparisons.
    rng = np.random.default_rng(12)
    samples = 200_000
    half_width = math.sqrt(math.log(2 / 1e-9) / (2 * samples))
    mean = 0.3 * rng.normal(size=12)
    pair = (mean, wishart(rng, 12)), (np.zeros(12), wishart(rng, 12))
    for (mean1, cov1), (mean2, cov2) in (pair, pair[::-1]):
        first, second = stats.multivariate_normal(mean1, cov1), stats.multivariate_normal(mean2, cov2)
        points = first.rvs(samples, random_state=rng)
        log_ratio = epsilon + second.logpdf(points) - first.logpdf(points)
        estimate = float(-np.expm1(np.minimum(log_ratio, 0)).mean())
        assert abs(gaussian_pair.delta(mean1, cov1, mean2, cov2, epsilon) - estimate) < half_width


def test_estimate_holds_the_exact_value():
    # Wrong with probability at most gamma = 1e-6 for each of the 2 directions.
    rng = np.random.default_rng(2)
    first, second = (0.3 * rng.normal(size=12), wishart(rng, 12)), (np.zeros(12), wishart(rng, 12))
    for one, other in ((first, second), (second, first)):
        found = gaussian_pair.estimate(*one, *other, 1.0, alpha=0.01, gamma=1e-6, normals=rng)
        assert found.samples == math.ceil(math.log(2e6) / (2 * 0.01**2))
        assert (found.low, found.high) == (found.delta - 0.01, found.delta + 0.01)
        assert found.low <= gaussian_pair.delta(*one, *other, 1.0) <= found.high


def test_epsilon_zero_is_total_variation():
    rng = np.random.default_rng(4)
    first, second = (rng.normal(size=3), wishart(rng, 3)), (rng.normal(size=3), wishart(rng, 3))
    found = gaussian_pair.spectrum(*first, *second, [0.0])
    assert found.forward[0] == pytest.approx(found.backward[0], rel=1e-11)
    grid = np.linspace(-12, 14, 400_001)
    one, other = stats.norm.pdf(grid, 1, 1), stats.norm.pdf(grid, 0, 2)
    distance = 0.5 * np.abs(one - other).sum() * (grid[1] - grid[0])
    assert gaussian_pair.delta(1, 1, 0, 4, 0) == pytest.approx(distance, rel=1e-7)


def test_spectrum_falls_and_is_convex_in_the_odds():
    rng = np.random.default_rng(6)
    first, second = (rng.normal(size=4), wishart(rng, 4)), (np.zeros(4), wishart(rng, 4))
    epsilons = np.linspace(0, 12, 40)
    found = gaussian_pair.spectrum(*first, *second, epsilons)
    for curve in (np.array(found.forward), np.array(found.backward)):
        assert (np.diff(curve) < 0).all()
        # delta is convex in e^eps
        slopes = np.diff(curve) / np.diff(np.exp(epsilons))
        assert (np.diff(slopes) > 0).all()


@pytest.mark.parametrize("tiny", [0.0, 1e-300, 1e-15, 1e-9, 1e-6])
def test_a_nearly_equal_variance_is_no_special_case(tiny):
    # b^2/a^2 of Proposition 16 would be 1/tiny^2.
    cov1, cov2 = np.diag([1.0 + tiny, 1.0]), np.diag([1.0, 0.6])
    expected = gaussian_pair.delta([1.0, 0.2], np.diag([1.0, 1.0]), [0.0, 0.0], cov2, 1.0)
    found = gaussian_pair.delta([1.0, 0.2], cov1, [0.0, 0.0], cov2, 1.0)
    assert found == pytest.approx(expected, rel=1e-12 + 2 * tiny)


def test_units_do_not_matter():
    rng = np.random.default_rng(9)
    mean, cov1, cov2 = rng.normal(size=3), wishart(rng, 3), wishart(rng, 3)
    units = np.array([1e-120, 1.0, 1e120])
    square = np.outer(units, units)
    plain = gaussian_pair.delta(mean, cov1, np.zeros(3), cov2, 1.0)
    assert gaussian_pair.delta(mean * units, cov1 * square, np.zeros(3), cov2 * square, 1.0) == pytest.approx(
        plain, rel=1e-11
    )


def test_bounded_loss_is_zero_beyond_its_bound_whatever_the_rounding():
    rng = np.random.default_rng(3)
    data = rng.normal(size=(40, 12))
    whole, less = data.T @ data, data[1:].T @ data[1:]
    # ln dN(0, less)/dN(0, whole) <= -ln(1 - p)/2, the other 11 directions being equal.
    leverage = data[0] @ np.linalg.solve(whole, data[0])
    bound = -0.5 * math.log1p(-leverage)
    assert gaussian_pair.delta(np.zeros(12), less, np.zeros(12), whole, bound + 1e-9) == 0.0
    assert gaussian_pair.delta(np.zeros(12), less, np.zeros(12), whole, 0.9 * bound) > 0.0


def test_equal_distributions_and_bounded_losses_give_zero():
    assert gaussian_pair.delta([1.0, 2.0], np.eye(2), [1.0, 2.0], np.eye(2), 0.0) == 0.0
    # N1 narrower than N2: ln dN1/dN2 <= ln 2 everywhere.
    assert gaussian_pair.delta(0.0, 1.0, 0.0, 4.0, math.log(2) + 1e-12) == 0.0
    assert gaussian_pair.delta(0.0, 1.0, 0.0, 4.0, math.log(2) - 1e-3) > 0.0


@pytest.mark.parametrize(
    ("parameter", "reason", "cov1", "cov2"),
    [
        ("cov1", "rank 1 of 2", [[1, 1], [1, 1]], np.eye(2)),
        ("cov2", "rank 1 of 2", np.eye(2), [[4, 2], [2, 1]]),
        ("cov2", "eigenvalue", np.eye(2), [[1, 2], [2, 1]]),
        ("cov1", "not above 0", [[0, 0], [0, 1]], np.eye(2)),
        ("cov1", "condition number", [[1, 1 - 1e-12], [1 - 1e-12, 1]], np.eye(2)),
        ("cov1", "symmetric", [[1, 0.5], [0, 1]], np.eye(2)),
        ("cov2", "2 x 2", np.eye(2), np.eye(3)),
        ("cov2", "finite", np.eye(2), [[1, 0], [0, math.nan]]),
    ],
)
def test_refuses_covariances_with_the_reason(parameter, reason, cov1, cov2):
    with pytest.raises(ParameterError, match=reason) as refusal:
        gaussian_pair.delta([0.0, 1.0], cov1, [0.0, 0.0], cov2, 1.0)
    assert refusal.value.parameter == parameter


def test_refuses_other_parameters():
    with pytest.raises(ParameterError, match="epsilon must be"):
        gaussian_pair.delta(0, 1, 1, 1, -0.1)
    with pytest.raises(ParameterError, match="epsilons must be"):
        gaussian_pair.spectrum(0, 1, 1, 1, [0.1, math.inf])
    with pytest.raises(ParameterError, match="mean2 must be as long"):
        gaussian_pair.delta([0, 1], np.eye(2), 1, 1, 1)
    with pytest.raises(ParameterError, match="mean1 must be"):
        gaussian_pair.delta(math.nan, 1, 0, 1, 1)
    for name, alpha, gamma in (("alpha", 0, 0.1), ("gamma", 0.1, 1)):
        with pytest.raises(ParameterError, match=name):
            gaussian_pair.estimate(0, 1, 1, 1, 1, alpha, gamma)
