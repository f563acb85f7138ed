"""The noise of publishing: discrete noise under a mask, enumerated without and with it, and where nodes add it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.rows.study import discrete_epsilon, published_sigma
from trimask_core.study.definition import Study
from trimask_server.suites.rows.math import apply_right_mask, fold, publishing_noise, with_publishing_noise
from trimask_server.suites.rows.unmasking import unmask_component
from trimask_theory.masking.wishart_pair import Pair, log_delta

Vector = NDArray[np.float64]


def discrete(sigma: int) -> tuple[NDArray[np.int64], Vector]:
    """The discrete Gaussian, as far as anything weighs."""
    at = np.arange(-10 * sigma, 10 * sigma + 1)
    weights = np.exp(-(at**2) / (2 * sigma**2))
    return at, weights / weights.sum()


def noisy_density(y: Vector, sigma: int, extra: float) -> Vector:
    """Of a discrete Gaussian plus N(0, extra^2)."""
    at, weights = discrete(sigma)
    return np.exp(-((y[..., None] - at) ** 2) / (2 * extra**2)) @ weights / (extra * math.sqrt(2 * math.pi))


def test_without_it_a_mask_of_two_rows_gives_more_than_delta() -> None:
    """Enumerated at p = 1, n = 2: W = (x + c_1)^2 + c_2^2 for whole c, x = sigma against 0, epsilon = 1."""
    sigma, epsilon = 20, 1.0
    at, weights = discrete(sigma)
    size = 2 * (11 * sigma) ** 2

    def law(x: int) -> Vector:
        squares = (at[:, None] + x) ** 2 + at[None, :] ** 2
        return np.bincount(squares.ravel(), np.outer(weights, weights).ravel(), minlength=size + 1)

    enumerated = float(np.maximum(law(sigma) - math.exp(epsilon) * law(0), 0.0).sum())
    assert enumerated / math.exp(log_delta(epsilon, 2, Pair(1.0, 0.0, 1.0))) == pytest.approx(
        1.0214, abs=1e-4
    )


def test_with_it_the_same_mask_keeps_its_delta() -> None:
    """The same numbers with N(0, (2h)^2) on top, as densities of the length: delta of sigma^2 + 4."""
    sigma, epsilon = 20, 1.0
    lengths = np.linspace(1e-6, 8 * sigma, 1_600)
    angles = np.linspace(0, 2 * math.pi, 241)[:-1]

    def law(x: int) -> Vector:
        first = lengths[:, None] * np.cos(angles) - x
        second = lengths[:, None] * np.sin(angles)
        table = np.linspace(-10 * sigma, 10 * sigma, 16_001)
        density = noisy_density(table, sigma, 2.0)
        here = np.interp(first, table, density) * np.interp(second, table, density)
        return here.mean(axis=1) * 2 * math.pi * lengths

    found = np.trapezoid(np.maximum(law(sigma) - math.exp(epsilon) * law(0), 0.0), lengths)
    scale = math.hypot(sigma, 2)
    exact = math.exp(log_delta(epsilon, 2, Pair(sigma / scale, 0.0, 1.0)))
    assert found == pytest.approx(exact, rel=2e-4)  # of the rule above
    assert found < math.exp(log_delta(epsilon, 2, Pair(1.0, 0.0, 1.0)))


@pytest.mark.parametrize("extra", [0.35, 0.5, 0.7, 2.0])
def test_how_near_it_comes(extra: float) -> None:
    """The density's ratio to a Gaussian's, against the bound 8 q of the proof (with `extra` for 2)."""
    sigma = 9
    y = np.linspace(-30, 30, 4_001)
    total = sigma**2 + extra**2
    gaussian = np.exp(-(y**2) / (2 * total)) / math.sqrt(2 * math.pi * total)
    q = math.exp(-2 * math.pi**2 * extra**2 * sigma**2 / total)
    furthest = float(np.abs(np.log(noisy_density(y, sigma, extra) / gaussian)).max())
    assert furthest <= 8 * q + 1e-12
    assert furthest >= q - 1e-12


def test_what_a_study_states() -> None:
    # 8 exp(-8 pi^2) an entry and side, at a million rows of 20 columns.
    assert discrete_epsilon(2.6e6, 4 * 10**6 * 20) == pytest.approx(
        16 * 8e7 * math.exp(-8 * math.pi**2), rel=1e-6
    )
    assert discrete_epsilon(2.6e6, 4 * 10**6 * 20) < 1e-24
    assert discrete_epsilon(8.0, 4 * 10**6 * 20) < 1e-22
    assert discrete_epsilon(1.0, 1) == math.inf


def test_the_factor_has_the_law_of_masked_rows_with_noise() -> None:
    """Means of (R + G)^T (R + G) over 4,000 draws: factor^T factor + N scale^2 I, within 5 standard errors."""
    rng = np.random.default_rng(41)
    factor = np.asarray(np.linalg.qr(rng.normal(size=(30, 3)), mode="r"))
    rows, scale, draws = 40, 0.3, 4_000
    source = DeterministicRandom("publishing")
    made = np.array([with_publishing_noise(factor, rows, scale, source.seed()) for _ in range(draws)])
    grams = made.transpose(0, 2, 1) @ made
    assert made.shape == (draws, 3, 3)
    wanted = factor.T @ factor + rows * scale**2 * np.eye(3)
    error = grams.std(axis=0) / math.sqrt(draws)
    assert (np.abs(grams.mean(axis=0) - wanted) < 5 * error).all()
    # Var of an entry on the diagonal: 4 scale^2 |factor_j|^2 + 2 N scale^4.
    lengths = np.diag(factor.T @ factor)
    assert np.diag(grams.var(axis=0)) == pytest.approx(4 * scale**2 * lengths + 2 * rows * scale**4, rel=0.12)


def test_many_rows_come_in_pieces() -> None:
    rows, seed = (1 << 14) + 5, b"s" * 32
    noise = publishing_noise(0.5, (rows, 2), seed)
    found = with_publishing_noise(np.zeros((2, 2)), rows, 0.5, seed)
    whole = fold(None, noise)
    np.testing.assert_allclose(found.T @ found, whole.T @ whole, rtol=1e-9)


def test_exact_studies_stay_exact() -> None:
    factor = np.triu(np.arange(9.0).reshape(3, 3) + 1)
    assert with_publishing_noise(factor, 50, 0.0, b"s" * 32) is factor
    assert published_sigma(0.0, 2.0**-20, 3) == 0.0


@pytest.mark.parametrize("sigma", [0.0, 0.25])
def test_an_unmasking_node_adds_it_before_it_rounds(make_study: Callable[..., Any], sigma: float) -> None:
    """In steps the difference to what was masked has variance 4 + 1/12 with noise, and is rounding alone without."""
    study: Study = make_study(sigma=sigma).study
    rng = np.random.default_rng(42)
    n, p = study.rows.block_rows, study.rows.columns
    # Small enough that float64 adds nothing of its own.
    component = study.rows.grid.to_float(rng.integers(-(2**30), 2**30, (n, p)))
    source = DeterministicRandom("unmask")
    masked, mask = apply_right_mask(component, source)
    values = unmask_component(study, masked, mask, source.seed())
    error = values - np.ldexp(component, -study.rows.grid_exponent)
    if not sigma:
        assert (error == 0).all()
        return
    # 3,000 and more numbers: the variance of their squares is known, 5 standard errors.
    assert error.size > 3_000
    assert float((error**2).mean()) == pytest.approx(4 + 1 / 12, rel=5 * math.sqrt(2 / error.size))
    again = unmask_component(study, masked, mask, source.seed())
    assert (again != values).any()


def test_a_block_is_bounded_with_it(make_study: Callable[..., Any]) -> None:
    study: Study = make_study().study
    coarse = replace(study.rows, grid_exponent=-12)
    assert study.rows.published_sigma >= study.protection.sigma
    # K1 unmasking nodes and the collector; and eight steps of the device's.
    assert coarse.published_sigma**2 - study.protection.sigma**2 == pytest.approx((4 * 4 + 64) * 2.0**-24)
