"""Simulated phones: submissions are made (of the rows suite by a gateway) and the real client sends them, in processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from trimask_cli.table.people import Answers
from trimask_client import Client
from trimask_core.randomness import SystemRandom
from trimask_core.rows.gateway import Gateway
from trimask_core.submission import SealedSubmission, build_submission

__all__ = ["submit_all"]

_BATCH = 16
_Submissions = Callable[[Client, Sequence[Answers]], Iterable[SealedSubmission]]
_open: tuple[Client, _Submissions] | None = None


def _open_client(study: Path) -> None:
    global _open
    client = Client(study)
    client.refresh_keys()
    _open = client, _by_gateway(client) if client.study.suite.name == "rows" else _one_by_one


def _by_gateway(client: Client) -> _Submissions:
    gateway = Gateway(client.study)
    return lambda client, batch: gateway.submissions(batch, SystemRandom(), client.sealing)


def _one_by_one(client: Client, batch: Sequence[Answers]) -> Iterator[SealedSubmission]:
    for answers in batch:
        yield build_submission(client.study, answers, SystemRandom(), client.sealing)


def _submit(batch: Sequence[Answers]) -> int:
    if _open is None:
        raise RuntimeError("the worker has no client")
    client, submissions = _open
    for submission in submissions(client, batch):
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
