"""`Client` against right providers that really serve, refuse, stop and come back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimask_client import Client, Receipt, SealedSubmission, SignedStudy, Unreachable
from trimask_core.basics.errors import AnswerError, ApprovalError, Refused, StudyError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.basics.refusals import Reason
from trimask_grpcio import GrpcioTransport
from trimask_proto.v1.submission_pb2 import SubmitRequest

Answers = Mapping[str, object]
Make = Callable[..., Any]


class Sleeps(list[float]):
    """Stands in for time.sleep: writes down how long, and returns at once."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def sleeps() -> Sleeps:
    return Sleeps()


# Which studies a device takes part in


def test_an_unsigned_study_is_refused(made_study: Any) -> None:
    with pytest.raises(ApprovalError, match="signed study"):
        Client(made_study.study)


def test_a_partly_signed_study_is_refused(made_study: Any) -> None:
    for i, approval in enumerate(made_study.signed.approvals):
        approvals = made_study.signed.approvals[:i] + made_study.signed.approvals[i + 1 :]
        with pytest.raises(ApprovalError, match=f"not approved yet by {approval.role}"):
            Client(replace(made_study.signed, approvals=approvals))


def test_a_wrongly_signed_study_is_refused(made_study: Any) -> None:
    first, *rest = made_study.signed.approvals
    with pytest.raises(ApprovalError, match="R1"):
        Client(replace(made_study.signed, approvals=(replace(first, signature=bytes(64)), *rest)))


def test_a_changed_study_is_refused(made_study: Any) -> None:
    changed = replace(made_study.signed, study=replace(made_study.study, title="Something else"))
    with pytest.raises(ApprovalError):
        Client(changed)


def test_a_study_is_read_from_its_file(made_study: Any, tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    path.write_text(made_study.signed.to_json(), encoding="utf-8")
    for given in (path, str(path), made_study.signed):
        with Client(given) as client:
            assert client.study.id == made_study.study.id
    path.write_text("{}")
    with pytest.raises(StudyError):
        Client(path)


# Submitting


def test_submit_gives_a_receipt_that_verifies(running: Any, answers: Answers) -> None:
    before = [running.rows_held(role) for role in ("R1", "R2")]
    with Client(running.made.signed) as client:
        receipt = client.submit(answers)
        assert not client.refusals
    assert isinstance(receipt, Receipt)
    receipt.verify(running.made.study)
    assert [item.role for item in receipt.providers] == ["R1", "R2"]
    assert [running.rows_held(role) for role in ("R1", "R2")] == [count + 1 for count in before]


def test_the_same_bytes_give_the_same_receipt_and_count_once(running: Any, answers: Answers) -> None:
    with Client(running.made.signed) as client:
        submission = client.prepare(answers)
        first = client.send(submission)
        held = running.rows_held("R1")
        again = client.send(submission)
    with Client(running.made.signed) as another_day:
        third = another_day.send(submission)
    assert first == again == third
    assert running.rows_held("R1") == held


def test_the_same_id_with_other_bytes_is_a_conflict(running: Any, answers: Answers, sleeps: Sleeps) -> None:
    with Client(running.made.signed, sleep=sleeps) as client:
        submission = client.prepare(answers)
        receipt = client.send(submission)
        counted = running.refused("R1").get("conflicting_submission", 0)
        other = replace(client.prepare(answers), submission_id=submission.submission_id)
        with pytest.raises(Refused) as caught:
            client.send(other)
        assert caught.value.reason == "conflicting_submission"
        assert client.refusals == {"conflicting_submission": 1}
        assert client.send(submission) == receipt
    assert running.refused("R1")["conflicting_submission"] == counted + 1
    assert sleeps == []


def test_a_tampered_component_is_refused_and_not_repeated(
    running: Any, answers: Answers, sleeps: Sleeps
) -> None:
    held = running.rows_held("R1")
    with Client(running.made.signed, sleep=sleeps) as client:
        good = client.prepare(answers)
        first, second = good.sealed
        for sealed in ((first[:-1] + bytes([first[-1] ^ 1]), second), (second, first)):
            with pytest.raises(Refused) as caught:
                client.send(replace(good, sealed=sealed))
            assert caught.value.reason == "tampered_component"
        assert client.refusals == {"tampered_component": 2}
    assert sleeps == []
    assert running.rows_held("R1") == held


def test_a_component_cannot_be_moved_to_another_submission(running: Any, answers: Answers) -> None:
    with Client(running.made.signed) as client:
        with pytest.raises(Refused) as caught:
            client.send(replace(client.prepare(answers), submission_id=bytes(16)))
        assert caught.value.reason == "tampered_component"


def test_a_study_the_providers_do_not_know(
    running: Any, make_study: Make, keys_folder: Path, answers: Answers, sleeps: Sleeps
) -> None:
    stranger = make_study(right=2, left=1, block_rows=64, keys=keys_folder, title="Never opened")
    with Client(stranger.signed, sleep=sleeps) as client:
        with pytest.raises(Refused) as caught:
            client.submit(answers)
        assert caught.value.reason == "unknown_study"
        with pytest.raises(Refused, match="another study"):
            client.send(SealedSubmission(running.made.study.id, bytes(16), (b"", b"")))
    assert sleeps == []


def test_a_bad_answer_is_named_and_nothing_is_sent(running: Any, answers: Answers) -> None:
    held = running.rows_held("R1")
    with (
        Client(running.made.signed) as client,
        pytest.raises(AnswerError, match=r"^bmi: must be between") as caught,
    ):
        client.submit({**answers, "bmi": 1234.5})
    assert "1234" not in str(caught.value)
    assert running.rows_held("R1") == held


# When a provider is away


def test_unreachable_after_the_last_attempt_then_sent_again(
    running: Any, answers: Answers, sleeps: Sleeps
) -> None:
    """R1 has its component, R2 is down: the frozen submission is completed later, and R1 counts it once."""
    with Client(running.made.signed, attempts=5, sleep=sleeps) as client:
        submission = client.prepare(answers)
        running.cluster.stop("R2")
        try:
            with pytest.raises(Unreachable, match="no answer"):
                client.send(submission)
        finally:
            running.cluster.start("R2")
        assert client.refusals == {"unreachable": 1}
    assert len(sleeps) == 4
    assert all(0 <= slept <= 0.2 * 2**attempt for attempt, slept in enumerate(sleeps, 1))
    held = running.rows_held("R1"), running.rows_held("R2")
    with Client(running.made.signed) as client:
        receipt = client.send(submission)
        assert client.send(submission) == receipt
    assert (running.rows_held("R1"), running.rows_held("R2")) == (held[0], held[1] + 1)


def test_a_provider_that_comes_back_is_found_again(running: Any, answers: Answers) -> None:
    transport = GrpcioTransport()
    waits: list[float] = []

    def restart_meanwhile(seconds: float) -> None:
        waits.append(seconds)
        if "R2" not in running.cluster.nodes:
            running.cluster.start("R2")
        # A connection waits before it tries again; new ones do not.
        transport.close()

    with Client(running.made.signed, transport=transport, sleep=restart_meanwhile) as client:
        running.cluster.stop("R2")
        receipt = client.submit(answers)
    assert waits
    receipt.verify(running.made.study)


def test_waits_are_spread_and_grow_to_ten_seconds(running: Any, made_study: Any, answers: Answers) -> None:
    """Full jitter from the client's own source: nobody listens on port 1, so every attempt fails at once."""
    spans = []
    for label in ("a", "b"):
        sleeps = Sleeps()
        client = Client(
            made_study.signed, source=DeterministicRandom(label), attempts=12, sleep=sleeps, timeout_seconds=2
        )
        with client, pytest.raises(Unreachable):
            client.submit(answers)
        assert len(sleeps) == 11
        assert all(0 <= slept <= min(10.0, 0.2 * 2**attempt) for attempt, slept in enumerate(sleeps, 1))
        assert max(sleeps[5:]) > 3
        spans.append(sleeps)
    assert spans[0] != spans[1]


def test_no_attempts_at_all(made_study: Any, answers: Answers) -> None:
    with Client(made_study.signed, attempts=0) as client, pytest.raises(Unreachable, match=r"attempts >= 1"):
        client.submit(answers)


def test_a_signed_study_is_what_the_package_exports(signed_study: SignedStudy) -> None:
    assert isinstance(signed_study, SignedStudy)


class _Flaky:
    """The real transport, but one provider is cut off, or refuses, while it is said to."""

    def __init__(self, away: str) -> None:
        self.away = away
        self.refuses = False
        self.sent: list[bytes] = []
        self._real = GrpcioTransport()

    def call(self, endpoint: Any, method: str, request: bytes, timeout_seconds: float) -> bytes:
        if method.endswith("/Submit"):
            self.sent.append(SubmitRequest.FromString(request).submission_id)
            if self.refuses:
                raise Refused(Reason.STUDY_CLOSED, "this study takes no more answers")
            if endpoint.address == self.away:
                raise Unreachable("cut off")
        return self._real.call(endpoint, method, request, timeout_seconds)

    def close(self) -> None:
        self._real.close()


def test_repro_a_failed_submit_goes_on_with_the_same_submission(running: Any, answers: Answers) -> None:
    """A second submission under the same invitation would be refused where the first is in, and the person is lost."""
    before = [running.rows_held(role) for role in ("R1", "R2")]
    flaky = _Flaky(running.made.study.right[1].address)
    with Client(running.made.signed, transport=flaky, attempts=1, sleep=lambda _: None) as client:
        with pytest.raises(Unreachable, match="cut off"):
            client.submit(answers)
        assert [running.rows_held(role) for role in ("R1", "R2")] == [before[0] + 1, before[1]]
        flaky.away = ""
        receipt = client.submit(dict(answers))
        receipt.verify(running.made.study)
        assert set(flaky.sent) == {receipt.submission_id}
        other = client.submit(answers)  # done: the next is another person's
    assert other.submission_id != receipt.submission_id
    assert [running.rows_held(role) for role in ("R1", "R2")] == [count + 2 for count in before]


def test_a_submission_refused_by_the_first_is_over(running: Any, answers: Answers) -> None:
    flaky = _Flaky("")
    flaky.refuses = True
    with Client(running.made.signed, transport=flaky, attempts=1, sleep=lambda _: None) as client:
        for _ in range(2):
            with pytest.raises(Refused, match="no more answers"):
                client.submit(answers)
    assert len(set(flaky.sent)) == len(flaky.sent) == 2  # no further than the first, and a new one each time
