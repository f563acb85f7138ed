"""Random kills, power cuts and dead networks: each submission arrives exactly once or is still queued."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pytest

from trimask_client import Endpoint, Queue, Unreachable
from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import SystemRandom
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import component_info
from trimask_core.rows.arrays import device_frame, read_component
from trimask_core.submit.submission import receipt_message, submission_id_of, withdrawal_message
from trimask_proto.v1.submission_pb2 import SubmitRequest, SubmitResponse, WithdrawRequest, WithdrawResponse

KEY = bytes(range(32))
AGES = (21, 47, 73)
ALWAYS, IN_FULL = 120, 1000


class Crash(BaseException):
    """The process is gone. Not an Exception: nothing may catch it."""


@dataclass
class Doom:
    """Crashes after so many more points; None: never."""

    left: int | None = None

    def point(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crash


@dataclass
class File:
    """What was written, and how much of it is sure to be there after a power cut."""

    data: bytes = b""
    forced: bool = False


@dataclass
class SimDisk:
    """A disk with a cache: a kill leaves what was done, a power cut only what was forced and some of the rest."""

    doom: Doom
    live: dict[str, File] = field(default_factory=dict)
    forced: dict[str, File] = field(default_factory=dict)
    pending: list[tuple[str, Callable[[dict[str, File]], None]]] = field(default_factory=list)

    def _change(self, path: str, change: Callable[[dict[str, File]], None]) -> None:
        self.doom.point()
        change(self.live)
        self.pending.append((path.split("/")[0], change))
        self.doom.point()

    def names(self, folder: str) -> list[str]:
        return sorted(path.split("/")[1] for path in self.live if path.split("/")[0] == folder)

    def read(self, path: str) -> bytes:
        if path not in self.live:
            raise FileNotFoundError(path)
        return self.live[path].data

    def write(self, path: str, data: bytes) -> None:
        file = File()
        self._change(path, lambda names: names.__setitem__(path, file))
        file.data = data[: len(data) // 2]
        self.doom.point()
        file.data = data
        self.doom.point()
        file.forced = True
        self.doom.point()

    def rename(self, old: str, new: str) -> None:
        file = self.live[old]

        def change(names: dict[str, File]) -> None:
            names.pop(old, None)
            names[new] = file

        self._change(new, change)

    def remove(self, path: str) -> None:
        self._change(path, lambda names: names.pop(path, None) and None)

    def sync(self, folder: str) -> None:
        self.doom.point()
        for where, change in self.pending:
            if where == folder:
                change(self.forced)
        self.pending = [item for item in self.pending if item[0] != folder]
        self.doom.point()

    @contextlib.contextmanager
    def lock(self, name: str, *, wait: bool) -> Iterator[bool]:  # noqa: ARG002 - one process at a time here
        yield True

    def after_crash(self, rng: random.Random, doom: Doom) -> SimDisk:
        """What the next start finds: half the time the process was killed, half the time the power was cut."""
        names = dict(self.live)
        if rng.random() < 0.5:
            names = dict(self.forced)
            kept = {folder: rng.randint(0, 99) for folder, _ in self.pending}
            for (
                folder,
                change,
            ) in self.pending:  # a journal keeps the order: some first part of each folder's changes
                if kept[folder] > 0:
                    kept[folder] -= rng.randint(0, 60)
                    change(names)
            for path, file in names.items():
                if not file.forced:
                    names[path] = File(file.data[: rng.randint(0, len(file.data))])
        found = {path: File(file.data, True) for path, file in names.items()}
        return SimDisk(doom, dict(found), dict(found))


@dataclass
class World:
    """Providers that keep what they were sent, and a network in between; both outlive the device's process."""

    made: Any
    rng: random.Random
    doom: Doom
    trouble: float = 0.0
    refuses: Refused | None = None
    rows: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    withdrawn: set[tuple[str, bytes]] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def call(self, endpoint: Endpoint, method: str, request: bytes, _timeout: float) -> bytes:
        self.doom.point()
        if self.refuses is not None:
            raise self.refuses
        fate = self.rng.random()
        if fate < self.trouble / 2:
            self.seen["offline"] += 1
            raise Unreachable("no network")
        if fate < self.trouble * 0.6:
            self.seen["refused for now"] += 1
            raise Refused(Reason.INTERNAL_ERROR, "a node being repaired")
        role = endpoint.tls_name.split(".")[0].upper()
        answer = (
            self._withdraw(role, request) if method.endswith("/Withdraw") else self._submit(role, request)
        )
        self.doom.point()
        if fate < self.trouble:
            self.seen["answer lost"] += 1
            raise Unreachable("the answer was lost")
        return answer

    def _withdraw(self, role: str, request: bytes) -> bytes:
        message = WithdrawRequest.FromString(request)
        submission_id = submission_id_of(message.study_id, message.withdrawal_key)
        self.rows.pop((role, submission_id), None)
        self.withdrawn.add((role, submission_id))
        self.seen["withdrawn"] += 1
        signature = self.made.identities[role].sign(
            "withdrawal", withdrawal_message(message.study_id, submission_id, 2)
        )
        return WithdrawResponse(withdraw_time_ms=2, signature=signature).SerializeToString()

    def _submit(self, role: str, request: bytes) -> bytes:
        message = SubmitRequest.FromString(request)
        if any(submission_id == message.submission_id for _, submission_id in self.withdrawn):
            self.violations.append(f"{message.submission_id.hex()} was sent after it was withdrawn")
        row = self.rows.setdefault((role, message.submission_id), message.sealed_component)
        if row != message.sealed_component:
            self.violations.append(f"two payloads for {message.submission_id.hex()} at {role}")
        signed = receipt_message(message.study_id, message.submission_id, row, 1)
        signature = self.made.identities[role].sign("receipt", signed)
        return SubmitResponse(receive_time_ms=1, signature=signature).SerializeToString()

    def close(self) -> None:
        """Nothing is open."""


def _in_some_order(rng: random.Random) -> Any:
    """What is asked at once, one after the other in an order of the schedule's: a crash may come between any two."""

    def at_once(calls: Sequence[Callable[[], Any]]) -> Iterator[tuple[int, Any]]:
        for place in rng.sample(range(len(calls)), len(calls)):
            yield place, calls[place]()

    return mock.patch("trimask_client.client.at_once", at_once)


@pytest.fixture(autouse=True)
def _an_order() -> Iterator[None]:
    with _in_some_order(random.Random(1)):
        yield


class Device:
    """A process that is started again after every crash."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng, self.doom = world, rng, world.doom
        self.disk = SimDisk(self.doom)
        self.clock = ManualClock(1_700_000_000_000)
        self.frozen: dict[str, Any] = {}
        self.sealed: set[bytes] = set()
        self.unwanted: dict[bytes, int] = {}  # submission id -> the age in it, of those to be withdrawn
        self.crashes = 0

    def run(self, work: Callable[[Queue], None]) -> None:
        """Do it, in as many lives as it takes; work finds out by itself what is already done."""
        with _in_some_order(self.rng):
            self._run(work)

    def _run(self, work: Callable[[Queue], None]) -> None:
        while True:
            self.doom.left = self.rng.randint(0, 60) if self.crashes < 12 else None
            try:
                queue = Queue(self.disk, KEY, transport=self.world, clock=self.clock, source=SystemRandom())
                self._check(queue)
                work(queue)
            except Crash:
                self.crashes += 1
                self.doom.left = None
                self.disk = self.disk.after_crash(self.rng, self.doom)
            else:
                self.doom.left = None
                return

    def _check(self, queue: Queue) -> None:
        """Whatever was sealed is there, as it was sealed."""
        for name in queue._vault.names("payloads"):
            record = queue._vault.get("payloads", name)
            assert self.frozen.setdefault(name, record) == record
        there = {entry.submission_id for entry in queue.entries()}
        assert self.sealed <= there
        states = {entry.submission_id: entry.state for entry in queue.entries()}
        assert set(states.values()) <= {"waiting", "sent", "withdrawing", "withdrawn"}
        assert {found for found, state in states.items() if state.startswith("withdr")} <= set(self.unwanted)


def _schedule(made: Any, answers: dict[str, object], seed: int) -> tuple[Device, World]:
    rng = random.Random(seed)
    world = World(made, rng, Doom(), trouble=rng.choice([0.0, 0.3, 0.9]))
    device = Device(world, rng)
    study_id = made.study.id
    device.run(lambda queue: None if study_id in queue.studies() else queue.join(made.signed) and None)
    for age in AGES:
        mine = {**answers, "age": age}
        device.run(lambda queue, mine=mine: queue.save_draft(study_id, mine))  # type: ignore[misc]

        def seal(queue: Queue) -> None:
            if queue.draft(study_id) is not None:  # gone if an earlier life sealed it
                device.sealed.add(queue.seal(study_id, again=True).submission_id)

        before = _ids(device)
        device.run(seal)
        (sealed,) = _ids(device) - before
        for _ in range(rng.randint(0, 2)):
            device.clock.advance(rng.choice([1.0, 30.0, 30_000.0]))
            device.run(lambda queue: queue.send(now=rng.random() < 0.3) and None)
        # One in four changes their mind, at whatever stage it is; after a life that was cut off, the next asks again.
        if rng.random() < 0.25:
            device.unwanted[sealed] = age
            device.run(lambda queue, sealed=sealed: queue.withdraw(sealed) and None)  # type: ignore[misc]
    world.trouble = 0.0
    device.run(lambda queue: queue.send(now=True) and None)
    return device, world


def _ids(device: Device) -> set[bytes]:
    queue = Queue(device.disk, KEY, transport=device.world, clock=device.clock)
    return {entry.submission_id for entry in queue.entries()}


def _check_all_arrived_once(made: Any, device: Device, world: World) -> None:
    assert world.violations == []
    study = made.study
    ids = {submission_id for _, submission_id in world.rows}
    wanted = sorted(set(AGES) - set(device.unwanted.values()))
    assert not ids & set(device.unwanted)
    assert len(ids) == len(wanted)
    assert len(world.rows) == len(wanted) * len(study.right)
    column = [item.name for item in study.schema.columns].index("age")
    ages = []
    for submission_id in ids:
        row = sum(
            read_component(
                study,
                k,
                made.sealing[f"R{k}"].open(
                    world.rows[f"R{k}", submission_id], component_info(study.id, k, submission_id)
                ),
            )
            for k in range(1, len(study.right) + 1)
        )
        scaled = device_frame(study).unapply(study.rows.grid.to_float(np.asarray(row))[None])[0, column]
        ages.append(
            round(study.schema.columns[column].center + scaled * study.schema.columns[column].half_range)
        )
    assert sorted(ages) == wanted
    queue = Queue(device.disk, KEY, transport=world, clock=device.clock)
    entries = queue.entries()
    assert {entry.submission_id for entry in entries} == ids | set(device.unwanted)
    for entry in entries:
        if entry.submission_id in device.unwanted:
            assert entry.state == "withdrawn"
            at = {role for role, submission_id in world.withdrawn if submission_id == entry.submission_id}
            assert set(entry.withdrawn_by) == at
            assert at in (set(), {"R1", "R2", "R3"})  # nobody if nothing had been sent, or everybody
            continue
        assert entry.state == "sent"
        assert entry.receipt is not None
        entry.receipt.verify(study)
    left = {path.split("/")[0] for path in device.disk.live}
    assert left - {"withdrawals"} == {"studies"} | (
        {"receipts"} if wanted else set()
    )  # no draft, no payload, nothing half-written


@pytest.fixture(scope="module")
def exact(make_study: Any) -> Any:
    return make_study(sigma=0.0, label="crashes")


@pytest.mark.parametrize("start", range(0, ALWAYS, 20))
def test_random_schedules(exact: Any, answers: Any, start: int) -> None:
    crashes, seen = 0, Counter[str]()
    for seed in range(start, start + 20):
        device, world = _schedule(exact, dict(answers), seed)
        _check_all_arrived_once(exact, device, world)
        crashes += device.crashes
        seen += world.seen
    assert crashes > 100
    assert set(seen) == {"offline", "refused for now", "answer lost", "withdrawn"}


@pytest.mark.slow
@pytest.mark.parametrize("start", range(ALWAYS, IN_FULL, 40))
def test_the_rest_of_a_thousand(exact: Any, answers: Any, start: int) -> None:
    for seed in range(start, start + 40):
        device, world = _schedule(exact, dict(answers), seed)
        _check_all_arrived_once(exact, device, world)


def test_a_crash_at_every_point_of_sealing_and_sending(exact: Any, answers: Any) -> None:
    """Not at random: one life is cut off at each point in turn, by a kill and by a power cut."""
    for kind in (0.25, 0.75):
        for cut in range(200):
            world = World(exact, random.Random(1), Doom())
            disk = SimDisk(world.doom)
            first = Queue(disk, KEY, transport=world, clock=ManualClock(1))
            study_id = first.join(exact.signed)
            first.save_draft(study_id, dict(answers))
            world.doom.left = cut
            try:
                first.seal(study_id)
                first.send()
            except Crash:
                pass
            else:
                assert cut > 60
                break
            world.doom.left = None
            rng = random.Random(cut)
            rng.random = lambda kind=kind: kind  # type: ignore[method-assign, misc]
            after = disk.after_crash(rng, world.doom)
            second = Queue(after, KEY, transport=world, clock=ManualClock(1))
            draft, entries = second.draft(study_id), second.entries()
            assert (draft is None) == (len(entries) == 1)
            if draft is not None:
                second.seal(study_id)
            second.send(now=True)
            assert len({submission_id for _, submission_id in world.rows}) == 1
            assert len(world.rows) == 3
            assert world.violations == []
            assert [entry.state for entry in second.entries()] == ["sent"]
        else:
            pytest.fail("sealing and sending has more points than were tried")


def test_a_crash_at_every_point_of_answering_again_after_a_refusal(exact: Any, answers: Any) -> None:
    """The draft is there, or its payload is, and never both to be sealed: one row arrives, whenever the device died."""
    for kind in (0.25, 0.75):
        for cut in range(200):
            world = World(exact, random.Random(1), Doom())
            disk = SimDisk(world.doom)
            first = Queue(disk, KEY, transport=world, clock=ManualClock(1))
            study_id = first.join(exact.signed)
            first.save_draft(study_id, dict(answers))
            refused = first.seal(study_id).submission_id
            world.refuses = Refused(Reason.MALFORMED, "no")
            first.send()
            world.refuses = None
            world.doom.left = cut
            finished = False
            with contextlib.suppress(Crash):
                first.discard(refused)
                first.seal(study_id)
                first.send()
                finished = True
            world.doom.left = None
            rng = random.Random(cut)
            rng.random = lambda kind=kind: kind  # type: ignore[method-assign, misc]
            second = Queue(disk.after_crash(rng, world.doom), KEY, transport=world, clock=ManualClock(1))
            entries = second.entries()
            assert len(entries) <= 1
            if entries and entries[0].submission_id == refused:
                second.discard(refused)
            assert (second.draft(study_id) is None) == bool(second.entries())
            if not second.entries():
                second.seal(study_id)
            second.send(now=True)
            assert [entry.state for entry in second.entries()] == ["sent"]
            assert len(world.rows) == 3
            assert refused not in {submission_id for _, submission_id in world.rows}
            if finished:
                assert cut > 60
                break
        else:
            pytest.fail("answering again has more points than were tried")


def test_whatever_was_out_when_the_device_died_is_withdrawn(exact: Any, answers: Any) -> None:
    """A life is cut off at each point of sending; the next one withdraws, and nothing may be left at a provider."""
    asked = Counter[bool]()
    for cut in range(200):
        world = World(exact, random.Random(1), Doom())
        disk = SimDisk(world.doom)
        first = Queue(disk, KEY, transport=world, clock=ManualClock(1))
        sealed = first.seal(first.join(exact.signed), dict(answers))
        world.doom.left = cut
        finished = False
        with contextlib.suppress(Crash):
            first.send()
            finished = True
        world.doom.left = None
        rng = random.Random(cut)
        second = Queue(disk.after_crash(rng, world.doom), KEY, transport=world, clock=ManualClock(1))
        entry = second.withdraw(sealed.submission_id)
        assert entry.state == "withdrawn"
        assert world.rows == {}
        asked[bool(entry.withdrawn_by)] += 1
        if finished:
            break
    else:
        pytest.fail("sending has more points than were tried")
    assert asked[True] > 20
    assert asked[False] > 0
