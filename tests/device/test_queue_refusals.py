"""Answers are not lost to a refusal, a closed study or a full disk: the draft stays until a first provider has accepted."""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from trimask_client import Endpoint, Queue, Unreachable
from trimask_client.records import FileDisk
from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import ConfigError, Refused, VerificationError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.basics.refusals import Reason
from trimask_core.submit.invitation import Invitation
from trimask_core.submit.submission import receipt_message, submission_id_of, withdrawal_message
from trimask_proto.v1.study_pb2 import STUDY_STATE_CLOSED, STUDY_STATE_OPEN, GetStudyStatusResponse
from trimask_proto.v1.submission_pb2 import SubmitRequest, SubmitResponse, WithdrawRequest, WithdrawResponse

KEY = bytes(range(32))
ANSWERS = {"age": 43, "bmi": 27.25, "smoker": "yes", "region": "south"}


@dataclass
class Nodes:
    """Three right providers and a collector; `moods` says what goes wrong, by role."""

    made: Any
    moods: dict[str, Exception] = field(default_factory=dict)
    state: int | None = STUDY_STATE_OPEN
    rows: dict[tuple[str, bytes], bytes] = field(default_factory=dict)

    def call(self, endpoint: Endpoint, method: str, request: bytes, _timeout: float) -> bytes:
        if method.endswith("/GetStudyStatus"):
            if self.state is None:
                raise Unreachable("no network")
            return GetStudyStatusResponse(state=self.state).SerializeToString()  # type: ignore[arg-type]
        role = endpoint.tls_name.split(".")[0].upper()
        if role in self.moods:
            raise self.moods[role]
        key = self.made.identities[role]
        if method.endswith("/Withdraw"):
            asked = WithdrawRequest.FromString(request)
            found = submission_id_of(asked.study_id, asked.withdrawal_key)
            self.rows.pop((role, found), None)
            signature = key.sign("withdrawal", withdrawal_message(asked.study_id, found, 4))
            return WithdrawResponse(withdraw_time_ms=4, signature=signature).SerializeToString()
        sent = SubmitRequest.FromString(request)
        self.rows[role, sent.submission_id] = sent.sealed_component
        message = receipt_message(sent.study_id, sent.submission_id, sent.sealed_component, 5)
        return SubmitResponse(receive_time_ms=5, signature=key.sign("receipt", message)).SerializeToString()

    def close(self) -> None:
        """Nothing is open."""

    @property
    def ids(self) -> set[bytes]:
        return {submission_id for _, submission_id in self.rows}


class FullDisk(FileDisk):
    """A real folder with room for so many more writes; None: enough."""

    left: int | None = None
    error = errno.ENOSPC

    def write(self, path: str, data: bytes) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise OSError(self.error, "No space left on device")
        super().write(path, data)


class At:
    """A queue of one device that has joined a study."""

    def __init__(self, made: Any, folder: Path) -> None:
        self.made, self.folder = made, folder
        self.nodes, self.clock = Nodes(made), ManualClock(1_700_000_000_000)
        self.disk = FullDisk(folder)
        self.queue = self.open()
        self.study_id = self.queue.join(made.signed, made.study.id)

    def open(self) -> Queue:
        return Queue(self.disk, KEY, transport=self.nodes, clock=self.clock)

    def held(self) -> list[str]:
        return self.disk.names("held")


@pytest.fixture
def at(made_study: Any, tmp_path: Path) -> At:
    return At(made_study, tmp_path / "queue")


def test_a_draft_stays_until_a_first_provider_has_accepted(at: At) -> None:
    at.nodes.moods = {role: Unreachable("no network") for role in ("R1", "R2", "R3")}
    at.queue.save_draft(at.study_id, ANSWERS)
    entry = at.queue.seal(at.study_id)
    assert entry.held
    assert "the draft stays here" in entry.words(0)
    assert at.queue.draft(at.study_id) is None  # not to be changed while it may be under way
    at.queue.send()
    assert at.open().entry(entry.submission_id).held
    assert stat.S_IMODE((at.folder / "held" / entry.submission_id.hex()).stat().st_mode) == 0o600
    assert b"south" not in (at.folder / "held" / entry.submission_id.hex()).read_bytes()
    del at.nodes.moods["R2"]
    (entry,) = at.queue.send(now=True)
    assert (entry.state, entry.received_by, entry.held) == ("waiting", ("R2",), False)
    assert at.held() == []


@pytest.mark.parametrize("reason", [Reason.STUDY_CLOSED, Reason.MALFORMED])
def test_refused_by_the_first_and_answered_again(at: At, reason: Reason) -> None:
    at.nodes.moods["R1"] = Refused(reason, "no")
    at.queue.save_draft(at.study_id, ANSWERS)
    first = at.queue.seal(at.study_id)
    (entry,) = at.queue.send()
    assert (entry.state, entry.held) == ("refused", True)
    assert "answer again from your draft" in entry.words(0)
    with pytest.raises(Refused):
        at.queue.seal(at.study_id, ANSWERS)
    at.queue.discard(entry.submission_id)
    assert at.queue.draft(at.study_id) == ANSWERS
    assert at.held() == []
    at.nodes.moods.clear()
    second = at.queue.seal(at.study_id)
    assert second.submission_id != first.submission_id
    assert [one.state for one in at.queue.send()] == ["sent"]
    assert at.nodes.ids == {second.submission_id}


def test_what_may_be_out_is_never_sealed_again(at: At) -> None:
    """Every answer was lost: each provider may have its part, so a second row could be one too many."""
    at.nodes.moods = {role: Unreachable("the answer was lost") for role in ("R1", "R2", "R3")}
    at.queue.save_draft(at.study_id, ANSWERS)
    entry = at.queue.seal(at.study_id)
    at.queue.send()
    at.queue.discard(entry.submission_id)
    assert at.queue.draft(at.study_id) is None
    assert at.held() == []


def test_discarding_before_anything_was_tried_gives_the_draft_back(at: At) -> None:
    at.queue.save_draft(at.study_id, ANSWERS)
    entry = at.queue.seal(at.study_id)
    at.queue.save_draft(at.study_id, {"age": 20})
    with pytest.raises(ConfigError, match="another draft"):
        at.queue.discard(entry.submission_id)
    at.queue.delete_draft(at.study_id)
    at.queue.discard(entry.submission_id)
    assert at.queue.draft(at.study_id) == ANSWERS
    entry = at.queue.seal(at.study_id)
    at.queue.discard(entry.submission_id, forget=True)
    assert at.queue.draft(at.study_id) is None
    assert at.queue.entries() == ()


def test_withdrawing_while_it_waits_takes_the_draft_with_it(at: At) -> None:
    at.nodes.moods["R2"] = Unreachable("no network")
    at.queue.save_draft(at.study_id, ANSWERS)
    entry = at.queue.seal(at.study_id)
    at.queue.send()
    assert at.queue.withdraw(entry.submission_id).state == "withdrawing"
    assert (at.held(), at.queue.draft(at.study_id)) == ([], None)
    at.nodes.moods.clear()
    assert [one.state for one in at.queue.send(now=True)] == ["withdrawn"]
    assert at.nodes.rows == {}


def test_a_closed_study_is_said_before_sealing(at: At) -> None:
    at.queue.check_open(at.study_id)
    at.nodes.state = None
    at.queue.check_open(at.study_id)  # nobody to ask: a person may go on
    at.nodes.state = STUDY_STATE_CLOSED
    with pytest.raises(Refused) as caught:
        at.queue.check_open(at.study_id)
    assert caught.value.reason is Reason.STUDY_CLOSED
    at.nodes.state = STUDY_STATE_OPEN
    at.queue.seal(at.study_id, ANSWERS)
    with pytest.raises(Refused) as caught:
        at.queue.check_open(at.study_id)
    assert caught.value.reason is Reason.ALREADY_ANSWERED


def test_an_invitation_that_is_over_or_used_is_said_before_sealing(make_study: Any, tmp_path: Path) -> None:
    made = make_study(label="invited", admission="invited")
    admits = made.identities["owner"]
    at = At(made, tmp_path / "queue")

    def invite(seconds: float) -> None:
        ends = at.clock.now_ms() + round(1000 * seconds)
        one = Invitation.draw(at.study_id, ends, SystemRandom()).signed_with(admits)
        at.queue.join(made.signed, made.study.id, one)

    def refused(work: Callable[[], object]) -> Reason:
        with pytest.raises(Refused) as caught:
            work()
        assert isinstance(caught.value.reason, Reason)
        return caught.value.reason

    at.queue.save_draft(at.study_id, ANSWERS)
    assert refused(lambda: at.queue.check_open(at.study_id)) is Reason.NO_INVITATION
    invite(60)
    at.queue.check_open(at.study_id)
    at.clock.advance(60)
    assert refused(lambda: at.queue.check_open(at.study_id)) is Reason.INVITATION_EXPIRED
    assert refused(lambda: at.queue.seal(at.study_id)) is Reason.INVITATION_EXPIRED
    assert at.queue.draft(at.study_id) == ANSWERS
    invite(60)
    at.queue.seal(at.study_id)
    at.queue.send()
    assert refused(lambda: at.queue.check_open(at.study_id, again=True)) is Reason.INVITATION_USED
    invite(60)  # the next person's, on the same device
    at.queue.check_open(at.study_id, again=True)
    at.queue.seal(at.study_id, ANSWERS, again=True)
    assert refused(lambda: at.queue.seal(at.study_id, ANSWERS, again=True)) is Reason.INVITATION_USED


def test_a_full_disk_loses_nothing(at: At) -> None:
    """A write fails at each place in turn, and what is done next finds everything as it was, or sealed once."""
    for room in range(8):
        at.disk.left = None
        at.queue.save_draft(at.study_id, ANSWERS)
        before = at.nodes.ids
        at.disk.left = room
        failed = False
        try:
            at.queue.seal(at.study_id, again=True)
            at.queue.send(now=True)
        except OSError:
            failed = True
        at.disk.left = None
        at.queue = at.open()
        if at.queue.draft(at.study_id) is not None:
            at.queue.seal(at.study_id, again=True)
        at.queue.send(now=True)
        assert len(at.nodes.ids - before) == 1
        assert {entry.state for entry in at.queue.entries()} == {"sent"}
        assert (at.held(), at.queue.draft(at.study_id)) == ([], None)
        if not failed:
            assert room > 5
            return
    pytest.fail("sealing and sending writes more than was tried")


def test_a_receipt_of_another_device(at: At, tmp_path: Path) -> None:
    at.queue.seal(at.study_id, ANSWERS)
    (sent,) = at.queue.send()
    assert sent.receipt is not None
    other = At(at.made, tmp_path / "other")
    other.nodes = at.nodes
    queue = other.open()
    entry = queue.import_receipt(sent.receipt)
    assert (entry.state, entry.receipt) == ("sent", sent.receipt)
    with pytest.raises(VerificationError):
        queue.import_receipt(type(sent.receipt)(at.study_id, bytes(16), sent.receipt.providers))
    assert queue.withdraw(entry.submission_id).state == "withdrawn"
    assert at.nodes.rows == {}
    assert queue.import_receipt(sent.receipt).state == "withdrawn"  # an old copy brings nothing back


def test_forgetting_a_study_leaves_nothing_of_it(at: At, answers: Mapping[str, object]) -> None:
    at.queue.seal(at.study_id, answers)
    at.queue.send()
    at.queue.save_draft(at.study_id, answers)
    at.queue.seal(at.study_id, again=True)
    at.queue.save_draft(at.study_id, answers)
    at.queue.forget(at.study_id)
    assert [path for path in at.folder.glob("*/*") if path.is_file()] == []
    assert at.open().studies() == ()


def test_causes_say_by_code_what_why_says_in_english(at: At) -> None:
    at.nodes.moods = {
        "R1": Unreachable("no network"),
        "R2": VerificationError("not its signature"),
        "R3": Refused(Reason.RATE_LIMITED, "wait"),
    }
    at.queue.seal(at.study_id, ANSWERS)
    (entry,) = at.queue.send()
    assert entry.causes == (("R1", "offline"), ("R2", "untrusted"), ("R3", "rate_limited"))
    at.nodes.moods = {"R2": Refused(Reason.EXPIRED_KEY, "retired")}
    (entry,) = at.queue.send(now=True)
    assert (entry.state, entry.causes) == ("refused", (("R2", "expired_key"),))
    assert at.open().entry(entry.submission_id) == entry


def test_a_held_draft_can_be_let_go_and_what_is_sealed_is_sent(at: At) -> None:
    """A device that somebody else keeps holds no answers for a refusal that may come."""
    at.nodes.moods = {"R1": Unreachable("no network")}
    at.queue.save_draft(at.study_id, ANSWERS)
    entry = at.queue.seal(at.study_id)
    at.queue.let_go(entry.submission_id)
    at.queue.let_go(entry.submission_id)  # twice is the same
    assert (at.held(), at.queue.entry(entry.submission_id).held) == ([], False)
    at.nodes.moods.clear()
    assert [one.state for one in at.queue.send(now=True)] == ["sent"]


def test_everything_can_be_forgotten_what_cannot_be_read_too(at: At) -> None:
    at.queue.save_draft(at.study_id, ANSWERS)
    at.nodes.moods = {"R3": Unreachable("no network")}
    entry = at.queue.seal(at.study_id)
    at.queue.send()
    path = at.folder / "payloads" / entry.submission_id.hex()
    path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))
    assert at.queue.entry(entry.submission_id).state == "damaged"
    at.queue.forget(at.study_id)
    assert [one.state for one in at.queue.entries()] == [
        "damaged"
    ]  # of which study it was cannot be read either
    at.queue.forget_all()
    assert (at.queue.entries(), at.queue.studies()) == ((), ())
    assert not [path for path in at.folder.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_repro_a_study_opened_again_without_its_invitation_keeps_it(make_study: Any, tmp_path: Path) -> None:
    """The link of the study alone, or a receipt's, made "you need an invitation" of somebody who had one."""
    made = make_study(label="invited", admission="invited")
    at = At(made, tmp_path / "queue")
    one = Invitation.draw(at.study_id, at.clock.now_ms() + 60_000, SystemRandom())
    at.queue.join(made.signed, made.study.id, one.signed_with(made.identities["owner"]))
    at.queue.join(made.signed, made.study.id)
    at.queue.check_open(at.study_id)
