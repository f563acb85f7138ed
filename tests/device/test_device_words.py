"""What a person reads before answering, the pinned study id, and receipts that verify later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trimask_client import Client
from trimask_core.basics.errors import StudyError, VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.explain.statement import explain_study
from trimask_core.form.form import Form
from trimask_core.rows import collusion
from trimask_core.study.guarantee import Neighbours, Protection
from trimask_core.study.weight import Weight
from trimask_core.submit.submission import Receipt
from trimask_mobile.model.study_page_text import tell
from trimask_mobile.model.words import catalogue
from trimask_terminal.study_view import approval_words


def test_the_study_in_words(made_study: Any) -> None:
    study = made_study.study
    text = Client(made_study.signed).explain()
    assert (
        "You can withdraw with your receipt until your row is put into a block with 15 others or more."
        in text
    )
    for needed in (
        study.title,
        study.purpose,
        study.contact,
        study.id.hex(),
        "Org collector (collector)",
        "Org R1 (R1), Org R2 (R2), Org R3 (R3)",
        "Age (18 to 80 years)",
        "smoker (yes or no)",
        "region (north, south, west)",
        "1e-06)-differential privacy",
        "by a factor of at most 10^",
        "a chance of 1e-06",
        "at least 32 people together",
        "at least 16 people together",
    ):
        assert needed in text
    assert study.rows.mask_seed.hex() not in text


@pytest.mark.parametrize("right", [2, 3, 5])
def test_who_would_have_to_collude_is_the_reports_word(make_study: Any, right: int) -> None:
    study = make_study(right=right)
    report = collusion.report(study.study.rows.topology)
    text = Client(study.signed).explain()
    assert report.summary in text
    size = min(len(coalition.parties) for coalition in report.coalitions)
    smallest = [coalition for coalition in report.coalitions if len(coalition.parties) == size]
    for coalition in smallest:
        assert " and ".join(f"Org {role} ({role})" for role in coalition.parties) in text
    larger = len(report.coalitions) - len(smallest)
    assert (f"one of {larger} larger groups" in text) == (larger > 0)


def test_an_exact_study_says_that_it_promises_nothing(make_study: Any) -> None:
    text = Client(make_study(sigma=0.0).signed).explain()
    assert "no differential-privacy guarantee" in text
    assert "by a factor" not in text
    assert "Noise is added" not in text


def test_people_are_told_that_some_count_more(make_study: Any) -> None:
    """On every device: the terminal's words, the app's page of the study, and what a party agrees to."""
    study = make_study(label="told weights", weight=Weight("region", (1.0, 2.0, 3.5))).study
    told = "may count up to 3.5 times as much as another's, by the answer to “region”"
    assert told in explain_study(study)
    notes = tell(study, Form.for_schema(study.schema), catalogue("en"), "en").notes
    assert any(told in note for note in notes)
    assert any("nobody can check that it is its own" in line for line in approval_words(study, "R1"))
    assert "do not all count the same" not in explain_study(make_study(label="told weights").study)


def test_the_weaker_guarantee_comes_first_and_weak_numbers_are_said(make_study: Any) -> None:
    protection = small_claims(make_study().study.protection)
    for stated, first in ((0.5, "everybody who sees"), (19.7, "the collector, who sees")):
        towards = replace(protection, collector=replace(protection.collector, epsilon=stated))
        text = explain_study(make_study(protection=towards, label=f"weak {stated}").study)
        promises = [line for line in text.splitlines() if line.startswith("Towards ")]
        assert promises[0].startswith(f"Towards {first}")
    weak = replace(protection.public, epsilon=100.0, delta=0.5)
    text = explain_study(make_study(protection=replace(protection, public=weak, collector=weak)).study)
    assert "This study is weak in this:" in text
    assert "lays 16 of its 32 people open" in text
    assert "by a factor of at most 10^44" in text


def test_a_study_without_weaknesses_says_nothing_of_them(make_study: Any) -> None:
    made = make_study(right=4)
    assert "weak" not in explain_study(
        make_study(right=4, protection=small_claims(made.study.protection)).study
    )


def small_claims(protection: Protection) -> Protection:
    """epsilon = 1 towards both: as text alone, for no device would take part."""
    assert protection.public is not None
    assert protection.collector is not None
    return replace(
        protection,
        public=replace(protection.public, epsilon=1.0),
        collector=replace(protection.collector, epsilon=1.0),
    )


@pytest.mark.parametrize("towards", ["public", "collector"])
@pytest.mark.parametrize("suite", ["rows", "moments"])
def test_a_promise_that_the_noise_does_not_keep_is_refused(make_study: Any, suite: str, towards: str) -> None:
    made = make_study(suite=suite, sigma=2.0 if suite == "rows" else 30.0)
    protection = made.study.protection
    promise = getattr(protection, towards) or protection.public
    Client(made.signed)
    for changed in (
        replace(promise, epsilon=0.98 * promise.epsilon),
        replace(promise, delta=0.98 * promise.delta),
        replace(promise, neighbours=replace(promise.neighbours, row_norm=0.5 * protection.row_norm)),
    ):
        false = make_study(
            suite=suite, sigma=protection.sigma, protection=replace(protection, **{towards: changed})
        )
        with pytest.raises(StudyError, match=r"[Tt]ake no part"):
            Client(false.signed)


def test_a_table_of_honest_people_that_the_noise_does_not_keep_is_refused(make_study: Any) -> None:
    protection = make_study(sigma=2.0).study.protection
    alone = 10 * protection.collector.epsilon
    honest = replace(protection, by_honest_rows=((16, protection.collector.epsilon), (1, alone)))
    Client(make_study(sigma=2.0, protection=honest).signed)
    for table in (((16, 0.9 * protection.collector.epsilon),), ((1, 0.5),)):
        with pytest.raises(StudyError, match="honest people"):
            Client(make_study(sigma=2.0, protection=replace(protection, by_honest_rows=table)).signed)


def test_what_a_device_cannot_work_out_is_said(make_study: Any) -> None:
    protection = make_study().study.protection
    unit = Neighbours("unit", protection.row_norm, 1.0)
    claims = replace(
        protection,
        public=replace(protection.public, neighbours=unit),
        collector=replace(protection.collector, neighbours=unit),
    )
    client = Client(make_study(protection=claims).signed)
    assert client.unchecked
    assert "This device could not check that: its numbers are for one row moved by a step" in client.explain()
    nothing = make_study(sigma=0.0).study.protection
    with pytest.raises(StudyError, match="adds no noise"):
        Client(make_study(sigma=0.0, protection=replace(nothing, public=protection.public)).signed)


def test_the_pinned_id(made_study: Any) -> None:
    wanted = made_study.study.id
    for form in (wanted, wanted.hex(), f" {wanted.hex().upper()} "):
        assert Client(made_study.signed, study_id=form).study.id == wanted
    for other in (bytes(32), "", wanted.hex()[:-1], wanted[:-1]):
        with pytest.raises(StudyError, match="Take no part"):
            Client(made_study.signed, study_id=other)


def test_another_study_of_the_same_parties_is_not_the_pinned_one(make_study: Any, made_study: Any) -> None:
    other = make_study(title="Blood pressure, and your salary")
    with pytest.raises(StudyError, match="invitation"):
        Client(other.signed, study_id=made_study.study.id)


def test_a_receipt_verifies_later_and_not_for_another_study(device_lab: Any, made_study: Any) -> None:
    signed = device_lab.open_study("Receipts")
    with Client(signed, study_id=signed.study.id) as client:
        kept = client.submit({"hours": 8, "active": "no"}).to_json()
    Receipt.from_json(kept).verify(signed.study)
    with pytest.raises(VerificationError, match="another study"):
        Receipt.from_json(kept).verify(made_study.study)


def test_preparing_needs_no_transport(made_study: Any, answers: Any) -> None:
    client = Client(made_study.signed, source=DeterministicRandom("words"))
    client.prepare(answers)
    assert client._transport._slots == {}  # type: ignore[attr-defined]
    client.close()
