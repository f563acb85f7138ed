"""The store on a PostgreSQL server, version 15 or newer: one schema a node, any number of processes of that node.

A writing group takes the schema's advisory lock, so that writers follow one another as they do in one file: what a function
has read still holds when it writes. Groups that only append share the lock, so that workers take rows in beside each other,
also while one of them waits for the disk. What they append may then become visible in another order than it was numbered
in; a settled read holds the lock alone for the instant in which its state of the data is fixed. Groups of functions that
claim their own rows go without the lock.

The server may be restarted at any moment. A group whose transaction was lost is run again on a new connection. Whether a
COMMIT that was never answered took place is found out first: every group writes its number into its writer's row, in its
own transaction; a number that is there already means that the group is committed and only the answer was lost. (The
server's own transaction ids would not do: one may be given out twice around a crash.)
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from trimask_core.basics.clock import Backoff
from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import RandomSource, SystemRandom
from trimask_core.basics.refusals import Reason
from trimask_server.store import postgres_schema
from trimask_server.store.interface import (
    Each,
    GroupedStore,
    GroupWriter,
    Lock,
    Migration,
    RunAgain,
    StoreError,
    Transaction,
    as_migration,
)
from trimask_server.store.postgres_schema import Connection, PostgresTransaction, is_lost

T = TypeVar("T")
Item = TypeVar("Item")
_READERS = 3
_VACUUM_PAUSE = 20.0  # times what the last VACUUM took
_PATIENCE_SECONDS = 10.0  # how long a caller waits for a server that is unreachable
_PAUSES = Backoff(first=0.05, longest=2.0, least=0.5)  # seconds
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_LOCKS = {"alone": "SELECT pg_advisory_xact_lock(%s)", "append": "SELECT pg_advisory_xact_lock_shared(%s)"}
_NUMBER = """
INSERT INTO store_writers (writer, last_group) VALUES (%s, %s)
ON CONFLICT (writer) DO UPDATE SET last_group = excluded.last_group, seen = now()
WHERE store_writers.last_group < excluded.last_group
"""


class _PostgresSession:
    """The writing connection, reopened whenever it is lost."""

    def __init__(self, url: str, schema: str, source: RandomSource) -> None:
        self._url = url
        self._schema = schema
        self.lock_key = postgres_schema.lock_key("writer", schema)
        self._source = source
        self._writer = source.read(16)
        self._connection: Connection | None = None
        self._transaction: PostgresTransaction | None = None
        self._closing_at: float | None = None
        self._down_since: float | None = None
        self._reconnect()

    @property
    def transaction(self) -> Transaction:
        assert self._transaction is not None  # noqa: S101 - `begin` comes first
        return self._transaction

    def seconds_down(self) -> float:
        """For how long the server has been unreachable; 0 when it is reachable."""
        since = self._down_since
        return 0.0 if since is None else time.monotonic() - since

    def begin(self, group: int, lock: Lock) -> bool:
        while True:
            connection = self._connection or self._reconnect()
            try:
                with connection.pipeline(), connection.cursor() as cursor:
                    connection.execute(_BEGIN)
                    if lock != "none":
                        connection.execute(_LOCKS[lock], (self.lock_key,))
                    # Waits for an earlier run of this group that the server has not noticed the end of.
                    cursor.execute(_NUMBER, (self._writer, group))
                fresh = cursor.rowcount == 1
            except psycopg.Error as error:
                if not is_lost(error, connection):
                    raise StoreError(f"cannot begin a transaction ({error.sqlstate})") from None
                self._drop()
                continue
            if not fresh:
                self._execute("ROLLBACK")
            return fresh

    def check(self) -> None:
        # COMMIT would succeed, and roll back.
        connection = self._connection
        if connection is not None and connection.info.transaction_status == TransactionStatus.INERROR:
            raise StoreError("a statement failed, and the function went on")

    def commit(self) -> None:
        self._execute("COMMIT")

    def rollback(self) -> None:
        if self._connection is not None:
            self._execute("ROLLBACK")

    def savepoint(self) -> None:
        self._execute("SAVEPOINT job")

    def rollback_to(self) -> None:
        self._execute("ROLLBACK TO job")

    def release(self) -> None:
        self._execute("RELEASE job")

    def _execute(self, statement: str) -> None:
        connection = self._connection
        if connection is None:
            raise RunAgain
        try:
            connection.execute(statement.encode())
        except psycopg.Error as error:
            if is_lost(error, connection):
                raise RunAgain from None
            raise StoreError(f"{statement} failed ({error.sqlstate})") from None

    def _reconnect(self) -> Connection:
        failures = 0
        while True:
            try:
                connection = postgres_schema.connect(self._url, self._schema)
                # For as long as the connection lasts: nobody restores a backup under a running node.
                connection.execute(
                    "SELECT pg_advisory_lock_shared(%s)", (postgres_schema.in_use_key(self._schema),)
                )
            except psycopg.Error:
                self._down_since = self._down_since or time.monotonic()
                if self._closing_at is not None and time.monotonic() > self._closing_at:
                    raise StoreError(
                        "the store's server is unreachable, and this program is stopping"
                    ) from None
                failures += 1
                time.sleep(_PAUSES.pause(failures, self._source))
                continue
            self._down_since = None
            self._connection = connection
            self._transaction = PostgresTransaction(connection)
            return connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def give_up_after(self, seconds: float) -> None:
        """From now on, wait no longer than this for an unreachable server."""
        self._closing_at = time.monotonic() + seconds

    def close(self) -> None:
        self._drop()


class PostgresStore(GroupedStore):
    """A store in one schema of a PostgreSQL database. It is made, and brought up to the newest migration, when opened."""

    def __init__(
        self,
        url: str,
        schema: str,
        migrations: Sequence[Migration | str],
        source: RandomSource | None = None,
        role: str = "",
    ) -> None:
        self._url = url
        self.schema = schema
        steps = [as_migration(step) for step in migrations]
        self.generation = postgres_schema.migrate(url, schema, steps, role)
        self._source = source or SystemRandom()
        self._session = _PostgresSession(url, schema, self._source)
        self._writer = GroupWriter(self._session)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="store-reader")
        self._reading = threading.local()
        self._reading_connections: set[Connection] = set()
        self._scrubbing = ThreadPoolExecutor(1, thread_name_prefix="store-scrub")
        self._vacuum_after = 0.0  # by the event loop's clock
        self._vacuum_due: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"PostgresStore(schema={self.schema!r})"  # the address may have a password in it

    def _connect(self) -> Connection:
        return postgres_schema.connect(self._url, self.schema)

    def _refuse_while_down(self) -> None:
        # Devices are told to retry, rather than kept waiting until their deadline.
        if self._session.seconds_down() > _PATIENCE_SECONDS:
            raise Refused(
                Reason.STORE_UNAVAILABLE, "this node's database is unreachable; try again in a minute"
            )

    async def write(self, function: Callable[[Transaction], T], *, lock: Lock = "alone") -> T:
        self._refuse_while_down()
        return await super().write(function, lock=lock)

    async def write_each(self, function: Each[Item, T], item: Item) -> T:
        self._refuse_while_down()
        return await super().write_each(function, item)

    async def read(self, function: Callable[[Transaction], T], *, settled: bool = False) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._read, function, settled)

    def _read(self, function: Callable[[Transaction], T], settled: bool) -> T:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        failures = 0
        while True:
            try:
                return self._read_once(function, settled)
            except (RunAgain, psycopg.OperationalError):
                if time.monotonic() > deadline:
                    raise Refused(
                        Reason.STORE_UNAVAILABLE, "this node's database is unreachable; try again in a minute"
                    ) from None
                failures += 1
                time.sleep(_PAUSES.pause(failures, self._source))

    def _read_once(self, function: Callable[[Transaction], T], settled: bool) -> T:
        connection: Connection | None = getattr(self._reading, "connection", None)
        if connection is None:
            connection = self._reading.connection = self._connect()
            self._reading_connections.add(connection)
        try:
            if settled:  # the connection's until it is given back, or the connection ends
                connection.execute("SELECT pg_advisory_lock(%s)", (self._session.lock_key,))
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                if settled:  # the first statement fixes what is seen, before it is run
                    connection.execute("SELECT pg_advisory_unlock(%s)", (self._session.lock_key,))
                return function(PostgresTransaction(connection))
            finally:
                connection.execute("ROLLBACK")
        except (RunAgain, psycopg.Error):
            self._reading.connection = None
            self._reading_connections.discard(connection)
            connection.close()
            raise

    async def scrub(self) -> None:
        """Rewrite the table of data keys, so that a destroyed key is in none of its pages; VACUUM the others, now or later.

        VACUUM reads every index whole, so that one an erasure would cost more the more rows a study has. It takes at most
        a twentieth of the time; what is due is done later, or at the next start.
        """
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._scrubbing, self._on_own_connection, postgres_schema.rewrite_keys)
        if self._vacuum_due is not None:
            return
        delay = self._vacuum_after - loop.time()
        if delay > 0:
            self._vacuum_due = loop.call_later(delay, self._vacuum_later, loop)
            return
        await loop.run_in_executor(self._scrubbing, self._vacuum, loop)

    def _vacuum_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._vacuum_due = None
        self._scrubbing.submit(self._vacuum_or_leave, loop)

    def _vacuum_or_leave(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(StoreError):  # the next scrub tells of it
            self._vacuum(loop)

    def _vacuum(self, loop: asyncio.AbstractEventLoop) -> None:
        begun = loop.time()
        self._on_own_connection(postgres_schema.vacuum)
        self._vacuum_after = loop.time() + _VACUUM_PAUSE * (loop.time() - begun)

    def _on_own_connection(self, work: Callable[[Connection], None]) -> None:
        try:
            with self._connect() as connection:
                work(connection)
        except psycopg.Error as error:
            raise StoreError(f"the tables could not be vacuumed yet ({error.sqlstate})") from None

    def close(self) -> None:
        self._session.give_up_after(_PATIENCE_SECONDS / 2)
        if self._vacuum_due is not None:
            self._vacuum_due.cancel()
        self._writer.close()
        self._scrubbing.shutdown()
        self._readers.shutdown()
        for connection in self._reading_connections:
            connection.close()
