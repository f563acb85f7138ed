"""A device in a study of the moments suite: sealed parcels, the shell, fetching by link, receipts, withdrawal, words."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimask_cli import owner
from trimask_client import Client, Queue
from trimask_client.fetch import fetch_study
from trimask_client.gateway import gateway_of
from trimask_core.basics.errors import AnswerError, ApprovalError, StudyError, VerificationError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import component_info
from trimask_core.moments.arrays import times
from trimask_core.moments.field import P
from trimask_core.moments.report import challenge_key, derive_challenge, forms, read_share, verdict
from trimask_core.study.guarantee import Budget
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Link
from trimask_core.submit.submission import Receipt, build_submission
from trimask_core.suites import check_payload, payloads_of
from trimask_terminal.device.program import main


@pytest.fixture(scope="module")
def signed(device_lab: Any, make_study: Any) -> SignedStudy:
    """A moments study of the cluster's three right providers; its left ones take no part."""
    made = make_study(suite="moments", sigma=30.0, title="Moments on a device", keys=device_lab.folder)
    owner.open_study(made.signed, device_lab.folder / "owner")
    study: SignedStudy = made.signed
    return study


def opened(made: Any, submission: Any) -> list[bytes]:
    study = made.study
    return [
        made.sealing[f"R{k}"].open(sealed, component_info(study.binding, k, submission.submission_id))
        for k, sealed in enumerate(submission.sealed, 1)
    ]


def test_parcels_open_at_their_provider_and_pass_the_check(moments_study: Any, answers: Any) -> None:
    study = moments_study.study
    client = Client(moments_study.signed, source=DeterministicRandom("parcels"))
    submission = client.prepare(answers)
    payloads = opened(moments_study, submission)
    layout = study.moments.layout
    for k, payload in enumerate(payloads, 1):
        check_payload(payloads_of(study).form_of(study, k), payload)
    shares = [read_share(payload, k, 2, layout.elements) for k, payload in enumerate(payloads, 1)]
    contributions = [moments_study.secrets[role].contribution(study.id) for role in ("R1", "R2")]
    key = challenge_key(study.id, contributions)
    form = forms(layout, derive_challenge(key, study.id, submission.submission_id[0], layout))
    sums = [
        sum(pair) % P for pair in zip(form.apply(shares[0], True), form.apply(shares[1], False), strict=True)
    ]
    assert verdict(sums) is None
    whole = [(a + b) % P for a, b in zip(*shares, strict=True)]
    assert whole[: layout.ball_bit] == list(layout.encode(answers).bits)


def test_a_parcel_opens_under_one_challenge_key_alone(moments_study: Any, answers: Any) -> None:
    submission = Client(moments_study.signed).prepare(answers)
    study = moments_study.study
    for binding in (study.id, replace(study, commitments=(bytes(32), study.commitments[1])).binding):
        with pytest.raises(VerificationError):
            moments_study.sealing["R1"].open(
                submission.sealed[0], component_info(binding, 1, submission.submission_id)
            )


def test_a_copy_with_another_commitment_or_none_is_refused(moments_study: Any) -> None:
    signed = moments_study.signed
    for commitment in (b"", bytes(32)):
        approvals = tuple(
            replace(one, commitment=commitment) if one.role == "R1" else one for one in signed.approvals
        )
        with pytest.raises(ApprovalError):
            Client(SignedStudy(signed.study, approvals))
    with pytest.raises(StudyError, match="without the approvals"):
        _ = replace(signed.study, commitments=()).binding


@pytest.mark.parametrize("wrong", [{"age": 81}, {"bmi": 14.9}, {"region": "east"}, {"smoker": "perhaps"}])
def test_an_answer_out_of_bounds_never_leaves_the_device(
    moments_study: Any, answers: Any, wrong: dict[str, object]
) -> None:
    with pytest.raises(AnswerError, match=next(iter(wrong))):
        Client(moments_study.signed).prepare({**answers, **wrong})


def test_words(moments_study: Any, make_study: Any) -> None:
    text = Client(moments_study.signed).explain()
    for needed in (
        "Both right providers together could read the answers; nobody else, and no fewer of them",
        "- Org R1 (R1) and Org R2 (R2), for every answer",
        "as long as one right provider adds its noise as agreed",
        "until your report is put into a batch",
        "One changed program can leave people out or make the result wrong; it cannot show anybody's answers.",
        "by a factor of at most ",
    ):
        assert needed in text
    assert "block" not in text
    assert "at least" not in text  # how many people a release has is not what protects
    three = make_study(suite="moments", sigma=30.0, honest_providers=2, label="three providers")
    text = Client(three.signed).explain()
    assert "All 3 right providers together could read the answers" in text
    assert "as long as 2 right providers add their noise as agreed" in text
    assert "Any 2 of the parts together are random numbers" in text


def test_words_without_noise_and_with_a_budget(make_study: Any) -> None:
    exact = make_study(suite="moments", sigma=0.0, label="no noise")
    text = Client(exact.signed).explain()
    assert "could bring all the other participants itself" in text
    assert "The release has no noise, and is not private." in text
    assert "cannot show anybody's answers" not in text
    protection = replace(exact.study.protection, budget=Budget(mu=1.0))
    asked = make_study(suite="moments", sigma=0.0, label="no noise", protection=protection)
    text = Client(asked.signed).explain()
    assert "gives none once a budget of mu 1 is spent by its own account" in text
    assert "Towards the collector itself" not in text


def test_rows_say_what_they_count_on(made_study: Any) -> None:
    assert "counts on every institution running the agreed program" in Client(made_study.signed).explain()


def test_fetched_by_its_link_without_a_seed(signed: SignedStudy) -> None:
    found = fetch_study(signed.study.collector.address, signed.study.id)
    assert found.to_json() == signed.to_json()
    assert found.study.binding == signed.study.binding
    assert not found.needs_seed


def test_from_a_link_to_a_receipt_and_back(
    signed: SignedStudy, device_lab: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str | Path) -> str:
        status = main(["--home", str(tmp_path / "home"), "--timeout", "10", *map(str, arguments)])
        captured = capsys.readouterr()
        assert status == 0, captured.err  # the nodes of this process may log there, too
        return captured.out

    study_id = signed.study.id
    joined = run("join", str(Link(signed.study.collector.address, study_id, None)))
    assert "All 3 right providers together could read the answers" in joined
    run("answer", "age=43", "bmi=27.25", "smoker=yes", "region=south", "--send")
    (entry,) = json.loads(run("status", "--json"))["submissions"]
    submission_id = bytes.fromhex(entry["submission_id"])
    assert entry["state"] == "sent"
    for role in ("R1", "R2", "R3"):
        assert device_lab.rows(role, study_id) == [submission_id]
    kept = tmp_path / "receipt.json"
    run("receipt", "--out", kept)
    Receipt.from_json(kept.read_text()).verify(signed.study)
    assert "all 3 providers have signed that it is erased" in run("withdraw")


def test_the_queue_sends_what_an_earlier_process_sealed(
    signed: SignedStudy, device_lab: Any, answers: Any, tmp_path: Path
) -> None:
    with closing(Queue(tmp_path / "device", bytes(range(32)))) as queue:
        sealed = queue.seal(queue.join(signed), answers)
    with closing(Queue(tmp_path / "device", bytes(range(32)))) as queue:
        (entry,) = queue.send(now=True)
    assert (entry.submission_id, entry.state) == (sealed.submission_id, "sent")
    assert sealed.submission_id in device_lab.rows("R3", signed.study.id)


@pytest.mark.parametrize("setting", [{}, {"right": 3, "row_norm": 1.9}], ids=["plain", "ball"])
def test_a_gateway_gives_what_devices_give_to_the_bit(
    make_study: Any, answers: Any, setting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same source gives the same payloads and ids, person by person, in whatever batches they are made."""
    monkeypatch.setattr("trimask_core.moments.gateway._BATCH", 4)
    made = make_study(suite="moments", **setting)
    people = [answers | {"age": 20 + number} for number in range(6)]
    source = DeterministicRandom("gateway")
    alone = [build_submission(made.study, person, source) for person in people]
    together = gateway_of(made.study).submissions(people, DeterministicRandom("gateway"))
    assert [one.submission_id for one in together] == [one.submission_id for one in alone]
    assert [opened(made, one) for one in together] == [opened(made, one) for one in alone]


def test_products_by_halves_are_those_of_whole_numbers() -> None:
    values = [0, 1, 2, P - 1, P - 2, 1 << 32, (1 << 32) - 1, 1 << 60, 0x0123456789ABCDEF % P]
    one = np.array([a for a in values for _ in values], dtype=np.uint64)
    other = np.array([b for _ in values for b in values], dtype=np.uint64)
    assert times(one, other).tolist() == [a * b % P for a in values for b in values]
