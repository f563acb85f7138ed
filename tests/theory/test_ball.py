"""The ball: clipping keeps records inside, and the recommendation beats the box at every epsilon."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.moments_law import level_share, moments_law
from trimask_core.basics.errors import ParameterError
from trimask_theory.moments import moments_noise
from trimask_theory.moments.ball import clip, recommend_ball


def pilot(rows: int = 500) -> np.ndarray:
    rng = np.random.default_rng(3)
    shared = rng.standard_normal((rows, 1))
    x = math.sqrt(0.5) * (shared + rng.standard_normal((rows, 3)))
    return np.asarray(
        np.clip(np.column_stack([x, x @ [0.5, -0.3, 0.2]]) / 3 + 0.1 * rng.standard_normal((rows, 4)), -1, 1)
    )


def test_clipped_records_lie_in_the_ball_and_the_others_stay() -> None:
    rows = np.column_stack([pilot(), np.arange(500) % 2])
    fixed = [False] * 4 + [True]
    clipped, outside = clip(rows, 2.3, fixed, mark=0.3)
    norms = 1 + np.sum(clipped**2, axis=1) + np.where(outside, 0.3**2, 0.0)
    assert norms.max() <= 2.3 + 1e-12
    assert np.array_equal(clipped[~outside], rows[~outside])
    assert np.array_equal(clipped[:, 4], rows[:, 4])
    assert 0 < outside.mean() < 1
    cosine = np.sum(clipped[:, :4] * rows[:, :4], axis=1) / np.linalg.norm(clipped[:, :4], axis=1)
    assert np.allclose(cosine, np.linalg.norm(rows[:, :4], axis=1))
    with pytest.raises(ParameterError, match="levels"):
        clip(rows, 1.5, fixed)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_recommendation_is_better_than_the_box(epsilon: float) -> None:
    found = recommend_ball(pilot(), epsilon, 1e-6, 20_000, 2)
    assert found.error < 0.5 * found.box_error
    assert found.row_norm == math.sqrt(found.radius_squared)
    assert found.sigma == pytest.approx(
        moments_noise.calibrate(epsilon, 1e-6, found.radius_squared, 2).sigma, rel=1e-9
    )
    _, outside = clip((pilot() - found.centre) / found.scale, found.radius_squared)
    assert outside.mean() == found.clipped


def test_more_noise_means_a_smaller_ball() -> None:
    clipped = [recommend_ball(pilot(), e, 1e-6, 20_000, 2).clipped for e in (0.05, 0.5, 5.0)]
    assert clipped == sorted(clipped, reverse=True)
    assert clipped[0] > clipped[-1]
    errors = [recommend_ball(pilot(), 1.0, 1e-6, n, 2).error for n in (2_000, 20_000, 200_000)]
    assert errors == sorted(errors, reverse=True)


def test_levels_keep_their_units() -> None:
    rows = np.column_stack([pilot(), np.arange(500) % 3 == 0])
    found = recommend_ball(rows, 1.0, 1e-6, 20_000, 3, 2, fixed=[False] * 4 + [True], response=3, mark=1.0)
    assert (found.centre[4], found.scale[4]) == (0.0, 1.0)
    assert found.radius_squared > 3.0  # x_0, a level and the mark fit


def test_expected_error_is_what_draws_show() -> None:
    """Noise by the first-order formula beside 3,000 drawn releases of the clipped pilot: within 5 % (standard error 1 %)."""
    data, n, epsilon = pilot(), 20_000, 2.0
    found = recommend_ball(data, epsilon, 1e-6, n, 2, response=3)
    x, _ = clip((data - found.centre) / found.scale, found.radius_squared)
    law = moments_law(found.sigma, [10_000] * 4, 2)
    full, true = (np.column_stack([np.ones(500), rows]) for rows in (x, (data - found.centre) / found.scale))
    gram = full.T @ full * n / 500
    beta = np.linalg.lstsq(true[:, :-1], true[:, -1], rcond=None)[0]
    rng = np.random.default_rng(5)
    noisy = np.array([gram + law.draw(rng) for _ in range(3000)])
    fits = np.linalg.solve(noisy[:, :-1, :-1], noisy[:, :-1, -1:])[..., 0]
    units = np.concatenate([[1.0], data.std(axis=0, ddof=1) / found.scale])
    drawn = math.sqrt(float(np.mean(((fits - beta) * units[:-1] / units[-1]) ** 2)))
    assert drawn == pytest.approx(found.error, rel=0.05)


def test_the_share_of_a_level_and_its_error() -> None:
    """4,000 draws: mean within 5 standard errors, deviation within 6 % (5 standard errors of 1.1 %)."""
    law = moments_law(150.0, [1000, 3], 2)
    gram = np.zeros((3, 3))
    gram[0, 2] = gram[2, 0] = 1600 / 3
    gram[2, 2] = 1600 / 9
    rng = np.random.default_rng(8)
    stack = np.array([gram + law.draw(rng) for _ in range(4000)])
    share, error = level_share(stack, law, 2, 3, 20_000)
    assert abs(share.mean() - 0.08) < 5 * error / math.sqrt(4000)
    assert share.std() == pytest.approx(error, rel=0.06)
    assert error < 3 * 150 * math.sqrt(2) / math.sqrt(2) / 20_000  # better than the sum alone


def test_pilots_that_cannot_be_used() -> None:
    with pytest.raises(ParameterError, match="pilot"):
        recommend_ball(pilot(4), 1.0, 1e-6, 1000, 2)
    with pytest.raises(ParameterError, match="vary"):
        recommend_ball(np.column_stack([pilot(), np.zeros(500)]), 1.0, 1e-6, 1000, 2)
