"""The device's part: what is sent adds up to the masked row, and the masked row to the answers and their noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from scipy import stats

from trimask_core.basics.errors import AnswerError, VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import component_info
from trimask_core.rows.arrays import device_frame, read_component
from trimask_core.rows.payloads import mask_row, noisy_answers
from trimask_core.study.definition import Study
from trimask_core.submit.submission import build_submission, seal_payloads

Make = Callable[..., Any]
Answers = Mapping[str, object]


def open_all(made: Any, submission: Any) -> list[Any]:
    return [
        read_component(
            made.study,
            k,
            made.sealing[f"R{k}"].open(sealed, component_info(made.study.id, k, submission.submission_id)),
        )
        for k, sealed in enumerate(submission.sealed, 1)
    ]


@pytest.mark.parametrize("right", [2, 3, 5])
def test_components_add_up_to_the_masked_row(right: int, make_study: Make, answers: Answers) -> None:
    made = make_study(right=right)
    submission = build_submission(made.study, answers, DeterministicRandom("device"))
    again = DeterministicRandom("device")
    row = mask_row(made.study, noisy_answers(made.study, answers, again), again)
    assert len(submission.sealed) == right
    assert np.array_equal(sum(open_all(made, submission)), row)


def test_exact_mode_gives_the_answers_back(make_study: Make, answers: Answers) -> None:
    """F^T unmasks to x1: one rounding to the grid before the mask and one after it, of p values of norm 1 rows."""
    made = make_study(sigma=0.0)
    study = made.study
    truth = np.array(study.schema.encode(answers))
    x1 = noisy_answers(study, answers, DeterministicRandom("unused"))
    assert np.array_equal(x1, study.rows.grid.round(truth))
    for number in range(20):
        submission = build_submission(study, answers, DeterministicRandom(f"exact {number}"))
        row = study.rows.grid.to_float(sum(open_all(made, submission)))
        unmasked = device_frame(study).unapply(row[None, :])[0]
        # Rounding moves each of p entries by half a step at most, so the unmasked row by sqrt(p)/2 steps at most.
        assert (
            np.linalg.norm(unmasked - study.rows.grid.to_float(np.array(x1)))
            <= math.sqrt(study.rows.columns) / 2 * study.rows.grid.step
        )
        assert np.abs(unmasked - truth).max() < 20 * study.rows.grid.step


def test_the_noise_has_the_study_s_sigma(study: Study, answers: Answers) -> None:
    """Chi-square of 300 rows' noise, and each column's mean zero; set for 1e-6 each."""
    source = DeterministicRandom("sigma")
    exact = study.rows.grid.round(np.array(study.schema.encode(answers)))
    rows = np.array([noisy_answers(study, answers, source) for _ in range(300)])
    z = study.rows.grid.to_float(rows - exact) / study.protection.sigma
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-6
    assert 2 * min(stats.chi2.cdf((z**2).sum(), z.size), stats.chi2.sf((z**2).sum(), z.size)) > 1e-6
    assert np.abs(z.mean(axis=0)).max() < 5.4 / math.sqrt(len(z))


def test_the_noise_columns_fill_the_rest_of_the_space(make_study: Make, answers: Answers) -> None:
    """x B_0 minus x1 F is N(0, tau^2) in the p2 directions F leaves, and nothing within F; set for 1e-6 each."""
    study = make_study(sigma=0.0).study
    source = DeterministicRandom("noise columns")
    x1 = noisy_answers(study, answers, source)
    F = device_frame(study).matrix()
    rest = np.linalg.svd(F)[2][study.attributes :]
    rows = study.rows.grid.to_float(np.array([mask_row(study, x1, source) for _ in range(100)]))
    noise = rows - study.rows.grid.to_float(np.array(x1)) @ F
    assert np.abs(noise @ F.T).max() < 1e-5
    z = noise @ rest.T / study.rows.tau
    assert z.shape == (100, study.rows.noise_columns)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-6
    covariance = z.T @ z / len(z)
    # Marchenko-Pastur's edge at ratio 1.7, with a margin no 100 standard normal rows reach: (1 + sqrt(1.7) + 0.6)^2.
    assert np.linalg.norm(covariance, 2) < (1 + math.sqrt(study.rows.noise_columns / 100) + 0.6) ** 2


def test_a_smaller_row_norm_clips_and_never_exceeds_it(make_study: Make, answers: Answers) -> None:
    study = make_study(sigma=0.0, row_norm=1.0).study
    row = np.array(study.schema.encode(answers))
    steps = noisy_answers(study, answers, DeterministicRandom("clip"))
    clipped = study.rows.grid.to_float(np.array(steps))
    assert np.linalg.norm(row) > 1.0
    assert np.abs(clipped - row / np.linalg.norm(row)).max() <= study.rows.grid.step
    assert sum(int(step) ** 2 for step in steps) <= 2 ** (-2 * study.rows.grid_exponent)


def test_rounding_lengthens_no_row_beyond_the_norm(make_study: Make) -> None:
    """In exact integers, for answers drawn near the bounds, where rounding to nearest could."""
    rng = np.random.default_rng(5)
    for row_norm in (None, 1.2):
        study = make_study(sigma=0.0, row_norm=row_norm).study
        limit = math.floor((study.protection.row_norm / study.rows.grid.step) ** 2 * (1 + 1e-15))
        for _ in range(100):
            drawn = {"age": 80, "bmi": 45 - 10 ** rng.uniform(-9, 0), "smoker": 1, "region": "west"}
            steps = noisy_answers(study, drawn, DeterministicRandom("unused"))
            assert sum(int(step) ** 2 for step in steps) <= limit


def test_submissions_share_nothing(study: Study, answers: Answers) -> None:
    source = DeterministicRandom("twice")
    first, second = (build_submission(study, answers, source) for _ in range(2))
    assert first.study_id == second.study_id == study.id
    assert len(first.submission_id) == 16
    assert first.submission_id != second.submission_id
    assert not set(first.sealed) & set(second.sealed)


def test_sizes_of_an_upload(make_study: Make, answers: Answers) -> None:
    """One vector and K1 - 1 seeds, each with tags and a spare vector's; R1 and R2 hold two keys, R3 one."""
    study = make_study(right=4).study
    sizes = [len(sealed) for sealed in build_submission(study, answers, DeterministicRandom("size")).sealed]
    own, last = 1 + 32 + 48 + 2 * 32 + 32, 1 + 8 * study.rows.columns + 48 + 2 * 2 * 32 + 32
    assert sizes == [own + 64, own + 64, own + 32, last]


def test_a_bad_answer_stops_it_before_anything_is_drawn(study: Study, answers: Answers) -> None:
    source = DeterministicRandom("bad")
    with pytest.raises(AnswerError, match="age"):
        build_submission(study, {**answers, "age": 200}, source)
    assert source.seed() == DeterministicRandom("bad").seed()


def test_a_payload_for_each_right_provider(made_study: Any) -> None:
    """Sealing is blind to what a suite puts in a payload, and not to how many there are."""
    study, payloads = made_study.study, [b"one", b"two", b"three"]
    made = seal_payloads(study, payloads, DeterministicRandom("any"))
    opened = [
        made_study.sealing[f"R{k}"].open(sealed, component_info(study.id, k, made.submission_id))
        for k, sealed in enumerate(made.sealed, 1)
    ]
    assert opened == payloads
    for wrong in (payloads[:2], [*payloads, b"four"]):
        with pytest.raises(ValueError, match="zip"):
            seal_payloads(study, wrong, DeterministicRandom("any"))


SEED, VECTOR = b"\x01", b"\x02"


def test_read_component_refuses_every_other_form(study: Study) -> None:
    zeros = bytes(8 * study.rows.columns)
    assert read_component(study, 3, VECTOR + zeros).tolist() == [0] * study.rows.columns
    assert read_component(study, 1, SEED + bytes(32)).shape == (study.rows.columns,)
    bad: list[tuple[int, bytes]] = [
        (1, b""), (1, SEED), (1, SEED + bytes(31)), (1, SEED + bytes(33)), (1, b"\x03" + bytes(32)),
        (1, bytes(33)), (1, VECTOR + zeros), (2, VECTOR + bytes(32)),
        (3, b""), (3, VECTOR), (3, VECTOR + zeros[:-1]), (3, VECTOR + zeros + b"\0"), (3, VECTOR + zeros[:-8]),
        (3, SEED + bytes(32)), (3, SEED + zeros), (3, zeros),
    ]  # fmt: skip
    for provider, payload in bad:
        with pytest.raises(VerificationError, match=f"R{provider} must be"):
            read_component(study, provider, payload)


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**63 - 1, -(2**63)])
def test_read_component_refuses_values_that_do_not_fit(study: Study, value: int) -> None:
    vector = np.zeros(study.rows.columns, dtype="<i8")
    vector[3] = value
    with pytest.raises(VerificationError, match="53 bits"):
        read_component(study, 3, VECTOR + vector.tobytes())
