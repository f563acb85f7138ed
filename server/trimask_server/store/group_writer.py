"""The thread that runs writing functions in groups, for any database."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from trimask_server.store.interface import Each, StoreError, Transaction

T = TypeVar("T")
Item = TypeVar("Item")
_GROUP = 128
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

    def begin(self, group: int, *, exclusive: bool) -> bool:
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

    __slots__ = ("between", "error", "exclusive", "function", "future", "item", "loop", "many", "result")

    def __init__(
        self,
        function: Callable[..., Any],
        item: Any = None,
        *,
        many: bool = False,
        exclusive: bool = True,
        between: bool = False,
    ) -> None:
        self.function = function
        self.item = item
        self.many = many
        self.exclusive = exclusive
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
        # Told of every group, from the writing thread: how many writes, and the seconds until they were on disk.
        self.observe: Callable[[int, float], None] = lambda _writes, _seconds: None
        self._thread = threading.Thread(target=self._loop, name="store-writer", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """Writes that wait."""
        return self._queue.qsize()

    async def write(self, function: Callable[[Transaction], T], *, exclusive: bool) -> T:
        """Queue a function; what it returned, once that is on disk."""
        result: T = await self._put(_Job(function, exclusive=exclusive))
        return result

    async def write_each(self, function: Each[Item, T], item: Item) -> T:
        """Queue an item for a function of many."""
        result: T = await self._put(_Job(function, item, many=True))
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
        exclusive = any(job.exclusive for job in jobs)
        try:
            if not self._session.begin(self._groups, exclusive=exclusive):
                return True  # the results of that run count
            for job in jobs:
                job.result = job.error = None
            if not self._run_together(jobs):
                self._session.rollback()
                if not self._session.begin(self._groups, exclusive=exclusive):
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
