"""vector_sum: scalings, radii, errors and gains against closed forms and simulation; the three mechanisms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from trimask_core.basics.errors import ParameterError
from trimask_theory.gaussian import gdp, local_noise
from trimask_theory.mechanisms import vector_sum

PRIVACY = {"epsilon": 1.0, "delta": 1e-6}


def zipf(d: int, alpha: float) -> np.ndarray:
    """Section 5's deviations: 1/i^alpha, of sum 1."""
    weights = np.arange(1, d + 1.0) ** -alpha
    return weights / weights.sum()


class Silent:
    """A source without noise, to see the sum a mechanism adds noise to."""

    def standard_normal(self, size: tuple[int, ...], /) -> np.ndarray:
        return np.zeros(size)


class Kept:
    """A source that keeps what it gave last, so that the noise can be taken off again."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        self.last = np.zeros(0)

    def standard_normal(self, size: tuple[int, ...], /) -> np.ndarray:
        self.last = self.generator.standard_normal(size)
        return self.last


def test_scalings_meet_their_constraints_and_are_optimal() -> None:
    ranges = np.array([5.0, 1.0, 0.2, 0.01])
    b = vector_sum.bounded_scaling(ranges)
    assert np.linalg.norm(b) == pytest.approx(1.0)
    sigma = np.array([3.0, 1.0, 0.1])
    scaled = vector_sum.clipped_scaling(sigma)
    assert np.sum((scaled * sigma) ** 2) == pytest.approx(1.0)

    # Theorem 3 and Lemma 4.1: no other vector on the constraint has a smaller noise error.
    def bounded(free: np.ndarray) -> float:
        unit = np.exp(free) / np.linalg.norm(np.exp(free))
        return float(np.sum((ranges / unit) ** 2))

    def clipped(free: np.ndarray) -> float:
        unit = np.exp(free) / np.linalg.norm(np.exp(free) * sigma)
        return float(np.sum(unit**-2.0))

    best = optimize.minimize(bounded, np.zeros(4), tol=1e-12)
    assert best.fun == pytest.approx(np.sum((ranges / b) ** 2), rel=1e-7)
    best = optimize.minimize(clipped, np.zeros(3), tol=1e-12)
    assert best.fun == pytest.approx(np.sum(scaled**-2.0), rel=1e-7)


@pytest.mark.parametrize("share", [0.5, 1e-2, 1e-6, 1e-12])
@pytest.mark.parametrize("d", [1, 2, 10, 300])
def test_radius_is_the_chi_square_quantile_for_equal_deviations(d: int, share: float) -> None:
    radius = vector_sum.clipping_radius(np.full(d, 0.7), share)
    assert radius**2 == pytest.approx(stats.chi2(d).isf(share) / d, rel=1e-9)


def test_radius_clips_the_stated_share_of_unequal_coordinates() -> None:
    sigma = np.array([4.0, 1.0, 0.5, 0.1])
    b = vector_sum.clipped_scaling(sigma)
    x = np.random.default_rng(0).standard_normal((200000, 4)) * sigma * b
    for share in (0.2, 0.01):
        outside = int(np.sum(np.linalg.norm(x, axis=1) > vector_sum.clipping_radius(sigma, share)))
        # Fails by chance once in 10^4.
        assert stats.binomtest(outside, 200000, share).pvalue > 1e-4


@pytest.mark.parametrize(("d", "rows"), [(200, 100), (1000, 10**6), (2000, 10**9)])
def test_theorem_4_bounds_the_exact_error_where_its_condition_holds(d: int, rows: int) -> None:
    sigma = zipf(d, 0.05)
    bound = vector_sum.theorem_4_error(sigma, rows, 1.0, 1e-6)
    exact = vector_sum.clipped_error(sigma, 1 / rows, 1.0, 1e-6)
    assert exact < bound < 1.5 * exact
    # The closed form as printed.
    s_opt, total = 1 / gdp.mu(1.0, 1e-6), sigma.sum()
    printed = 4 * s_opt**2 * total * (np.sqrt(8 * np.log(rows) * np.sum(sigma**2)) + total)
    assert bound == pytest.approx(printed, rel=1e-9)


def test_theorem_4_is_refused_where_its_condition_fails() -> None:
    # 18 ln n <= sum sigma^2 / sigma_max^2 = d for equal deviations: d = 100 allows n up to e^(100/18) = 258.
    assert vector_sum.theorem_4_radius(np.ones(100), 258) > 1
    with pytest.raises(ParameterError, match=r"ln\(rows\) <= sum sigma_j\^2/\(18 sigma_max\^2\) = 5\.556"):
        vector_sum.theorem_4_radius(np.ones(100), 259)


@pytest.mark.parametrize("d", [1, 7, 100])
def test_gains_are_one_for_equal_coordinates(d: int) -> None:
    assert vector_sum.bounded_gain(np.full(d, 3.0)) == pytest.approx(1.0, rel=1e-12)
    for rows in (1e2, 1e6):
        assert vector_sum.clipped_gain(np.full(d, 3.0), 1 / rows) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("d", [10, 100, 1000])
def test_gain_of_figure_2_stays_between_one_and_d(d: int) -> None:
    gains = [vector_sum.clipped_gain(zipf(d, alpha), 1e-3) for alpha in (0.01, 0.3, 1.0, 3.0, 10.0)]
    assert gains[0] == pytest.approx(1.0, abs=1e-3)
    assert np.all(np.diff(gains) > 0)
    assert 0.99 * d < gains[-1] <= d


def test_gains_stay_between_one_and_d_for_random_deviations() -> None:
    generator = np.random.default_rng(1)
    for _ in range(60):
        d = int(generator.integers(2, 25))
        sigma = np.exp(generator.normal(0, generator.uniform(0.01, 3), d))
        share = 10 ** generator.uniform(-8, -0.3)
        assert 1 - 1e-9 <= vector_sum.clipped_gain(sigma, share) <= d
        assert 1 <= vector_sum.bounded_gain(sigma) < d


def test_gain_is_the_ratio_of_the_errors() -> None:
    sigma = zipf(12, 1.2)
    plain = vector_sum.clipped_error(sigma, 1e-3, 1.0, 1e-6, scaling=np.ones(12))
    scaled = vector_sum.clipped_error(sigma, 1e-3, 1.0, 1e-6)
    assert vector_sum.clipped_gain(sigma, 1e-3) == pytest.approx(plain / scaled, rel=1e-12)
    # The erratum: the gain grows with n, of which one row in n is clipped.
    few, many = (vector_sum.clipped_gain(sigma, 1 / rows) for rows in (1e2, 1e9))
    assert many / few == pytest.approx(1.167, abs=1e-3)
    first = vector_sum.gaussian_error(sigma, 1.0, 1e-6)
    second = vector_sum.elliptical_error(sigma, 1.0, 1e-6)
    assert vector_sum.bounded_gain(sigma) == pytest.approx(first / second, rel=1e-12)


def test_bounded_mechanisms_add_the_predicted_noise_to_the_exact_sum() -> None:
    generator = np.random.default_rng(2)
    lower, upper = np.array([0.0, -1.0, 10.0]), np.array([1.0, 9.0, 10.1])
    rows = generator.uniform(lower, upper, (50, 3))
    ranges = upper - lower
    for mechanism, predicted in (
        (vector_sum.gaussian, vector_sum.gaussian_error(ranges, 1.0, 1e-6)),
        (vector_sum.elliptical, vector_sum.elliptical_error(ranges, 1.0, 1e-6)),
    ):
        assert mechanism(rows, lower, upper, source=Silent(), **PRIVACY).value == pytest.approx(
            rows.sum(axis=0)
        )
        errors = []
        for _ in range(2000):
            release = mechanism(rows, lower, upper, source=generator, **PRIVACY)
            errors.append(np.sum((release.value - rows.sum(axis=0)) ** 2))
        assert predicted < release.expected_error == pytest.approx(predicted, rel=1e-6)
        # z-score of the mean squared error; fails by chance once in 10^5.
        assert abs(np.mean(errors) - predicted) < 4.5 * np.std(errors) / np.sqrt(2000)


def test_elliptical_noise_is_private_along_every_corner() -> None:
    # The worst replacement moves every coordinate by its range: |Delta / sd|_2 = 1/s_opt, the analytic mu.
    lower, upper = np.zeros(3), np.array([1.0, 10.0, 0.1])
    rows = np.full((4, 3), 0.05)
    for mechanism in (vector_sum.gaussian, vector_sum.elliptical):
        release = mechanism(rows, lower, upper, source=Silent(), **PRIVACY)
        shift = float(np.linalg.norm((upper - lower) / release.noise))
        assert 1e-6 * (1 - 1e-5) < gdp.delta(1.0, shift) <= 1e-6  # a hair more noise, for the grid
    release = vector_sum.elliptical(rows, lower, upper, source=Silent(), scaling=[0.6, 0.8, 1e-8], **PRIVACY)
    assert 1e-6 * (1 - 1e-5) < gdp.delta(1.0, float(np.linalg.norm(upper / release.noise))) <= 1e-6


def test_clipped_sum_restores_the_centre_and_the_scale() -> None:
    # The erratum: with nothing clipped and no noise the answer is the plain sum, whatever the centre.
    generator = np.random.default_rng(3)
    sigma, centre = np.array([5.0, 1.0, 0.02]), np.array([100.0, -3.0, 0.5])
    rows = centre + generator.standard_normal((40, 3)) * sigma
    release = vector_sum.clipped(rows, centre, sigma, source=Silent(), clip_probability=1e-12, **PRIVACY)
    # To half a step of the grid, 2^-24 of what a record moves; and the noise is many times that.
    assert (np.abs(release.value - rows.sum(axis=0)) <= 1e-7 * release.noise).all()


def test_clipped_sum_of_any_two_neighbours_differs_by_at_most_the_noise_allows() -> None:
    generator = np.random.default_rng(4)
    sigma = np.array([5.0, 1.0, 0.02])
    rows = generator.standard_normal((30, 3)) * sigma
    release = vector_sum.clipped(rows, np.zeros(3), sigma, source=Silent(), **PRIVACY)
    b = vector_sum.clipped_scaling(sigma)
    largest = 0.0
    for _ in range(40):
        one, two = rows.copy(), rows.copy()
        direction = generator.standard_normal(3)
        one[0], two[0] = 1e6 * direction * sigma, -1e6 * direction * sigma
        values = [
            vector_sum.clipped(each, np.zeros(3), sigma, source=Silent(), **PRIVACY).value
            for each in (one, two)
        ]
        largest = max(largest, float(np.linalg.norm((values[0] - values[1]) / release.noise)))
    # Attained by opposite outliers, exceeded by none.
    assert 1e-6 * (1 - 1e-5) < gdp.delta(1.0, largest) <= 1e-6
    assert release.noise * b == pytest.approx(np.full(3, release.noise[0] * b[0]))


@pytest.mark.parametrize("rows", [100, 2000])
def test_clipped_sums_real_error_is_the_predicted_one_plus_a_little_clipping(rows: int) -> None:
    generator = np.random.default_rng(5)
    sigma, centre = zipf(20, 1.0) * 20, np.linspace(-5, 5, 20)
    predicted = vector_sum.clipped_error(sigma, 1 / rows, 1.0, 1e-6)
    source, total, clipping = Kept(generator), [], []
    for _ in range(120):
        x = centre + generator.standard_normal((rows, 20)) * sigma
        noisy = vector_sum.clipped(x, centre, sigma, source=source, **PRIVACY)
        error = noisy.value - x.sum(axis=0)
        total.append(np.sum(error**2))
        clipping.append(np.sum((error - noisy.noise * source.last) ** 2))
    assert predicted < noisy.expected_error == pytest.approx(predicted, rel=1e-6)
    # About one row in each data set is clipped, by a fraction of the radius: far below the noise.
    assert 0 < np.mean(clipping) < 1e-3 * predicted
    # z-score of the real error; fails by chance once in 10^5.
    assert abs(np.mean(total) - predicted) < 4.5 * np.std(total) / np.sqrt(120) + 1e-3 * predicted


def test_a_wrong_centre_costs_error_and_not_privacy() -> None:
    generator = np.random.default_rng(6)
    sigma = np.ones(4)
    x = 50 + generator.standard_normal((200, 4))
    release = vector_sum.clipped(x, np.zeros(4), sigma, source=Silent(), **PRIVACY)
    assert np.linalg.norm(release.value) == pytest.approx(
        2 * 200 * vector_sum.clipping_radius(sigma, 1 / 200), rel=1e-3
    )
    assert release.guarantee.basis == "proved"


def test_guarantees_say_what_is_replaced_and_by_which_theorem() -> None:
    release = vector_sum.clipped(np.ones((3, 2)), [0.0, 0.0], [1.0, 2.0], source=Silent(), **PRIVACY)
    assert (release.guarantee.epsilon, release.guarantee.delta) == (1.0, 1e-6)
    assert release.guarantee.neighbours.relation == "record"
    assert "centre and deviations are taken as public" in str(release.guarantee)
    assert "array" not in repr(release).split("noise")[0]


def test_scale_is_the_analytic_gaussians() -> None:
    release = vector_sum.gaussian([[0.5], [0.2]], [0.0], [2.0], source=Silent(), **PRIVACY)
    assert release.noise[0] == pytest.approx(2 * local_noise.calibrate(1.0, 1e-6).sigma)


def sums(**change: object) -> object:
    given = {
        "rows": [[0.5, 0.5]],
        "lower": [0.0, 0.0],
        "upper": [1.0, 1.0],
        "source": Silent(),
        **PRIVACY,
        **change,
    }
    return vector_sum.elliptical(**given)


def clips(**change: object) -> object:
    given = {
        "rows": [[0.5, 0.5]],
        "centre": [0, 0],
        "deviations": [1, 1],
        "source": Silent(),
        **PRIVACY,
        **change,
    }
    return vector_sum.clipped(**given)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: sums(epsilon=0.0), "epsilon"),
        (lambda: sums(delta=1.0), "delta"),
        (lambda: sums(rows=[0.5, 0.5]), "rows"),
        (lambda: sums(rows=[[0.5, np.nan]]), "rows"),
        (lambda: sums(rows=[[0.5, 1.5]]), "rows"),
        (lambda: sums(lower=[0.0]), "lower"),
        (lambda: sums(upper=[1.0, 0.0]), "upper"),
        (lambda: sums(scaling=[1.0, 1.0]), "scaling"),
        (lambda: clips(centre=[0.0]), "centre"),
        (lambda: clips(deviations=[1.0, 0.0]), "deviations"),
        (lambda: clips(deviations=[1.0]), "deviations"),
        (lambda: clips(clip_probability=0.0), "clip_probability"),
        (lambda: clips(clip_probability=1.0), "clip_probability"),
        (lambda: clips(scaling=[1.0, -1.0]), "scaling"),
        (lambda: clips(epsilon=-1.0), "epsilon"),
        (lambda: vector_sum.bounded_scaling([]), "ranges"),
        (lambda: vector_sum.theorem_4_radius([1.0] * 100, 1), "rows"),
    ],
)
def test_invalid_parameters_are_named(call, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.parameter == name
