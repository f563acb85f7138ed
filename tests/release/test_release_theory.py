"""The pieces of theory the release service adds: two steps, the noisy Gram matrix, the floor under the spectrum."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimask_core.errors import ParameterError
from trimask_core.guarantee import Guarantee, Neighbours
from trimask_theory import gdp, local_noise, noisy_gram, projection, record
from trimask_theory.eigenvalue_floor import FloorTest, reduced_sigma


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (8.0, 1e-3)])
def test_two_steps_of_one_step_cost_the_price(epsilon: float, delta: float) -> None:
    e, d = record.one_step(epsilon, delta)
    assert 2 * e == epsilon
    assert (1 + math.exp(e)) * d == pytest.approx(delta, rel=1e-15)
    assert record.one_step_mu(0.5) == 0.25


def test_two_steps_hold_for_the_gaussian_mechanism() -> None:
    """Noise calibrated for one step, seen over two (twice the distance), is within the price asked for."""
    for epsilon, delta in ((0.2, 1e-7), (1.0, 1e-6), (4.0, 1e-4)):
        sigma = local_noise.calibrate(*record.one_step(epsilon, delta)).sigma
        assert local_noise.delta(epsilon, sigma, sensitivity=2.0) <= delta


def test_a_restated_guarantee_says_what_it_rests_on() -> None:
    found = Guarantee(Neighbours("add-remove", 1.0), "proved", "why", "where", epsilon=0.5, delta=1e-6)
    stated = record.two_steps(found, 1.5, epsilon=1.0, delta=3e-6)
    assert (stated.neighbours, stated.epsilon, stated.delta, stated.mu, stated.basis) == (
        Neighbours("record", 1.5), 1.0, 3e-6, None, "proved",
    )  # fmt: skip
    assert "why" in stated.because
    assert "two steps" in stated.because


def test_gram_sensitivity_is_attained_by_orthogonal_rows_and_never_exceeded() -> None:
    rng = np.random.default_rng(1)
    norm = 1.7
    found = noisy_gram.calibrate(1.0, 1e-6, norm)
    sensitivity = found.sigma / local_noise.calibrate(1.0, 1e-6).sigma
    x, y = norm * np.eye(4)[:2]
    assert np.linalg.norm(np.outer(x, x) - np.outer(y, y)) == pytest.approx(sensitivity, rel=1e-12)
    for _ in range(200):
        x, y = (norm * v / np.linalg.norm(v) * rng.uniform() for v in rng.standard_normal((2, 4)))
        assert np.linalg.norm(np.outer(x, x) - np.outer(y, y)) <= sensitivity
    assert found.guarantee.mu == pytest.approx(gdp.mu(1.0, 1e-6), rel=1e-9)
    assert noisy_gram.calibrate_mu(0.5, norm).sigma == pytest.approx(2 * math.sqrt(2) * norm**2)


def test_gram_noise_has_the_stated_law() -> None:
    """4,000 draws, 5 standard deviations on each of 12 numbers: false failure below 1e-5."""
    rng, draws, sigma = np.random.default_rng(2), 4000, 3.0
    gram = np.array([[4.0, 1.0], [1.0, 2.0]])
    found = np.array([noisy_gram.release(gram, sigma, 1.5, rng) for _ in range(draws)])
    assert (found == np.swapaxes(found, 1, 2)).all()
    variance = sigma**2 * np.array([[1.0, 0.5], [0.5, 1.0]])
    assert (np.abs(found.mean(axis=0) - gram) <= 5 * np.sqrt(variance / draws)).all()
    assert (np.abs(found.var(axis=0) / variance - 1) <= 5 * math.sqrt(2 / draws)).all()
    with pytest.raises(ParameterError, match="square"):
        noisy_gram.release(np.ones((2, 3)), sigma, 1.5, rng)


def test_the_floor_fails_as_often_as_it_says() -> None:
    """P[floor > smallest eigenvalue - l^2] = delta/2 = 0.1. 5,000 draws, 5 standard deviations: 6e-7."""
    rng, draws = np.random.default_rng(3), 5_000
    test = FloorTest(1.0, 0.2, 1.5)
    gram = np.diag([400.0, 900.0])
    above = sum(test.floor(gram, rng) > 400.0 - 1.5**2 for _ in range(draws)) / draws
    assert abs(above - 0.1) <= 5 * math.sqrt(0.1 * 0.9 / draws)


def test_the_smallest_eigenvalue_moves_by_at_most_the_squared_norm() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        data = rng.uniform(-1, 1, (12, 3))
        other = data.copy()
        other[0] = rng.uniform(-1, 1, 3)
        moved = np.linalg.eigvalsh(data.T @ data)[0] - np.linalg.eigvalsh(other.T @ other)[0]
        assert abs(moved) <= 3.0


def test_noise_above_the_floor_keeps_leverages_within_the_limit() -> None:
    """Whatever f below the other rows' smallest eigenvalue: each row's leverage stays below the sharp limit."""
    rng = np.random.default_rng(5)
    sharp = projection.calibrate(1.0, 1e-5, 2, math.sqrt(3.0), "sharp").sigma
    limit = 3.0 / (3.0 + sharp**2)
    for rows in (10, 60, 400):
        data = rng.uniform(-1, 1, (rows, 3))
        data[0] = 1.0  # the longest row there can be
        rest = np.linalg.eigvalsh(data[1:].T @ data[1:])[0]
        for floor in (0.0, rest / 2, rest):
            sigma = reduced_sigma(sharp, floor)
            inverse = np.linalg.inv(data.T @ data + sigma**2 * np.eye(3))
            assert data[0] @ inverse @ data[0] <= limit * (1 + 1e-9)
    assert reduced_sigma(2.0, 4.0) == 0.0
    assert reduced_sigma(2.0, 0.0) == 2.0


@pytest.mark.parametrize("bad", [(0.0, 0.1, 1.0), (1.0, 0.0, 1.0), (1.0, 0.1, 0.0)])
def test_a_floor_needs_a_price(bad: tuple[float, float, float]) -> None:
    with pytest.raises(ParameterError):
        FloorTest(*bad)
    with pytest.raises(ParameterError):
        FloorTest(1.0, 0.1, 1.0).floor(np.ones((2, 3)), np.random.default_rng(0))


def test_the_floor_s_noise_is_what_its_price_asks_for() -> None:
    """Half of delta for the noise at sensitivity l^2, and a hair more for the grid."""
    test = FloorTest(0.5, 1e-6, 1.5)
    asked = local_noise.calibrate(0.5, 5e-7, 1.5**2).sigma
    assert asked < test.deviation == pytest.approx(asked, rel=1e-5)
