"""What a store is, whichever database is behind it: transactions as functions, writes committed in groups.

`write(f)` answers once what f did is on disk. Functions that wait at the same time share a commit; if one of them
fails, only what it did is undone. An f may be run more than once (a neighbour failed, the server was restarted), of
which exactly one run counts; so it does nothing but read and write its transaction, and lets a `StoreError` pass.

Writing functions run one after the other, among all processes that share the store: what one reads is still so when it
writes. A function that claims its rows itself (`Transaction.claim`) may say `exclusive=False` and run beside others.

SQL is the common part of SQLite's and PostgreSQL's: `?` for parameters (and nowhere else in a statement), `ON CONFLICT`
for upserts, a `sequence` column where order of arrival matters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Each", "ObservedStore", "Store", "StoreError", "Transaction"]

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
