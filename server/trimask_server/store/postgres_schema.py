"""A node's schema on a PostgreSQL server: connecting, statements and errors, bringing it up to date, vacuuming."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from trimask_core.basics.errors import ConfigError
from trimask_core.basics.randomness import SystemRandom
from trimask_server.store.interface import Migration, RunAgain, StoreError

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
# Shut down, crashed, starting up, or idle for too long; serialization failure, deadlock.
_SERVER_GONE = {"57P01", "57P02", "57P03", "57P05", "25P03"}
_RUN_AGAIN = {"40001", "40P01"}
_DATA_EXCEPTION = "22"  # these quote the value


def is_lost(error: psycopg.Error, connection: Connection) -> bool:
    """Whether an error is the connection's end, rather than a statement's."""
    return connection.closed or connection.broken or error.sqlstate in _SERVER_GONE


@lru_cache(1024)
def _translated(sql: str) -> bytes:
    return sql.replace("%", "%%").replace("?", "%s").encode()


class PostgresTransaction:
    """Statements on one connection; results come in binary, statements are prepared once they repeat."""

    __slots__ = ("_connection", "_cursor")
    claim = " FOR UPDATE SKIP LOCKED"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._cursor = connection.cursor(binary=True)

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        try:
            return self._cursor.execute(_translated(sql), parameters).rowcount
        except psycopg.Error as error:
            raise self._failure(error) from None

    def run_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> int:
        """All of them sent at once, in a pipeline: a hundred statements wait for the server once."""
        if not parameters:
            return 0
        try:
            self._cursor.executemany(_translated(sql), parameters)
        except psycopg.Error as error:
            raise self._failure(error) from None
        return self._cursor.rowcount

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._cursor.execute(_translated(sql), parameters).fetchall()
        except psycopg.Error as error:
            raise self._failure(error) from None

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        try:
            return self._cursor.execute(_translated(sql), parameters).fetchone()
        except psycopg.Error as error:
            raise self._failure(error) from None

    def _failure(self, error: psycopg.Error) -> Exception:
        if is_lost(error, self._connection):
            return RunAgain()
        state = error.sqlstate or ""
        if state in _RUN_AGAIN:
            self._connection.execute("ROLLBACK")
            return RunAgain()
        # The detail is left out: it quotes the row.
        what = "" if state.startswith(_DATA_EXCEPTION) else error.diag.message_primary
        return StoreError(f"{what or type(error).__name__} ({state})")


_LEAST_VERSION = 150000
# A worker that is cut off from the server must not keep the writers' lock: its transaction is ended for it.
_SETTINGS = """
SET search_path = {schema};
SET synchronous_commit = on;
SET client_min_messages = warning;
SET idle_in_transaction_session_timeout = '20s';
SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
"""
_OWN_TABLES = """
CREATE TABLE IF NOT EXISTS store_migrations (
  number bigint PRIMARY KEY, name text NOT NULL, applied timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS store_facts (name text PRIMARY KEY, value bytea NOT NULL);
CREATE TABLE IF NOT EXISTS store_writers (
  writer bytea PRIMARY KEY, last_group bigint NOT NULL, seen timestamptz NOT NULL DEFAULT now());
DELETE FROM store_writers WHERE seen < now() - interval '7 days';
"""
_KEYS = "data_keys"
_REWRITE_TRIES = 10
_REWRITE_PAUSE = 1.0


def schema_of(node_name: str) -> str:
    """The schema of a node that was given none: after its name."""
    return "trimask_" + re.sub(r"\W", "_", node_name.lower(), flags=re.ASCII)


def lock_key(purpose: str, schema: str) -> int:
    """The advisory lock for a purpose in a schema."""
    return int.from_bytes(hashlib.sha256(f"{purpose} {schema}".encode()).digest()[:8], "big", signed=True)


def in_use_key(schema: str) -> int:
    """The lock that running nodes share and a restore wants alone."""
    return lock_key("in use", schema)


def shown_url(url: str) -> str:
    """An address without its password and options, for messages."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    user = parts.netloc.rpartition("@")[0].partition(":")[0]
    return urlunsplit((parts.scheme, f"{user}@{host}" if user else host, parts.path, "", ""))


def connect(url: str, schema: str) -> Connection:
    """A connection that works in the schema. Commits are on disk when they are answered."""
    connection: Connection = psycopg.connect(
        url, autocommit=True, connect_timeout=5, prepare_threshold=2, application_name="trimask"
    )
    try:
        connection.execute(sql.SQL(_SETTINGS).format(schema=sql.Identifier(schema)))
    except BaseException:
        connection.close()
        raise
    return connection


def migrate(url: str, schema: str, steps: Sequence[Migration], role: str = "") -> bytes:
    """Apply the steps this schema has not seen, one program at a time; its generation. Refused if it is another role's."""
    try:
        with connect(url, schema) as connection:
            if connection.info.server_version < _LEAST_VERSION:
                raise ConfigError(f"{shown_url(url)} must be PostgreSQL 15 or newer")
            generation = _migrate(connection, schema, steps)
            if role:
                _claim(connection, schema, role)
            return generation
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigError(
            f"cannot use the store at {shown_url(url)}: {' '.join(str(error).split())}; the account must own the schema "
            f"{schema} (CREATE SCHEMA {schema} AUTHORIZATION ...), or be allowed to create it"
        ) from None
    except psycopg.Error as error:
        raise ConfigError(
            f"cannot use the store at {shown_url(url)}: {' '.join(str(error).split())}"
        ) from None


def _migrate(connection: Connection, schema: str, steps: Sequence[Migration]) -> bytes:
    key = lock_key("migrate", schema)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (key,))
        if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone():
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        connection.execute(_OWN_TABLES)
        done = connection.execute("SELECT name FROM store_migrations ORDER BY number").fetchall()
        for number, ((name,), step) in enumerate(zip(done, steps, strict=False), 1):
            if name != step.name:
                raise ConfigError(
                    f"the store's schema {schema} is not this node's: its step {number} is {name!r}, not {step.name!r}; "
                    "give each node a schema of its own ([store] schema)"
                )
        if len(done) > len(steps):
            raise ConfigError(
                f"the store's schema {schema} was written by a newer version of this program (step {len(done)}, this "
                f"one knows {len(steps)}); install that version, or restore a backup made before it"
            )
        for number, step in enumerate(steps[len(done) :], len(done) + 1):
            connection.execute(step.postgresql.encode())
            connection.execute("INSERT INTO store_migrations VALUES (%s, %s)", (number, step.name))
        connection.execute(
            "INSERT INTO store_facts VALUES ('generation', %s) ON CONFLICT (name) DO NOTHING",
            (SystemRandom().read(16),),
        )
        found = connection.execute("SELECT value FROM store_facts WHERE name = 'generation'").fetchone()
        assert found is not None  # noqa: S101 - for the type checker
        generation: bytes = found[0]
        return generation


def _claim(connection: Connection, schema: str, role: str) -> None:
    """Right and left providers have the same tables: the schema itself says whose they are."""
    connection.execute(
        "INSERT INTO store_facts VALUES ('role', %s) ON CONFLICT (name) DO NOTHING", (role.encode(),)
    )
    found = connection.execute("SELECT value FROM store_facts WHERE name = 'role'").fetchone()
    if found is not None and bytes(found[0]) != role.encode():
        raise ConfigError(
            f"the store's schema {schema} is that of a {bytes(found[0]).decode()} node, and this is a {role} node; "
            "give each node a schema of its own ([store] schema)"
        )


def vacuum(connection: Connection) -> None:
    """Make dead rows' space free for use again, and count what there is.

    A planner without figures takes a study to be a two-hundredth of its table, and reads it whole for some of its rows.
    """
    tables = [
        name
        for (name,) in connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename <> %s"
            " ORDER BY tablename",
            (_KEYS,),
        )
    ]
    if tables:
        names = sql.SQL(", ").join(map(sql.Identifier, tables))
        connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(names))


def rewrite_keys(connection: Connection) -> None:
    """Rewrite the table of data keys, which leaves no old page of it: what a destroyed key encrypted is unreadable."""
    if connection.execute("SELECT to_regclass(%s)", (_KEYS,)).fetchone() == (None,):
        return
    # It takes the table for itself. While a long reader (a pg_dump, for example) holds it, nobody must have to wait
    # behind us.
    connection.execute("SET lock_timeout = '500ms'")
    for tries_left in reversed(range(_REWRITE_TRIES)):
        try:
            connection.execute(sql.SQL("VACUUM FULL {}").format(sql.Identifier(_KEYS)))
        except psycopg.errors.LockNotAvailable:
            if not tries_left:
                raise
            time.sleep(_REWRITE_PAUSE)
        else:
            return
