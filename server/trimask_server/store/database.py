"""One SQLite file behind a small interface: transactions as functions, writes committed in groups.

`write(f)` queues f for the writer thread, which runs what has gathered in one transaction and answers only after the commit
is on disk. If one f of a group fails, the group is run again with each in a savepoint of its own, so that a failure undoes
only itself; hence an f may run twice, and does nothing but read and write its transaction. Under load a hundred submissions
share one fsync. `read(f)` runs on a second connection and never waits for the writer.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, TypeVar

__all__ = ["Database", "Transaction"]

T = TypeVar("T")
_GROUP = 128


class Transaction:
    """What a transaction function may do."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement; the number of rows it changed."""
        return self._connection.execute(sql, parameters).rowcount

    def run_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> int:
        """Run a statement for each set of parameters; the number of rows changed."""
        return self._connection.executemany(sql, parameters).rowcount

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self._connection.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row of a query, if any."""
        found: tuple[Any, ...] | None = self._connection.execute(sql, parameters).fetchone()
        return found


class _Job(Generic[T]):
    """A transaction function waiting to be run, or (without one) a request to scrub, and who waits for it."""

    __slots__ = ("error", "function", "future", "loop", "result")

    def __init__(self, function: Callable[[Transaction], T] | None) -> None:
        self.function = function
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: Exception | None = None


class Database:
    """A SQLite database in WAL mode with synchronous=FULL: what was acknowledged survives a power cut."""

    def __init__(self, path: Path, migrations: Sequence[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._queue: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        connection = self._connect()
        _migrate(connection, migrations)
        self._writer = threading.Thread(
            target=self._write_loop, args=(connection,), name="store-writer", daemon=True
        )
        self._writer.start()
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-reader")
        self._reading = self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA secure_delete=ON")  # erased rows are overwritten with zeros
        connection.execute("PRAGMA busy_timeout=10000")
        return connection

    async def write(self, function: Callable[[Transaction], T]) -> T:
        """Run `function` in a transaction; return what it returned once that is on disk."""
        job = _Job(function)
        self._queue.put(job)
        result: T = await job.future
        return result

    async def read(self, function: Callable[[Transaction], T]) -> T:
        """Run a reading `function` on committed data."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reader, lambda: function(Transaction(self._reading)))

    async def scrub(self) -> None:
        """Write the file anew and truncate the write-ahead log: erased rows are gone from both.

        Overwriting on deletion is not enough: when SQLite moves rows between pages it leaves copies of them in the
        unused middle of the old page, and those it does not overwrite.
        """
        job: _Job[None] = _Job(None)
        self._queue.put(job)
        await job.future

    def close(self) -> None:
        """Finish what is queued and close."""
        self._queue.put(None)
        self._writer.join()
        self._reader.shutdown()
        self._reading.close()

    def _write_loop(self, connection: sqlite3.Connection) -> None:
        closing = False
        while not closing:
            jobs: list[_Job[Any]] = []
            job = self._queue.get()
            while job is not None:
                jobs.append(job)
                if len(jobs) >= _GROUP:
                    break
                try:
                    job = self._queue.get_nowait()
                except queue.Empty:
                    break
            closing = job is None
            self._run_group(connection, jobs)
        connection.close()

    def _run_group(self, connection: sqlite3.Connection, jobs: list[_Job[Any]]) -> None:
        try:
            if any(job.function for job in jobs):
                if not _run_together(connection, jobs):
                    _run_apart(connection, jobs)
                connection.execute("COMMIT")
            if any(job.function is None for job in jobs):
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            for job in jobs:
                job.error = error
        # One call into the loop for the whole group: waking it for every job costs more than the insert did.
        for loop in {job.loop for job in jobs}:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(_answer, [job for job in jobs if job.loop is loop])


def _answer(jobs: list[_Job[Any]]) -> None:
    for job in jobs:
        if job.future.done():  # whoever asked has gone away
            continue
        if job.error is None:
            job.future.set_result(job.result)
        else:
            job.future.set_exception(job.error)


def _run_together(connection: sqlite3.Connection, jobs: list[_Job[Any]]) -> bool:
    """All jobs in one transaction, without savepoints, which cost as much as an insert; False if one failed."""
    connection.execute("BEGIN IMMEDIATE")
    transaction = Transaction(connection)
    try:
        for job in jobs:
            if job.function is not None:
                job.result = job.function(transaction)
    except Exception:  # noqa: BLE001 - run again below, where it is known whose it is
        connection.execute("ROLLBACK")
        return False
    return True


def _run_apart(connection: sqlite3.Connection, jobs: list[_Job[Any]]) -> None:
    """Again, each job in a savepoint of its own, so that a failure undoes only itself. Functions may run twice."""
    connection.execute("BEGIN IMMEDIATE")
    for job in jobs:
        if job.function is None:
            continue
        connection.execute("SAVEPOINT job")
        try:
            job.result = job.function(Transaction(connection))
        except Exception as error:  # noqa: BLE001 - handed to whoever asked
            connection.execute("ROLLBACK TO job")
            job.error = error
        connection.execute("RELEASE job")


def _migrate(connection: sqlite3.Connection, migrations: Sequence[str]) -> None:
    """Apply the migrations this file has not seen, in order."""
    (done,) = connection.execute("PRAGMA user_version").fetchone()
    for number, script in enumerate(migrations[done:], done + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number}; COMMIT;")
