"""Devices: the production queue, its files in memory, in a thread that runs only while the loop waits for it.

The queue's calls block, so each device has a thread; but baton in hand, one at a time, so that the order of everything
still comes from the seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import grpc

from trimask_client.queue import Queue
from trimask_client.transport import Endpoint, call_error
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.basics.refusals import REASON_KEY
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import Receipt
from trimask_simulation.faults import Faults
from trimask_simulation.loop import VirtualLoop
from trimask_simulation.network import Network
from trimask_simulation.parties import SkewedClock
from trimask_simulation.trace import Trace

__all__ = ["Device", "at_once_here"]


class _Killed(BaseException):
    """The app was killed."""


class _Baton:
    """Runs a blocking function in a thread; while that runs the loop stands still, and the other way round."""

    def __init__(self) -> None:
        self._to_thread, self._to_loop = threading.Semaphore(0), threading.Semaphore(0)
        self._work: Any = None
        self._answer: Any = None
        self._done = False

    def wait_for(self, work: Any) -> Any:
        """In the thread: have the loop await something."""
        self._work = work
        self._to_loop.release()
        self._to_thread.acquire()
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer

    async def run(self, function: Callable[[], Any]) -> Any:
        """In the loop."""
        outcome: list[Any] = []

        def body() -> None:
            _here.baton = self
            self._to_thread.acquire()
            try:
                outcome.append(function())
            except BaseException as error:  # noqa: BLE001 - raised again in the loop
                outcome.append(error)
            self._done = True
            self._to_loop.release()

        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        while True:
            self._to_thread.release()
            self._to_loop.acquire()
            if self._done:
                break
            try:
                self._answer = await self._work
            except BaseException as error:  # noqa: BLE001 - raised again in the thread
                self._answer = error
        thread.join()
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]


_here = threading.local()
"""`baton` of this thread."""


def _at_once(calls: Sequence[Callable[[], Any]]) -> Iterator[tuple[int, Any]]:
    """What is asked at once, each in a thread and with a baton of its own: the loop decides who goes on."""
    baton: _Baton = _here.baton
    tasks: list[asyncio.Task[Any]] = []

    async def begin() -> None:
        # A result may be an error, which is not to be raised: so it is one of a list.
        tasks.extend(asyncio.ensure_future(_Baton().run(lambda call=call: [call()])) for call in calls)

    baton.wait_for(begin())
    left = set(tasks)
    while left:
        done, left = baton.wait_for(asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED))
        for task in sorted(done, key=tasks.index):
            yield tasks.index(task), task.result()[0]


at_once_here = mock.patch("trimask_client.client.at_once", _at_once)


class _MemoryDisk:
    """Files that outlive the app; any operation may be its last."""

    def __init__(self, strike: Callable[[], None]) -> None:
        self._files: dict[str, bytes] = {}
        self._strike = strike

    def names(self, folder: str) -> list[str]:
        return sorted(
            path.removeprefix(folder + "/") for path in self._files if path.startswith(folder + "/")
        )

    def read(self, path: str) -> bytes:
        try:
            return self._files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def write(self, path: str, data: bytes) -> None:
        self._strike()
        self._files[path] = data

    def rename(self, old: str, new: str) -> None:
        self._strike()
        self._files[new] = self._files.pop(old)

    def remove(self, path: str) -> None:
        self._strike()
        self._files.pop(path, None)

    def sync(self, folder: str) -> None:
        self._strike()

    @contextlib.contextmanager
    def lock(self, name: str, *, wait: bool) -> Iterator[bool]:
        yield True


@dataclass
class Device:
    """One phone, on which several people answer in turn."""

    name: str
    signed: SignedStudy
    people: list[dict[str, object]]
    loop: VirtualLoop
    network: Network
    trace: Trace
    faults: Faults
    seed: int
    leave_at: list[float] = field(default_factory=list)
    """When somebody who answered here withdraws, soonest first."""
    stays: bool = False
    """Whether it is looked at now and then when nothing waits any more, for somebody may withdraw yet."""
    idle: bool = False
    receipts: dict[bytes, Receipt] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._chance = random.Random(f"device {self.name} {self.seed}")
        self._clock = SkewedClock(self.loop, self._chance.uniform(-3600, 3600))
        self._disk = _MemoryDisk(self._strike)
        self._restarts = 0
        self._queue: Queue | None = None

    def _strike(self) -> None:
        if self.faults.strike("device killed"):
            self.trace.fault("device killed", self.name)
            raise _Killed

    def call(self, endpoint: Endpoint, method: str, request: bytes, timeout_seconds: float) -> bytes:
        """The queue's transport."""
        self._strike()
        try:
            answer: bytes = _here.baton.wait_for(
                self.network.call(
                    self.name, endpoint.address, method, request, (), timeout_seconds, waits=False
                )
            )
        except grpc.aio.AioRpcError as error:
            reason = dict(error.trailing_metadata() or ()).get(REASON_KEY)
            text = None if reason is None else str(reason)
            raise call_error(endpoint, error.code().name, text, error.details() or "") from None
        self._strike()
        return answer

    def close(self) -> None:
        """There is nothing to close."""

    async def run(self) -> None:
        """Answer, send, and go on sending until nothing waits, through any number of deaths."""
        await asyncio.sleep(self._chance.uniform(0.0, 20.0))
        while True:
            try:
                pause = await _Baton().run(self._session)
            except _Killed:
                self._restarts += 1
                self._queue = None
                pause = self._chance.uniform(0.1, 10.0)
            if pause is None:
                return
            await asyncio.sleep(pause)

    def _session(self) -> float | None:
        """One more person answers, what waits is sent. Seconds to the next time; None at the end."""
        if self._queue is None:
            source = DeterministicRandom(f"{self.name} {self._restarts} {self.seed}")
            self._queue = Queue(
                self._disk, b"k" * 32, transport=self, clock=self._clock, source=source, timeout_seconds=8.0
            )
        queue = self._queue
        study_id = self.signed.study.id
        if study_id not in queue.studies():
            queue.join(self.signed)
        # Who has answered is counted by what is on disk: a payload once written is never written anew.
        answered = len(queue.entries())
        if answered < len(self.people):
            queue.seal(study_id, self.people[answered], again=True)
        queue.send(now=not self.faults.on)
        entries = queue.entries()
        self.receipts.update({entry.submission_id: entry.receipt for entry in entries if entry.receipt})
        here = sorted(entry.submission_id for entry in entries if entry.state in ("waiting", "sent"))
        if here and self.leave_at and self.leave_at[0] <= self.loop.time():
            self.leave_at.pop(0)
            queue.withdraw(self._chance.choice(here))
        if len(entries) < len(self.people):
            return self._chance.uniform(0.5, 4.0)
        due = queue.next_ms()
        pauses = [] if due is None else [(due - self._clock.now_ms()) / 1000]
        if here:
            pauses += [at - self.loop.time() for at in self.leave_at[:1]]
        self.idle = not pauses
        if self.stays:
            pauses.append(self._chance.uniform(1.0, 4.0))
        return min(20.0, max(0.5, min(pauses))) if pauses else None
