"""The embedded store: one SQLite file in WAL mode with synchronous=FULL, so that what was acknowledged survives a power cut.

One process serves from it; another (a backup, a key rotation) may read and write beside it and waits its turn.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from trimask_core.basics.errors import ConfigError
from trimask_core.basics.randomness import SystemRandom
from trimask_server.store.interface import (
    GroupedStore,
    GroupWriter,
    Lock,
    Migration,
    StoreError,
    Transaction,
    as_migration,
)

T = TypeVar("T")
_GENERATION_BYTES = 16


class _SqliteTransaction:
    """Statements on one connection."""

    __slots__ = ("_connection",)
    claim = ""  # a writer is alone

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        try:
            return self._connection.execute(sql, parameters).rowcount
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error

    def run_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> int:
        try:
            return self._connection.executemany(sql, parameters).rowcount
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        try:
            found: tuple[Any, ...] | None = self._connection.execute(sql, parameters).fetchone()
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error
        return found


class _SqliteSession:
    """The writing connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.transaction: Transaction = _SqliteTransaction(connection)

    def begin(self, group: int, lock: Lock) -> bool:
        self.transaction.run("BEGIN IMMEDIATE")
        return True

    def check(self) -> None:
        """A failed statement undoes itself alone."""

    def commit(self) -> None:
        self.transaction.run("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self.transaction.run("ROLLBACK")

    def savepoint(self) -> None:
        self.transaction.run("SAVEPOINT job")

    def rollback_to(self) -> None:
        self.transaction.run("ROLLBACK TO job")

    def release(self) -> None:
        self.transaction.run("RELEASE job")

    def close(self) -> None:
        self._connection.close()


class SqliteStore(GroupedStore):
    """A store in one file. It is made, and brought up to the newest migration, when it is opened."""

    def __init__(self, path: Path, migrations: Sequence[Migration | str]) -> None:
        _make_folder(path.parent)
        self.path = path
        try:
            self._connection, self.generation = self._open([as_migration(step) for step in migrations])
            self._reading = self._connect()
        except sqlite3.Error as error:
            raise ConfigError(f"cannot use the store {path}: {error}; {_remedy(error)}") from None
        self._writer = GroupWriter(_SqliteSession(self._connection))
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-reader")

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    def _open(self, steps: Sequence[Migration]) -> tuple[sqlite3.Connection, bytes]:
        """The writing connection to a store that is up to date, and the store's generation."""
        connection = self._connect()
        try:
            migrate(connection, steps, self.path)
            found = connection.execute("SELECT value FROM store_facts WHERE name = 'generation'").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection, found[0]

    def _connect(self) -> sqlite3.Connection:
        self.path.touch(mode=0o600)  # SQLite would let everybody read it, and its log takes the mode over
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA busy_timeout=10000")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=8192")  # the usual 1000 pages are a few groups of rows
        connection.execute("PRAGMA secure_delete=ON")  # erased rows are overwritten with zeros
        return connection

    async def read(self, function: Callable[[Transaction], T], *, settled: bool = False) -> T:
        # One process appends, in order: what is committed is settled.
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._read, function)

    def _read(self, function: Callable[[Transaction], T]) -> T:
        self._reading.execute("BEGIN")  # one state of the data for all the function's queries
        try:
            return function(_SqliteTransaction(self._reading))
        finally:
            self._reading.execute("ROLLBACK")

    async def scrub(self) -> None:
        """Rewrite the table of data keys and truncate the write-ahead log: a destroyed key is in neither file.

        Overwriting on deletion is not enough: when SQLite moves rows between pages it leaves copies of them in the
        unused middle of the old page, and those it does not overwrite. The few keys are worth writing again; the
        rows, of which such copies may remain, cannot be read without them.
        """
        await self._writer.between(self._scrub)

    def _scrub(self) -> None:
        # On the writer's own connection and thread: another would have to wait for a pause in the writing.
        try:
            self._rewrite("data_keys")
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error
        if busy:
            raise StoreError("the write-ahead log could not be truncated: somebody holds the file for long")

    def _rewrite(self, table: str) -> None:
        """Empty a table and fill it again: SQLite overwrites the emptied pages with zeros."""
        connection = self._connection
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is None:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - a name of ours
            connection.execute(f"DELETE FROM {table}")  # noqa: S608
            marks = ", ".join("?" * len(rows[0])) if rows else ""
            if rows:
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._writer.close()
        self._reader.shutdown()
        self._reading.close()


def _make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"cannot write into {folder}, where this node keeps its data")


def _remedy(error: sqlite3.Error) -> str:
    """What to do about a file that SQLite cannot use."""
    if "full" in str(error):
        return "make room on its disk"
    if isinstance(error, sqlite3.OperationalError):
        return f"uid {os.getuid()} must be able to write it and its folder, and no other program may hold it"
    return "`trimask node restore` puts a backup in its place"


def migrate(connection: sqlite3.Connection, steps: Sequence[Migration], path: Path) -> None:
    """Apply the steps this file has not seen, in order. Two programs that start at once wait for each other."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        (done,) = connection.execute("PRAGMA user_version").fetchone()
        if done > len(steps):
            raise ConfigError(  # noqa: TRY301 - rolled back like every failure
                f"{path} was written by a newer version of this program (step {done}, this one knows {len(steps)}); "
                "install that version, or restore a backup made before it"
            )
        connection.execute(
            "CREATE TABLE IF NOT EXISTS store_facts (name TEXT PRIMARY KEY, value BLOB NOT NULL)"
        )
        connection.execute(
            "INSERT INTO store_facts VALUES ('generation', ?) ON CONFLICT (name) DO NOTHING",
            (SystemRandom().read(_GENERATION_BYTES),),
        )
        for step in steps[done:]:
            for statement in _statements(step.sqlite):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> Iterator[str]:
    """A script's statements: a trigger's body has semicolons of its own, so SQLite says where each ends."""
    pending = ""
    for piece in script.split(";"):
        pending += piece + ";"
        if sqlite3.complete_statement(pending):
            if pending.strip(" \n\t;"):
                yield pending
            pending = ""
