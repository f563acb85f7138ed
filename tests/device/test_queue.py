"""The queue on a real disk: what is on it, what a person is told, and what each failure leads to."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from trimask_client import Client, Endpoint, Queue, Unreachable, device_key
from trimask_client.queue_entry import PAUSES_MS, Entry
from trimask_client.records import FileDisk, Vault
from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import (
    AnswerError,
    ApprovalError,
    ConfigError,
    ParameterError,
    Refused,
    StudyError,
    VerificationError,
)
from trimask_core.basics.randomness import DeterministicRandom, SystemRandom
from trimask_core.basics.refusals import AnyReason, Reason, Status, Unlisted, read_reason
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import receipt_message
from trimask_patience import patience
from trimask_proto.v1.submission_pb2 import SubmitRequest, SubmitResponse

KEY = bytes(range(32))


class Providers:
    """Right providers that answer as they are told, by role; the default is to sign."""

    def __init__(self, made: Any) -> None:
        self.made = made
        self.moods: dict[str, Exception | bytes] = {}
        self.calls: list[tuple[str, bytes]] = []
        # What an answer waits for, and what is set when a call comes.
        self.hangs: dict[str, threading.Event] = {}
        self.begun: dict[str, threading.Event] = {}

    def call(self, endpoint: Endpoint, _method: str, request: bytes, _timeout: float) -> bytes:
        role = endpoint.tls_name.split(".")[0].upper()
        message = SubmitRequest.FromString(request)
        self.calls.append((role, message.sealed_component))
        if role in self.begun:
            self.begun[role].set()
        if role in self.hangs and not self.hangs[role].wait(patience(30)):
            raise Unreachable("it hung")
        mood = self.moods.get(role)
        if isinstance(mood, Exception):
            raise mood
        if mood is not None:
            return mood
        signed = receipt_message(message.study_id, message.submission_id, message.sealed_component, 5)
        signature = self.made.identities[role].sign("receipt", signed)
        return SubmitResponse(receive_time_ms=5, signature=signature).SerializeToString()

    def close(self) -> None:
        """Nothing is open."""


class Setting:
    """A queue with providers, a clock and a joined study."""

    def __init__(self, made: Any, folder: Path) -> None:
        self.made, self.folder = made, folder
        self.providers, self.clock = Providers(made), ManualClock(1_700_000_000_000)
        self.queue = self.open()
        self.study_id = self.queue.join(made.signed, made.study.id)

    def open(self) -> Queue:
        return Queue(
            self.folder, KEY, transport=self.providers, clock=self.clock, source=DeterministicRandom("q")
        )


@pytest.fixture
def at(made_study: Any, tmp_path: Path) -> Setting:
    return Setting(made_study, tmp_path / "queue")


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_sealed_then_sent(at: Setting, answers: Mapping[str, object]) -> None:
    entry = at.queue.seal(at.study_id, answers)
    assert (entry.state, entry.attempts, entry.next_ms) == ("waiting", 0, None)
    assert "not kept on this device" in entry.words(at.clock.now_ms())
    assert at.queue.next_ms() == at.clock.now_ms()
    (sent,) = at.queue.send()
    assert sent.state == "sent"
    assert sent.receipt is not None
    sent.receipt.verify(at.made.study)
    assert "all 3 providers" in sent.words(0)
    assert at.queue.send() == ()
    assert at.queue.next_ms() is None
    assert at.open().entries() == (sent,)
    assert len(at.providers.calls) == 3


def test_nothing_readable_is_on_the_disk(at: Setting) -> None:
    answers = {"age": 43, "bmi": 27.25, "smoker": "yes", "region": "south"}
    at.queue.save_draft(at.study_id, answers)
    before = _files(at.folder)
    assert any(name.startswith("drafts/") for name in before)
    at.queue.seal(at.study_id)
    between = _files(at.folder)
    at.queue.send()
    after = _files(at.folder)
    assert not any(name.startswith(("drafts/", "held/")) for name in after)
    for files in (before, between, after):
        for name, data in files.items():
            for word in (b"south", b"27.25", b"age", b"Blood pressure", at.made.study.title.encode()):
                assert word not in data, name
    modes = {stat.S_IMODE(path.stat().st_mode) for path in at.folder.rglob("*") if path.is_file()}
    folders = {
        stat.S_IMODE(path.stat().st_mode) for path in [at.folder, *at.folder.iterdir()] if path.is_dir()
    }
    assert (modes, folders) == ({0o600}, {0o700})


def test_a_draft_is_kept_changed_and_deleted(at: Setting) -> None:
    assert at.queue.draft(at.study_id) is None
    at.queue.save_draft(at.study_id, {"age": 20})
    at.queue.save_draft(at.study_id, {"age": 20, "bmi": None})
    assert at.open().draft(at.study_id) == {"age": 20, "bmi": None}
    at.queue.delete_draft(at.study_id)
    assert at.open().draft(at.study_id) is None
    with pytest.raises(StudyError, match="no draft"):
        at.queue.seal(at.study_id)


def test_bad_answers_leave_the_draft(at: Setting) -> None:
    at.queue.save_draft(at.study_id, {"age": 200, "bmi": 20, "smoker": "no", "region": "west"})
    with pytest.raises(AnswerError, match="age"):
        at.queue.seal(at.study_id)
    assert at.queue.draft(at.study_id) is not None
    assert at.queue.entries() == ()


def test_one_row_a_person_unless_asked(at: Setting, answers: Mapping[str, object]) -> None:
    at.queue.seal(at.study_id, answers)
    with pytest.raises(Refused, match="already") as caught:
        at.queue.seal(at.study_id, answers)
    assert caught.value.reason == "already_answered"
    at.queue.send()
    with pytest.raises(Refused):
        at.open().seal(at.study_id, answers)
    at.queue.seal(at.study_id, answers, again=True)
    assert [entry.state for entry in at.queue.entries()] == ["sent", "waiting"]


def test_a_provider_that_is_down_is_told_and_tried_again(at: Setting, answers: Mapping[str, object]) -> None:
    at.providers.moods["R2"] = Unreachable("r2:1: no answer; it may be down, or the network")
    at.queue.seal(at.study_id, answers)
    (entry,) = at.queue.send()
    assert entry.state == "waiting"
    assert entry.received_by == ("R1", "R3")
    words = entry.words(at.clock.now_ms())
    assert "2 of 3 providers have it" in words
    assert (
        "R2: r2:1: no answer; it may be down, or the network. It will be tried again in about 1 minute"
        in words
    )
    assert at.queue.send() == ()  # not due yet
    assert at.queue.next_ms() == entry.next_ms
    at.clock.advance(60)
    del at.providers.moods["R2"]
    again = at.open()  # another start
    (entry,) = again.send()
    assert entry.state == "sent"
    assert [role for role, _ in at.providers.calls] == ["R1", "R2", "R3", "R2"]
    assert len({sealed for role, sealed in at.providers.calls if role == "R2"}) == 1  # the very same bytes


def test_the_network_is_back_before_its_time(at: Setting, answers: Mapping[str, object]) -> None:
    at.providers.moods["R1"] = Unreachable("no network")
    at.queue.seal(at.study_id, answers)
    at.queue.send()
    at.providers.moods.clear()
    assert at.queue.send() == ()
    assert [entry.state for entry in at.queue.send(now=True)] == ["sent"]


def test_pauses_double_up_to_six_hours(at: Setting, answers: Mapping[str, object]) -> None:
    for role in ("R1", "R2", "R3"):
        at.providers.moods[role] = Unreachable("no network")
    at.queue.seal(at.study_id, answers)
    pauses = []
    for _ in range(14):
        (entry,) = at.queue.send()
        assert entry.next_ms is not None
        pauses.append(entry.next_ms - at.clock.now_ms())
        at.clock.advance(pauses[-1] / 1000)
    for attempt, pause in enumerate(pauses):
        full = min(6 * 3_600_000, 15_000 * 2**attempt)
        assert full / 2 <= pause <= full
    assert len({round(pause / PAUSES_MS.limit(i), 3) for i, pause in enumerate(pauses, 1)}) > 10


def test_a_clock_that_was_set_back_does_not_stop_it(at: Setting, answers: Mapping[str, object]) -> None:
    at.providers.moods["R1"] = Unreachable("no network")
    at.queue.seal(at.study_id, answers)
    at.queue.send()
    at.clock.advance(-86_400)
    at.providers.moods.clear()
    assert [entry.state for entry in at.queue.send()] == ["sent"]


@pytest.mark.parametrize(
    "reason",
    [
        Reason.STUDY_CLOSED, Reason.CONFLICTING_SUBMISSION, Reason.TAMPERED_COMPONENT, Reason.MALFORMED,
        Unlisted("quite_new", Status.INVALID_ARGUMENT),
    ],
)  # fmt: skip
def test_a_refusal_that_stands(at: Setting, answers: Mapping[str, object], reason: AnyReason) -> None:
    at.providers.moods["R2"] = Refused(reason, "this study takes no more submissions")
    at.queue.seal(at.study_id, answers)
    (entry,) = at.queue.send()
    assert entry.state == "refused"
    words = entry.words(at.clock.now_ms())
    assert "will not be tried again: R2: this study takes no more submissions. 2 of 3 providers" in words
    assert sorted(role for role, _ in at.providers.calls) == ["R1", "R2", "R3"]
    at.clock.advance(1e6)
    assert at.queue.send(now=True) == ()
    at.queue.discard(entry.submission_id)
    assert at.queue.entries() == ()
    assert not any(name.startswith(("payloads/", "progress/")) for name in _files(at.folder))


def test_what_the_first_refuses_nobody_else_is_sent(at: Setting, answers: Mapping[str, object]) -> None:
    at.providers.moods["R1"] = Refused(Reason.STUDY_CLOSED, "no")
    at.queue.save_draft(at.study_id, answers)
    at.queue.seal(at.study_id)
    (entry,) = at.queue.send()
    assert (entry.state, entry.received_by, entry.held) == ("refused", (), True)
    assert [role for role, _ in at.providers.calls] == ["R1"]


def test_a_provider_that_hangs_holds_up_no_other(at: Setting, answers: Mapping[str, object]) -> None:
    """It answers once the receipts of the others are on disk, or never: whoever is asked in turn does not get there."""
    released = threading.Event()
    at.providers.hangs["R2"] = released
    at.queue.seal(at.study_id, answers)
    signed: list[str] = []

    def told(address: str) -> None:
        signed.append(address)
        if len(signed) == 2:
            (entry,) = at.open().entries()
            assert entry.received_by == ("R1", "R3")
            released.set()

    (sent,) = at.queue.send(signed=told)
    assert sent.state == "sent"
    assert signed == [at.made.study.party(role).address for role in ("R1", "R3", "R2")]


def test_a_provider_that_hangs_holds_up_no_other_of_a_client(
    at: Setting, answers: Mapping[str, object]
) -> None:
    """R2 answers once R3 was asked. One that answers nobody is an error then, and the others have their part."""
    at.providers.hangs["R2"] = asked = threading.Event()
    at.providers.moods["R3"] = Unreachable("no network")
    at.providers.begun["R3"] = asked
    with Client(at.made.signed, transport=at.providers, attempts=1) as client:
        submission = client.prepare(answers)
        with pytest.raises(Unreachable, match="no network"):
            client.send(submission)
        assert client.refusals == {"unreachable": 1}
        del at.providers.moods["R3"]
        client.send(submission).verify(at.made.study)


@pytest.mark.parametrize(
    "reason",
    [
        Reason.INTERNAL_ERROR, Reason.UNKNOWN_STUDY, Reason.DRAINING, read_reason(None, "RESOURCE_EXHAUSTED"),
        Unlisted("quite_new", Status.FAILED_PRECONDITION),
    ],
)  # fmt: skip
def test_a_refusal_that_may_pass(at: Setting, answers: Mapping[str, object], reason: AnyReason) -> None:
    at.providers.moods["R2"] = Refused(reason, "not now")
    at.queue.seal(at.study_id, answers)
    assert [entry.state for entry in at.queue.send()] == ["waiting"]


@pytest.mark.parametrize(
    "answer",
    [
        b"\xff",
        b"",
        SubmitResponse(receive_time_ms=5, signature=bytes(64)).SerializeToString(),
        SubmitResponse(receive_time_ms=-5, signature=bytes(64)).SerializeToString(),
    ],
)
def test_a_receipt_that_does_not_verify_is_none(
    at: Setting, answers: Mapping[str, object], answer: bytes
) -> None:
    at.providers.moods["R3"] = answer
    at.queue.seal(at.study_id, answers)
    (entry,) = at.queue.send()
    assert entry.received_by == ("R1", "R2")
    assert "R3" in entry.why
    at.providers.moods.clear()
    assert [entry.state for entry in at.queue.send(now=True)] == ["sent"]


def test_only_studies_that_all_signed_and_the_invitation_names(at: Setting) -> None:
    signed = at.made.signed
    with pytest.raises(ApprovalError):
        at.queue.join(SignedStudy(signed.study, signed.approvals[1:]))
    with pytest.raises(StudyError, match="not the study of the invitation"):
        at.queue.join(signed, "00" * 32)
    with pytest.raises(StudyError, match="join it first"):
        at.queue.client(bytes(32))


def test_another_key_reads_nothing(at: Setting, answers: Mapping[str, object]) -> None:
    entry = at.queue.seal(at.study_id, answers)
    other = Queue(at.folder, bytes(32), transport=at.providers, clock=at.clock)
    (damaged,) = other.entries()
    assert (damaged.submission_id, damaged.state) == (entry.submission_id, "damaged")
    assert "another key" in damaged.words(0)
    assert other.send() == ()
    assert at.open().entries()[0].state == "waiting"


def test_an_altered_payload_is_not_sent(at: Setting, answers: Mapping[str, object]) -> None:
    entry = at.queue.seal(at.study_id, answers)
    path = at.folder / "payloads" / entry.submission_id.hex()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    queue = at.open()
    assert [item.state for item in queue.entries()] == ["damaged"]
    assert queue.send(now=True) == ()
    assert at.providers.calls == []
    queue.discard(entry.submission_id)
    assert queue.entries() == ()


def test_a_record_under_another_name_is_not_taken(at: Setting, answers: Mapping[str, object]) -> None:
    first = at.queue.seal(at.study_id, answers)
    folder = at.folder / "payloads"
    (folder / ("ab" * 16)).write_bytes((folder / first.submission_id.hex()).read_bytes())
    assert sorted(entry.state for entry in at.open().entries()) == ["damaged", "waiting"]


def test_files_of_somebody_else_are_left_alone(at: Setting, answers: Mapping[str, object]) -> None:
    at.queue.seal(at.study_id, answers)
    (at.folder / "payloads" / ".directory").write_text("x")
    (at.folder / "payloads" / "abc").write_text("x")
    assert [entry.state for entry in at.open().send()] == ["sent"]
    assert len(list((at.folder / "payloads").iterdir())) == 2


def test_lost_progress_only_costs_another_upload(at: Setting, answers: Mapping[str, object]) -> None:
    at.providers.moods["R3"] = Unreachable("no network")
    entry = at.queue.seal(at.study_id, answers)
    at.queue.send()
    (at.folder / "progress" / entry.submission_id.hex()).write_bytes(b"\x01garbage")
    at.providers.moods.clear()
    assert [item.state for item in at.open().send()] == ["sent"]


def test_two_programs_do_not_send_at_once(at: Setting, answers: Mapping[str, object]) -> None:
    at.queue.seal(at.study_id, answers)
    with FileDisk(at.folder).lock("sending", wait=False) as mine:
        assert mine
        with pytest.raises(ConfigError, match="another program is sending"):
            at.queue.send()
    assert [entry.state for entry in at.queue.send()] == ["sent"]


def test_an_unknown_submission(at: Setting) -> None:
    with pytest.raises(Refused, match="no such submission"):
        at.queue.entry(bytes(16))


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(-5, "at the next opportunity"), (1, "about 1 minute,"), (99, "99 minutes"), (360, "6 hours")],
)
def test_when_it_is_tried_again(minutes: int, words: str) -> None:
    entry = Entry(
        bytes(16), bytes(32), "t", "waiting", next_ms=minutes * 60_000, why="no network", providers=3
    )
    assert words in entry.words(0)


def test_the_device_key(tmp_path: Path) -> None:
    path = tmp_path / "new" / "device.key"
    key = device_key(path)
    assert len(key) == 32
    assert device_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("short")
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        device_key(path)
    with pytest.raises(ParameterError, match="key"):
        Queue(tmp_path, b"short")


def test_vault_shows_nothing(tmp_path: Path) -> None:
    vault = Vault(FileDisk(tmp_path), KEY, SystemRandom())
    assert KEY.hex() not in repr(vault)
    vault.put("drafts", "aa", {"x": 1})
    assert vault.get("drafts", "aa") == {"x": 1}
    assert vault.get("drafts", "bb") is None
    for broken in (b"", b"\x02" + bytes(40), b"\x01" + bytes(5)):
        (tmp_path / "drafts" / "aa").write_bytes(broken)
        with pytest.raises(VerificationError, match="drafts/aa"):
            vault.get("drafts", "aa")


KILLED = """
import os, signal, sys
from trimask_client import Queue, device_key
from trimask_client.records import FileDisk

class Doomed(FileDisk):
    left = int(sys.argv[3])
    def _count(self):
        Doomed.left -= 1
        if Doomed.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    def write(self, path, data): super().write(path, data); self._count()
    def rename(self, old, new): super().rename(old, new); self._count()
    def remove(self, path): super().remove(path); self._count()

from pathlib import Path
queue = Queue(Doomed(Path(sys.argv[1])), bytes(range(32)))
study = queue.studies()[0]
if queue.draft(study) is not None:
    queue.seal(study, again=True)
queue.send(now=True)
"""


def test_kill_9_between_the_writes_of_a_real_process(device_lab: Any, tmp_path: Path) -> None:
    """seal: 4 writes and 1 removal; send: 2 writes a receipt, 2 for the last record, 3 removals."""
    signed = device_lab.open_study("Killed")
    queue = Queue(tmp_path, KEY)
    study_id = queue.join(signed)
    queue.save_draft(study_id, {"hours": 7, "active": "no"})
    queue.close()
    killed = 0
    for lives in range(8):
        run = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), "", str(2 * lives)], check=False)
        killed += run.returncode == -signal.SIGKILL
        if run.returncode == 0:
            break
    assert killed >= 3
    queue = Queue(tmp_path, KEY)
    (entry,) = queue.entries()
    assert entry.state == "sent"
    assert queue.draft(study_id) is None
    for role in ("R1", "R2", "R3"):
        assert device_lab.rows(role, study_id) == [entry.submission_id]
    assert list((tmp_path / "payloads").iterdir()) == []
