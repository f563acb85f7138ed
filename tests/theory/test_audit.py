"""The empirical audit: it stays under delta at the calibrated sigma, and catches half of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import trimask_audit as audit
from trimask_core.basics.errors import ParameterError
from trimask_theory.masking import masked_noise
from trimask_theory.masking.wishart_pair import Pair, log_delta

ROWS, ATTRIBUTES, EPSILON = 200, 3, 1.0
NORM = math.sqrt(ATTRIBUTES)
RIGHT_ANGLE = (np.array([NORM, 0.0, 0.0]), np.array([0.0, NORM, 0.0]))
OBLIQUE = (np.array([NORM, 0.0, 0.0]), NORM * np.array([0.5, 0.0, math.sqrt(0.75)]))
UNIT = (np.array([NORM, 0.0, 0.0]), np.array([NORM - 1, 0.0, 0.0]))

CASES: list[tuple[Any, float, tuple[NDArray[np.float64], NDArray[np.float64]]]] = [
    ("record", 0.01, RIGHT_ANGLE),
    ("record", 0.05, RIGHT_ANGLE),
    ("record", 0.05, OBLIQUE),
    ("unit", 0.02, UNIT),
    ("unit", 0.02, UNIT[::-1]),
]


@pytest.mark.parametrize(("protect", "delta", "pair"), CASES)
def test_attacker_stays_under_delta_at_sigma_and_not_at_half_of_it(
    protect: Any, delta: float, pair: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> None:
    # Five cases at confidence 1 - 1e-6 each: a false failure in one seed of 200,000.
    generator = np.random.default_rng(11)
    sigma = masked_noise.calibrate(EPSILON, delta, ROWS, ATTRIBUTES, protect=protect).sigma
    at_sigma = audit.run(EPSILON, sigma, ROWS, *pair, 200_000, generator, confidence=1 - 1e-6)
    assert at_sigma.lower <= delta
    # Neither wrong nor slack: what the attacker can reach is the delta promised, but for n against n - p.
    if pair is not OBLIQUE:
        assert at_sigma.upper > 0.8 * delta
    at_half = audit.run(EPSILON, sigma / 2, ROWS, *pair, 200_000, generator, confidence=1 - 1e-6)
    assert at_half.lower > delta


def test_the_interval_holds_the_delta_that_quadrature_gives() -> None:
    generator = np.random.default_rng(12)
    sigma = masked_noise.calibrate(EPSILON, 0.05, ROWS, ATTRIBUTES).sigma
    found = audit.run(EPSILON, sigma, ROWS, *RIGHT_ANGLE, 200_000, generator, confidence=1 - 1e-6)
    exact = math.exp(log_delta(EPSILON, ROWS, Pair(NORM / sigma, NORM / sigma, 0.0)))
    assert found.lower < exact < found.upper
    assert found.lower < found.estimate < found.upper


def test_real_rows_beside_the_one_attacked() -> None:
    # Confidence 1 - 1e-6, twice.
    generator = np.random.default_rng(13)
    others = generator.uniform(-1, 1, (ROWS - 1, ATTRIBUTES))
    sigma = masked_noise.calibrate(EPSILON, 0.02, ROWS, ATTRIBUTES).sigma
    kept = audit.run(
        EPSILON, sigma, ROWS, *RIGHT_ANGLE, 10_000, generator, others=others, confidence=1 - 1e-6
    )
    assert kept.lower <= 0.02
    broken = audit.run(
        EPSILON, sigma / 4, ROWS, *RIGHT_ANGLE, 10_000, generator, others=others, confidence=1 - 1e-6
    )
    assert broken.lower > 0.02


def test_bartlett_and_plain_simulation_have_the_same_law() -> None:
    # Zero rows given, and no rows given. Three chi-squares of 9 degrees of freedom above 60: 4e-9.
    rows, size = 12, 20_000
    x = np.array([1.5, -0.5])
    generator = np.random.default_rng(14)
    plain = audit._gram(x, np.zeros((rows - 1, 2)), rows, size, generator)
    bartlett = audit._gram(x, None, rows, size, generator)
    for i, j in ((0, 0), (0, 1), (1, 1)):
        edges = np.quantile(plain[:, i, j], np.linspace(0.1, 0.9, 9))
        counts = np.array(
            [np.bincount(np.searchsorted(edges, w[:, i, j]), minlength=10) for w in (plain, bartlett)]
        )
        assert float(np.sum((counts[0] - counts[1]) ** 2 / counts.sum(axis=0))) < 60


def test_gram_of_a_masked_release_is_that_of_the_noisy_rows() -> None:
    # The audit never draws the mask: Y^T Y does not depend on it.
    generator = np.random.default_rng(15)
    noisy = generator.normal(size=(30, 3))
    mask = np.linalg.qr(generator.normal(size=(30, 30)))[0]
    assert (mask @ noisy).T @ (mask @ noisy) == pytest.approx(noisy.T @ noisy)


def test_clopper_pearson_ends() -> None:
    none = audit.Audit(epsilon=1.0, releases=1000, hits=0, false_hits=1000, confidence=0.96)
    # Of 1,000 with no success: 1 - tail^(1/1000), and the mirror image.
    end = 1 - 0.01 ** (1 / 1000)
    assert none.upper == pytest.approx(end - math.e * (1 - end))
    assert none.lower == pytest.approx(-math.e)


def test_one_attribute() -> None:
    found = audit.run(0.1, 0.3, 50, [1.0], [0.0], 20_000, np.random.default_rng(16))
    exact = math.exp(log_delta(0.1, 50, Pair(1 / 0.3, 0.0, 1.0)))
    assert found.lower < exact < found.upper


def test_refusals() -> None:
    generator = np.random.default_rng(0)
    with pytest.raises(ParameterError, match="row and neighbour"):
        audit.run(1.0, 1.0, 50, [1.0, 0.0], [0.0], 10, generator)
    with pytest.raises(ParameterError, match="others"):
        audit.run(1.0, 1.0, 50, [1.0, 0.0], [0.0, 1.0], 10, generator, others=np.zeros((50, 2)))
    with pytest.raises(ParameterError, match="sigma"):
        audit.run(1.0, 0.0, 50, [1.0], [0.0], 10, generator)
    with pytest.raises(ParameterError, match="releases"):
        audit.run(1.0, 1.0, 50, [1.0], [0.0], 0, generator)
