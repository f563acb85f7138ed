"""Transaction functions' statements on PostgreSQL, and which of its errors mean what."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import psycopg

from trimask_server.store.group_writer import RunAgain
from trimask_server.store.interface import StoreError

__all__ = ["Connection", "PostgresTransaction", "is_lost"]

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
