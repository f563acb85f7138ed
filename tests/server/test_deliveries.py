"""A X1 out of blinded deliveries, and what happens when a left provider cheats consistently."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.rows.arrays import device_frame, expand_component, haar_rotate
from trimask_core.rows.payloads import mask_row, split_row
from trimask_core.study.definition import Study
from trimask_server.suites.rows.check import column_bound, refuse_heavy, trace_bound
from trimask_server.suites.rows.masking_attempt import masked_answers


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
    answers = device_frame(study).apply(device_frame(study).unapply(whole))
    altered = study.rows.grid.round(answers + share * (whole - answers)).view(np.uint64)
    deliveries = [altered, *(np.zeros_like(altered) for _ in study.right[1:])]
    if plausible:
        masked_answers(study, deliveries)
        return
    with pytest.raises(Refused, match="do not add up"):
        masked_answers(study, deliveries)


def test_answers_out_of_range_are_refused(study: Study, rows: np.ndarray) -> None:
    """One answer of 10^6 where 1 is legal; and 24 of 1.2, which no single one shows."""
    for change in ((0, 10**6), (slice(None), 1.2)):
        changed = rows.astype(float)
        changed[change[0], 2] = change[1] / study.rows.grid.step
        steps = np.rint(changed).astype(np.int64)
        deliveries = [_deliver(study, part, b"a" * 32) for part in _components(study, steps)]
        with pytest.raises(Refused, match="out of range: column") as caught:
            masked_answers(study, deliveries)
        assert caught.value.reason == "implausible_answers"


@pytest.mark.parametrize("sigma", [0.0, 0.5, 4.0])
def test_rows_in_range_are_below_the_bound(make_study: Any, sigma: float) -> None:
    """The heaviest rows there are, 200 blocks of 24: false refusals have probability below 200 * 2^-40."""
    study: Study = make_study(block_rows=24, release_rows=24, sigma=sigma).study
    rng = np.random.default_rng(3)
    heaviest = np.zeros((24, study.attributes))
    heaviest[:, : study.schema.ones + len(study.schema.attributes)] = 1.0
    heaviest *= min(1.0, study.protection.row_norm / np.linalg.norm(heaviest[0]))
    for _ in range(200):
        refuse_heavy(study, heaviest + sigma * rng.standard_normal(heaviest.shape))
    beyond = np.zeros_like(heaviest)
    beyond[0] = math.sqrt(trace_bound(study, 24) * 1.01 / study.attributes)
    assert beyond[0, 0] ** 2 < column_bound(study, 24)
    with pytest.raises(Refused, match="they weigh"):
        refuse_heavy(study, beyond)
