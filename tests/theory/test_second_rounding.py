"""The second rounding of a masked row: how far it leaves the noise from Gaussian, enumerated where that can be done.

One column of answers and one noise column, F a rotation of the plane. docs/theory/calibration.md#second-rounding.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

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
