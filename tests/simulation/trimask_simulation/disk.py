"""A node's store: the production SQL and group commit on a real SQLite file that outlives the process.

What is replaced is the writer's thread, by a callback at a moment the seed chooses, and the connection, by one that
fails: out of disk, or killed just before or just after a commit.

Several workers of a node share the file, as they share a schema on PostgreSQL: one writer at a time, each seeing what was
committed before. Then a connection may also be lost at a commit, which took place or did not: the group is run again,
after others have written (`trimask_server.store.postgres`).
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from trimask_server.store.interface import GroupWriter, Lock, Migration, RunAgain, Transaction
from trimask_server.store.sqlite import SqliteStore, _SqliteSession, migrate
from trimask_simulation.faults import Faults
from trimask_simulation.loop import Process
from trimask_simulation.trace import Trace

__all__ = ["DiskState", "SimulatedDatabase"]

T = TypeVar("T")
_WRITES = ("INSERT", "UPDATE", "DELETE", "COMMIT", "PRAGMA WAL")


class DiskState:
    """What is true of a node's disk whatever process runs on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.full = False
        self.open: list[SimulatedDatabase] = []  # of processes that are alive


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


class _SharedSession(_SqliteSession):
    """A worker's connection to a store that others write too, which may be lost at a commit."""

    def __init__(self, database: SimulatedDatabase, connection: Any) -> None:
        super().__init__(connection)
        self._database = database
        self._group = self._committed = 0

    def begin(self, group: int, lock: Lock) -> bool:
        if group == self._group:
            self._database.let_others_write()
        self._group = group
        return group != self._committed and super().begin(group, lock)

    def commit(self) -> None:
        lost = self._database.connection_lost()
        if lost == "before":
            self.rollback()
            raise RunAgain
        super().commit()
        self._committed = self._group
        if lost:
            raise RunAgain


class _Writer(GroupWriter):
    """The production writer without its thread: what has gathered runs at a moment of the seed's choice."""

    def __init__(self, database: SimulatedDatabase, session: Any) -> None:
        self._database = database
        self._session = session
        self._groups = 0
        self._jobs: list[Any] = []
        self.observe = lambda _writes, _seconds: None

    def _put(self, job: Any) -> asyncio.Future[Any]:
        if not self._jobs:  # whatever else comes before it runs is in the same group
            self._database.later(self._flush)
        self._jobs.append(job)
        future: asyncio.Future[Any] = job.future
        return future

    def _flush(self) -> None:
        jobs, self._jobs = self._jobs, []
        if not jobs:  # they ran while another worker was looking for its connection
            return
        try:
            self._run_group(jobs)
        except _Killed:
            self._database.die()


class SimulatedDatabase(SqliteStore):
    """See the module. `after_commit` is where the oracle looks."""

    def __init__(
        self, process: Process, state: DiskState, name: str, migrations: Sequence[Migration], *,
        loop: asyncio.AbstractEventLoop, trace: Trace, faults: Faults, delay: random.Random, kill: Callable[[Process], None],
        after_commit: Callable[[sqlite3.Connection], None], node: str = "", shared: bool = False,
    ) -> None:  # fmt: skip
        self.state, self.trace = state, trace
        self.path = state.folder / name
        self._process, self._faults, self._delay, self._kill = process, faults, delay, kill
        self._loop = loop
        self._after_commit = after_commit
        self._writing = self._connect()
        migrate(self._writing, migrations, self.path)
        # Drawn by the system when a store is made; here from the seed, like everything.
        self.generation = hashlib.sha256((node or process.name).encode()).digest()[:16]
        self._writing.execute(
            "UPDATE store_facts SET value = ? WHERE name = 'generation'", (self.generation,)
        )
        self._reading = self._connect()
        self._connection: Any = _Connection(self, self._writing)
        session = _SharedSession(self, self._connection) if shared else _SqliteSession(self._connection)
        self._writer: Any = _Writer(self, session)
        state.open.append(self)
        process.on_death.append(self.close)

    def _connect(self) -> sqlite3.Connection:
        connection = super()._connect()
        # Processes die here, the machine does not: waiting for a real disk would show nothing.
        connection.execute("PRAGMA synchronous=OFF")
        return connection

    def later(self, then: Callable[[], None]) -> None:
        """In this process, in a moment."""
        self._loop.call_later(self._delay.uniform(0.0, 0.02), then)

    def strike(self, kind: str) -> None:
        """Perhaps kill the process here."""
        if self._faults.strike(kind):
            self.trace.fault(kind, str(self._process))
            raise _Killed

    def die(self) -> None:
        """The process was struck."""
        self._kill(self._process)

    def connection_lost(self) -> str:
        """Whether the connection is lost at this commit, and on which side of it."""
        if not self._faults.strike("database connection lost"):
            return ""
        when = self._delay.choice(("before", "after"))
        self.trace.fault("database connection lost", str(self._process), f"{when} a commit")
        return when

    def let_others_write(self) -> None:
        """What other workers have waiting comes first, in their own processes."""
        for other in self.state.open:
            if other is not self and other._process.alive and not other._process.suspended:
                other._process.context().run(other._writer._flush)

    def committed(self) -> None:
        """A group is on disk."""
        self._after_commit(self._writing)

    async def read(self, function: Callable[[Transaction], T], *, settled: bool = False) -> T:
        await asyncio.sleep(self._delay.uniform(0.0, 0.005))
        return self._read(function)

    def close(self) -> None:
        """The process is dead. The last connection to close tidies the write-ahead log up, which no killed one does."""
        self.state.open.remove(self)
        if self.state.open:
            self._reading.close()
            self._writing.close()
            return
        files = [self.path, self.path.with_name(self.path.name + "-wal")]
        left = [path.read_bytes() if path.exists() else b"" for path in files]
        self._reading.close()
        self._writing.close()
        for path, data in zip(files, left, strict=True):
            path.write_bytes(data)
