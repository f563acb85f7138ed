"""Simulated phones: a gateway makes their submissions, the real client sends them, in several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from trimask_cli.demo.population import Answers
from trimask_client import Client
from trimask_core.randomness import SystemRandom
from trimask_core.rows.gateway import Gateway

__all__ = ["submit_all"]

_BATCH = 16
_open: tuple[Client, Gateway] | None = None


def _open_client(study: Path) -> None:
    global _open
    client = Client(study)
    client.refresh_keys()
    _open = client, Gateway(client.study)


def _submit(batch: Sequence[Answers]) -> int:
    if _open is None:
        raise RuntimeError("the worker has no client")
    client, gateway = _open
    for submission in gateway.submissions(batch, SystemRandom(), client.sealing):
        client.send(submission)  # returns only with every provider's verified receipt
    return len(batch)


def _batches(people: Sequence[Answers]) -> Iterator[Sequence[Answers]]:
    for start in range(0, len(people), _BATCH):
        yield people[start : start + _BATCH]


def submit_all(
    study: Path, people: Sequence[Answers], processes: int, progress: Callable[[int], None]
) -> None:
    """Submit everybody's answers; `progress` is told of each batch."""
    # Spawned, not forked: a forked process must not share its parent's connections.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _open_client, (study,)) as pool:
        futures = [pool.submit(_submit, batch) for batch in _batches(people)]
        for future in as_completed(futures):
            progress(future.result())
