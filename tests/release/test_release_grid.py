"""Noise in whole steps: its law, that it is enough after rounding, and that nothing of the data survives below a step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chisquare, norm

from trimask_core.basics.errors import ParameterError
from trimask_core.basics.randomness import DeterministicRandom, RoundedGaussian
from trimask_core.rows.arrays import SecureNormals
from trimask_theory.gaussian import grid_gaussian


@pytest.mark.parametrize(("sigma", "draws"), [(1, 20_000), (3, 20_000), (1 << 40, 20_000)])
def test_the_rounded_gaussian_has_its_law(sigma: int, draws: int) -> None:
    """Chi-square over cells of known probability; a fixed seed, and a false failure of 1e-6 had it been free."""
    gaussian = RoundedGaussian(DeterministicRandom(f"rounded {sigma}"))
    found = np.array([gaussian.sample(sigma) for _ in range(draws)], dtype=np.float64)
    edges = np.unique(np.rint(sigma * np.linspace(-3, 3, 31))) + 0.5
    counts = np.histogram(found, np.concatenate(([-np.inf], edges, [np.inf])))[0]
    expected = draws * np.diff(np.concatenate(([0.0], norm.cdf(edges / sigma), [1.0])))
    assert chisquare(counts, expected).pvalue > 1e-6
    # The same test sees a Gaussian three per cent too wide.
    wider = draws * np.diff(np.concatenate(([0.0], norm.cdf(edges / (1.06 * sigma)), [1.0])))
    assert chisquare(counts, wider).pvalue < 1e-6


def test_digits_are_drawn_until_the_rounding_is_certain() -> None:
    gaussian = RoundedGaussian(DeterministicRandom("wide"))
    values = [gaussian.sample(1 << 300) for _ in range(50)]
    assert all(isinstance(value, int) for value in values)
    # No digit is made up: of 50 numbers of 300 bits the lowest 64 are all different.
    assert len({value & (1 << 64) - 1 for value in values}) == 50
    with pytest.raises(ParameterError, match="sigma"):
        gaussian.sample(0)


@pytest.mark.parametrize("mu", [1e-3, 0.3, 40.0])
@pytest.mark.parametrize("size", [1, 7])
def test_after_rounding_the_difference_still_fits_the_noise(mu: float, size: int) -> None:
    """Any two values that differ by |dv/sd| = mu: on the grid their difference over the noise is at most mu."""
    rng = np.random.default_rng(size)
    sd = np.exp(rng.normal(0, 3, size))
    noise = grid_gaussian.calibrate(sd, mu)
    steps = np.ldexp(1.0, np.array(noise.exponents))
    assert (noise.deviations >= sd).all()
    assert noise.deviations == pytest.approx(sd, rel=1e-5)
    assert (steps <= mu * sd * 2.0**-24).all()
    worst = 0.0
    for _ in range(300):
        direction = rng.standard_normal(size)
        value = rng.uniform(-1e3, 1e3, size) * sd
        other = value + mu * sd * direction / np.linalg.norm(direction)
        rounded = [np.rint(each / steps) * steps for each in (value, other)]
        worst = max(worst, float(np.linalg.norm((rounded[0] - rounded[1]) / noise.deviations)))
    assert 0.999 * mu < worst <= mu


def test_answers_are_whole_steps_whatever_the_data() -> None:
    """The set of numbers that can come out is the grid, for every value: Mironov's attack has nothing to look at."""
    noise = grid_gaussian.calibrate([3.0, 0.01], 0.5)
    normals = SecureNormals(DeterministicRandom("steps"))
    for value in (math.pi, -1e5 / 3, 1e-9):
        answer = noise.release([value, value], normals)
        for number, exponent in zip(answer, noise.exponents, strict=True):
            assert math.ldexp(number, -exponent).is_integer()
    with pytest.raises(ParameterError, match="values"):
        noise.release([1.0], normals)
    with pytest.raises(ParameterError, match="values"):
        noise.release([math.nan, 1.0], normals)
    for bad in ([], [0.0], [-1.0], [math.inf], [[1.0]]):
        with pytest.raises(ParameterError, match="deviations"):
            grid_gaussian.calibrate(bad, 1.0)


def test_noise_from_a_cryptographic_source_is_the_exact_sampler_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SecureNormals, "rounded_normal", lambda _, sigmas: [2 * sigma for sigma in sigmas])
    noise = grid_gaussian.calibrate([3.0, 4.0], 1.0)
    answer = noise.release([0.0, 0.0], SecureNormals(DeterministicRandom("x")))
    assert list(answer) == list(2 * noise.deviations)


def test_low_digits_are_dropped() -> None:
    values = grid_gaussian.on_steps([math.pi, -math.e], 3.0)
    assert values == pytest.approx([math.pi, -math.e], abs=2.0**-20)
    assert all(math.ldexp(value, 19).is_integer() for value in values)
