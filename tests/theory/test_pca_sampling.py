"""pca samplers: against quadrature, against each other, and against Theorems 1 and 2 at the paper's size.

The exact law is normal Z reweighted by det(I - Z^T Z)^{-1/2}; the column-wise Gibbs sampler knows nothing
of that, so agreement of the two checks both.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

from bench.genotypes import genotypes
from trimask_core.basics.errors import ParameterError
from trimask_theory.gaussian import gdp
from trimask_theory.mechanisms import pca

# Levels at which trade-off curves are compared.
LEVELS = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])


@pytest.fixture(scope="module")
def ranks() -> np.ndarray:
    return pca.rank_transform(genotypes(np.random.default_rng(1))[0])


@pytest.fixture(scope="module")
def small() -> pca.Spectrum:
    values = np.concatenate([[4.0, 2.5], np.linspace(1.2, 0.1, 38)])
    return pca.from_covariance(np.diag(values / 2), 250, 2)


def overlaps(spectrum: pca.Spectrum, frames: np.ndarray) -> np.ndarray:
    """Upper triangle of U^T V V^T U, and |V^T u_{k+1}|^2, a draw a row."""
    k = spectrum.components
    inside = spectrum.eigenvectors[:, : k + 1].T @ frames
    gram = inside @ np.swapaxes(inside, 1, 2)
    rows, columns = np.triu_indices(k)
    return np.column_stack([gram[:, rows, columns], gram[:, k, k]])


def likelihood_ratio(spectrum: pca.Spectrum, x: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """tr V^T (Sigma' - Sigma) V up to a positive factor: increasing in the exact likelihood ratio."""
    captured = np.einsum("i,nij->nj", x, frames)
    variance = np.einsum("nij,nij->n", frames, spectrum.covariance @ frames)
    return np.sum(captured**2, axis=1) - variance


def energy_p_value(a: np.ndarray, b: np.ndarray, seed: int, permutations: int = 199) -> float:
    """Permutation p-value of the energy distance between two samples, coordinates scaled alike."""
    pooled = np.vstack([a, b]) / np.vstack([a, b]).std(axis=0)
    distance = np.sqrt(np.sum((pooled[:, None] - pooled[None]) ** 2, axis=2))
    side = np.concatenate([np.full(len(a), 1 / len(a)), np.full(len(b), -1 / len(b))])
    generator = np.random.default_rng(seed)
    turned = np.array([side, *(generator.permutation(side) for _ in range(permutations))])
    # sum_ij s_i s_j d_ij is minus the energy distance.
    energy = -np.einsum("ni,ni->n", turned @ distance, turned)
    return float(np.mean(energy >= energy[0]))


def test_haar_frames_are_orthonormal_and_uniform() -> None:
    frames = pca.haar(6, 3, 4000, np.random.default_rng(0))
    assert np.swapaxes(frames, 1, 2) @ frames == pytest.approx(
        np.broadcast_to(np.eye(3), (4000, 3, 3)), abs=1e-12
    )
    # An entry squared is Beta(1/2, 5/2); signs even. Each of four tests fails by chance once in 10^4.
    for entry in (frames[:, 0, 0], frames[:, 5, 2]):
        assert stats.kstest(entry**2, stats.beta(0.5, 2.5).cdf).pvalue > 1e-4
        assert stats.binomtest(int(np.sum(entry > 0)), 4000).pvalue > 1e-4


@pytest.mark.parametrize("concentration", [0.0, 1.0, 8.0, 300.0])
def test_bingham_on_the_circle_has_the_exact_angle(concentration: float) -> None:
    exponents = np.tile([concentration, 0.0], (4000, 1))
    x = pca.bingham(exponents, np.random.default_rng(1))
    angle = np.arctan(x[:, 1] / x[:, 0])
    grid = np.linspace(-np.pi / 2, np.pi / 2, 40001)
    mass = integrate.cumulative_simpson(np.exp(-concentration * np.sin(grid) ** 2), x=grid, initial=0)
    # Fails by chance once in 10^4.
    assert stats.kstest(angle, lambda a: np.interp(a, grid, mass / mass[-1])).pvalue > 1e-4


def sphere_moments(exponents: np.ndarray) -> np.ndarray:
    """E x_i^2 of the Bingham law on the 2-sphere, by quadrature."""

    def weight(phi: float, u: float) -> np.ndarray:
        r2 = 1 - u * u
        squares = np.array([r2 * np.cos(phi) ** 2, r2 * np.sin(phi) ** 2, u * u])
        return np.exp(exponents @ squares - exponents.max()) * np.array([1.0, *squares])

    nodes, weights = np.polynomial.legendre.leggauss(80)
    angles = np.linspace(0, np.pi, 200, endpoint=False)
    total = sum(w * sum(weight(phi, u) for phi in angles) for u, w in zip(nodes, weights, strict=True))
    return total[1:] / total[0]


def test_bingham_on_the_sphere_has_the_exact_moments() -> None:
    exponents = np.array([3.0, 1.0, -2.0])
    squares = pca.bingham(np.tile(exponents, (20000, 1)), np.random.default_rng(2)) ** 2
    error = (squares.mean(axis=0) - sphere_moments(exponents)) / (squares.std(axis=0) / np.sqrt(20000))
    # Three z-scores; fails by chance once in 5 * 10^4.
    assert np.abs(error).max() < 4.5


def test_gibbs_for_two_columns_in_three_dimensions_is_exact() -> None:
    # The third direction w has density exp(-(p beta/2) w^T Sigma w): a Bingham law with known moments.
    spectrum = pca.from_covariance(np.diag([1.5, 0.9, 0.3]), 30, 2)
    frames = pca.gibbs(spectrum, 2.0, np.random.default_rng(3), sweeps=12, draws=20000)
    missing = np.cross(frames[:, :, 0], frames[:, :, 1]) ** 2
    error = (missing.mean(axis=0) - sphere_moments(-3.0 * np.array([1.5, 0.9, 0.3]))) / missing.std(axis=0)
    assert np.abs(error).max() * np.sqrt(20000) < 4.5


def test_frames_are_orthonormal_and_their_basis_is_uniform(small: pca.Spectrum) -> None:
    beta = 2 * pca.plateau(small).beta_high
    generator = np.random.default_rng(4)
    for frames in (
        pca.approximate(small, beta, generator, 1500),
        pca.gibbs(small, beta, generator, sweeps=2, draws=1500),
    ):
        assert np.abs(np.swapaxes(frames, 1, 2) @ frames - np.eye(2)).max() < 1e-12
        # V and V Q have one law: the first column's angle inside the plane is uniform. Fails once in 10^4.
        inside = small.eigenvectors[:, :2].T @ frames
        angle = np.arctan2(inside[:, 0, 0], inside[:, 0, 1])
        assert stats.kstest(angle, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-4


class Kept:
    """A source that keeps what it gave, so that the draw can be formed again."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        self.given: list[np.ndarray] = []

    def standard_normal(self, size: tuple[int, ...], /) -> np.ndarray:
        self.given.append(self.generator.standard_normal(size))
        return self.given[-1]


def statistics_of(spectrum: pca.Spectrum, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Q(V) = (V0 V0^T)^{-1/2} V0 and Z(V) = V1 Q^T of (44), V0 and V1 the first k and the last p - k rows of U^T V."""
    k = spectrum.components
    turned = spectrum.eigenvectors.T @ frames
    left, _, right = np.linalg.svd(turned[:, :k])
    q = left @ right
    return q, turned[:, k:] @ np.swapaxes(q, 1, 2)


def test_a_frame_is_its_two_statistics_and_the_sampler_draws_them() -> None:
    """Lemma 5 by (46), and Algorithm 2 by what its frames' statistics are: its own normals and rotation, exactly."""
    spectrum = pca.from_covariance(np.diag(np.concatenate([[3.0, 2.0], np.linspace(0.9, 0.1, 6)])), 90, 2)
    source = Kept(np.random.default_rng(21))
    beta = 8.0
    frames = pca.approximate(spectrum, beta, source, 200)
    normals, rotation = source.given[0], source.given[-1]
    q, z = statistics_of(spectrum, frames)
    spread = 1 / np.sqrt(8 * beta * (spectrum.eigenvalues[:2] - spectrum.eigenvalues[2:, None]))
    kept = np.linalg.eigvalsh(np.eye(2) - np.swapaxes(z, 1, 2) @ z)[:, 0] > 0
    assert kept.all()
    # Only a draw with Z^T Z < I is used: the others were drawn again, so the first normals show which.
    first = spread * normals
    used = np.linalg.eigvalsh(np.eye(2) - np.swapaxes(first, 1, 2) @ first)[:, 0] > 0
    assert used.sum() > 150
    assert z[used] == pytest.approx(first[used], abs=1e-10)
    signed, upper = np.linalg.qr(rotation)
    assert q == pytest.approx(signed * np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, None, :], abs=1e-10)
    # (46) for frames that no sampler made from Q and Z.
    uniform = pca.haar(8, 2, 50, np.random.default_rng(22))
    q, z = statistics_of(spectrum, uniform)
    values, vectors = np.linalg.eigh(np.eye(2) - np.swapaxes(z, 1, 2) @ z)
    root = (vectors * np.sqrt(values)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    assert spectrum.eigenvectors @ np.concatenate([root, z], axis=1) @ q == pytest.approx(uniform, abs=1e-12)


def test_the_weight_that_the_sampler_drops_is_the_density_of_z() -> None:
    """Lemma 6 and Proposition 2: det(I - Z^T Z)^{-1/2}, on the circle by a Bessel function, uniform frames by moments."""
    spectrum = pca.from_covariance(np.diag([1.6, 0.4]), 30, 1)
    for beta in (0.5, 3.0, 20.0):
        angles = (np.arange(4000) + 0.5) * np.pi / 4000 - np.pi / 2
        frames = spectrum.eigenvectors @ np.stack([np.cos(angles), np.sin(angles)])[..., None].transpose(
            1, 0, 2
        )
        z = np.sin(angles)
        exponent = beta * 1.2  # (p beta/2)(l_1 - l_2), p = 2
        # The unnormalised (45) in z, times dz = cos(angle) d angle.
        weight = np.exp(pca.log_weight(spectrum, frames) - exponent * z**2) * np.cos(angles)
        expected = 0.5 * (1 - special.i1e(exponent / 2) / special.i0e(exponent / 2))
        assert weight @ z**2 / weight.sum() == pytest.approx(expected, rel=1e-10)
    # (52) is a matrix Beta law: det(I - Z^T Z) is Beta(1, 2) times Beta(1/2, 2) for p = 6 and k = 2, of mean 1/15.
    flat = pca.from_covariance(np.diag(np.linspace(1.5, 0.2, 6)), 40, 2)
    frames = pca.haar(6, 2, 20_000, np.random.default_rng(23))
    determinants = np.exp(-2 * pca.log_weight(flat, frames))
    error = determinants.std() / np.sqrt(20_000)
    # Fails by chance once in 10^5.
    assert abs(determinants.mean() - 1 / 15) < 4.5 * error
    q, z = statistics_of(flat, frames)
    inside = np.eye(2) - np.swapaxes(z, 1, 2) @ z
    assert determinants == pytest.approx(np.linalg.det(inside), rel=1e-6, abs=1e-12)
    # Q is uniform and tells nothing of Z.
    angle = np.arctan2(q[:, 0, 0], q[:, 1, 0])
    assert stats.kstest(angle, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-5
    assert abs(np.corrcoef(np.cos(2 * angle), determinants)[0, 1]) < 5 / np.sqrt(20_000)


def test_what_the_sampler_drops_vanishes_as_the_attributes_grow() -> None:
    """Lemmas 7 and 8: Z^T Z goes to diag(H(l_j)/beta) under both laws; Proposition 3: so their distance goes to 0."""
    distances, spreads = [], []
    for p in (30, 120, 480):
        values = np.concatenate([[3.0, 2.2], np.linspace(1.0, 0.1, p - 2)])
        spectrum = pca.from_covariance(np.diag(values), 4 * p, 2)
        beta = 3 * pca.plateau(spectrum).beta_low
        frames = pca.approximate(spectrum, beta, np.random.default_rng(24), 400)
        _, z = statistics_of(spectrum, frames)
        gram = np.swapaxes(z, 1, 2) @ z
        limit = np.diag(pca.hilbert(spectrum, spectrum.leading)) / beta
        # z-scores; the expectation is the limit at every p but for the draws with Z^T Z not below I. Fails once in 10^4.
        error = gram.std(axis=0) / np.sqrt(400)
        assert np.all(np.abs(gram.mean(axis=0) - limit) < 4.5 * error + 0.02 * 30 / p)
        spreads.append(float(gram.std(axis=0).max()))
        distances.append(pca.total_variation(spectrum, frames))
        one = pca.from_covariance(np.diag(values), 4 * p, 1)
        exact = pca.gibbs(one, beta, np.random.default_rng(25), draws=400)
        lost = 1 - (one.eigenvectors[:, 0] @ exact[:, :, 0].T) ** 2
        share = float(pca.hilbert(one, one.leading[0])) / beta
        assert abs(lost.mean() - share) < 4.5 * lost.std() / np.sqrt(400) + 0.3 / p
    # Each quarter of p: half the spread, and half the distance, which is that of a weight of such a spread.
    for values in (np.array(spreads), np.array(distances)):
        assert values[1:] / values[:-1] == pytest.approx(np.full(2, 0.5), abs=0.15)


@pytest.mark.slow
def test_gibbs_agrees_with_the_reweighted_normal_law(small: pca.Spectrum) -> None:
    # Just above H(l_k), where the weight matters: Algorithm 2 is well away from the exact law there.
    beta = 1.25 * pca.plateau(small).beta_low
    generator = np.random.default_rng(5)
    normal = pca.approximate(small, beta, generator, 40000)
    assert pca.total_variation(small, normal) > 0.08
    weights = np.exp(pca.log_weight(small, normal))
    weights /= weights.sum()
    values = overlaps(small, normal)
    mean = weights @ values
    spread = np.sqrt(weights**2 @ (values - mean) ** 2)
    exact = overlaps(small, pca.gibbs(small, beta, generator, sweeps=20, draws=500))
    error = (exact.mean(axis=0) - mean) / np.hypot(exact.std(axis=0) / np.sqrt(500), spread)
    # Four z-scores; fails by chance once in 4 * 10^4.
    assert np.abs(error).max() < 4.5
    # And the unweighted law is told apart, so the comparison has power.
    plain = (exact.mean(axis=0) - values.mean(axis=0)) / (exact.std(axis=0) / np.sqrt(500))
    assert np.abs(plain).max() > 4.5


@pytest.mark.slow
def test_approximate_sampler_agrees_with_gibbs_in_a_two_sample_test(small: pca.Spectrum) -> None:
    beta = 2 * pca.plateau(small).beta_high
    generator = np.random.default_rng(6)
    draws = 400
    normal = pca.approximate(small, beta, generator, draws)
    exact = pca.gibbs(small, beta, generator, sweeps=12, draws=draws)
    a, b = overlaps(small, normal), overlaps(small, exact)
    assert pca.total_variation(small, normal) < 0.03
    # Overlaps, beside each other and beside Theorem 1: z-scores fail once in 10^5, p = 40 costs up to 0.01.
    for mine in (a, b):
        limit = pca.overlap(small, beta)
        spread = mine[:, [0, 2]].std(axis=0) / np.sqrt(draws)
        assert np.all(np.abs(mine[:, [0, 2]].mean(axis=0) - limit) < 4.5 * spread + 0.01)
    # Energy test over all four coordinates: fails by chance once in 200 seeds.
    assert energy_p_value(a, b, seed=0) > 0.005
    # It has power: the same sampler with 15% less beta is found out.
    weaker = overlaps(small, pca.approximate(small, 0.85 * beta, generator, draws))
    assert energy_p_value(weaker, b, seed=0) <= 0.005


@pytest.mark.parametrize(("k", "mu"), [(1, 0.5), (2, 1.0), (3, 1.5)])
def test_overlaps_follow_theorem_1_at_the_papers_size(ranks: np.ndarray, k: int, mu: float) -> None:
    spectrum = pca.from_rows(ranks, k)
    beta = pca.beta_for(spectrum, mu)
    frames = pca.approximate(spectrum, beta, np.random.default_rng(7), 500)
    inside = np.sum((spectrum.eigenvectors[:, :k].T @ frames) ** 2, axis=2)
    spread = inside.std(axis=0) / np.sqrt(500)
    # z-scores fail once in 10^5; 0.004 is for p = 200.
    assert np.all(np.abs(inside.mean(axis=0) - pca.overlap(spectrum, beta)) < 4.5 * spread + 0.004)


def check_trade_off(null: np.ndarray, other: np.ndarray, mu: float, allowance: float) -> None:
    """The empirical curve within 4.5 standard errors of T, plus what p = 200 is allowed to cost."""
    threshold = np.quantile(null, 1 - LEVELS)
    missed = np.mean(other[:, None] <= threshold, axis=0)
    curve = gdp.trade_off(LEVELS, mu)
    slope = np.exp(mu * stats.norm.isf(LEVELS) - mu * mu / 2)
    # Two sources of chance: the threshold (through the curve's slope) and the count above it.
    variance = curve * (1 - curve) / len(other) + slope**2 * LEVELS * (1 - LEVELS) / len(null)
    assert np.all(np.abs(missed - curve) < 4.5 * np.sqrt(variance) + allowance), missed - curve


def neighbours(ranks: np.ndarray, k: int, mu: float) -> tuple[pca.Spectrum, pca.Spectrum, float, np.ndarray]:
    spectrum = pca.from_rows(ranks, k)
    beta = pca.beta_for(spectrum, mu)
    x = pca.worst_neighbour(spectrum, beta)
    return spectrum, spectrum.with_row(x), beta, x


@pytest.mark.parametrize(("k", "mu"), [(1, 0.5), (1, 1.5), (2, 0.5), (2, 1.0), (3, 1.5)])
def test_trade_off_curve_follows_theorem_2(ranks: np.ndarray, k: int, mu: float) -> None:
    # The exact law for k = 1, Algorithm 2 (within 0.02 in total variation, measured here) for k = 2, 3.
    # Each curve fails by chance less than once in 10^4.
    spectrum, added, beta, x = neighbours(ranks, k, mu)
    generator = np.random.default_rng(8)
    if k == 1:
        null, other = (pca.gibbs(s, beta, generator, draws=2500) for s in (spectrum, added))
    else:
        null, other = (pca.approximate(s, beta, generator, 2500) for s in (spectrum, added))
        assert pca.total_variation(spectrum, null) < 0.03
    check_trade_off(likelihood_ratio(spectrum, x, null), likelihood_ratio(spectrum, x, other), mu, 0.015)


@pytest.mark.parametrize(("k", "mu"), [(2, 1.0), (3, 1.5)])
def test_trade_off_curve_holds_for_a_removed_row(ranks: np.ndarray, k: int, mu: float) -> None:
    # Sigma' = (n Sigma - x x^T)/(n - 1); the likelihood ratio falls in the statistic. Fails once in 10^4.
    spectrum, _, beta, x = neighbours(ranks, k, mu)
    n = spectrum.rows
    removed = pca.from_covariance((n * spectrum.covariance - np.outer(x, x)) / (n - 1), n - 1, k)
    generator = np.random.default_rng(12)
    frames = [pca.approximate(s, beta, generator, 2500) for s in (spectrum, removed)]
    null, other = (-likelihood_ratio(spectrum, x, each) for each in frames)
    check_trade_off(null, other, mu, 0.015)


@pytest.mark.parametrize("seed", [11, 14, 17])
def test_trade_off_curve_holds_on_data_not_chosen_for_its_spectrum(seed: int) -> None:
    # Seed 1, used elsewhere, was kept for its likeness to the paper's data; these were not looked at for
    # that.
    data = pca.rank_transform(genotypes(np.random.default_rng(seed))[0])
    spectrum, added, beta, x = neighbours(data, 2, 1.0)
    generator = np.random.default_rng(13)
    frames = [pca.approximate(s, beta, generator, 2500) for s in (spectrum, added)]
    null, other = (likelihood_ratio(spectrum, x, each) for each in frames)
    check_trade_off(null, other, 1.0, 0.015)


def test_a_gap_near_p_over_n_makes_the_prediction_pessimistic_for_an_added_row() -> None:
    # Gap 0.16 against p/n = 0.08: one row changes the gap itself by half, and the limit is not reached. The
    # attacker does worse than predicted. A fixed-seed record of a finite-p effect of +0.07 at level 0.05,
    # where the standard error is about 0.02; not a calibrated test.
    data = pca.rank_transform(genotypes(np.random.default_rng(10))[0])
    mu = 1.05 * pca.plateau(pca.from_rows(data, 3)).mu
    spectrum, added, beta, x = neighbours(data, 3, mu)
    generator = np.random.default_rng(14)
    frames = [pca.approximate(s, beta, generator, 2500) for s in (spectrum, added)]
    null, other = (likelihood_ratio(spectrum, x, each) for each in frames)
    missed = np.mean(other[:, None] <= np.quantile(null, 1 - LEVELS), axis=0)
    curve = gdp.trade_off(LEVELS, mu)
    assert np.all(missed > curve - 0.02)
    assert missed[1] > curve[1] + 0.02


def test_trade_off_comparison_has_power(ranks: np.ndarray) -> None:
    spectrum, added, beta, x = neighbours(ranks, 2, 1.0)
    generator = np.random.default_rng(9)
    null, other = (
        likelihood_ratio(spectrum, x, pca.approximate(s, beta, generator, 2500)) for s in (spectrum, added)
    )
    with pytest.raises(AssertionError):
        check_trade_off(null, other, 0.75, 0.015)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "mu"), [(1, 0.5), (1, 1.0), (1, 1.5), (2, 0.5), (2, 1.0), (2, 1.5), (3, 1.5)])
def test_trade_off_curve_follows_theorem_2_long(ranks: np.ndarray, k: int, mu: float) -> None:
    # 30,000 draws as in Figure 5; each curve fails by chance less than once in 10^4.
    spectrum, added, beta, x = neighbours(ranks, k, mu)
    generator = np.random.default_rng(10)

    def statistic(s: pca.Spectrum) -> np.ndarray:
        return np.concatenate(
            [likelihood_ratio(spectrum, x, pca.approximate(s, beta, generator, 3000)) for _ in range(10)]
        )

    check_trade_off(statistic(spectrum), statistic(added), mu, 0.015)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "mu"), [(2, 1.0), (3, 1.5)])
def test_trade_off_curve_of_the_gibbs_sampler(ranks: np.ndarray, k: int, mu: float) -> None:
    # Chains begin at Algorithm 2's draws, so five sweeps have only its small error to remove. Each fails by
    # chance less than once in 10^4.
    spectrum, added, beta, x = neighbours(ranks, k, mu)
    generator = np.random.default_rng(11)

    def statistic(s: pca.Spectrum) -> np.ndarray:
        parts = []
        for _ in range(5):
            start = pca.approximate(s, beta, generator, 100)
            parts.append(likelihood_ratio(spectrum, x, pca.gibbs(s, beta, generator, 5, start, 100)))
        return np.concatenate(parts)

    check_trade_off(statistic(spectrum), statistic(added), mu, 0.015)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda s, g: pca.approximate(s, 0.1, g), "beta"),
        (lambda s, g: pca.approximate(s, -1.0, g), "beta"),
        (lambda s, g: pca.approximate(s, 9.0, g, 0), "draws"),
        (lambda s, g: pca.gibbs(s, -1.0, g), "beta"),
        (lambda s, g: pca.gibbs(s, 1.0, g, sweeps=0), "sweeps"),
        (lambda s, g: pca.gibbs(s, 1.0, g, start=np.zeros((2, 40, 2))), "start"),
        (lambda _, g: pca.haar(2, 3, 1, g), "dimension"),
        (lambda _, g: pca.bingham(np.array([[np.nan]]), g), "exponents"),
    ],
)
def test_invalid_parameters_are_named(small: pca.Spectrum, call, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call(small, np.random.default_rng(0))
    assert caught.value.parameter == name
