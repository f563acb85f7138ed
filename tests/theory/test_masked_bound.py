"""The rule without an integral: its published number, beside the sharp value and the theorem's, and its proof's steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ncx2

from trimask_theory.masking import masked_noise, simple_rules
from trimask_theory.masking.hypergeometric import log_0f1
from trimask_theory.masking.wishart_pair import Pair, log_delta


def test_the_three_methods_for_twenty_thousand_rows() -> None:
    found = [
        masked_noise.calibrate(1.0, 1e-6, 20_000, 5, method=method).sigma
        for method in ("sharp", "bound", "theorem")
    ]
    assert [round(sigma, 3) for sigma in found] == [0.386, 1.619, 7.167]


@pytest.mark.parametrize("protect", ["record", "unit"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-2), (1.0, 1e-6), (8.0, 1e-12)])
@pytest.mark.parametrize(("rows", "attributes"), [(4, 2), (60, 5), (5000, 12), (300, 1)])
def test_between_the_sharp_value_and_the_theorem(
    protect: masked_noise.Protection, epsilon: float, delta: float, rows: int, attributes: int
) -> None:
    asked = (epsilon, delta, rows, attributes, protect)
    bound = masked_noise.calibrate(*asked, method="bound")
    assert bound.sigma < masked_noise.calibrate(*asked, method="theorem").sigma
    # The sharp delta at this noise is within the one asked for.
    assert masked_noise.delta(epsilon, bound.sigma, rows, attributes, protect) <= delta
    # Rounded up: the rule itself holds at it, and fails just below.
    assert masked_noise.delta(epsilon, bound.sigma, rows, attributes, protect, method="bound") <= delta
    below = bound.sigma * (1 - 1e-9)
    assert masked_noise.delta(epsilon, below, rows, attributes, protect, method="bound") > delta
    assert bound.guarantee.basis == "proved"
    back = masked_noise.epsilon(delta, bound.sigma, rows, attributes, protect, method="bound")
    assert back == pytest.approx(epsilon, rel=1e-5)


def test_the_quantile_is_scipys() -> None:
    # s^2 epsilon = R^2 q/(2 m) at the root, with q from another library.
    sigma = masked_noise.calibrate(1.0, 1e-6, 1000, 4, method="bound").sigma
    quantile = float(ncx2.isf(1e-6, 996, 4 / sigma**2))
    assert sigma**2 == pytest.approx(4 * quantile / (2 * 996), rel=1e-8)


def test_the_slope_of_the_loss() -> None:
    # log 0F1(; b; y) is concave with slope at most 1/b: what the proof rests on.
    for b in (0.5, 3.0, 40.0, 4000.0):
        y = np.linspace(0.0, 50 * b, 400)
        rise = np.diff(log_0f1(b, 2 * np.sqrt(y))) / np.diff(y)
        assert np.all(rise <= 1 / b * (1 + 1e-12))
        assert np.all(np.diff(rise) <= 1e-12 / b)


def test_no_allowed_pair_has_more_than_the_rule_says() -> None:
    generator = np.random.default_rng(5)
    for _ in range(60):
        norm, distance, m = float(generator.uniform(0.4, 4)), 1.0, int(10 ** generator.uniform(0, 3.5))
        epsilon = float(10 ** generator.uniform(-1, 1))
        sigma = simple_rules.bound_sigma(epsilon, 1e-3, m, norm, distance)
        other = norm * float(generator.uniform(max(0.0, 1 - distance / norm), 1.0))
        least = max(0.0, (norm**2 + other**2 - distance**2) / (2 * norm * other))
        pair = Pair(norm / sigma, other / sigma, min(1.0, least))
        for direction in (pair, pair.mirrored()):
            assert log_delta(epsilon, m, direction) <= math.log(1e-3)
