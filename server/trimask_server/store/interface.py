"""What a store is, whichever database is behind it: transactions as functions, writes committed in groups.

`write(f)` answers once what f did is on disk. Functions that wait at the same time share a commit; if one of them
fails, only what it did is undone. An f may be run more than once (a neighbour failed, the server was restarted), of
which exactly one run counts; so it does nothing but read and write its transaction, and lets a `StoreError` pass.

Writing functions run one after the other, among all processes that share the store: what one reads is still so when it
writes. Two kinds say otherwise by their `Lock`: one that only appends runs beside others that do, and one that claims its
rows itself (`Transaction.claim`) beside all. Appended rows may become visible in another order than their `sequence`: who
reads on from the last one seen asks for a `settled` read.

SQL is the common part of SQLite's and PostgreSQL's: `?` for parameters (and nowhere else in a statement), `ON CONFLICT`
for upserts, a `sequence` column where order of arrival matters.

A `Migration` is a dated step of the schema, in the words of both databases. To erase a study, the owner of each table
erases the study's rows in it: an owner has a function `erase_study(tx, study_id)` for its own tables. A role names its
owners once (`right.submissions`, `collector.services`), and the study registry asks all of them, in one transaction.

The module that owns a table has its states (`State`, each with those that may follow it and why) and all SQL on it;
docs/architecture.md names them.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol, Self, TypeVar


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


Lock = Literal["alone", "append", "none"]
# One function for many callers' items: what each is answered, in order, or the error it is answered with.
Each = Callable[[Transaction, Sequence[Item]], Sequence[T | Exception]]


class Store(Protocol):
    """A node's database."""

    @property
    def generation(self) -> bytes:
        """Drawn when the store was made and again when it was restored from a backup."""
        ...

    async def write(self, function: Callable[[Transaction], T], *, lock: Lock = "alone") -> T:
        """Run `function` in a transaction; return what it returned once that is on disk."""
        ...

    async def write_each(self, function: Each[Item, T], item: Item) -> T:
        """Run `function` over this and every other item that waits for it, in a transaction; what this one is answered.

        An item whose answer is an exception must have changed nothing. The lock is that of what appends.
        """
        ...

    async def read(self, function: Callable[[Transaction], T], *, settled: bool = False) -> T:
        """Run a reading `function` on one state of the committed data; it never waits for a writer.

        A `settled` one does: it begins when nothing is being appended, so that no row can come any more before one it sees.
        """
        ...

    async def scrub(self) -> None:
        """Have what was erased gone from the database's files, as far as the database can."""
        ...

    def close(self) -> None:
        """Finish what is queued and close."""
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


_GROUP = 128
_STRICTEST_FIRST: tuple[Lock, ...] = ("alone", "append", "none")
# After a group of some writes the next is given time to gather enough: a commit costs as much for one as for ten.
_SOME, _ENOUGH, _PAUSE_SECONDS = 4, 32, 0.01


class RunAgain(Exception):
    """The group's transaction is gone, or its fate unknown; the session is fit to run it once more."""


class Session(Protocol):
    """One writing connection."""

    @property
    def transaction(self) -> Transaction:
        """What functions are given."""
        ...

    def begin(self, group: int, lock: Lock) -> bool:
        """Begin; False if the group of that number is committed already (its commit was done and the answer lost)."""
        ...

    def check(self) -> None:
        """StoreError if a statement has failed that the function kept to itself: nothing after it counts."""
        ...

    def commit(self) -> None:
        """On disk when this returns. RunAgain if that cannot be known."""
        ...

    def rollback(self) -> None:
        """Undo everything since `begin`; fine outside a transaction."""
        ...

    def savepoint(self) -> None:
        """A place to go back to."""
        ...

    def rollback_to(self) -> None:
        """Undo everything since the savepoint."""
        ...

    def release(self) -> None:
        """Forget the savepoint."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class _Job:
    """A function waiting to be run, with its item if it takes many, and who waits for it."""

    __slots__ = ("between", "error", "function", "future", "item", "lock", "loop", "many", "result")

    def __init__(
        self,
        function: Callable[..., Any],
        item: Any = None,
        *,
        many: bool = False,
        lock: Lock = "alone",
        between: bool = False,
    ) -> None:
        self.function = function
        self.item = item
        self.many = many
        self.lock: Lock = lock
        self.between = between
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: Exception | None = None


class GroupWriter:
    """Takes functions in, runs what has gathered in one transaction, and answers after the commit."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._gathering: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        self._groups = 0
        self.observe: Callable[[int, float], None] = lambda _writes, _seconds: None
        self._thread = threading.Thread(target=self._loop, name="store-writer", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """Writes that wait."""
        return self._queue.qsize()

    async def write(self, function: Callable[[Transaction], T], *, lock: Lock) -> T:
        """Queue a function; what it returned, once that is on disk."""
        result: T = await self._put(_Job(function, lock=lock))
        return result

    async def write_each(self, function: Each[Item, T], item: Item) -> T:
        """Queue an item for a function of many."""
        result: T = await self._put(_Job(function, item, many=True, lock="append"))
        return result

    async def between(self, function: Callable[[], None]) -> None:
        """Have the writing thread run a function between two transactions, after all that was queued before."""
        await self._put(_Job(function, between=True))

    def _put(self, job: _Job) -> asyncio.Future[Any]:
        # Everything queued in one turn of the event loop is handed over together: otherwise the thread would begin with
        # the first alone.
        gathered = self._gathering.get(job.loop)
        if gathered is None:
            self._gathering[job.loop] = gathered = []
            job.loop.call_soon(self._hand_over, job.loop)
        gathered.append(job)
        return job.future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        for job in self._gathering.pop(loop, ()):
            self._queue.put(job)

    def close(self) -> None:
        """Finish what is queued."""
        for loop in list(self._gathering):
            self._hand_over(loop)
        self._queue.put(None)
        self._thread.join()

    def _loop(self) -> None:
        closing = False
        while not closing:
            jobs: list[_Job] = []
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
            if jobs:
                self._run_group(jobs)
            if len(jobs) >= _SOME and self._queue.qsize() < _ENOUGH and not closing:
                time.sleep(_PAUSE_SECONDS)
        self._session.close()

    def _run_group(self, jobs: list[_Job]) -> None:
        begun = time.perf_counter()
        self._groups += 1
        group = [job for job in jobs if not job.between]
        try:
            while group and not self._try_group(group):
                pass
        except Exception as error:  # noqa: BLE001 - handed to the caller; the writer goes on
            with contextlib.suppress(Exception):
                self._session.rollback()
            for job in group:
                job.error = error
        for function, waiting in _gathered([job for job in jobs if job.between]).items():
            try:
                function()
            except Exception as error:  # noqa: BLE001 - handed to the caller
                for job in waiting:
                    job.error = error
        self.observe(len(jobs), time.perf_counter() - begun)
        # One call into the loop for the whole group: waking it for every job costs more than the insert did.
        for loop in {job.loop for job in jobs}:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(_answer, [job for job in jobs if job.loop is loop])

    def _try_group(self, jobs: list[_Job]) -> bool:
        lock = min((job.lock for job in jobs), key=_STRICTEST_FIRST.index)
        try:
            if not self._session.begin(self._groups, lock):
                return True  # the results of that run count
            for job in jobs:
                job.result = job.error = None
            if not self._run_together(jobs):
                self._session.rollback()
                if not self._session.begin(self._groups, lock):
                    raise StoreError("a group that was rolled back is committed")
                self._run_apart(jobs)
            self._session.commit()
        except RunAgain:
            return False
        return True

    def _run_together(self, jobs: list[_Job]) -> bool:
        """Without savepoints, which cost as much as an insert; False if one failed."""
        transaction = self._session.transaction
        try:
            for function, many in _gathered(jobs).items():
                if not many[0].many:
                    for job in many:
                        job.result = job.function(transaction)
                    continue
                answers = function(transaction, [job.item for job in many])
                for job, answer in zip(many, answers, strict=True):
                    _keep(job, answer)
            self._session.check()
        except RunAgain:
            raise
        except Exception:  # noqa: BLE001 - run again below, where it is known whose it is
            return False
        return True

    def _run_apart(self, jobs: Sequence[_Job]) -> None:
        """Each job in a savepoint of its own, so that a failure undoes only itself."""
        session = self._session
        for job in jobs:
            session.savepoint()
            try:
                if job.many:
                    _keep(job, job.function(session.transaction, [job.item])[0])
                else:
                    job.result = job.function(session.transaction)
                session.check()
            except RunAgain:
                raise
            except Exception as error:  # noqa: BLE001 - handed to the caller
                session.rollback_to()
                job.error = error
            session.release()


class GroupedStore:
    """What the stores of both databases share: their writes go through one `GroupWriter`."""

    _writer: GroupWriter

    @property
    def depth(self) -> int:
        """Writes that wait."""
        return self._writer.depth

    def observe(self, tell: Callable[[int, float], None]) -> None:
        """Have `tell` called after every commit, from the writing thread: how many writes it had, and its seconds."""
        self._writer.observe = tell

    async def write(self, function: Callable[[Transaction], T], *, lock: Lock = "alone") -> T:
        """See `Store`."""
        return await self._writer.write(function, lock=lock)

    async def write_each(self, function: Each[Item, T], item: Item) -> T:
        """See `Store`."""
        return await self._writer.write_each(function, item)


def _gathered(jobs: Sequence[_Job]) -> dict[Callable[..., Any], list[_Job]]:
    """Jobs grouped by function, in the order of each group's first job; jobs that wait together have no order."""
    found: dict[Callable[..., Any], list[_Job]] = {}
    for job in jobs:
        found.setdefault(job.function, []).append(job)
    return found


def _keep(job: _Job, answer: Any) -> None:
    if isinstance(answer, Exception):
        job.error = answer
    else:
        job.result = answer


def _answer(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.done():  # the caller has gone
            continue
        if job.error is None:
            job.future.set_result(job.result)
        else:
            job.future.set_exception(job.error)
