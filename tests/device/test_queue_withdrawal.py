"""Withdrawing from the queue: asked of all, until all have signed or all say it is too late; and what a person is told."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from trimask_client import Endpoint, Queue, Unreachable
from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.submit.submission import receipt_message, submission_id_of, withdrawal_message
from trimask_proto.v1.submission_pb2 import SubmitRequest, SubmitResponse, WithdrawRequest, WithdrawResponse

KEY = bytes(range(32))


@dataclass
class Providers:
    """Three providers: what each says to a withdrawal."""

    made: Any
    says: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    erased: set[str] = field(default_factory=set)

    def call(self, endpoint: Endpoint, method: str, request: bytes, _timeout: float) -> bytes:
        role = endpoint.tls_name.split(".")[0].upper()
        key = self.made.identities[role]
        if method.endswith("/Submit"):
            submit = SubmitRequest.FromString(request)
            if self.says.get(role) == "offline":
                raise Unreachable("no network")
            signed = receipt_message(submit.study_id, submit.submission_id, submit.sealed_component, 1)
            return SubmitResponse(
                receive_time_ms=1, signature=key.sign("receipt", signed)
            ).SerializeToString()
        self.asked.append(role)
        if self.says.get(role) == "offline":
            raise Unreachable("no network")
        if self.says.get(role) == "in block":
            raise Refused(Reason.ALREADY_IN_BLOCK, "already being combined with others")
        withdraw = WithdrawRequest.FromString(request)
        submission_id = submission_id_of(withdraw.study_id, withdraw.withdrawal_key)
        message = withdrawal_message(
            withdraw.study_id, submission_id, 5 if self.says.get(role) == "lies" else 4
        )
        self.erased.add(role)
        signature = key.sign("withdrawal", message)
        return WithdrawResponse(withdraw_time_ms=4, signature=signature).SerializeToString()

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def device(make_study: Any, answers: Any, tmp_path: Path) -> Any:
    made = make_study(label="withdrawing")
    world, clock = Providers(made), ManualClock(1_700_000_000_000)

    def start() -> Queue:
        return Queue(tmp_path / "device", KEY, transport=world, clock=clock)

    queue = start()
    study_id = queue.join(made.signed)
    entry = queue.seal(study_id, answers)
    return world, clock, start, queue, entry.submission_id


def test_one_that_was_never_tried_is_forgotten_and_nobody_asked(device: Any) -> None:
    world, _, _, queue, submission_id = device
    entry = queue.withdraw(submission_id)
    assert (entry.state, world.asked) == ("withdrawn", [])
    assert "nothing has left this device" in entry.words(0)
    assert queue.send(now=True) == ()
    assert queue.next_ms() is None


def test_all_are_asked_until_all_have_signed(device: Any) -> None:
    world, clock, start, queue, submission_id = device
    queue.send()
    world.says = {"R2": "offline", "R3": "in block"}
    entry = queue.withdraw(submission_id)
    assert (entry.state, entry.withdrawn_by) == ("withdrawing", ("R1",))
    words = entry.words(clock.now_ms())
    assert "1 of 3 providers have erased it; without their parts it can no longer be used" in words
    assert "asked again in about 1 minute" in words
    queue = start()  # a new life
    assert queue.send() == ()  # not due yet
    clock.advance(60)
    world.asked.clear()
    world.says = {}  # the network is back, and the collector has given the block up
    (entry,) = queue.send()
    assert world.asked == ["R2", "R3"]  # who has signed is not asked again
    assert (entry.state, entry.withdrawn_by) == ("withdrawn", ("R1", "R2", "R3"))
    assert entry.words(0) == "Withdrawn: all 3 providers have signed that it is erased and cannot come again."
    assert queue.withdraw(submission_id) == entry


def test_one_that_reached_some_providers_is_withdrawn_at_all(device: Any) -> None:
    world, _, _, queue, submission_id = device
    world.says = {"R2": "offline"}
    assert queue.send()[0].received_by == ("R1", "R3")
    world.says = {}
    assert queue.withdraw(submission_id).state == "withdrawn"
    assert world.erased == {"R1", "R2", "R3"}  # R2 too: a copy may be on its way
    assert queue.send(now=True) == ()


def test_too_late_is_final_and_said_honestly(device: Any) -> None:
    world, clock, _, queue, submission_id = device
    queue.send()
    world.says = {"R1": "in block", "R2": "in block", "R3": "offline"}
    assert queue.withdraw(submission_id).state == "withdrawing"  # R3 may still keep it out
    world.says["R3"] = "in block"
    (entry,) = queue.send(now=True)
    assert entry.state == "too_late"
    assert "and stays in" in entry.words(clock.now_ms())
    assert entry.receipt is not None
    assert queue.send(now=True) == ()
    with pytest.raises(Refused, match="answered"):
        queue.seal(entry.study_id, {})


def test_a_word_that_does_not_verify_is_not_counted(device: Any) -> None:
    world, _, _, queue, submission_id = device
    queue.send()
    world.says = {"R1": "lies"}
    entry = queue.withdraw(submission_id)
    assert (entry.state, entry.withdrawn_by) == ("withdrawing", ("R2", "R3"))
    assert "R1" in entry.why


def test_a_receipt_is_enough_and_a_shown_copy_is_not(device: Any, tmp_path: Path) -> None:
    world, clock, _, queue, _ = device
    (sent,) = queue.send()
    other = Queue(tmp_path / "other", KEY, transport=world, clock=clock)
    other.join(world.made.signed)
    with pytest.raises(Refused, match="without its withdrawal key"):
        other.withdraw(sent.receipt.shown)
    with pytest.raises(VerificationError):
        other.withdraw(replace(sent.receipt, withdrawal_key=bytes(32)))
    assert other.entries() == ()
    assert other.withdraw(sent.receipt).state == "withdrawn"
    assert world.erased == {"R1", "R2", "R3"}
