"""Simulated phones: the real client, in several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from trimask_cli.demo.population import Answers
from trimask_client import Client

__all__ = ["submit_all"]

_BATCH = 16
_client: Client | None = None


def _open_client(study: Path) -> None:
    global _client
    _client = Client(study)


def _submit(batch: Sequence[Answers]) -> int:
    if _client is None:
        raise RuntimeError("the worker has no client")
    for answers in batch:
        _client.submit(answers)  # returns only with every provider's verified receipt
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
