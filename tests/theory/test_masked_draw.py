"""Settings (A), (B), (C) and block-diagonal masks against the exact law, and Laplace noise against quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from trimask_core.basics.errors import ParameterError
from trimask_theory.gaussian import local_noise
from trimask_theory.masking import masked_noise
from trimask_theory.papers import masked_draw

X = np.array([[2.0], [0.5], [-1.0], [1.5], [0.0], [1.0], [0.2]])
BLOCKS = (3, 4)


@pytest.mark.parametrize("setting", ["B", "C"])
def test_lemma_a_4_both_orders_have_the_exact_law_block_by_block(setting: masked_draw.Setting) -> None:
    """|Y_s|^2/sigma^2 of a block is noncentral chi-squared; 4,000 draws, Kolmogorov-Smirnov at 1e-5 in each of 4 cases."""
    rng, sigma = np.random.default_rng(4), 0.7
    drawn = np.array([masked_draw.draw(X, sigma, rng, setting, BLOCKS)[:, 0] for _ in range(4000)])
    for start, stop in ((0, 3), (3, 7)):
        squares = (drawn[:, start:stop] ** 2).sum(axis=1) / sigma**2
        law = stats.ncx2(stop - start, float((X[start:stop] ** 2).sum()) / sigma**2)
        assert stats.kstest(squares, law.cdf).pvalue > 1e-5
        # Given its length a block points anywhere: its first entry's square has a Beta law.
        share = drawn[:, start] ** 2 / (drawn[:, start:stop] ** 2).sum(axis=1)
        assert stats.kstest(share, stats.beta(0.5, (stop - start - 1) / 2).cdf).pvalue > 1e-5


def test_setting_c_and_blocks_are_calibrated_like_their_smallest_block() -> None:
    def sigma(blocks: int | tuple[int, ...], setting: masked_draw.Setting) -> float:
        return masked_draw.calibrate(1.0, 1e-5, blocks, 3, setting).sigma

    assert sigma((400, 50, 900), "B") == sigma((400, 50, 900), "C") == sigma(50, "C")
    assert sigma(50, "B") == masked_noise.calibrate(1.0, 1e-5, 50, 3).sigma
    # A smaller block hides less, and no mask least of all.
    assert sigma(400, "C") < sigma(50, "C") < sigma(50, "A")
    assert sigma(50, "A") == local_noise.calibrate(1.0, 1e-5, 2 * math.sqrt(3)).sigma
    with pytest.raises(ParameterError):
        sigma((400, 3), "B")


def test_an_attack_on_the_smallest_block_stays_within_its_delta() -> None:
    """p = 1: the likelihood ratio of the block's length, exact by quadrature, for the row R against 0 with the others 0."""
    sigma, epsilon, n = 0.5, 1.0, 4
    first, second = stats.ncx2(n, 1 / sigma**2), stats.chi2(n)
    hockey, _ = integrate.quad(
        lambda t: max(first.pdf(t) - math.exp(epsilon) * second.pdf(t), 0.0), 0, 120, limit=400
    )
    assert hockey <= masked_noise.delta(epsilon, sigma, n, 1, row_norm=1.0)
    smaller, _ = integrate.quad(
        lambda t: max(stats.ncx2.pdf(t, 2, 4.0) - math.exp(epsilon) * stats.chi2.pdf(t, 2), 0.0),
        0,
        120,
        limit=400,
    )
    assert hockey < smaller


def test_setting_a_and_refusals() -> None:
    rng = np.random.default_rng(1)
    assert masked_draw.draw(X, 0.0, rng, "A") == pytest.approx(X)
    turn = masked_draw.mask(BLOCKS, rng)
    assert turn @ turn.T == pytest.approx(np.eye(7))
    assert not turn[:3, 3:].any()
    assert not turn[3:, :3].any()
    with pytest.raises(ParameterError, match="blocks"):
        masked_draw.draw(X, 1.0, rng, "B", (3, 3))
    with pytest.raises(ParameterError, match="setting"):
        masked_draw.draw(X, 1.0, rng, "D")  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.9])
def test_laplace_noise_by_quadrature_and_its_price_in_attributes(epsilon: float) -> None:
    scale = 0.5
    found = local_noise.laplace_delta(epsilon, math.sqrt(2) * scale)

    def excess(x: float) -> float:
        here, there = math.exp(-abs(x) / scale), math.exp(epsilon - abs(x - 1) / scale)
        return max(here - there, 0.0) / (2 * scale)

    assert found == pytest.approx(integrate.quad(excess, -30, 30, points=[0, 1], limit=500)[0], abs=1e-7)
    pure = local_noise.laplace_calibrate(1.0)
    assert local_noise.laplace_delta(1.0, pure.sigma) == 0.0 < local_noise.laplace_delta(0.99, pure.sigma)
    assert pure.guarantee.delta == 0
    # Rows of norm 1: Gaussian noise at delta = 1e-5 is the same for any p, Laplace noise is more from p = 8 on.
    gaussian = local_noise.calibrate(1.0, 1e-5, 2.0).sigma
    price = [local_noise.laplace_calibrate(1.0, 2 * math.sqrt(p)).sigma for p in (1, 4, 16)]
    assert price[0] < price[1] < gaussian < price[2]
