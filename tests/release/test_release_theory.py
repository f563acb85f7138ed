"""The pieces of theory that releases add to the papers: two steps, and the noisy Gram matrix."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory.gaussian import gdp, local_noise
from trimask_theory.mechanisms import noisy_gram, record


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
