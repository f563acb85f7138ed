"""One seed, from an empty disk to a closed study."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import sqlite3
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from trimask_client import client as client_module
from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import DeterministicRandom, RandomSource
from trimask_core.crypto.keys import hpke_seal
from trimask_core.study.definition import Study
from trimask_core.study.progress import closing_of
from trimask_core.study.signed import SignedStudy, sign_close
from trimask_core.submit import submission as submission_module
from trimask_core.submit.submission import Receipt, SealedSubmission, build_submission
from trimask_proto.v1 import study_pb2
from trimask_proto.v1.common_pb2 import CloseOrder
from trimask_proto.v1.study_pb2_grpc import StudyOwnerServiceStub, StudyServiceStub
from trimask_server.suites.moments import batch_check, key_exchange
from trimask_simulation.adversaries import ADVERSARIES, Adversary, HostileOracle
from trimask_simulation.devices import Device, at_once_here
from trimask_simulation.faults import Faults
from trimask_simulation.loop import Process, VirtualLoop
from trimask_simulation.moments_oracle import MomentsOracle
from trimask_simulation.moments_people import false_devices, make_moments_study
from trimask_simulation.network import Network, SimulatedPeers
from trimask_simulation.oracle import Oracle, Violation
from trimask_simulation.parties import Party
from trimask_simulation.people import PEOPLE, Keys, answers_of, make_study, person_of
from trimask_simulation.trace import Trace

__all__ = ["Result", "adversary_of", "right_of", "run_seed", "suite_of", "withdrawing_of"]

_DEVICES = 6
_TRIES_BESIDE_AN_ADVERSARY = 8
_FAULTY_SECONDS = 120.0
# Once faults have stopped, everything must be over in this much virtual time: a few timeouts of everything.
_PATIENCE_SECONDS = 600.0
_LATE_SECONDS = 60.0  # no copy of a message is later


@dataclass(frozen=True)
class Result:
    """How a seed went. `error` is empty if every promise was kept."""

    seed: int
    error: str
    digest: str
    faults: Counter[str]
    counts: dict[str, int]
    acts: Counter[str]
    lines: list[str] = field(repr=False)


def suite_of(seed: int) -> str:
    """Every second seed is of the moments suite."""
    return ("rows", "moments")[seed % 2]


def withdrawing_of(seed: int) -> bool:
    """In two of every five seeds, of either suite, people withdraw, and few more take part than a release needs."""
    return seed % 5 in (2, 4)


def adversary_of(seed: int) -> str:
    """Which kind of hostile party a seed has, where it has one."""
    return ADVERSARIES[seed % len(ADVERSARIES)]


def right_of(seed: int) -> int:
    """How many right providers a seed of the rows suite has: of every twelve, six have three, six have four and so tags."""
    return (3, 4)[seed // len(ADVERSARIES) % 2]


def _scene(seed: int, suite: str, adversary: Adversary | None) -> tuple[SignedStudy, dict[str, Keys], Oracle]:
    """The study of a seed, everybody's keys, and who watches."""
    if adversary is not None:
        signed, keys = make_study(right_of(seed))
        return signed, keys, HostileOracle(signed.study, adversary=adversary)
    if suite == "rows":
        signed, keys = make_study(right_of(seed))
        return signed, keys, Oracle(signed.study)
    chance = random.Random(f"moments {seed}")
    right, false = chance.choice((2, 3)), chance.sample(range(PEOPLE), chance.choice((0, 5, 15)))
    signed, keys = make_moments_study(right, several=chance.random() < 0.7)
    return signed, keys, MomentsOracle(signed.study, false=frozenset(false))


class _World:
    def __init__(
        self,
        seed: int,
        folder: Path,
        *,
        suite: str,
        keep: bool,
        adversary: Adversary | None,
        withdrawing: bool,
        workers: int,
    ) -> None:
        self.seed = seed
        self.adversary = adversary
        self.loop = VirtualLoop(random.Random(f"order {seed}"))
        self.trace = Trace(self.loop, keep=keep)
        self.faults = Faults.draw(seed)
        self.network = Network(self.loop, self.trace, self.faults, seed)
        self.signed, keys, self.oracle = _scene(seed, suite, adversary)
        self._owner_key = keys["owner"].identity
        self.failure: BaseException | None = None
        self._ended = self.loop.create_future()
        self._chance = random.Random(f"world {seed}")
        self.parties: dict[str, Party] = {}
        for name, card in self.signed.study.parties.items():
            (folder / name).mkdir()
            self.parties[name] = Party(
                name, card.tls_name, keys[name], folder / name, self.loop,
                self.network, self.trace, self.faults, seed, self._after_commit,
                max_attempts=30 if adversary is None else _TRIES_BESIDE_AN_ADVERSARY, shared=workers > 1,
            )  # fmt: skip
        for first in list(self.parties.values()):
            for number in range(2, workers + 1):
                name = f"{first.name}#{number}"
                self.parties[name] = replace(first, name=name, beside=first)
        times = (lambda _: 1) if adversary is None else adversary.copies
        order = [person for person in range(PEOPLE) for _ in range(times(person))]
        self._chance.shuffle(order)
        leave_at: list[float] = []
        if withdrawing:
            chance = random.Random(f"withdrawing {seed}")
            order = order[: self.signed.study.release_rows + chance.randint(2, 8)]
            leave_at = sorted(chance.uniform(5.0, 1.5 * _FAULTY_SECONDS) for _ in range(chance.randint(0, 4)))
        self.devices = [
            Device(
                f"D{i}", self.signed, [answers_of(person) for person in order[i::_DEVICES]],
                self.loop, self.network, self.trace, self.faults, seed, leave_at[i::_DEVICES], withdrawing,
            )
            for i in range(_DEVICES)
        ]  # fmt: skip
        self.loop.after_step = self._after_step
        # A failure handed to a caller that was killed is nobody's business any more.
        self.loop.set_exception_handler(lambda _, context: self.trace.event("loop", str(context["message"])))

    # Faults

    def _after_commit(self, name: str, connection: Any) -> None:
        try:
            self.oracle.after_commit(name, connection)
        except AssertionError as error:
            self._fail(error)
        except (ValueError, KeyError, TypeError) as error:  # else it would look like a node's own failure
            self._fail(Violation(f"{name} wrote what the oracle cannot read: {error!r}"))

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
            self.trace.event("oracle", f"VIOLATION {error}")
            if not self._ended.done():
                self._ended.set_result(None)

    def _after_step(self, process: Process) -> None:
        if self.faults.strike("crash at a step"):
            self.trace.fault("crash at a step", str(process))
            self.parties[process.name].kill(process)

    async def _misfortunes(self) -> None:
        """Once a second, perhaps, something breaks; whatever is down is started again after a while."""
        names = sorted(self.parties)
        end = self.loop.time() + _FAULTY_SECONDS
        while self.loop.time() < end:
            await asyncio.sleep(1.0)
            name = self._chance.choice(names)
            party = self.parties[name]
            if self.faults.strike("crash") and party.process is not None:
                self.trace.fault("crash", str(party.process))
                party.kill()
            if self.faults.strike("link cut"):
                one, other = self._chance.sample([*names, *(device.name for device in self.devices)], 2)
                seconds = self._chance.uniform(0.5, 40.0)
                self.trace.fault("link cut", f"{one}|{other}", f"for {seconds:.1f} s")
                self.network.cut(one, other, seconds)
            if self.faults.strike("disk full") and not party.disk.full:
                self.trace.fault("disk full", name)
                party.disk.full = True
                self.loop.call_later(self._chance.uniform(0.5, 30.0), self._make_room, party)
            if self.faults.strike("clock step"):
                jump = self._chance.uniform(-7200.0, 7200.0)
                self.trace.fault("clock step", name, f"by {jump:.0f} s")
                party.clock.skew_seconds += jump
            if party.shared and self.faults.strike("worker suspended"):
                self._suspend(party.process, self._chance.uniform(1.0, 60.0))
        self.faults.on = False
        for party in self.parties.values():
            self._make_room(party)
        self.trace.event("world", "faults stop")

    def _suspend(self, process: Process | None, seconds: float) -> None:
        if process is not None and not process.suspended:
            self.trace.fault("worker suspended", str(process), f"for {seconds:.1f} s")
            process.suspended = True
            self.loop.call_later(seconds, self.loop.resume, process)

    def _make_room(self, party: Party) -> None:
        if party.disk.full:
            party.disk.full = False
            self.trace.event(party.name, "disk has room again")

    async def _supervise(self) -> None:
        """What systemd does: a node that died is started again, sooner or later."""
        while True:
            await asyncio.sleep(0.5)
            for name in sorted(self.parties):
                if self.parties[name].process is None and self._chance.random() < 0.25:
                    self.parties[name].start()

    # The owner

    async def _own(self) -> None:
        """Open the study, let people answer, close it, wait until it is closed."""
        peers = SimulatedPeers(self.network, "owner", "owner")
        study = self.signed.study
        owner = StudyOwnerServiceStub(peers.channel(study.collector))
        opening = study_pb2.OpenStudyRequest(signed_study=self.signed.to_json().encode())
        await self._until_done(peers, owner.OpenStudy, opening)
        self.trace.event("owner", "the study is open")
        answering = [self.loop.create_task(device.run()) for device in self.devices]
        everybody = asyncio.gather(*answering)
        if self._chance.random() < 0.5:
            while not self._idle():
                await asyncio.sleep(1.0)
        else:  # some are still sending when the study closes
            await asyncio.sleep(self._chance.uniform(20.0, 1.2 * _FAULTY_SECONDS))
        asking = StudyServiceStub(peers.channel(study.collector))
        await self._close(peers, owner.CloseStudy, asking.GetStudyStatus)
        question = study_pb2.GetStudyStatusRequest(study_id=study.id)
        while (
            await self._until_done(peers, asking.GetStudyStatus, question)
        ).state != study_pb2.STUDY_STATE_CLOSED:
            await asyncio.sleep(2.0)
        self.trace.event("owner", "the study is closed")
        for device in self.devices:
            device.stays = False
        await everybody

    def _idle(self) -> bool:
        return all(device.idle for device in self.devices)

    async def _close(self, peers: SimulatedPeers, close: Any, ask: Any) -> None:
        """As `trimask study close` does: say what the status promises, and order that; again while the study stays open."""
        study = self.signed.study
        question = study_pb2.GetStudyStatusRequest(study_id=study.id)
        quiet = 0
        while True:
            quiet += self._idle() and not self.faults.on
            if quiet:
                await asyncio.sleep(_LATE_SECONDS)  # the last late copy has come, and been counted
            status = await self._until_done(peers, ask, question)
            if quiet and self.adversary is None:
                path = self.parties["collector"].database_path
                self.oracle.require_told(path, status.pending_rows, status.masking_rows, status.pooled_rows)
            told = closing_of(
                study, pending=status.pending_rows, masking=status.masking_rows, pooled=status.pooled_rows
            )
            if not quiet:
                self._somebody_leaves()
            await asyncio.sleep(self._chance.uniform(0.0, 6.0))
            if not told.published and not self._idle() and self.adversary is None:
                continue  # few would
            self.trace.event(
                "owner", f"closes the study, {told.published} to publish, {told.erased} to erase"
            )
            order = CloseOrder(study_id=study.id)
            if self.adversary is None:
                order.published_rows, order.erased_rows = told.published, told.erased
            self.oracle.orders.add((order.published_rows, order.erased_rows))
            order.signature = sign_close(self._owner_key, order)
            await self._until_done(peers, close, study_pb2.CloseStudyRequest(order=order))
            while (
                status := await self._until_done(peers, ask, question)
            ).state == study_pb2.STUDY_STATE_PAUSED:
                await asyncio.sleep(1.0)
            if status.state != study_pb2.STUDY_STATE_OPEN:
                return
            self.trace.event("owner", f"hears {status.note}")
            if quiet == 2:  # the first time, false reports that nobody had looked at may have been promised
                raise Violation(f"nothing changes any more, and the status still promises {told.published}")
            await asyncio.sleep(self._chance.uniform(1.0, 20.0))

    def _somebody_leaves(self) -> None:
        """Where people withdraw, the worst moment is between what was announced and what is counted."""
        now = self.loop.time()
        for device in self._chance.sample(self.devices, self._chance.choice((0, 1, 2))):
            if device.stays and len(device.leave_at) < 2:
                device.leave_at = sorted([*device.leave_at, now + self._chance.uniform(0.0, 5.0)])

    async def _until_done(self, peers: SimulatedPeers, method: Any, request: Any) -> Any:
        while True:
            try:
                return await peers.call(method, request)
            except Refused as error:
                self.trace.event("owner", f"hears {error.reason}")
                await asyncio.sleep(1.0)

    async def live(self) -> None:
        """Everything, until it is over or something that must never happen did."""
        for party in self.parties.values():
            party.start()
        misfortunes = self.loop.create_task(self._misfortunes())
        supervision = self.loop.create_task(self._supervise())
        owning = self.loop.create_task(self._own())
        patience = _FAULTY_SECONDS + _PATIENCE_SECONDS
        await asyncio.wait({owning, self._ended}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        supervision.cancel()
        if self.failure is not None:
            raise self.failure
        if not owning.done():
            raise Violation(f"not over {_PATIENCE_SECONDS:.0f} s after the faults stopped")
        owning.result()
        self.faults.on = False
        misfortunes.cancel()
        # Else a hostile party whose program no longer fits what it changes would only look like one that fails.
        if self.trace.mistakes:
            raise Violation(f"a node's program is wrong: {self.trace.mistakes[0]}")
        await self._check_refusals()

    async def _check_refusals(self) -> None:
        """Every node goes on saving what it counts, whatever its disk went through, and no late copy of a message opens
        anything again (`Oracle.at_the_end`)."""
        for party in self.parties.values():
            self._make_room(party)
            if party.process is None:
                party.start()
        await asyncio.sleep(_LATE_SECONDS)
        wrong = "nothing was compared"
        for _ in range(30):  # late copies of messages are still refused now and then
            await asyncio.sleep(2.0)
            wrong = next(filter(None, map(self._unsaved_refusals, self.parties.values())), "")
            if not wrong:
                return
        raise Violation(wrong)

    def _unsaved_refusals(self, party: Party) -> str:
        counted = {} if party.node is None else party.node.context.refusals.as_dict()
        here = {} if party.node is None else party.node.context.refusals.in_this_process()
        connection = sqlite3.connect(party.database_path)
        saved = dict(connection.execute("SELECT reason, count FROM refusals"))
        connection.close()
        if counted == saved and all(saved.get(reason, 0) >= count for reason, count in here.items()):
            return ""
        return f"{party.name} counted refusals {counted} ({here} in this process) and saved {saved}"

    def stop(self) -> None:
        """kill -9 of everybody: what is on disk must be enough."""
        for party in self.parties.values():
            party.kill()

    def receipts(self) -> Mapping[bytes, Receipt]:
        return {key: receipt for device in self.devices for key, receipt in device.receipts.items()}


@contextlib.contextmanager
def _watched_sealing(world: _World) -> Iterator[None]:
    """Sealing draws its ephemeral keys from the seed too, and the oracle learns who sealed what."""
    ephemeral = DeterministicRandom(f"sealing {world.seed}")

    def seal(public: bytes, plaintext: bytes, info: bytes) -> bytes:
        key = X25519PrivateKey.from_private_bytes(ephemeral.seed())
        return hpke_seal(public, plaintext, info, ephemeral=key)

    def build(
        study: Study, answers: Mapping[str, object], source: RandomSource, **more: Any
    ) -> SealedSubmission:
        person = person_of(answers)
        with contextlib.nullcontext() if world.adversary is None else world.adversary.making(person):
            made = build_submission(study, answers, source, **more)
        world.oracle.people[made.submission_id] = person
        world.oracle.sealed[made.submission_id] = made.sealed
        return made

    with contextlib.ExitStack() as stack:
        for module in (submission_module, key_exchange, batch_check):
            stack.enter_context(mock.patch.object(module, "seal", seal))
        stack.enter_context(mock.patch.object(client_module, "build_submission", build))
        if isinstance(world.oracle, MomentsOracle):
            stack.enter_context(false_devices(world.oracle.false, random.Random(f"altered {world.seed}")))
        if world.adversary is not None:
            stack.enter_context(world.adversary.at_work(world.oracle))
        yield


def run_seed(
    seed: int,
    folder: Path,
    *,
    suite: str = "",
    keep: bool = False,
    adversary: str = "",
    withdrawing: bool | None = None,
    workers: int = 1,
) -> Result:
    """Simulate a seed in an empty folder, of its own suite or another; `keep` keeps the text of the trace.

    With an `adversary`, a kind of `ADVERSARIES`, one party of a study of the rows suite is hostile. With `withdrawing`
    people withdraw, whatever the seed says. With several `workers` every node has so many processes on one store.
    """
    hostile = Adversary(adversary, seed) if adversary else None
    leaving = hostile is None and (withdrawing_of(seed) if withdrawing is None else withdrawing)
    collecting, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.disable()  # what is collected when must not depend on what ran before
    gc.collect()
    gc.freeze()  # and what was there before need not be looked through after
    world = _World(
        seed, folder, suite=suite or suite_of(seed), keep=keep, adversary=hostile, withdrawing=leaving,
        workers=workers,
    )  # fmt: skip
    counts: dict[str, int] = {}
    error = ""
    try:
        with _watched_sealing(world), at_once_here:
            try:
                world.loop.run_until_complete(world.live())
                world.stop()
                folders = {name: world.parties[name].folder for name in world.signed.study.parties}
                counts = world.oracle.at_the_end(folders, world.receipts())
            except AssertionError as violation:
                error = str(violation)
            finally:
                world.stop()
        counts |= {
            "steps": world.loop.steps,
            "checks": world.oracle.checks,
            "restarts": sum(party.number - 1 for party in world.parties.values()),
        }
        acts = Counter[str]() if hostile is None else hostile.acts
        return Result(seed, error, world.trace.digest, world.trace.faults, counts, acts, world.trace.lines)
    finally:
        with warnings.catch_warnings():
            # What is left are coroutines of killed processes, some never begun, some that would await in their `finally`.
            warnings.simplefilter("ignore")
            hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
            world.loop.bury()
            del world
            for _ in range(3):  # what the first collection resurrected in a `finally` goes with the next
                gc.collect()
            if not frozen:  # as it was: what the caller has frozen stays so
                gc.unfreeze()
            sys.unraisablehook = hook
        if collecting:
            gc.enable()
