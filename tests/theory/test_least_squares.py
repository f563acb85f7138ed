"""least_squares: the canonical pair against the full matrices, the paper's settings, and the two mechanisms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from trimask_core.basics.errors import ParameterError
from trimask_theory.gaussian import gaussian_pair
from trimask_theory.mechanisms import least_squares


def solution(gram, r):
    """The least-squares solution and the covariance |e|^2 (B'B)^{-1}/r from the Gram matrix of [B, b]."""
    inner, cross = gram[:-1, :-1], gram[:-1, -1]
    x = np.linalg.solve(inner, cross)
    return x, (gram[-1, -1] - cross @ x) / r * np.linalg.inv(inner)


def leverages(gram, row):
    """q in [B, b] and p in B."""
    q = row @ np.linalg.solve(gram, row)
    return q, row[:-1] @ np.linalg.solve(gram[:-1, :-1], row[:-1])


@pytest.mark.parametrize(("features", "r"), [(1, 10), (3, 50), (8, 300)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_canonical_pair_equals_the_full_matrices(features, r, epsilon):
    rng = np.random.default_rng(features)
    data = rng.normal(size=(40, features + 1)) * np.geomspace(1, 20, features + 1)
    whole, less = data.T @ data, data[1:].T @ data[1:]
    q, p = leverages(whole, data[0])
    full = gaussian_pair.spectrum(*solution(whole, r), *solution(less, r), [epsilon])
    canonical = gaussian_pair.spectrum(*least_squares.canonical_pair(q, p, r, features), [epsilon])
    assert canonical.forward[0] == pytest.approx(full.forward[0], rel=1e-10)
    assert canonical.backward[0] == pytest.approx(full.backward[0], rel=1e-10)
    assert least_squares.delta(epsilon, q, p, r, features) == pytest.approx(full.worst[0], rel=1e-10)


def test_monte_carlo_of_the_full_pair():
    # The densities themselves. Hoeffding at a failure probability of 1e-9 for each of the 2 comparisons.
    rng = np.random.default_rng(21)
    data, r, samples = rng.normal(size=(30, 5)), 40, 200_000
    whole, less = data.T @ data, data[1:].T @ data[1:]
    half_width = math.sqrt(math.log(2 / 1e-9) / (2 * samples))
    pair = solution(whole, r), solution(less, r)
    estimates = []
    for one, other in (pair, pair[::-1]):
        first, second = stats.multivariate_normal(*one), stats.multivariate_normal(*other)
        points = first.rvs(samples, random_state=rng)
        estimates.append(-np.expm1(np.minimum(0.2 + second.logpdf(points) - first.logpdf(points), 0)).mean())
    assert abs(least_squares.delta(0.2, *leverages(whole, data[0]), r, 4) - max(estimates)) < half_width


def test_small_leverages_keep_their_digits():
    # At q = 2p the variance along u differs by p^2 only; a pair of means at distance m = p sqrt(r) is left.
    p, r = 1e-9, 10**16
    t = p * math.sqrt(r)
    expected = stats.norm.cdf(t / 2 - 0.1 / t) - math.exp(0.1) * stats.norm.cdf(-t / 2 - 0.1 / t)
    assert least_squares.delta(0.1, 2 * p, p, r, 1) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("features", [1, 10])
@pytest.mark.parametrize("r", [1, 30, 1000])
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5, 0.8, 1.0])
def test_delta_increases_as_the_row_grows(features, r, fraction):
    # What the calibration assumes.
    sizes = np.concatenate([np.geomspace(1e-3, 0.8, 14), [0.9, 0.99]])
    for epsilon in (0.1, 1.0):
        values = [least_squares.delta(epsilon, q, fraction * q, r, features) for q in sizes]
        assert (np.diff(values) >= -1e-11 * np.array(values[1:])).all()


def test_a_smaller_row_is_post_processing_and_a_shorter_mean_from_twice_the_leverage_on():
    """The two steps of the proof: variances reached with factors at most 1, and no mean beyond them, if q >= 2p."""
    rng = np.random.default_rng(8)
    for q, share, x in zip(
        rng.uniform(0.01, 0.99, 2000), rng.uniform(0, 1, 2000), rng.uniform(0.01, 0.99, 2000), strict=True
    ):
        p = share * q
        (_, whole, mean, other), (_, small, mean_x, other_x) = (
            least_squares.canonical_pair(y * q, y * p, 50, 2) for y in (1.0, x)
        )
        along = [1 - covariance[0, 0] for covariance in (other, other_x)]
        beside = [1 - covariance[1, 1] for covariance in (other, other_x)]
        assert whole.tolist() == small.tolist() == np.eye(2).tolist()
        assert 0 <= beside[1] / beside[0] <= 1 + 1e-12
        if p <= 0.5 * q:
            factor = along[1] / along[0]
            assert 0 <= factor <= 1 + 1e-12
            assert mean_x @ mean_x <= factor * (mean @ mean) * (1 + 1e-9)
        elif p < 0.9 * q - 0.1 * q * q and along[0] > 1e-3:
            assert mean_x @ mean_x > along[1] / along[0] * (mean @ mean)


def test_at_fixed_variances_a_longer_mean_is_easier_to_tell():
    covariance = np.diag([0.6, 1.7, 0.3])
    for epsilon in (0.0, 0.5, 2.0):
        found = [
            gaussian_pair.spectrum(
                np.zeros(3), np.eye(3), t * np.array([1.0, 0.5, -0.2]), covariance, [epsilon]
            )
            for t in np.linspace(0, 4, 15)
        ]
        for values in ([f.forward[0] for f in found], [f.backward[0] for f in found]):
            assert (np.diff(values) >= -1e-12).all()


def test_monotonicity_as_the_paper_draws_it_and_as_it_prints_it():
    # Figure 15's sizes: with the residual fixed delta increases with p, with q fixed it falls again.
    r, d, epsilon = 1000, 10, 1.0
    for residual in (0.01, 0.1, 0.3):
        values = [least_squares.delta(epsilon, p + residual, p, r, d) for p in np.linspace(0, 0.6, 13)]
        assert (np.diff(values) >= 0).all()
    middle, end = (least_squares.delta(epsilon, 0.2, p, r, d) for p in (0.1, 0.2))
    assert end < middle


def test_repro_corner_is_not_the_worst_for_few_features_and_rows():
    # Theorem 5's conjecture fails: a row with no leverage in B is seen far better than the corner q = 2p.
    corner, edge = least_squares.delta(1, 0.1, 0.05, 1, 1), least_squares.delta(1, 0.05, 0.0, 1, 1)
    assert corner < 1e-40
    assert edge > 1e-11
    sigma = least_squares.calibrate(1.0, 1e-12, 1, 1).sigma
    s = sigma**-2
    assert max(least_squares.delta(1, s + p, p, 1, 1) for p in np.linspace(0, s, 50)) <= 1e-12


PAPER = [
    # n, r, features, sigma of M_LS over Sheffet's in Table 2
    (2809, 300, 10, 7.917 / 20.317),  # Cancer
    (327346, round(100 * math.log(327346)), 1, 0.864 / 2.060),  # Flight: two columns, r = ln(n)/0.01
]


@pytest.mark.parametrize(("n", "r", "features", "printed"), PAPER)
def test_ratio_to_sheffet_in_the_papers_settings(n, r, features, printed):
    sigma = least_squares.calibrate(1, 1 / n, r, features).sigma
    ratio = sigma / least_squares.sheffet_sigma(1, 1 / n, r)
    assert 0.385 < ratio < 0.425
    assert ratio == pytest.approx(printed, rel=2e-3)
    # there the worst pair is the paper's corner
    assert least_squares.delta(1, 2 / sigma**2, 1 / sigma**2, r, features) == pytest.approx(1 / n, rel=1e-6)


@pytest.mark.parametrize("method", ["theorem", "sharp"])
@pytest.mark.parametrize(
    ("epsilon", "delta", "r", "d"), [(1.0, 1e-6, 300, 10), (0.1, 1e-10, 5, 2), (6.0, 1e-3, 50, 40)]
)
def test_calibrate_covers_every_row_and_not_more(method, epsilon, delta, r, d):
    row_norm = 2.0
    sigma = least_squares.calibrate(epsilon, delta, r, d, row_norm, method).sigma

    def worst(sigma):
        values = []
        for fraction in np.linspace(0, 1, 41):
            if method == "theorem":
                q = (row_norm / sigma) ** 2 / max(fraction, 1 - fraction)
            else:
                q = row_norm**2 / (row_norm**2 + sigma**2)
            values.append(least_squares.delta(epsilon, q, fraction * q, r, d))
        return max(values)

    assert worst(sigma) <= delta
    assert worst(0.995 * sigma) > delta


def test_sharp_is_attained_by_data_of_one_row():
    r, d, epsilon, delta = 60, 3, 1.0, 1e-5
    sigma = least_squares.calibrate(epsilon, delta, r, d, method="sharp").sigma
    base = sigma**2 * np.eye(d + 1)
    worst = 0.0
    for angle in np.linspace(0, math.pi / 2, 60):
        row = np.array([math.cos(angle), 0.0, 0.0, math.sin(angle)])
        found = gaussian_pair.spectrum(*solution(base + np.outer(row, row), r), *solution(base, r), [epsilon])
        worst = max(worst, found.worst[0])
    assert worst <= delta * (1 + 1e-9)
    assert worst > 0.97 * delta


def test_no_data_set_found_by_search_exceeds_the_sharp_delta():
    rng = np.random.default_rng(17)
    r, d, epsilon, delta = 60, 2, 0.5, 1e-4
    sigma = least_squares.calibrate(epsilon, delta, r, d, method="sharp").sigma
    for _ in range(60):
        rows = rng.normal(size=(int(rng.integers(1, 6)), d + 1))
        rows *= rng.uniform(0, 1, size=(len(rows), 1)) ** 0.1 / np.linalg.norm(rows, axis=1, keepdims=True)
        whole = rows.T @ rows + sigma**2 * np.eye(d + 1)
        assert least_squares.delta(epsilon, *leverages(whole, rows[0]), r, d) <= delta


def test_guarantee_says_what_it_rests_on():
    exact = least_squares.calibrate(1, 1e-5, 100, 5, row_norm=2.0).guarantee
    assert (exact.basis, exact.neighbours.relation, exact.neighbours.row_norm) == (
        "numerical",
        "add-remove",
        2.0,
    )
    assert "not proved" in exact.because
    sketched = least_squares.calibrate(1, 1e-5, 100, 5, mechanism="ALS").guarantee
    assert sketched.basis == "asymptotic"
    assert "limit" in sketched.because
    assert "not proved" in sketched.because


def test_relative_needs_no_noise_for_small_leverage_and_residual():
    calm = least_squares.relative_calibrate(1, 1e-5, 300, 5, leverage=0.01, residual=0.01)
    assert calm.sigma == 0.0
    assert "holds only for data sets" in calm.guarantee.because
    assert least_squares.delta(1, 0.02, 0.01, 300, 5) <= 1e-5
    exposed = least_squares.relative_calibrate(1, 1e-5, 300, 5, leverage=0.2, residual=0.2)
    assert exposed.sigma == least_squares.calibrate(1, 1e-5, 300, 5).sigma
    # the corner is calm, an edge is not: the counterexample above
    corner, edge = least_squares.delta(1, 0.1, 0.05, 1, 1), least_squares.delta(1, 0.05, 0.0, 1, 1)
    target = math.sqrt(corner * edge)
    assert least_squares.relative_calibrate(1, target, 1, 1, leverage=0.05, residual=0.05).sigma > 0


def test_release_has_the_stated_distribution():
    # 4,000 draws, whitened: Kolmogorov-Smirnov at 1e-6 for each of 2 coordinates, correlation within 5 deviations.
    rng = np.random.default_rng(31)
    data, r, sigma, draws = rng.normal(size=(30, 3)), 20, 1.5, 4000
    gram = data.T @ data
    mean, covariance = solution(gram + sigma**2 * np.eye(3), r)
    found = np.array([least_squares.release(gram, r, sigma, rng) for _ in range(draws)])
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), (found - mean).T)
    for coordinate in whitened:
        assert stats.kstest(coordinate, "norm").pvalue > 1e-6
    assert abs(np.corrcoef(whitened)[0, 1]) < 5 / math.sqrt(draws)


def test_sketch_is_normal_in_the_limit():
    # Given Pi B, the sketch is normal with mean x and covariance |e|^2 (B'Pi'Pi B)^{-1}, so its covariance is
    # exactly |e|^2 (B'B)^{-1}/(r - d - 1). 2,000 draws: variances within 6 standard errors (sqrt(2/2000) each),
    # a false failure below 1e-7.
    rng = np.random.default_rng(32)
    data, r, sigma, draws = rng.normal(size=(30, 3)), 200, 1.5, 2000
    mean, covariance = solution(data.T @ data + sigma**2 * np.eye(3), r - 3)
    found = np.array([least_squares.sketch(data, r, sigma, rng) for _ in range(draws)])
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), (found - mean).T)
    assert np.abs(whitened.mean(axis=1)).max() < 6 / math.sqrt(draws)
    assert np.abs(whitened.var(axis=1) - 1).max() < 6 * math.sqrt(2 / draws)


class Kept:
    """A source that keeps what it gave, so that the sketch can be formed again."""

    def __init__(self, generator):
        self.generator = generator
        self.given = []

    def standard_normal(self, size, /):
        self.given.append(self.generator.standard_normal(size))
        return self.given[-1]


@pytest.mark.parametrize("mechanism", ["M_ALS", "RP LS"])
def test_figures_11_and_14_are_least_squares_on_a_sketch_of_the_data_with_noise_rows(mechanism):
    # The same draw by its definition: Pi [D; sigma I_(d+1)], then a solver that knows nothing of Gram matrices.
    rng = np.random.default_rng(33)
    epsilon, delta, r, d, longest = 0.5, 1e-5, 300, 4, 2.5
    data = rng.normal(size=(20, d + 1))
    data *= longest / np.linalg.norm(data, axis=1).max()
    if mechanism == "M_ALS":
        sigma = least_squares.calibrate(epsilon, delta, r, d, longest, mechanism="ALS").sigma
        corner = [
            least_squares.delta(epsilon, 2 * s, s, r, d)
            for s in (longest**2 / sigma**2, 1.00001 * longest**2 / sigma**2)
        ]
        assert corner[0] <= delta < corner[1]
    else:
        sigma = least_squares.sheffet_sigma(epsilon, delta, r, longest)
        log = math.log(4 / delta)
        # c_2 of Figure 14, with c_1 the longest row.
        printed = math.sqrt(4 * longest**2 * (math.sqrt(2 * r * log) + log) / epsilon)
        assert sigma == pytest.approx(printed, rel=1e-12)
        assert sigma > 2 * least_squares.calibrate(epsilon, delta, r, d, longest).sigma
    source = Kept(rng)
    drawn = least_squares.sketch(data, r, sigma, source)
    mixed = np.hstack(source.given) @ np.vstack([data, sigma * np.eye(d + 1)])
    assert mixed.shape == (r, d + 1)
    assert drawn == pytest.approx(np.linalg.lstsq(mixed[:, :-1], mixed[:, -1])[0], rel=1e-9)


def test_sketch_has_the_exact_law_whose_limit_is_the_normal_one():
    # With the Gram matrix of Pi B given, the sketch is normal; over its Wishart law each coordinate, whitened by B'B,
    # is |e| t_(r-d+1)/sqrt(r-d+1). Kolmogorov-Smirnov at 1e-6 for each of 2 coordinates.
    rng = np.random.default_rng(34)
    data, r, draws = rng.normal(size=(30, 3)), 6, 3000
    mean, covariance = solution(data.T @ data, 1)
    found = np.array([least_squares.sketch(data, r, 0.0, rng) for _ in range(draws)])
    left = r - 2 + 1
    for coordinate in np.linalg.solve(np.linalg.cholesky(covariance), (found - mean).T):
        assert stats.kstest(coordinate * math.sqrt(left), stats.t(left).cdf).pvalue > 1e-6
        # It has power: with so few rows the law is not yet the limit's.
        assert stats.kstest(coordinate * math.sqrt(r), "norm").pvalue < 1e-6
    # Lemma 1: the distance from the normal law falls as 1/r.
    grid = np.linspace(-8, 8, 2001)
    far = [
        np.abs(stats.t(r - 1).cdf(grid * math.sqrt((r - 1) / r)) - stats.norm.cdf(grid)).max()
        for r in (100, 1000, 10_000)
    ]
    assert far[0] / far[1] == pytest.approx(10, rel=0.05)
    assert far[1] / far[2] == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_the_sketchs_own_spectrum_nears_that_of_its_limit(epsilon):
    # Figure 5 without sampling: for one feature the sketch is x + |e|/|B| t_r/sqrt(r), with and without the first row.
    rng = np.random.default_rng(35)
    data = rng.normal(size=(60, 2))
    data[0] = 1.5
    q, p = leverages(data.T @ data, data[0])
    apart = []
    for r in (300, 3000):
        laws = []
        for rows in (data, data[1:]):
            mean, variance = solution(rows.T @ rows, r)
            laws.append((float(mean[0]), math.sqrt(variance[0, 0])))
        centre, wide = laws[0][0], max(spread for _, spread in laws)
        grid = np.linspace(centre - 40 * wide, centre + 40 * wide, 40_001)
        first, second = (stats.t(r).pdf((grid - mean) / spread) / spread for mean, spread in laws)
        step = grid[1] - grid[0]
        exact = max(
            np.maximum(a - math.exp(epsilon) * b, 0.0).sum() * step
            for a, b in ((first, second), (second, first))
        )
        limit = least_squares.delta(epsilon, q, p, r, 1)
        apart.append(abs(limit / exact - 1))
    assert 0.4 < exact < 0.6
    assert apart[1] < 5e-4
    assert apart[1] < apart[0] / 10


@pytest.mark.parametrize(
    ("parameter", "call"),
    [
        ("epsilon", lambda: least_squares.delta(-1, 0.2, 0.1, 10, 2)),
        ("q", lambda: least_squares.delta(1, 0.1, 0.2, 10, 2)),
        ("q", lambda: least_squares.delta(1, 1.0, 0.2, 10, 2)),
        ("p", lambda: least_squares.delta(1, 0.1, -0.2, 10, 2)),
        ("reduced_dim", lambda: least_squares.delta(1, 0.2, 0.1, 0, 2)),
        ("features", lambda: least_squares.delta(1, 0.2, 0.1, 10, 0)),
        ("epsilon", lambda: least_squares.calibrate(0, 1e-5, 10, 2)),
        ("delta", lambda: least_squares.calibrate(1, 1.5, 10, 2)),
        ("row_norm", lambda: least_squares.calibrate(1, 1e-5, 10, 2, row_norm=0)),
        ("method", lambda: least_squares.calibrate(1, 1e-5, 10, 2, method="loose")),
        ("mechanism", lambda: least_squares.calibrate(1, 1e-5, 10, 2, mechanism="OLS")),
        ("leverage", lambda: least_squares.relative_calibrate(1, 1e-5, 10, 2, -1, 0.1)),
        ("residual", lambda: least_squares.relative_calibrate(1, 1e-5, 10, 2, 0.1, math.nan)),
        ("epsilon", lambda: least_squares.sheffet_sigma(0, 1e-5, 10)),
        ("gram", lambda: least_squares.release([[1.0]], 10, 1, np.random.default_rng())),
        ("gram", lambda: least_squares.release([[1.0, 1.0], [1.0, 1.0]], 10, 0, np.random.default_rng())),
        ("gram", lambda: least_squares.release([[1.0, 1.0], [0.0, 1.0]], 10, 0, np.random.default_rng())),
        ("factor", lambda: least_squares.sketch([1.0], 10, 1, np.random.default_rng())),
        ("reduced_dim", lambda: least_squares.sketch(np.eye(3), 2, 1, np.random.default_rng())),
    ],
)
def test_refuses(parameter, call):
    with pytest.raises(ParameterError) as refusal:
        call()
    assert refusal.value.parameter == parameter
