"""clipped_sum: constraint (25), the clipping error against draws, the best p_C, and a private centre."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from trimask_core.basics.errors import ParameterError
from trimask_theory.gaussian import gdp
from trimask_theory.mechanisms import clipped_sum, vector_sum

PRIVACY = {"epsilon": 1.0, "delta": 1e-6}
SIGMA = np.array([2.0, 1.0, 0.25])


def test_constraint_25_is_met_and_no_scaling_nearby_needs_less_noise() -> None:
    b = clipped_sum.ball_scaling(SIGMA, 1e-3)
    assert vector_sum.clipping_radius(SIGMA, 1e-3, b) == pytest.approx(0.5, rel=1e-9)

    def error(free: np.ndarray) -> float:
        return vector_sum.clipped_error(SIGMA, 1e-3, **PRIVACY, scaling=np.exp(np.append(free, 0.0)))

    # A search without gradients, from Lemma 4.1's scaling, ends at the same error.
    start = np.log(vector_sum.clipped_scaling(SIGMA))
    best = optimize.minimize(error, start[:2] - start[2], method="Nelder-Mead", options={"xatol": 1e-5})
    ours = vector_sum.clipped_error(SIGMA, 1e-3, **PRIVACY, scaling=b)
    assert ours == pytest.approx(best.fun, rel=1e-8)
    assert 0.8 < ours / vector_sum.clipped_error(SIGMA, 1e-3, **PRIVACY) < 0.95
    # Equal deviations leave nothing to choose.
    equal = clipped_sum.ball_scaling(np.ones(4), 0.01)
    assert equal == pytest.approx(np.full(4, equal[0]), rel=1e-5)


@pytest.mark.parametrize("share", [0.3, 0.02])
def test_clipping_error_is_that_of_draws(share: float) -> None:
    """400,000 rows: the mean of the squared excess within 5 of its standard errors (false failure below 1e-6)."""
    x = np.random.default_rng(2).standard_normal((400_000, 3)) * SIGMA
    b = vector_sum.clipped_scaling(SIGMA)
    norms = np.linalg.norm(x * b, axis=1)
    kept = np.minimum(1.0, vector_sum.clipping_radius(SIGMA, share) / norms)
    lost = (((1 - kept)[:, None] * x) ** 2).sum(axis=1)
    within = 5 * lost.std() / np.sqrt(len(x))
    assert clipped_sum.clipping_error(SIGMA, 1, share) == pytest.approx(lost.mean(), abs=within)
    assert clipped_sum.clipping_error(SIGMA, 7, share) == pytest.approx(
        7 * clipped_sum.clipping_error(SIGMA, 1, share)
    )


def test_the_best_clip_probability_beats_the_papers() -> None:
    best = clipped_sum.best_clip_probability(SIGMA, 100_000, **PRIVACY)
    assert 1e-4 < best < 0.5
    least = clipped_sum.total_error(SIGMA, 100_000, best, **PRIVACY)
    for other in (1e-5, best / 1.5, best * 1.5):
        assert least < clipped_sum.total_error(SIGMA, 100_000, other, **PRIVACY)


def test_a_private_centre_spends_the_budget_and_finds_the_sum() -> None:
    """Within 8 deviations of the noise, of which clipping a row in n takes less than one (false failure below 1e-11)."""
    rng = np.random.default_rng(3)
    n = 20_000
    centre = np.array([30.0, -10.0, 4.0])
    x = rng.standard_normal((n, 3)) * SIGMA + centre
    release = clipped_sum.with_private_centre(x, -100.0, 100.0, SIGMA, **PRIVACY, source=rng)
    public = vector_sum.clipped(x, centre, SIGMA, **PRIVACY, source=rng)
    assert np.all(release.noise > public.noise)
    # sqrt(1 - 0.1) of mu is left for the sum.
    assert release.noise == pytest.approx(public.noise / np.sqrt(0.9), rel=1e-3)
    assert np.all(np.abs(release.value - x.sum(axis=0)) < 8 * release.noise)
    assert release.guarantee.delta == PRIVACY["delta"]
    mu = gdp.mu(**PRIVACY)
    assert gdp.compose(np.sqrt(0.1) * mu, np.sqrt(0.9) * mu) == pytest.approx(mu)
    with pytest.raises(ParameterError, match="upper"):
        clipped_sum.with_private_centre(x, 1.0, 1.0, SIGMA, **PRIVACY, source=rng)
    with pytest.raises(ParameterError, match="deviations"):
        clipped_sum.ball_scaling([1.0, 0.0], 0.01)
