"""Weighted studies of the rows suite on a cluster: releases are weighted; how far a device can overstate its weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trimask import fit
from trimask_client import Client
from trimask_core.rows import payloads
from trimask_core.study.definition import Study
from trimask_lab import NUMBERS, Lab, some_people

WEIGHTED = f"""{NUMBERS}
[[attributes]]
name = "stratum"
kind = "categorical"
levels = ["city", "land"]
[weight]
attribute = "stratum"
weights = {{city = 1.0, land = 4.0}}
"""


def people(count: int, seed: int) -> list[dict[str, Any]]:
    """Half of them in each stratum, by turns."""
    return [{**one, "stratum": ("city", "land")[i % 2]} for i, one in enumerate(some_people(count, seed))]


def overstate(patch: pytest.MonkeyPatch, times: float) -> None:
    """A device that counts itself so many times as much as it should."""
    honest = payloads.noisy_answers

    def noisy_answers(study: Study, answers: Any, source: Any) -> list[int]:
        return [round(step * times**0.5) for step in honest(study, answers, source)]

    patch.setattr(payloads, "noisy_answers", noisy_answers)


def test_a_release_is_weighted_and_a_device_far_beyond_its_weight_costs_its_block(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/theory/collection.md#weights: weighted least squares of the people, and the bound on answers."""
    signed = lab.open_study(WEIGHTED, release_rows=24)
    study, honest = signed.study, people(48, seed=20)
    with Client(signed) as client:
        for person in honest:
            client.submit(person)
        with monkeypatch.context() as patch:
            overstate(patch, 1e6)
            client.submit(honest[0])
    status = lab.close(study)
    (lost,) = status.abandoned_blocks
    assert "out of range" in lost.why
    (dataset,) = lab.datasets(study)
    # Whose block was lost is the draw's to say; what is left is weighted, and no longer than rows in range.
    gram = dataset.gram(units="scaled").to_numpy()
    assert gram[0, 0] == pytest.approx(dataset.moments.rows)
    assert dataset.moments.rows < dataset.rows


def test_a_release_of_honest_devices_is_weighted_least_squares(lab: Lab) -> None:
    signed = lab.open_study(WEIGHTED, release_rows=24)
    honest = people(24, seed=21)
    with Client(signed) as client:
        for person in honest:
            client.submit(person)
    lab.close(signed.study)
    (dataset,) = lab.datasets(signed.study)
    x, y = (np.array([one[name] for one in honest]) for name in "xy")
    w = np.array([{"city": 1.0, "land": 4.0}[one["stratum"]] for one in honest])
    found = fit.ols(dataset, "y ~ x")
    design = np.column_stack([np.ones(24), x]) * np.sqrt(w)[:, None]
    theirs = np.linalg.lstsq(design, y * np.sqrt(w), rcond=None)[0]
    np.testing.assert_allclose(found.params, theirs, rtol=1e-6)
    assert dataset.moments.rows == round(60**2 / 204)  # 12 count once and 12 four times
    assert "weights by stratum: city 1, land 4; 18 of 24 people in effect" in str(dataset)


def test_a_device_a_little_beyond_its_weight_is_counted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left in this suite, and said there: four times its weight, as much as the heaviest may. Moments refuse it."""
    signed = lab.open_study(WEIGHTED, release_rows=24)
    honest = people(24, seed=22)
    with Client(signed) as client:
        for person in honest[1:]:
            client.submit(person)
        with monkeypatch.context() as patch:
            overstate(patch, 4.0)
            client.submit(honest[0])
    status = lab.close(signed.study)
    assert (status.published_rows, status.abandoned_blocks) == (24, ())
    (dataset,) = lab.datasets(signed.study)
    # 11 count once, 12 four times and it four times; its stratum's squares are taken for those of people who count once.
    assert dataset.moments.rows == round(63**2 / (11 + 4 + 12 * 16))
