"""The background task that erases studies closed long ago; the owner of each table erases its part (`store.interface`).

At a right or left provider: rows (already erased with their blocks), ids, hashes, plans, which invitation came with which
submission, the proposal, data keys. At the collector: plans, with the ids in them, the proposal, notes and counts. What
stays: the study's id, so that it can never be registered and filled again; at the collector also the published datasets,
whose manifests hold the signed study, the tokens that open them, the state of each release and the budget ledger. A study
that still answers questions from its budget is not touched.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from trimask_core.basics.clock import Clock, jitter
from trimask_core.basics.randomness import RandomSource
from trimask_server.runtime.metrics import Metrics
from trimask_server.settings.config import NodeConfig
from trimask_server.store.interface import Erasers, Store
from trimask_server.store.studies import StudyRegistry

_ROUND_SECONDS = 3600.0
_DAY_MS = 24 * 3600 * 1000
AfterCollection = Callable[[int], Awaitable[None]]


class Collected(Protocol):
    """What the collection needs of a node."""

    @property
    def config(self) -> NodeConfig: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def source(self) -> RandomSource: ...
    @property
    def database(self) -> Store: ...
    @property
    def studies(self) -> StudyRegistry: ...
    @property
    def metrics(self) -> Metrics: ...
    @property
    def log(self) -> logging.Logger: ...


async def nothing_after(_: int) -> None:
    """For a node with nothing else to erase than studies."""


async def collect_forever(node: Collected, erasers: Erasers, after: AfterCollection = nothing_after) -> None:
    """A round every hour or so; jittered, so that the nodes of an institution do not all vacuum at once."""
    while True:
        await node.clock.sleep(_ROUND_SECONDS * (0.5 + jitter(node.source)))
        try:
            await collect_garbage(node, erasers, after)
        except Exception:
            # Whatever it was (a full disk, for example), the next round must come.
            node.log.exception("failed while collecting garbage")


async def collect_garbage(
    node: Collected, erasers: Erasers, after: AfterCollection = nothing_after
) -> list[bytes]:
    """One round; the studies that were erased. The role's `after` is then called with the time."""
    now = node.clock.now_ms()
    gone = await node.studies.collect(erasers, now, round(node.config.keep_closed_days * _DAY_MS))
    for study_id, rows in gone.items():
        node.metrics.collected_studies.inc()
        node.metrics.erased_rows.labels("collected").inc(rows)
        node.log.info("collected study=%s: erased what was left, rows=%d", study_id.hex()[:12], rows)
    if gone:
        await node.database.scrub()
    await after(now)
    return list(gone)
