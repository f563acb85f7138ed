"""A node's store: the production SQL and group commit on a real SQLite file that outlives the process.

What is replaced is the writer's thread, by a callback at a moment the seed chooses, and the connection, by one that
fails: out of disk, or killed just before or just after a commit.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from trimask_server.store.database import Database, Transaction, _Job, _migrate

from trimask_simulation.faults import Faults
from trimask_simulation.loop import Process
from trimask_simulation.trace import Trace

__all__ = ["DiskState", "SimulatedDatabase"]

T = TypeVar("T")
_WRITES = ("INSERT", "UPDATE", "DELETE", "COMMIT", "PRAGMA WAL", "VACUUM")


class DiskState:
    """What is true of a node's disk whatever process runs on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.full = False


class _Killed(BaseException):
    """Not an `Exception`: production code must not be able to catch its own death."""


class _Connection:
    """A connection that a full disk and a kill can strike."""

    def __init__(self, database: SimulatedDatabase, connection: sqlite3.Connection) -> None:
        self._database = database
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        self._refuse_when_full(sql)
        if sql == "COMMIT":
            self._database.strike("crash before commit")
        cursor = self._connection.execute(sql, parameters)
        if sql == "COMMIT":
            self._database.committed()
            self._database.strike("crash after commit")
        return cursor

    def executemany(self, sql: str, parameters: Sequence[Sequence[Any]]) -> sqlite3.Cursor:
        self._refuse_when_full(sql)
        return self._connection.executemany(sql, parameters)

    def _refuse_when_full(self, sql: str) -> None:
        if self._database.state.full and sql.lstrip().upper().startswith(_WRITES):
            self._database.trace.faults["write to a full disk"] += 1
            raise sqlite3.OperationalError("database or disk is full")


class SimulatedDatabase(Database):
    """See the module. `after_commit` is where the oracle looks."""

    def __init__(
        self, process: Process, state: DiskState, name: str, migrations: Sequence[str], *, loop: asyncio.AbstractEventLoop,
        trace: Trace, faults: Faults, delay: random.Random, kill: Callable[[Process], None],
        after_commit: Callable[[sqlite3.Connection], None],
    ) -> None:  # fmt: skip
        self.state, self.trace = state, trace
        self._path = state.folder / name
        self._process, self._faults, self._delay, self._kill = process, faults, delay, kill
        self._loop = loop
        self._after_commit = after_commit
        self._writing_connection = self._connect()
        _migrate(self._writing_connection, migrations)
        self._reading = self._connect()
        self._connection: Any = _Connection(self, self._writing_connection)
        self._jobs: list[_Job[Any]] = []
        process.on_death.append(self.close)

    def _connect(self) -> sqlite3.Connection:
        connection = super()._connect()
        # Processes die here, the machine does not: waiting for a real disk would show nothing.
        connection.execute("PRAGMA synchronous=OFF")
        return connection

    def strike(self, kind: str) -> None:
        """Perhaps kill the process here."""
        if self._faults.strike(kind):
            self.trace.fault(kind, str(self._process))
            raise _Killed

    def committed(self) -> None:
        """A group is on disk."""
        self._after_commit(self._writing_connection)

    async def write(self, function: Callable[[Transaction], T]) -> T:
        job = self._enqueue(_Job(function))
        result: T = await job.future
        return result

    async def scrub(self) -> None:
        await self._enqueue(_Job(None)).future

    def _enqueue(self, job: _Job[Any]) -> _Job[Any]:
        if not self._jobs:  # whatever else comes before it runs is in the same group
            self._loop.call_later(self._delay.uniform(0.0, 0.02), self._flush)
        self._jobs.append(job)
        return job

    def _flush(self) -> None:
        jobs, self._jobs = self._jobs, []
        try:
            self._run_group(self._connection, jobs)
        except _Killed:
            self._kill(self._process)

    async def read(self, function: Callable[[Transaction], T]) -> T:
        await asyncio.sleep(self._delay.uniform(0.0, 0.005))
        return function(Transaction(self._reading))

    def close(self) -> None:
        """The process is dead. The last connection to close tidies the write-ahead log up, which no killed one does."""
        files = [self._path, self._path.with_name(self._path.name + "-wal")]
        left = [path.read_bytes() if path.exists() else b"" for path in files]
        self._reading.close()
        self._writing_connection.close()
        for path, data in zip(files, left, strict=True):
            path.write_bytes(data)
