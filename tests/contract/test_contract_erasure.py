"""After a study is erased, every table is walked, in both databases: what still names the study is listed here, and why."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from stored_rows import OWN_TABLES, insert, read_store, rows_of
from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import Refused
from trimask_server.access.governance import Proposals
from trimask_server.programs.roles import erasers_of
from trimask_server.runtime.host import collect_garbage
from trimask_server.runtime.metrics import Metrics
from trimask_server.store.database import COLLECTOR, PROVIDER
from trimask_server.store.interface import Erasers
from trimask_server.store.studies import StudyRegistry

OLD, OTHER = b"o" * 32, b"n" * 32
DAY = 24 * 3600
ROLES: dict[str, Any] = {"right": PROVIDER, "left": PROVIDER, "collector": COLLECTOR}
Row = dict[str, Any]


def _as_it_was(row: Row) -> Row:
    return row


# table -> (why it may still name the study, what is left of each row: None where a row goes).
EVERYWHERE: dict[str, tuple[str, Callable[[Row], Row | None]]] = {
    "studies": (
        "the id alone, so that the study can never be registered and filled again",
        lambda row: {
            "study_id": row["study_id"], "signed_study": "", "state": "collected", "turn": row["turn"], "registered_ms": 0,
            "closed_ms": None,
        },
    ),
    "audit": ("the log is append-only, and has nothing of a person in it", _as_it_was),
}  # fmt: skip
AT_THE_COLLECTOR: dict[str, tuple[str, Callable[[Row], Row | None]]] = {
    "datasets": ("they are published; the manifest holds the signed study they verify against", _as_it_was),
    "tokens": (
        "a token for datasets still opens those that are not public, until it ends or is revoked",
        lambda row: row if "datasets" in row["scopes"] and not row["revoke_time_ms"] else None,
    ),
    "releases": (
        "which release numbers were given out, and how many rows each had; no factor",
        lambda row: {**row, "factor": None},
    ),
    "release_answers": ("what was paid from the budget is public and counts for ever", _as_it_was),
}


def _node(store: Any, role: str) -> Any:
    return SimpleNamespace(
        role=role, database=store, clock=ManualClock(10**12), studies=StudyRegistry(store), metrics=Metrics(),
        log=logging.getLogger("test"), config=SimpleNamespace(keep_closed_days=30.0),
    )  # fmt: skip


def _names(row: Row, study_id: bytes) -> bool:
    """Whether a row names the study in any column, as bytes or in hexadecimal."""
    return any(
        (isinstance(value, bytes) and study_id in value)
        or (isinstance(value, str) and study_id.hex() in value)
        for value in row.values()
    )


async def _erase_old(node: Any, erasers: Erasers) -> list[bytes]:
    assert await collect_garbage(node, erasers) == []
    node.clock.advance(31 * DAY)
    return await collect_garbage(node, erasers)


async def _filled(make_store: Any, role: str, schema: str = "filled") -> Any:
    store = make_store(ROLES[role], schema)
    rows = rows_of(role, OLD) + rows_of(role, OTHER, 2, "open")
    await store.write(lambda tx: insert(tx, rows))
    return store


def _left(before: dict[str, list[Row]], role: str) -> dict[str, list[Row]]:
    """What may be left of what was there."""
    allowed = EVERYWHERE | (AT_THE_COLLECTOR if role == "collector" else {})

    def kept(table: str, row: Row) -> Row | None:
        return row if not _names(row, OLD) else allowed[table][1](row) if table in allowed else None

    return {table: [left for row in rows if (left := kept(table, row))] for table, rows in before.items()}


@pytest.mark.parametrize("role", ROLES)
def test_what_is_left_of_an_erased_study_is_on_a_list_with_a_reason(make_store: Any, role: str) -> None:
    async def course() -> None:
        store = await _filled(make_store, role)
        before = await store.read(lambda tx: read_store(tx, make_store.kind))
        assert before.keys() - OWN_TABLES == {table for table, _ in rows_of(role, OLD)}, (
            "a new table has a row in stored_rows.py, and an owner that erases a study in it"
        )
        for table, rows in before.items():
            if rows and {"study_id", "job_key"} & rows[0].keys():
                assert {_names(row, OLD) for row in rows} == {True, False}, (
                    f"{table} has a row of both studies"
                )
        assert await _erase_old(_node(store, role), erasers_of(role)) == [OLD]
        after = await store.read(lambda tx: read_store(tx, make_store.kind))
        expected = _left(before, role)
        for table in before.keys() - {"store_writers"}:  # it counts this test's own writes
            assert _sorted(after[table]) == _sorted(expected[table]), table

    asyncio.run(course())


def _sorted(rows: list[Row]) -> list[str]:
    return sorted(repr(row) for row in rows)


@pytest.mark.parametrize("role", ["right", "collector"])
def test_the_list_notices_an_owner_that_does_not_erase(make_store: Any, role: str) -> None:
    async def course() -> None:
        erasers = erasers_of(role)
        for number in range(len(erasers.erase)):
            store = await _filled(make_store, role, f"without_{number}")
            before = await store.read(lambda tx: read_store(tx, make_store.kind))
            fewer = erasers.erase[:number] + erasers.erase[number + 1 :]
            assert await _erase_old(_node(store, role), dataclasses.replace(erasers, erase=fewer)) == [OLD]
            after = await store.read(lambda tx: read_store(tx, make_store.kind))
            expected = _left(before, role)
            assert any(
                _sorted(after[table]) != _sorted(expected[table]) for table in before.keys() - OWN_TABLES
            )

    asyncio.run(course())


def test_nothing_of_a_study_with_an_unfinished_release_goes(make_store: Any) -> None:
    async def course() -> None:
        store = await _filled(make_store, "collector")
        for state in ("open", "full", "answerable"):
            await store.write(
                lambda tx, state=state: tx.run(
                    "UPDATE releases SET state = ? WHERE study_id = ?", (state, OLD)
                )
            )
            before = await store.read(lambda tx: read_store(tx, make_store.kind))
            assert await _erase_old(_node(store, "collector"), erasers_of("collector")) == []
            after = await store.read(lambda tx: read_store(tx, make_store.kind))
            # but for when it was found closed
            assert all(
                after[table] == before[table] for table in before.keys() - {"studies", "store_writers"}
            )

    asyncio.run(course())


def test_an_erased_study_cannot_be_proposed_again(make_store: Any, signed_study: Any) -> None:
    """Else a collector could have every node keep a study that was erased."""

    async def course() -> None:
        store = make_store(PROVIDER)
        node = _node(store, "right")
        proposals = Proposals(store, SimpleNamespace(append=lambda *_args, **_details: None))  # type: ignore[arg-type]
        await proposals.propose(signed_study, 1)
        await node.studies.register(signed_study, 1)
        await node.studies.set_state(signed_study.study.id, "closed")
        assert await _erase_old(node, erasers_of("right")) == [signed_study.study.id]
        assert await proposals.all() == []
        with pytest.raises(Refused, match="cannot begin again"):
            await proposals.propose(signed_study, 2)
        with pytest.raises(Refused, match="cannot begin again"):
            await proposals.refuse(signed_study, "because", 2)
        with pytest.raises(Refused, match="cannot begin again"):
            await node.studies.register(signed_study, 2)
        assert await proposals.all() == []

    asyncio.run(course())
