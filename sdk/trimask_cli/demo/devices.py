"""Simulated phones: many people's submissions made at once and sent over a few connections, in processes.

What is sent and what is checked is the real client's (`Client.upload_request`, `Client.read_upload`, `Receipt.verify`),
and so is every retry; only the calls are made here, many at once on one connection to each right provider, so that
providers commit whole groups and nobody waits for one commit a person. Submissions are made by a gateway, many at a time
and to the bit as phones make them; each is a call of its own, since these stand for phones and what their calls cost.

People of the bundled study are simulated when no table is given.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np

from trimask_client import Client, Endpoint
from trimask_client.client import SUBMIT_METHOD
from trimask_client.gateway import SuiteGateway, gateway_of
from trimask_client.table import Answers
from trimask_core.basics.randomness import SystemRandom
from trimask_core.submit.submission import SealedSubmission

_BATCH = 256  # people a task: their rows are masked together
_UNDER_WAY = 128  # as many as a provider's store gathers into a commit
_CALL_SECONDS = 60.0
_Call = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]


@dataclass(frozen=True)
class _Devices:
    """A process's simulated phones."""

    client: Client
    gateway: SuiteGateway
    loop: asyncio.AbstractEventLoop
    channels: dict[Endpoint, _Call]

    def submissions(self, batch: Sequence[Answers]) -> list[SealedSubmission]:
        """Everybody's, sealed to the newest keys."""
        return self.gateway.submissions(batch, SystemRandom(), self.client.sealing)

    async def send(self, submissions: Sequence[SealedSubmission]) -> None:
        """Every submission to every right provider, and every receipt verified."""
        waiting = iter(submissions)
        await asyncio.gather(*(self._sender(waiting) for _ in range(min(_UNDER_WAY, len(submissions)))))

    async def _sender(self, waiting: Iterator[SealedSubmission]) -> None:
        for submission in waiting:
            try:
                calls = (self._upload(submission, k) for k in range(1, len(submission.sealed) + 1))
                answers = await asyncio.gather(*calls)
            except grpc.RpcError:
                # Refused, or not reached: from here on as on a phone, with its pauses. Repeating is safe.
                await asyncio.to_thread(self.client.send, submission)
                continue
            receipts = [self.client.read_upload(submission, k, answer) for k, answer in enumerate(answers, 1)]
            self.client.receipt(submission, receipts).verify(self.client.study)

    async def _upload(self, submission: SealedSubmission, provider: int) -> bytes:
        endpoint, request = self.client.upload_request(submission, provider)
        if endpoint not in self.channels:
            self.channels[endpoint] = _open(endpoint)
        answer: bytes = await self.channels[endpoint](request, timeout=_CALL_SECONDS)
        return answer


def _open(endpoint: Endpoint) -> _Call:
    credentials = grpc.ssl_channel_credentials(endpoint.roots.encode())
    options = (("grpc.ssl_target_name_override", endpoint.tls_name),)
    channel = grpc.aio.secure_channel(endpoint.address, credentials, options)
    method: _Call = channel.unary_unary(SUBMIT_METHOD)
    return method


_devices: _Devices | None = None


def _open_devices(study: Path) -> None:
    global _devices
    client = Client(study)
    client.refresh_keys()
    from uvloop import new_event_loop  # comes with the server, which the demo needs

    _devices = _Devices(client, gateway_of(client.study), new_event_loop(), {})


def _submit(batch: Sequence[Answers]) -> int:
    if _devices is None:
        raise RuntimeError("the worker has no client")
    _devices.loop.run_until_complete(_devices.send(_devices.submissions(batch)))
    return len(batch)


def _batches(people: Sequence[Answers], processes: int) -> Iterator[Sequence[Answers]]:
    # A few tasks for each process at least, so that none is idle at the end.
    size = max(1, min(_BATCH, -(-len(people) // (4 * processes))))
    for start in range(0, len(people), size):
        yield people[start : start + size]


def submit_all(
    study: Path, people: Sequence[Answers], processes: int, progress: Callable[[int], None]
) -> None:
    """Submit everybody's answers; `progress` is called after each batch with how many are in."""
    # Spawned, not forked: a forked process must not share its parent's connections.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, _open_devices, (study,))
    try:
        with _not_to_them(signal.SIGINT):
            futures = [pool.submit(_submit, batch) for batch in _batches(people, processes)]
        done = 0
        for future in as_completed(futures):
            done += future.result()
            progress(done)
    except BaseException:
        # Ctrl-C, say: a task under way may take a minute, and the pool would wait for it.
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()


@contextmanager
def _not_to_them(number: signal.Signals) -> Iterator[None]:
    """Start processes that ignore signals (a terminal sends Ctrl-C to all); this process handles them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def blood_pressure_population(count: int, seed: int) -> list[Answers]:
    """Simulated answers to the bundled study, with known coefficients that the demo's fit should recover."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 81, count)
    bmi = np.clip(rng.normal(26, 4, count), 16, 42)
    salt = np.clip(rng.gamma(9, 1.0, count), 2, 18)
    smoker = rng.random(count) < 0.25
    activity = rng.choice(["low", "medium", "high"], count, p=[0.4, 0.4, 0.2])
    effect = {"low": 0.0, "medium": -3.0, "high": -6.0}
    mean = 72 + 0.55 * age + 0.75 * bmi + 0.9 * salt + 6.0 * smoker + np.array([effect[a] for a in activity])
    systolic = np.clip(np.rint(mean + rng.normal(0, 8, count)), 90, 180)
    return [
        {
            "systolic": int(systolic[i]),
            "age": int(age[i]),
            "bmi": float(round(bmi[i], 1)),
            "salt": float(round(salt[i], 1)),
            "smoker": bool(smoker[i]),
            "activity": str(activity[i]),
        }
        for i in range(count)
    ]
