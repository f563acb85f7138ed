"""What a store is, whichever database is behind it: transactions as functions, writes committed in groups.

`write(f)` answers once what f did is on disk. Functions that wait at the same time share a commit; if one of them
fails, only what it did is undone. An f may be run more than once (a neighbour failed, the server was restarted), of
which exactly one run counts; so it does nothing but read and write its transaction, and lets a `StoreError` pass.

Writing functions run one after the other, among all processes that share the store: what one reads is still so when it
writes. A function that claims its rows itself (`Transaction.claim`) may say `exclusive=False` and run beside others.

SQL is the common part of SQLite's and PostgreSQL's: `?` for parameters (and nowhere else in a statement), `ON CONFLICT`
for upserts, a `sequence` column where order of arrival matters.

A `Migration` is a dated step of the schema, in the words of both databases. To erase a study, the owner of each table
erases the study's rows in it: an owner has a function `erase_study(tx, study_id)` for its own tables. A role names its
owners once (`right.submissions`, `collector.services`), and the study registry asks all of them, in one transaction.

The states of something stored, each written with those that may follow it and why.

The module that owns a table has its states and all SQL on it; docs/architecture.md names them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, Self, TypeVar, runtime_checkable


class IllegalTransition(Exception):
    """Something stored was to take a state that may not follow the one it has: a mistake of this program."""


class State(StrEnum):
    """A state, and by its word each state that may follow, with when that happens."""

    after: Mapping[str, str]

    def __new__(cls, word: str, after: Mapping[str, str] | None = None) -> Self:
        state = str.__new__(cls, word)
        state._value_ = word
        state.after = after or {}
        return state

    @property
    def before(self) -> tuple[str, ...]:
        """The words of the states that this one may follow."""
        return tuple(state.value for state in type(self) if self in state.after)


def any_of(states: tuple[str, ...]) -> str:
    """A list of states for `state IN`, all of them words of this program."""
    return ", ".join(f"'{state}'" for state in states) or "NULL"  # PostgreSQL has no empty list


def count_states(tx: Transaction, table: str) -> list[tuple[bytes, str, int]]:
    """(study, state, how many there are) of a table."""
    sql = f"SELECT study_id, state, count(*) FROM {table} GROUP BY study_id, state"  # noqa: S608 - a table of ours
    return [(row[0], row[1], row[2]) for row in tx.rows(sql)]


T = TypeVar("T")
Item = TypeVar("Item")


class StoreError(Exception):
    """The database refused or failed. The message has no values in it: a value may be somebody's."""


class Transaction(Protocol):
    """What a transaction function may do."""

    @property
    def claim(self) -> str:
        """Ends a SELECT whose rows this transaction keeps until its end, skipping those another transaction keeps."""
        ...

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run a statement; the number of rows it changed."""
        ...

    def run_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> int:
        """Run a statement for each set of parameters; the number of rows changed in all."""
        ...

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        ...

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row of a query, if any."""
        ...


# One function for many callers' items: what each is answered, in order, or the error it is answered with.
Each = Callable[[Transaction, Sequence[Item]], Sequence[T | Exception]]


class Store(Protocol):
    """A node's database."""

    @property
    def generation(self) -> bytes:
        """Drawn when the store was made and again when it was restored from a backup."""
        ...

    async def write(self, function: Callable[[Transaction], T], *, exclusive: bool = True) -> T:
        """Run `function` in a transaction; return what it returned once that is on disk."""
        ...

    async def write_each(self, function: Each[Item, T], item: Item) -> T:
        """Run `function` over this and every other item that waits for it, in a transaction; what this one is answered.

        An item whose answer is an exception must have changed nothing.
        """
        ...

    async def read(self, function: Callable[[Transaction], T]) -> T:
        """Run a reading `function` on one state of the committed data; it never waits for a writer."""
        ...

    async def scrub(self) -> None:
        """Have what was erased gone from the database's files, as far as the database can."""
        ...

    def close(self) -> None:
        """Finish what is queued and close."""
        ...


@runtime_checkable
class ObservedStore(Protocol):
    """A store that reports its queue and commits."""

    @property
    def depth(self) -> int:
        """Writes that wait."""
        ...

    def observe(self, tell: Callable[[int, float], None]) -> None:
        """Have `tell` called after every commit, from another thread: how many writes it had, and its seconds."""
        ...


# SQLite's words, which migrations are written in, and PostgreSQL's for the same. Longest first.
_WORDS = (
    (r"INTEGER PRIMARY KEY AUTOINCREMENT", "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"),
    (r"INTEGER", "bigint"),
    (r"BLOB", "bytea"),
    (r"REAL", "double precision"),
)


@dataclass(frozen=True)
class Migration:
    """One step: its dated name, which a store remembers, and what it runs on each database."""

    name: str
    sqlite: str
    postgresql: str

    def __add__(self, other: Migration) -> Migration:
        """Both, as one step of the first's name."""
        return Migration(self.name, self.sqlite + other.sqlite, self.postgresql + other.postgresql)


def portable(name: str, sql: str) -> Migration:
    """A step written once: tables and indexes with the types INTEGER, TEXT, BLOB and REAL."""
    translated = sql
    for word, theirs in _WORDS:
        translated = re.sub(rf"\b{word}\b", theirs, translated)
    return Migration(name, sql, translated)


def as_migration(step: Migration | str) -> Migration:
    """A step, or the text of a portable one without a name."""
    return portable("", step) if isinstance(step, str) else step


def append_only(table: str, message: str) -> Migration:
    """Triggers that stop a table's rows from being changed or deleted, even by this program."""
    sqlite = "".join(
        f"CREATE TRIGGER {table}_no_{event.lower()} BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT, '{message}'); END;\n"
        for event in ("UPDATE", "DELETE")
    )
    postgresql = f"""
CREATE FUNCTION {table}_stays() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{message}'; END $$;
CREATE TRIGGER {table}_stays BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_stays();
"""
    return Migration("", sqlite, postgresql)


# Erases a study's rows in its owner's tables; how many people's submissions were among them.
EraseStudy = Callable[[Transaction, bytes], int]
# Whether an owner still has work to do with what a closed study left.
StillNeeded = Callable[[Transaction, bytes], bool]


@dataclass(frozen=True)
class Erasers:
    """The owners of a role's tables."""

    erase: tuple[EraseStudy, ...]
    still_needed: tuple[StillNeeded, ...] = ()

    def erase_study(self, tx: Transaction, study_id: bytes) -> int | None:
        """Erase a study in every owner's tables; how many submissions went, or None if an owner still needs it."""
        if any(needed(tx, study_id) for needed in self.still_needed):
            return None
        return sum(erase(tx, study_id) for erase in self.erase)
