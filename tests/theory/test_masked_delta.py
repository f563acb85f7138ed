"""What a device works out of a study's promise, held to the statistics library over a grid of settings."""

from __future__ import annotations

import itertools
import math

import pytest

from trimask_core.study.signed import ALLOWED, gaussian_delta, masked_delta
from trimask_theory.gaussian import local_noise
from trimask_theory.masking import masked_noise

SIZES = [(20, 2), (20, 19), (128, 9), (1024, 9), (1000, 900), (20_000, 5), (1_000_000, 30)]
PAIRS = [(0.1, 1e-3), (0.5, 1e-9), (1.0, 1e-6), (4.0, 1e-6), (8.0, 1e-9)]


@pytest.mark.parametrize(("size", "pair"), list(itertools.product(SIZES, PAIRS)))
def test_a_device_finds_what_the_library_finds_and_never_less(
    size: tuple[int, int], pair: tuple[float, float]
) -> None:
    (rows, attributes), (epsilon, delta) = size, pair
    norm = math.sqrt(attributes)
    sigma = masked_noise.calibrate(epsilon, delta, rows, attributes, "record", norm).sigma
    found = masked_delta(epsilon, sigma, rows, attributes, norm)
    exact = masked_noise.delta(epsilon, sigma, rows, attributes, "record", norm)
    assert exact <= found <= exact * (1 + ALLOWED)
    # Two per cent less noise is refused.
    assert masked_delta(epsilon, 0.98 * sigma, rows, attributes, norm) > delta * (1 + ALLOWED)


def test_noise_that_is_none_promises_nothing() -> None:
    assert masked_delta(1.0, 0.0, 100, 5, 2.0) == 1.0
    assert masked_delta(1.0, 1e-9, 100, 5, 2.0) == 1.0
    assert masked_delta(1.0, 0.5, 5, 5, 2.0) == 1.0


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 8.0, 60.0, 900.0])
def test_the_gaussian_curve_is_the_librarys_and_never_below_it(epsilon: float) -> None:
    for delta in (1e-2, 1e-6, 1e-12):
        s = local_noise.analytic_scale(epsilon, math.log(delta))
        found = gaussian_delta(epsilon, s)
        assert delta * (1 - 1e-9) <= found
        assert found <= delta * (1 + ALLOWED)
        assert gaussian_delta(epsilon, 0.97 * s) > delta * (1 + ALLOWED)
    assert gaussian_delta(1.0, 0.0) == 1.0
