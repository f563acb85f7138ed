"""kill -9 of a process that writes: what it was told is on disk is there, whole; and two processes at once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trimask_postgres import LocalPostgres
from trimask_server.store.interface import Store
from trimask_server.store.postgres import PostgresStore
from trimask_server.store.sqlite import SqliteStore

TABLES = (
    "CREATE TABLE pairs (x INTEGER PRIMARY KEY, y INTEGER NOT NULL); CREATE TABLE total (n INTEGER NOT NULL)"
)
# Writes pairs of rows for ever, each in one transaction, and says which were answered.
WRITER = """
import asyncio, sys
from pathlib import Path
kind, place, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
tables = sys.stdin.readline().strip()
if kind == "sqlite":
    from trimask_server.store.sqlite import SqliteStore
    store = SqliteStore(Path(place), [tables])
else:
    from trimask_server.store.postgres import PostgresStore
    store = PostgresStore(place, "trimask_r1", [tables])

def pair(x):
    def write(tx):
        tx.run("INSERT INTO pairs VALUES (?, ?)", (2 * x, x))
        tx.run("INSERT INTO pairs VALUES (?, ?)", (2 * x + 1, x))
        n = tx.row("SELECT n FROM total")[0]
        tx.run("UPDATE total SET n = ?", (n + 1,))
    return write

async def one(x):
    await store.write(pair(x))
    print(x, flush=True)

async def main():
    for start in range(first, first + count, 8):
        await asyncio.gather(*(one(x) for x in range(start, min(start + 8, first + count))))

asyncio.run(main())
store.close()
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A store that waits for the disk."""
    if request.param == "sqlite":
        yield request.param, str(tmp_path / "store.sqlite3")
    else:
        with LocalPostgres() as server:
            yield request.param, server.url()


def _open(place: tuple[str, str]) -> Store:
    kind, where = place
    return (
        SqliteStore(Path(where), [TABLES])
        if kind == "sqlite"
        else PostgresStore(where, "trimask_r1", [TABLES])
    )


def _start(place: tuple[str, str], first: int, count: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, *place, str(first), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(TABLES + "\n")
    process.stdin.close()
    return process


def test_acknowledged_writes_survive_and_writers_share(place: tuple[str, str]) -> None:
    store = _open(place)
    asyncio.run(store.write(lambda tx: tx.run("INSERT INTO total VALUES (0)")))
    killed, steady = _start(place, 0, 10**6), _start(place, 10**6, 80)
    assert killed.stdout is not None
    assert steady.stdout is not None
    told = {int(killed.stdout.readline()) for _ in range(60)}
    killed.kill()
    told |= {int(line) for line in killed.stdout if line.endswith("\n")}
    killed.wait()
    killed.stdout.close()
    done = {int(line) for line in steady.stdout}
    assert steady.wait() == 0
    steady.stdout.close()
    assert len(done) == 80

    pairs = asyncio.run(store.read(lambda tx: tx.rows("SELECT y, count(*) FROM pairs GROUP BY y")))
    total = asyncio.run(store.read(lambda tx: tx.row("SELECT n FROM total")))
    found = dict(pairs)
    assert told | done <= set(found), "what was acknowledged is there"
    assert set(found.values()) == {2}, "each write is whole"
    assert total == (len(found),), "no write was lost to the other process's"
    store.close()
