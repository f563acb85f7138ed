"""A X1 out of blinded deliveries, and what happens when a left provider cheats consistently."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trimask_core.errors import Refused
from trimask_core.randomness import DeterministicRandom
from trimask_core.rows.device.row import mask_row, split_row
from trimask_core.rows.rotation import haar_rotate
from trimask_core.rows.shares import expand_component
from trimask_core.study import Study
from trimask_server.suites.rows.deliveries import masked_answers


def _components(study: Study, rows: np.ndarray) -> list[np.ndarray]:
    source = DeterministicRandom("deliveries")
    stacks: list[list[np.ndarray]] = [[] for _ in study.right]
    for row in rows:
        masked = mask_row(study, row.tolist(), source)
        seeds, (*_, vector) = split_row(masked, len(study.right), study.rows.share_steps, source)
        expanded = [expand_component(seed, study.rows.columns, study.rows.share_steps) for seed in seeds]
        for stack, component in zip(stacks, [*expanded, np.array(vector)], strict=True):
            stack.append(component)
    return [np.array(stack) for stack in stacks]


def _deliver(study: Study, component: np.ndarray, seed: bytes) -> np.ndarray:
    rotated = haar_rotate(seed, study.rows.grid.to_float(component))
    return study.rows.grid.round(rotated).view(np.uint64)


@pytest.fixture
def study(make_study: Any) -> Study:
    return make_study(block_rows=24, release_rows=24, sigma=0.0).study  # type: ignore[no-any-return]


@pytest.fixture
def rows(study: Study) -> np.ndarray:
    values = np.random.default_rng(0).uniform(-1, 1, size=(24, study.attributes))
    return np.array([study.rows.grid.round(row) for row in values])


def test_sum_of_deliveries_is_the_masked_answers(study: Study, rows: np.ndarray) -> None:
    deliveries = [_deliver(study, component, b"a" * 32) for component in _components(study, rows)]
    expected = haar_rotate(b"a" * 32, study.rows.grid.to_float(rows))
    assert np.abs(masked_answers(study, deliveries) - expected).max() < 1e-5


def test_components_masked_differently_are_refused(study: Study, rows: np.ndarray) -> None:
    """Each component's Gram matrix is untouched, so only the sum can show it."""
    parts = _components(study, rows)
    deliveries = [_deliver(study, part, bytes([k]) * 32) for k, part in enumerate(parts)]
    with pytest.raises(Refused, match="do not add up") as caught:
        masked_answers(study, deliveries)
    assert caught.value.reason == "implausible_sum"


@pytest.mark.parametrize(("share", "plausible"), [(0.0, False), (1.0, True), (9.0, False)])
def test_too_little_noise_is_refused_as_well_as_too_much(
    study: Study, rows: np.ndarray, share: float, plausible: bool
) -> None:
    """Rows whose noise columns were shrunk or stretched: a bound on each side finds them."""
    whole = study.rows.grid.to_float(np.sum(_components(study, rows), axis=0))
    answers = study.rows.frame.apply(study.rows.frame.unapply(whole))
    altered = study.rows.grid.round(answers + share * (whole - answers)).view(np.uint64)
    deliveries = [altered, *(np.zeros_like(altered) for _ in study.right[1:])]
    if plausible:
        masked_answers(study, deliveries)
        return
    with pytest.raises(Refused, match="do not add up"):
        masked_answers(study, deliveries)
