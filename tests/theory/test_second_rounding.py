"""The second rounding of a masked row: what it would do to the noise by itself, and with the trace of noise devices leave.

Enumerated with one column of answers and one noise column, F a rotation of the plane.
docs/theory/calibration.md#second-rounding
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.rows.payloads import mask_row
from trimask_core.rows.study import DITHER_STEPS, discrete_epsilon

_STEP = 0.02
"""Of the histogram of what is left after both roundings, in grid steps."""


def _discrete(scale: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values = np.arange(-math.ceil(8 * scale), math.ceil(8 * scale) + 1.0)
    weights = np.exp(-(values**2) / (2 * scale**2))
    return values, weights / weights.sum()


def deviation(angle: float, sigma: float, tau: float) -> float:
    """The largest |density / Gaussian density - 1| of C + E + G within three sigma, G ~ N(0, 4)."""
    (c, p_c), (g, p_g) = _discrete(sigma), _discrete(tau)
    cosine, sine = math.cos(angle), math.sin(angle)
    masked = c[:, None] * cosine - g * sine, c[:, None] * sine + g * cosine
    errors = [np.rint(y) - y for y in masked]
    error = errors[0] * cosine + errors[1] * sine
    weights = p_c[:, None] * p_g
    places = (c[:, None] + error).ravel()
    low = places.min() - 1
    mass = np.bincount(((places - low) / _STEP).astype(int), weights=weights.ravel())
    kernel = np.exp(-((np.arange(-600, 601) * _STEP) ** 2) / 8)
    density = np.convolve(mass, kernel / (kernel.sum() * _STEP), "same")
    at = low + (np.arange(len(mass)) + 0.5) * _STEP
    within = np.abs(at) < 3 * sigma
    variance = sigma**2 + 4 + float((weights * error**2).sum())
    gaussian = np.exp(-(at**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    return float(np.abs(density[within] / gaussian[within] - 1).max())


@pytest.mark.parametrize("angle", [math.atan((math.sqrt(5) - 1) / 2), 1.0, math.atan(1 / 3)])
def test_it_leaves_the_less_the_wider_the_noise_column(angle: float) -> None:
    narrow, wide = deviation(angle, 40.0, 1.0), deviation(angle, 40.0, 30.0)
    assert narrow > 0.02  # two hundredths and more: the error is then a function of the noise
    assert wide < 0.002


@pytest.mark.parametrize(("a", "g"), [(0.7, 0.6), (1.0, 0.5), (0.6, 1.5), (3.0, 0.6)])
def test_with_a_trace_of_the_noise_it_is_independent_of_what_is_rounded(a: float, g: float) -> None:
    """The lemma, where q' is large enough to be seen: the density of [m + v] + G over that of m + v + U + G."""
    bound = 2.5 * math.exp(-2 * math.pi**2 * a * a * g * g / (a * a + g * g))
    both = math.hypot(a, g)
    j = np.arange(-40, 41.0)
    worst = 0.0
    for m in (0.0, 0.2, 0.37, 0.5, 0.81):
        y = m + np.linspace(-6 * both, 6 * both, 401)
        weights = norm.cdf((j + 0.5 - m) / a) - norm.cdf((j - 0.5 - m) / a)
        rounded = norm.pdf(y[:, None], j, g) @ weights
        upper, lower = (y - m + 0.5) / both, (y - m - 0.5) / both
        # In the upper tail the difference of two numbers near one is that of their complements.
        free = np.where(lower > 0, norm.sf(lower) - norm.sf(upper), norm.cdf(upper) - norm.cdf(lower))
        worst = max(worst, float(np.abs(np.log(rounded / free)).max()))
    assert worst < bound
    assert worst > bound / 3  # and no smaller bound would do


def test_a_device_leaves_eight_steps_of_its_noise_along_the_answers(make_study: Any) -> None:
    """Their mean square over 60 rows of a study, with 1/12 of a step by rounding; false alarm below 1e-9 (chi-square)."""
    study = make_study().study
    frame, step = study.rows.row_frame, study.rows.grid.step
    x1 = [0] * study.attributes
    found = []
    for number in range(60):
        masked = mask_row(study, x1, DeterministicRandom(f"trace {number}"))
        found += [value / step for value in frame.unapply([step * entry for entry in masked])]
    count = len(found)
    low, high = chi2.ppf([5e-10, 1 - 5e-10], count) * (DITHER_STEPS**2 + 1 / 12)
    assert low < sum(value * value for value in found) < high
    exact = make_study(sigma=0.0).study
    masked = mask_row(exact, x1, DeterministicRandom("exact"))
    left = exact.rows.row_frame.unapply([exact.rows.grid.step * entry for entry in masked])
    assert max(map(abs, left)) < 4 * exact.rows.grid.step


def test_what_it_adds_to_epsilon_is_stated() -> None:
    alone, twice = discrete_epsilon(1e6, 100), discrete_epsilon(1e6, 100, 10_000)
    assert twice - alone == pytest.approx(5e4 * math.exp(-2 * math.pi**2 * 256 / 68), rel=1e-6)
