"""What every store promises of its transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from trimask_core.basics.errors import ConfigError, Refused
from trimask_core.basics.refusals import Reason
from trimask_patience import patience
from trimask_server.store.interface import StoreError, Transaction

TABLE = "CREATE TABLE t (x INTEGER PRIMARY KEY, y TEXT, z BLOB, w REAL)"


def put(x: int, y: str = "a") -> Any:
    return lambda tx: tx.run("INSERT INTO t (x, y) VALUES (?, ?)", (x, y))


def all_of(tx: Transaction) -> list[tuple[Any, ...]]:
    return tx.rows("SELECT x, y FROM t ORDER BY x")


def test_writes_are_seen_by_everybody_once_answered(make_store: Any) -> None:
    store, other = make_store([TABLE]), make_store([TABLE])

    async def course() -> None:
        await asyncio.gather(*(store.write(put(i)) for i in range(300)))
        assert await other.read(lambda tx: tx.row("SELECT count(*) FROM t")) == (300,)

    asyncio.run(course())


def test_values_come_back_as_they_went(make_store: Any) -> None:
    store = make_store([TABLE])
    values = (2**53 + 1, "naïve % ? — ''", bytes(range(256)), 0.1)

    async def course() -> None:
        assert await store.write(lambda tx: tx.run("INSERT INTO t VALUES (?, ?, ?, ?)", values)) == 1
        assert await store.read(lambda tx: tx.row("SELECT x, y, z, w FROM t")) == values
        assert await store.read(lambda tx: tx.row("SELECT x FROM t WHERE y LIKE '%x%'")) is None
        await store.write(lambda tx: tx.run("UPDATE t SET y = ?, z = ?, w = ?", (None, None, None)))
        assert await store.read(lambda tx: tx.row("SELECT y, z, w FROM t")) == (None, None, None)

    asyncio.run(course())


def test_counts_of_changed_rows(make_store: Any) -> None:
    store = make_store([TABLE])
    insert = "INSERT INTO t (x) VALUES (?) ON CONFLICT (x) DO NOTHING"

    def write(tx: Transaction) -> list[Any]:
        return [
            tx.run_many(insert, [(1,), (2,), (1,), (3,)]),
            tx.run_many("UPDATE t SET y = 'b' WHERE x < ?", [(2,), (4,)]),
            tx.run_many(insert, []),
            tx.rows(insert.replace("(?)", "(?), (?), (?)") + " RETURNING x", (4, 1, 4)),
            tx.run("DELETE FROM t WHERE x > ?", (9,)),
        ]

    assert asyncio.run(store.write(write)) == [3, 4, 0, [(4,)], 0]


def test_a_failure_in_a_group_undoes_only_itself(make_store: Any) -> None:
    store = make_store([TABLE])

    def half(tx: Transaction) -> None:
        tx.run("INSERT INTO t (x, y) VALUES (7, 'half')")
        raise Refused(Reason.MALFORMED, "no")

    async def course() -> None:
        results = await asyncio.gather(
            store.write(put(0)), store.write(half), store.write(put(1)), store.write(put(0)), store.write(put(2)),
            return_exceptions=True,
        )  # fmt: skip
        assert [type(result) for result in results] == [int, Refused, int, StoreError, int]
        assert await store.read(all_of) == [(0, "a"), (1, "a"), (2, "a")]

    asyncio.run(course())


def test_an_error_has_no_values_in_it(make_store: Any) -> None:
    store = make_store(["CREATE TABLE t (x TEXT PRIMARY KEY, y INTEGER NOT NULL)"])

    async def course() -> None:
        await store.write(lambda tx: tx.run("INSERT INTO t VALUES ('secret-1', 1)"))
        for values in (("secret-1", 2), ("secret-2", None), ("secret-3", "secret-4")):
            with pytest.raises(StoreError) as caught:
                await store.write(
                    lambda tx, values=values: tx.run(
                        "INSERT INTO t VALUES (?, CASE WHEN ? = 'secret-3' THEN abs(-9223372036854775808) ELSE ? END)",
                        (values[0], values[0], values[1]),
                    )
                )
            assert "secret" not in str(caught.value)

    asyncio.run(course())


def test_items_of_one_function_share_its_run(make_store: Any) -> None:
    store = make_store([TABLE])
    sizes: list[int] = []

    def each(tx: Transaction, items: Sequence[int]) -> list[int | Exception]:
        sizes.append(len(items))
        counts = [tx.run("INSERT INTO t (x) VALUES (?) ON CONFLICT (x) DO NOTHING", (x,)) for x in items]
        return [
            x if count else Refused(Reason.OUT_OF_STEP, "known")
            for x, count in zip(items, counts, strict=True)
        ]

    async def course() -> None:
        results = await asyncio.gather(
            *(store.write_each(each, x % 40) for x in range(50)), return_exceptions=True
        )
        assert [x for x in results if not isinstance(x, Refused)] == list(range(40))
        assert sum(isinstance(x, Refused) for x in results) == 10
        assert max(sizes) > 10, "they were waiting together"
        assert len(await store.read(all_of)) == 40

    asyncio.run(course())


def test_an_item_that_breaks_the_run_breaks_only_itself(make_store: Any) -> None:
    store = make_store([TABLE])

    def each(tx: Transaction, items: Sequence[int]) -> list[int | Exception]:
        tx.run_many("INSERT INTO t (x) VALUES (?)", [(x,) for x in items])
        return list(items)

    async def course() -> None:
        results = await asyncio.gather(
            *(store.write_each(each, x) for x in (1, 2, 2, 3)), return_exceptions=True
        )
        assert sorted(x for x in results if isinstance(x, int)) == [1, 2, 3]
        assert sum(isinstance(x, StoreError) for x in results) == 1
        assert len(await store.read(all_of)) == 3

    asyncio.run(course())


def test_a_reader_sees_one_state(make_store: Any) -> None:
    """Between a function's two queries another handle writes; the second sees what the first saw."""
    store, other = make_store([TABLE]), make_store([TABLE])

    async def course() -> None:
        loop = asyncio.get_running_loop()

        def read(tx: Transaction) -> tuple[Any, Any]:
            first = tx.row("SELECT count(*) FROM t")
            asyncio.run_coroutine_threadsafe(other.write(put(1)), loop).result(patience(30))
            return first, tx.row("SELECT count(*) FROM t")

        assert await store.read(read) == ((0,), (0,))
        assert len(await store.read(all_of)) == 1

    asyncio.run(course())


def test_writers_follow_one_another_whoever_they_are(make_store: Any) -> None:
    """Two handles, as two processes have, each read then write: no increment is lost."""
    stores = [make_store([TABLE]) for _ in range(2)]

    def add(tx: Transaction) -> None:
        row = tx.row("SELECT x FROM t")
        assert row is not None
        tx.run("UPDATE t SET x = ?", (row[0] + 1,))

    async def course() -> None:
        await stores[0].write(put(0))
        for _ in range(10):
            await asyncio.gather(*(store.write(add) for store in stores for _ in range(5)))
        assert await stores[0].read(lambda tx: tx.row("SELECT x FROM t")) == (100,)

    asyncio.run(course())


def test_a_store_newer_than_the_program_is_refused(make_store: Any) -> None:
    make_store([TABLE, "CREATE TABLE u (x INTEGER)"])
    with pytest.raises(ConfigError, match=r"newer version .*step 2.*knows 1"):
        make_store([TABLE])


def test_the_generation_stays(make_store: Any) -> None:
    first, again = make_store([TABLE]), make_store([TABLE])
    assert first.generation == again.generation
    assert len(first.generation) == 16
    assert make_store([TABLE], schema="other").generation != first.generation
