"""What a weighted record can move: docs/theory/collection.md#weights and docs/theory/verified-moments.md#weights."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimask_core.basics.errors import ImpossibleStudy
from trimask_theory.moments import moments_noise

SOME = np.random.default_rng(4)


def moved(x: np.ndarray, y: np.ndarray) -> float:  # type: ignore[type-arg]
    """|x x^T - y y^T|_F."""
    return float(np.linalg.norm(np.outer(x, x) - np.outer(y, y)))


def records(norm: float, count: int) -> np.ndarray:  # type: ignore[type-arg]
    """(1, x) of norm at most R, most of them at it, times roots of weights over the largest."""
    x = SOME.standard_normal((count, 4))
    x *= (math.sqrt(norm**2 - 1) * SOME.choice([0.2, 1.0, 1.0], count) / np.linalg.norm(x, axis=1))[:, None]
    whole = np.column_stack([np.ones(count), x])
    return whole * np.sqrt(SOME.choice([0.01, 0.3, 1.0], count))[:, None]


@pytest.mark.parametrize("norm", [math.sqrt(2), 1.7, 3.0])
def test_no_weighted_record_moves_more_than_the_noise_is_made_for(norm: float) -> None:
    rows = records(norm, 400)
    largest = max(moved(x, y) for x in rows for y in rows[:60])
    limit = moments_noise.sensitivity(norm**2)
    assert largest <= limit
    opposite = np.array([1.0, 1.0 / norm, 0, 0, 0]), np.array([1.0, -norm, 0, 0, 0])
    assert opposite[0] @ opposite[1] == pytest.approx(0)


def test_below_two_the_smaller_bound_would_not_hold() -> None:
    """Which is why a weighted study with such a ball is refused (tests/core/test_weight.py)."""
    norm = math.sqrt(1.05)
    heavy = np.array([1.0, math.sqrt(norm**2 - 1)])
    assert moved(heavy, 0.01 * heavy) > moments_noise.sensitivity(norm**2)


def test_such_a_study_is_refused() -> None:
    from trimask.simulation import drafted
    from trimask_theory.planning.study_definition import load_definition

    text = """
title = "t"
purpose = "p"
contact = "c"
privacy = {epsilon = 1, delta = 1e-6, row_norm = 1.2}
collection = {suite = "moments", release_rows = 600}
attributes = [
  {name = "x", kind = "continuous", minimum = 1, maximum = 4},
  {name = "y", kind = "continuous", minimum = 1, maximum = 4},
]
weight = {attribute = "x"}
"""
    with pytest.raises(ImpossibleStudy, match=r"row_norm of at least 1\.415"):
        drafted(load_definition(text))
    assert drafted(load_definition(text.replace("1.2}", "1.6}"))).weight is not None
