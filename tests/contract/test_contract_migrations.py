"""Steps of the schema, with data in every table, on both databases: each runs once, in order, and whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stored_rows import OWN_TABLES, insert, read_store, rows_of
from trimask_core.basics.errors import ConfigError
from trimask_server.store.database import COLLECTOR, PROVIDER
from trimask_server.store.interface import Migration, append_only, portable

ROLES = {"provider": PROVIDER, "collector": COLLECTOR}
STUDY = b"s" * 32
# Released steps never change: the SHA-256 of what each runs. Until 0.1.0 is out the first step may: then renew this.
RELEASED = {
    ("provider", 1): "236ddbe6e02cbf98c7023aa9de179d63c6f644681521abbfddefe7bd1282509f",
    ("collector", 1): "e8199738de5b6f6f2b00d369675d9ff120e423f88b192c4209761104cf0890bc",
}
LATER = portable(
    "2099-01-01 later",
    "CREATE TABLE later (x INTEGER); ALTER TABLE studies ADD COLUMN later INTEGER NOT NULL DEFAULT 5;"
    "UPDATE studies SET later = later + 1;",
)


@pytest.mark.parametrize("role", ROLES)
def test_a_later_step_runs_once_and_keeps_the_data(make_store: Any, role: str) -> None:
    first, steps = ROLES[role], (*ROLES[role], LATER)
    held = rows_of(role, STUDY)

    async def course() -> None:
        old = make_store(first)
        await old.write(lambda tx: insert(tx, held))
        before = await old.read(lambda tx: read_store(tx, make_store.kind))
        assert before.keys() - OWN_TABLES == {table for table, _ in held}, "each table is tried"
        old.close()
        for _ in range(2):
            new = make_store(steps)
            after = await new.read(lambda tx: read_store(tx, make_store.kind))
            assert [row.pop("later") for row in after["studies"]] == [6]
            assert after.pop("later") == []
            for table in before.keys() - {"store_migrations", "store_writers"}:
                assert after[table] == before[table], table
            assert new.generation == old.generation
            new.close()

    asyncio.run(course())


@pytest.mark.parametrize("role", ROLES)
def test_a_worker_of_the_older_version_goes_on_beside_one_of_the_next(make_store: Any, role: str) -> None:
    """As workers of one node are replaced one after another. Whichever older one ends does not start again."""
    held = rows_of(role, STUDY)

    async def course() -> None:
        old = make_store(ROLES[role])
        new = make_store((*ROLES[role], LATER))
        await old.write(lambda tx: insert(tx, held))
        by_old, by_new = [await one.read(lambda tx: read_store(tx, make_store.kind)) for one in (old, new)]
        assert by_old == by_new
        assert [row["later"] for row in by_new["studies"]] == [5]
        assert all(by_new[table] for table, _ in held)
        old.close()
        with pytest.raises(ConfigError, match="written by a newer version of this program"):
            make_store(ROLES[role])
        new.close()

    asyncio.run(course())


def test_blocks_and_datasets_keep_the_order_they_came_in(make_store: Any) -> None:
    async def course() -> None:
        store = make_store(COLLECTOR)
        await store.write(lambda tx: insert(tx, rows_of("collector", STUDY)))
        order = "SELECT {} FROM {} ORDER BY sequence"
        blocks = await store.read(lambda tx: tx.rows(order.format("block_id", "blocks")))
        assert [block[0][0] for block in blocks] == [5, 2, 8]
        datasets = await store.read(lambda tx: tx.rows(order.format("dataset_id", "datasets")))
        assert [name[0] for (name,) in datasets] == ["z", "a"]

    asyncio.run(course())


@pytest.mark.parametrize(("role", "number"), RELEASED)
def test_released_steps_are_never_edited(role: str, number: int) -> None:
    step = ROLES[role][number - 1]
    digest = hashlib.sha256((step.sqlite + step.postgresql).encode()).hexdigest()
    assert digest == RELEASED[role, number], "append a step instead (before 0.1.0: renew the digest)"


@pytest.mark.parametrize("role", ROLES)
def test_steps_are_dated_and_in_order(role: str) -> None:
    names = [step.name for step in (*ROLES[role], LATER)]
    assert len(set(names)) == len(names)
    dates = [name.split(" ", 1)[0] for name in names]
    assert dates == sorted(dates)
    assert all(len(date) == 10 and date.startswith("20") for date in dates)


def test_two_programs_that_start_at_once_migrate_once(make_store: Any) -> None:
    def start(_: int) -> bytes:
        return bytes(make_store(PROVIDER).generation)

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(start, range(4)))) == 1


def test_a_step_that_fails_leaves_the_store_as_it_was(make_store: Any) -> None:
    make_store(["CREATE TABLE t (x INTEGER)"])
    broken = Migration(
        "broken", "CREATE TABLE u (x INTEGER); NONSENSE;", "CREATE TABLE u (x bigint); NONSENSE;"
    )
    with pytest.raises(Exception, match=r"(?i)nonsense"):
        make_store(["CREATE TABLE t (x INTEGER)", broken])
    store = make_store(["CREATE TABLE t (x INTEGER)", "CREATE TABLE u (x INTEGER)"])
    assert asyncio.run(store.read(lambda tx: tx.rows("SELECT * FROM u"))) == []


def test_an_append_only_table_stays(make_store: Any) -> None:
    step = portable("log", "CREATE TABLE log (x INTEGER);") + append_only("log", "the log stays")
    store = make_store([step])

    async def course() -> None:
        await store.write(lambda tx: tx.run("INSERT INTO log VALUES (1)"))
        for statement in ("UPDATE log SET x = 2", "DELETE FROM log"):
            with pytest.raises(Exception, match="the log stays"):
                await store.write(lambda tx, statement=statement: tx.run(statement))
        assert await store.read(lambda tx: tx.rows("SELECT x FROM log")) == [(1,)]

    asyncio.run(course())


def test_the_words_are_translated_whole() -> None:
    step = portable("x", "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, real_name BLOB, b REAL)")
    assert step.postgresql == (
        "CREATE TABLE t (a bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, real_name bytea, b double precision)"
    )


def test_a_newer_file_is_refused_by_name(make_store: Any) -> None:
    make_store([*COLLECTOR, LATER])
    with pytest.raises(ConfigError, match="newer version"):
        make_store(COLLECTOR)
