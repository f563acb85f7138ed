"""Simulated people: everybody's submissions made and sent by gateways, in processes.

A gateway makes them to the bit as people's devices do, and sends many in one call (`trimask_client.Gateway`): what
providers open, check and sign is what phones send them. What a phone's own call costs a provider, `bench` measures.

People of the bundled study are simulated when no table is given.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from trimask_client import Gateway
from trimask_client.table import Answers
from trimask_core.basics.errors import Refused

_BATCH = 256  # people a task: their rows are masked together
_gateway: Gateway | None = None


def _open_gateway(study: Path) -> None:
    global _gateway
    _gateway = Gateway(study)


def _submit(batch: Sequence[Answers]) -> int:
    if _gateway is None:
        raise RuntimeError("the worker has no gateway")
    for _, outcome in _gateway.submit_many(batch):
        if isinstance(outcome, Refused):
            raise outcome
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
    pool = ProcessPoolExecutor(processes, context, _open_gateway, (study,))
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
