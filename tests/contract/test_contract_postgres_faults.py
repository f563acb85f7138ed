"""A server that goes away in the middle: what was answered is there once, what was not is run again."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from trimask_core.basics.errors import ConfigError
from trimask_postgres import LocalPostgres
from trimask_server.store import postgres, postgres_schema
from trimask_server.store.interface import StoreError, Transaction
from trimask_server.store.postgres import PostgresStore
from trimask_server.store.postgres_schema import shown_url

TABLES = "CREATE TABLE counts (name TEXT PRIMARY KEY, n INTEGER NOT NULL)"
SCHEMA = "trimask_r1"


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    found = PostgresStore(postgres_url, SCHEMA, [TABLES])
    yield found
    found.close()


def add(tx: Transaction) -> None:
    """Not idempotent: run twice it shows."""
    tx.run("INSERT INTO counts VALUES ('a', 1) ON CONFLICT (name) DO UPDATE SET n = counts.n + 1")


def count(tx: Transaction) -> int:
    row = tx.row("SELECT n FROM counts WHERE name = 'a'")
    return 0 if row is None else int(row[0])


def test_a_commit_whose_answer_was_lost_counts_once(store: PostgresStore, monkeypatch: Any) -> None:
    """The connection dies after the server has committed and before the program hears of it."""
    session = store._session
    commit = session.commit
    lost: list[int] = []

    def commit_and_lose() -> None:
        commit()
        if len(lost) < 3:
            lost.append(1)
            assert session._connection is not None
            session._connection.close()  # what begin() will find, as after a network's end
            session._execute("SELECT 1")  # the answer that never came

    monkeypatch.setattr(session, "commit", commit_and_lose)

    async def course() -> None:
        for expected in range(1, 6):
            await store.write(add)
            assert await store.read(count) == expected

    asyncio.run(course())
    assert len(lost) == 3


def test_a_transaction_that_was_lost_is_run_again(store: PostgresStore, monkeypatch: Any) -> None:
    """The connection dies before the commit: nothing is there, and the function is run once more."""
    session = store._session
    commit = session.commit
    runs: list[int] = []

    def lose_and_commit() -> None:
        if len(runs) == 1:
            assert session._connection is not None
            session._connection.close()
        commit()

    monkeypatch.setattr(session, "commit", lose_and_commit)

    def counted(tx: Transaction) -> None:
        runs.append(1)
        add(tx)

    async def course() -> None:
        await store.write(counted)
        assert await store.read(count) == 1

    asyncio.run(course())
    assert len(runs) == 2


def test_sessions_ended_by_the_server(store: PostgresStore, postgres_url: str) -> None:
    """As an operator or a restart does, many times, while increments are written: each is there once."""

    async def course() -> None:
        writing = [asyncio.create_task(store.write(add)) for _ in range(5)]
        with psycopg.connect(postgres_url, autocommit=True) as other:
            for _ in range(8):
                writing += [asyncio.create_task(store.write(add)) for _ in range(5)]
                await asyncio.sleep(0)
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid()"
                )
                await writing[-1]
                assert await store.read(count) > 0
        await asyncio.gather(*writing)
        assert await store.read(count) == len(writing)

    asyncio.run(course())


def test_a_failed_statement_cannot_be_kept_quiet(store: PostgresStore) -> None:
    """PostgreSQL undoes a transaction with a failed statement at COMMIT, without an error."""

    def quiet(tx: Transaction) -> str:
        with contextlib.suppress(StoreError):
            tx.run("INSERT INTO nowhere VALUES (1)")
        return "all is well"

    async def course() -> None:
        results = await asyncio.gather(*(store.write(f) for f in (add, quiet, add)), return_exceptions=True)
        assert [type(result) for result in results] == [type(None), StoreError, type(None)]
        assert await store.read(count) == 2

    asyncio.run(course())


def test_a_serialization_failure_is_run_again(store: PostgresStore) -> None:
    runs: list[int] = []

    def once_serialized(tx: Transaction) -> None:
        runs.append(1)
        add(tx)
        if len(runs) == 1:
            tx.run("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$")

    async def course() -> None:
        await store.write(once_serialized)
        assert await store.read(count) == 1

    asyncio.run(course())
    assert len(runs) == 2


def test_nobody_is_shown_the_password(postgres_url: str) -> None:
    url = postgres_url.replace("trimask@", "trimask:hunter2@")
    assert "hunter2" not in shown_url(url)
    store = PostgresStore(url, SCHEMA, [])
    assert "hunter2" not in repr(store)
    store.close()
    for wrong in (url.replace("127.0.0.1", "127.0.0.1:1,127.0.0.1"), url + "?sslmode=hunter2"):
        with pytest.raises(ConfigError, match="cannot use the store at postgresql://trimask@") as caught:
            PostgresStore(wrong.replace("/test_", "/none_"), SCHEMA, [])
        assert "hunter2" not in str(caught.value).replace('sslmode value: "hunter2"', "")


def test_another_nodes_schema_is_refused(store: PostgresStore, postgres_url: str) -> None:
    from trimask_server.store.database import COLLECTOR, PROVIDER

    PostgresStore(postgres_url, "trimask_mixed", PROVIDER).close()
    with pytest.raises(ConfigError, match="not this node's"):
        PostgresStore(postgres_url, "trimask_mixed", COLLECTOR)


def test_a_scrub_waits_for_a_long_reader_and_nobody_waits_for_the_scrub(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, SCHEMA, ["CREATE TABLE data_keys (x INTEGER)"])

    async def course() -> None:
        with psycopg.connect(postgres_url) as reader:
            reader.execute(f"TABLE {SCHEMA}.data_keys")  # its transaction stays open
            scrubbing = asyncio.create_task(store.scrub())
            for number in range(20):
                await store.write(
                    lambda tx, number=number: tx.run("INSERT INTO data_keys VALUES (?)", (number,))
                )
            assert not scrubbing.done()
        await scrubbing

    asyncio.run(course())
    store.close()


@pytest.mark.parametrize(
    "how", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGQUIT], ids=["restarted", "crashed"]
)
def test_the_server_is_restarted(how: signal.Signals) -> None:
    """With fsync: what was acknowledged before a crash of the server is there after it, once."""
    with LocalPostgres() as server:
        store = PostgresStore(server.url(), SCHEMA, [TABLES])

        async def course() -> None:
            loop = asyncio.get_running_loop()
            answered = 0

            async def keep_writing(stop: asyncio.Event) -> int:
                done = 0
                while not stop.is_set():
                    await store.write(add)
                    done += 1
                return done

            stop = asyncio.Event()
            writers = [asyncio.create_task(keep_writing(stop)) for _ in range(4)]
            while await store.read(count) < 20:
                pass
            await loop.run_in_executor(None, server.restart, how)
            before = await store.read(count)
            while await store.read(count) <= before:
                pass
            stop.set()
            answered = sum(await asyncio.gather(*writers))
            assert await store.read(count) == answered

        asyncio.run(course())
        store.close()


def test_keys_are_rewritten_by_every_scrub_and_other_tables_when_their_turn_comes(
    postgres_url: str, monkeypatch: Any
) -> None:
    """What a VACUUM reads grows with the tables: one an erasure would cost the more the more there was to erase."""
    done: list[str] = []
    for name in ("vacuum", "rewrite_keys"):
        monkeypatch.setattr(postgres_schema, name, lambda _connection, name=name: done.append(name))

    async def course() -> None:
        store = PostgresStore(postgres_url, SCHEMA, [TABLES])
        monkeypatch.setattr(postgres, "_VACUUM_PAUSE", 1e9)
        await store.scrub()
        assert done == ["rewrite_keys", "vacuum"]
        await asyncio.gather(store.scrub(), store.scrub(), store.scrub())
        assert done[2:] == 3 * ["rewrite_keys"]
        assert store._vacuum_due is not None
        store._vacuum_due.cancel()
        store._vacuum_later(asyncio.get_running_loop())  # its turn has come
        store.close()
        assert done[5:] == ["vacuum"]

    asyncio.run(course())


def test_repro_what_is_looked_up_row_by_row_is_not_a_scan_of_the_study(postgres_url: str) -> None:
    """With 300,000 rows of one study a batch read all of them for its 256, as no figures said how many there are."""
    plan = "EXPLAIN SELECT found FROM things WHERE study_id = 'one' AND found IN ('1', '2', '3')"
    tables = "CREATE TABLE things (study_id TEXT, found TEXT, UNIQUE (study_id, found))"

    async def course() -> str:
        store = PostgresStore(postgres_url, SCHEMA, [tables])
        await store.write(
            lambda tx: tx.run_many("INSERT INTO things VALUES (?, ?)", [("one", str(i)) for i in range(5000)])
        )
        await store.scrub()
        rows = await store.read(lambda tx: tx.rows(plan, ()))
        store.close()
        return " ".join(row[0] for row in rows)

    said = asyncio.run(course())
    assert "Index Cond: ((study_id" in said
    assert "Filter" not in said
