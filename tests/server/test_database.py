"""The store: grouped commits, isolated failures, migrations, and erasure that leaves nothing in the file."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from trimask_core.errors import Refused
from trimask_server.right.rows import RowStore, split_ids
from trimask_server.store.interface import Transaction
from trimask_server.store.schema import COLLECTOR, PROVIDER
from trimask_server.store.sqlite import SqliteStore

TABLE = "CREATE TABLE t (x INTEGER PRIMARY KEY, y TEXT)"


def test_writes_are_answered_after_commit_and_in_groups(tmp_path: Path) -> None:
    database = SqliteStore(tmp_path / "d", [TABLE])

    async def course() -> int:
        await asyncio.gather(
            *(
                database.write(lambda tx, i=i: tx.run("INSERT INTO t VALUES (?, ?)", (i, "a")))
                for i in range(500)
            )
        )
        rows = await database.read(lambda tx: tx.rows("SELECT count(*) FROM t"))
        return int(rows[0][0])

    assert asyncio.run(course()) == 500
    with sqlite3.connect(tmp_path / "d") as other:  # visible to others: committed
        assert other.execute("SELECT count(*) FROM t").fetchone() == (500,)
    other.close()
    database.close()


def test_one_failure_in_a_group_undoes_only_itself(tmp_path: Path) -> None:
    database = SqliteStore(tmp_path / "d", [TABLE])

    def bad(tx: Transaction) -> None:
        tx.run("INSERT INTO t VALUES (7, 'half')")
        raise Refused("test", "no")

    async def course() -> list[tuple[object, ...]]:
        good = [
            database.write(lambda tx, i=i: tx.run("INSERT INTO t VALUES (?, 'ok')", (i,))) for i in range(3)
        ]
        results = await asyncio.gather(good[0], database.write(bad), *good[1:], return_exceptions=True)
        assert [isinstance(result, Refused) for result in results] == [False, True, False, False]
        return await database.read(lambda tx: tx.rows("SELECT x, y FROM t ORDER BY x"))

    assert asyncio.run(course()) == [(0, "ok"), (1, "ok"), (2, "ok")]
    database.close()


def test_migrations_are_applied_once_and_in_order(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "d", [TABLE]).close()
    database = SqliteStore(tmp_path / "d", [TABLE, "ALTER TABLE t ADD COLUMN z TEXT DEFAULT 'new'"])

    async def course() -> list[tuple[object, ...]]:
        await database.write(lambda tx: tx.run("INSERT INTO t (x, y) VALUES (1, 'a')"))
        return await database.read(lambda tx: tx.rows("SELECT z FROM t"))

    assert asyncio.run(course()) == [("new",)]
    database.close()


@pytest.mark.parametrize("migrations", [PROVIDER, COLLECTOR])
def test_schema_applies_to_an_empty_file_and_again(tmp_path: Path, migrations: tuple[str, ...]) -> None:
    SqliteStore(tmp_path / "d", migrations).close()
    SqliteStore(tmp_path / "d", migrations).close()
    with sqlite3.connect(tmp_path / "d") as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (len(migrations),)
    raw.close()


def test_erased_rows_are_in_no_file(tmp_path: Path) -> None:
    database = SqliteStore(tmp_path / "right.sqlite3", PROVIDER)
    rows = RowStore(database)
    study, marker = b"s" * 32, b"SEALED-PAYLOAD-MARKER"

    def found() -> bool:
        return any(marker in path.read_bytes() for path in tmp_path.iterdir())

    async def course() -> None:
        await database.write(
            lambda tx: tx.run("INSERT INTO studies VALUES (?, '{}', 'open', 0)", (study,)),
        )
        ids = [bytes([i]) * 16 for i in range(20)]
        for submission_id in ids:
            await rows.insert(study, submission_id, marker + submission_id * 400, 1)
        assert found()
        await rows.assign(study, b"b" * 16, ids[:10])
        assert await rows.erase_block(study, b"b" * 16) == 10
        assert len(await rows.pending(study, 0, 100)) == 10
        assert await rows.erase_pending(study) == 10
        assert not found()
        # The ids remain, so that none of them can come a second time with other bytes.
        with pytest.raises(Refused, match="other bytes"):
            await rows.insert(study, ids[0], b"other", 2)

    asyncio.run(course())
    database.close()


def test_ids_of_odd_length_are_refused() -> None:
    with pytest.raises(Refused, match="16 bytes"):
        split_ids(bytes(17))
