"""Counting for /metrics and collecting closed studies, on every kind of store."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from trimask_core.basics.clock import ManualClock
from trimask_server.programs.roles import erasers_of
from trimask_server.runtime.host import collect_garbage
from trimask_server.runtime.http_port import _of_store
from trimask_server.runtime.metrics import Metrics
from trimask_server.settings.config import NodeRole
from trimask_server.store.database import COLLECTOR, PROVIDER
from trimask_server.store.studies import StudyRegistry

DAY = 24 * 3600
OLD, NEW = b"o" * 32, b"n" * 32


def _node(store: Any, role: str) -> Any:
    return SimpleNamespace(
        role=role, database=store, clock=ManualClock(10**12), studies=StudyRegistry(store), metrics=Metrics(),
        log=logging.getLogger("test"), config=SimpleNamespace(keep_closed_days=30.0),
    )  # fmt: skip


def _fill(tx: Any, role: str) -> None:
    for study_id, state in ((OLD, "closed"), (NEW, "open")):
        tx.run(
            "INSERT INTO studies (study_id, signed_study, state, registered_ms) VALUES (?, ?, ?, ?)",
            (study_id, "{}", state, 1),
        )
        if role == "collector":
            tx.run(
                "INSERT INTO blocks (block_id, study_id, submission_ids, row_count, state) VALUES (?, ?, ?, 9, 'erased')",
                (study_id[:16], study_id, b"ids"),
            )
            continue
        tx.run(
            "INSERT INTO blocks (block_id, study_id, submission_ids, state) VALUES (?, ?, ?, 'erased')",
            (study_id[:16], study_id, b"ids"),
        )
        for number in range(3):
            tx.run(
                "INSERT INTO submissions (study_id, submission_id, payload, payload_hash, receive_time_ms)"
                " VALUES (?, ?, ?, ?, 1)",
                (study_id, bytes([number]) * 16, b"p", b"h"),
            )


def _samples(found: list[Any]) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for metric in found
        for sample in metric.samples
    }


@pytest.mark.parametrize("role", ["right", "collector"])
def test_counts_and_collection(make_store: Any, role: NodeRole) -> None:
    store = make_store(COLLECTOR if role == "collector" else PROVIDER)
    node = _node(store, role)
    old, new = (study_id.hex()[:12] for study_id in (OLD, NEW))

    async def run() -> None:
        await store.write(lambda tx: _fill(tx, role))
        before = _samples(await _of_store(node))
        assert before["trimask_blocks", *sorted((old, "erased"))] == 1
        if role == "right":
            assert before["trimask_pending_rows", new] == 3
        assert await collect_garbage(node, erasers_of(role)) == []
        node.clock.advance(31 * DAY)
        assert await collect_garbage(node, erasers_of(role)) == [OLD]
        assert await collect_garbage(node, erasers_of(role)) == []
        after = _samples(await _of_store(node))
        assert not [key for key in after if old in key]
        assert after["trimask_blocks", *sorted((new, "erased"))] == 1
        kept = dict(await store.read(lambda tx: tx.rows("SELECT study_id, state FROM studies")))
        assert kept == {OLD: "collected", NEW: "open"}

    asyncio.run(run())


def test_commits_are_observed(make_store: Any) -> None:
    store, seen = make_store(PROVIDER), []
    store.observe(lambda writes, seconds: seen.append((writes, seconds)))

    async def run() -> None:
        await asyncio.gather(*(store.write(lambda tx: tx.row("SELECT 1")) for _ in range(5)))

    asyncio.run(run())
    assert store.depth == 0
    assert sum(writes for writes, _ in seen) == 5
    assert all(seconds > 0 for _, seconds in seen)
