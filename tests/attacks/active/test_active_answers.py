"""A device that lies inside the frame: answers far beyond what the study allows."""

from __future__ import annotations

from typing import Any

import pytest

from trimask_client import Client
from trimask_core.rows import payloads
from trimask_core.study.definition import Study
from trimask_lab import Lab, some_people
from trimask_server.suites.rows import masking_attempt


def lie(patch: pytest.MonkeyPatch, answer: float) -> None:
    """The device's second column is `answer`, where 1 is legal; its noise columns are as they should be."""
    honest = payloads.noisy_answers

    def noisy_answers(study: Study, answers: Any, source: Any) -> list[int]:
        steps = honest(study, answers, source)
        steps[1] = round(answer / study.rows.grid.step)
        return steps

    patch.setattr(payloads, "noisy_answers", noisy_answers)


def test_answers_of_a_million_are_not_published(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, they were: the energy check sees the noise columns alone. Their block is lost, by name; the other counts."""
    signed = lab.open_study(release_rows=24)
    study = signed.study
    with Client(signed) as client:
        for person in some_people(48, seed=10):
            client.submit(person)
        with monkeypatch.context() as patch:
            lie(patch, 1e6)
            client.submit({"x": 1.0, "y": 1.0})
    status = lab.close(study)
    (lost,) = status.abandoned_blocks
    assert "out of range: column 'x'" in lost.why
    assert "implausible_answers" in lost.why
    assert (lost.rows, status.published_rows) in ((24, 25), (25, 24))
    (dataset,) = lab.datasets(study)
    assert dataset.gram(units="scaled").to_numpy().max() <= dataset.rows * 1.000001


@pytest.mark.slow
def test_without_the_bound_a_million_is_published(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking_attempt, "refuse_heavy", lambda *_: None)
    signed = lab.open_study(release_rows=24)
    with Client(signed) as client:
        for person in some_people(23, seed=10):
            client.submit(person)
        with monkeypatch.context() as patch:
            lie(patch, 1e6)
            client.submit({"x": 1.0, "y": 1.0})
    status = lab.close(signed.study)
    assert (status.published_rows, status.abandoned_blocks) == (24, ())
    (dataset,) = lab.datasets(signed.study)
    assert dataset.gram(units="scaled").to_numpy()[1, 1] == pytest.approx(1e12, rel=1e-3)


def test_a_lie_below_the_bound_is_counted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left, and said in docs/theory/collection.md#answer-bound: the moments suite refuses this one, too."""
    signed = lab.open_study(release_rows=24)
    study = signed.study
    with Client(signed) as client:
        for person in some_people(23, seed=11):
            client.submit({**person, "x": 0.0})
        with monkeypatch.context() as patch:
            lie(patch, 4.8)
            client.submit({"x": 0.0, "y": 1.0})
    status = lab.close(study)
    assert (status.published_rows, status.abandoned_blocks) == (24, ())
    (dataset,) = lab.datasets(study)
    assert dataset.gram(units="scaled").to_numpy()[1, 1] == pytest.approx(4.8**2, rel=1e-6)
