"""Lemmas of the papers that many functions rest on and none is named for, each by a sum or an integral of its own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from trimask_theory.gaussian import gaussian_pair, gdp, weighted_chi2
from trimask_theory.masking.hypergeometric import log_0f1
from trimask_theory.mechanisms import projection
from trimask_theory.papers import relative


def test_nothing_computed_from_a_release_raises_its_delta() -> None:
    """Vector sums, Lemma 2.1: cells that end where the loss is epsilon keep delta, other cells and random maps lower it."""
    epsilon, mu = 0.5, 1.0
    cut = epsilon / mu + mu / 2

    def attained(p: np.ndarray, q: np.ndarray) -> float:
        return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())

    def cells(offset: float) -> tuple[np.ndarray, np.ndarray]:
        edges = np.concatenate([[-np.inf], cut + offset + 0.5 * np.arange(-30, 31), [np.inf]])
        return np.diff(stats.norm.cdf(edges - mu)), np.diff(stats.norm.cdf(edges))

    exact = gdp.delta(epsilon, mu)
    aligned = cells(0.0)
    assert attained(*aligned) == pytest.approx(exact, rel=1e-12)
    assert 0.9 * exact < attained(*cells(0.25)) < exact
    rng = np.random.default_rng(1)
    for outcomes in (2, 5, 40):
        kernel = rng.dirichlet(np.ones(outcomes), aligned[0].size)
        assert attained(aligned[0] @ kernel, aligned[1] @ kernel) < exact


def test_the_law_of_one_normal_squared() -> None:
    """Vector sums, Lemma 7.1 and Corollary 7.1: P[X^2 <= x] = 2 Phi(sqrt(x)/sigma) - 1, and 6.3e-5 beyond 4 sigma."""
    for sigma in (0.1, 1.0, 7.0):
        for x in (0.01, 1.0, 9.0):
            found = weighted_chi2.cdf(x * sigma**2, [sigma**2])
            assert found == pytest.approx(2 * stats.norm.cdf(math.sqrt(x)) - 1, rel=1e-12)
        beyond = weighted_chi2.sf((4 * sigma) ** 2, [sigma**2])
        assert beyond == pytest.approx(2 * stats.norm.sf(4.0), rel=1e-12)
        assert 6e-5 < beyond < 1e-4


@pytest.mark.parametrize("dof", [1, 30, 2000])
@pytest.mark.parametrize("square", [0.0, 4.0, 300.0])
def test_the_chi_square_tails_of_the_masked_noise_papers_lemma_a_2(dof: int, square: float) -> None:
    """Both halves of (42), with nu^2 as the noncentrality, which is what its mean n + nu^2 says."""
    for x in (0.5, 5.0, 50.0):
        spread = 2 * math.sqrt((dof + 2 * square) * x)
        assert weighted_chi2.sf(dof + square + spread + 2 * x, [1.0], [dof], [square]) <= math.exp(-x)
        assert weighted_chi2.cdf(dof + square - spread, [1.0], [dof], [square]) <= math.exp(-x)
    # Close enough that half of the square root would be too little.
    if dof == 2000:
        short = math.sqrt((dof + 2 * square) * 50.0)
        assert weighted_chi2.sf(dof + square + short + 100.0, [1.0], [dof], [square]) > math.exp(-50)


@pytest.mark.parametrize("q", [2, 3, 7, 60])
def test_a_mean_over_a_sphere_is_lemma_5_1_of_the_masked_noise_paper(q: int) -> None:
    """The integral with exponent (q-3)/2 is what the density ratio is computed with; (26)'s (q-2)/2 is not."""
    nodes, weights = special.roots_jacobi(80, 0.5 * (q - 3), 0.5 * (q - 3))
    constant = math.gamma(0.5) * math.gamma(0.5 * (q - 1)) / math.gamma(0.5 * q)
    assert weights.sum() == pytest.approx(constant, rel=1e-11)
    printed_nodes, printed = special.roots_jacobi(80, 0.5 * (q - 2), 0.5 * (q - 2))
    for t in (0.3, 2.0, 15.0):
        found = math.exp(float(log_0f1(0.5 * q, np.array([t]))[0]))
        assert found == pytest.approx(weights @ np.exp(t * nodes) / constant, rel=1e-10)
        assert found > (1 + 1e-6) * (printed @ np.exp(t * printed_nodes)) / printed.sum()


def test_leverage_by_eigenvectors_and_when_it_is_one() -> None:
    """NDIS, Facts 1 and 2, Proposition 14: |v|^2 sum cos^2/lambda, in [0, 1], and 1 where the rank falls without the row."""
    rng = np.random.default_rng(3)
    plain = rng.standard_normal((12, 3)) * [1.0, 5.0, 0.2]
    alone = np.column_stack([np.eye(12)[-1] * 3.0, plain])
    for data in (plain, alone):
        values, vectors = np.linalg.eigh(data.T @ data)
        norms = np.linalg.norm(data, axis=1)
        cosines = (data @ vectors) ** 2 / norms[:, None] ** 2
        assert cosines.sum(axis=1) == pytest.approx(np.ones(12))
        leverages = norms**2 * (cosines / values).sum(axis=1)
        assert relative.of_rows(data).leverage == pytest.approx(leverages.max(), rel=1e-10)
        assert (leverages >= 0).all()
        full = [np.linalg.matrix_rank(np.delete(data, i, 0)) == data.shape[1] for i in range(12)]
        assert full == (leverages < 1 - 1e-9).tolist()
        assert leverages.max() <= 1 + 1e-12


@pytest.mark.parametrize("b", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 2.0])
def test_the_normal_integral_of_ndis_and_its_growth(b: float, epsilon: float) -> None:
    """Propositions 5 to 7: E max(0, 1 - exp(b Z + c)) at c = epsilon - b^2/2 is delta at sensitivity b, and grows with b."""
    c = epsilon - b * b / 2

    def inside(z: float) -> float:
        return -math.expm1(b * z + c) * float(stats.norm.pdf(z))

    value, _ = integrate.quad(inside, -40, -c / b, points=[-5])
    assert gdp.delta(epsilon, b) == pytest.approx(value, rel=1e-8, abs=1e-14)
    deltas = [gdp.delta(epsilon, b * factor) for factor in (0.5, 0.99, 1.0, 1.01, 2.0)]
    assert deltas == sorted(deltas)
    assert deltas[0] < deltas[-1]


@pytest.mark.parametrize("r", [1, 2, 9])
@pytest.mark.parametrize("p", [0.05, 0.6])
def test_both_directions_of_a_projection_by_their_integrals(r: int, p: float) -> None:
    """NDIS, Propositions 1 and 2 (8 and 9 at r = 1): the sum of squares is |a|^2 chi-square(r), integrated here.

    Proposition 2 prints the minus sign of Proposition 1; its proof, and the reverse direction, have a plus.
    """
    epsilon, law = 0.3, stats.chi(r)
    forward, c1 = 0.5 * p / (1 - p), epsilon - 0.5 * r * math.log1p(-p)
    backward, c2 = 0.5 * p, epsilon + 0.5 * r * math.log1p(-p)

    def above(x: float) -> float:
        return -math.expm1(-forward * x * x + c1) * float(law.pdf(x))

    def below(x: float) -> float:
        return -math.expm1(backward * x * x + c2) * float(law.pdf(x))

    start = math.sqrt(c1 / forward)
    assert projection.delta(epsilon, p, r) == pytest.approx(
        integrate.quad(above, start, start + 15, epsabs=0)[0], rel=1e-8
    )
    zero, one = np.zeros(r), np.eye(r)
    there = gaussian_pair.delta(zero, (1 - p) * one, zero, one, epsilon)
    expected = integrate.quad(below, 0, math.sqrt(-c2 / backward), epsabs=0)[0] if c2 < 0 else 0.0
    assert there == pytest.approx(expected, rel=1e-8, abs=1e-300)
    if c2 < 0:
        end = -c2 / backward
        tails = stats.chi2.cdf(end, r) - math.exp(epsilon) * stats.chi2.cdf(end * (1 - p), r)
        assert there == pytest.approx(float(tails), rel=1e-8)
