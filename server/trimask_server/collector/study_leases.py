"""Which worker drives which study: each worker of the collector leases studies that have no driver and renews the leases.

A study's driver is a leased job. A worker that dies stops renewing, and another one goes on from the ledger; a worker
that was only suspended finds its writes refused, because the lease has a higher fence by then. A worker that starts again
under its own name takes back what it had at once.

Leased jobs: work that one worker at a time does, taken over by another when its worker is gone.

A worker leases a job for some seconds, renews the lease while it works, and completes it or gives it back. A lease
that ran out is given to the next worker that asks, with a higher fence. Time alone does not keep two workers apart (one
may have been suspended without noticing), so every transaction that writes for a job begins with `check_lease`: it fails
for a worker whose job was given to another, and keeps the job from being given away until the transaction has ended.

    job = await jobs.lease("study", worker, clock.now_ms(), seconds=30)

    def write(tx):
        check_lease(tx, job)
        ...

`FencedStore` writes only while this worker holds the job's lease.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_server.collector.driver import BatchDriver, set_within
from trimask_server.collector.ledger import work_by_study
from trimask_server.collector.provider_status import SELDOM, News
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.host import Spawn
from trimask_server.store.interface import Each, Lock, Store, StoreError, Transaction

_AT_ONCE = 0
"""When a job is due that nobody has: not by a clock, which may be set back before somebody takes it."""


@dataclass(frozen=True)
class Job:
    """A lease: who has the job, the number of the lease, and until when."""

    kind: str
    key: bytes
    worker: str
    fence: int
    lease_end_ms: int


def add_job(tx: Transaction, kind: str, key: bytes) -> bool:
    """Add a job inside a transaction; False if one of that kind and key was ever added."""
    return bool(
        tx.run(
            "INSERT INTO jobs (kind, job_key, state, attempts, fence, due_ms) VALUES (?, ?, 'waiting', 0, 0, ?)"
            " ON CONFLICT (kind, job_key) DO NOTHING",
            (kind, key, _AT_ONCE),
        )
    )


def check_lease(tx: Transaction, job: Job) -> None:
    """Refuse the transaction of a worker that has lost its job; keep the job until the transaction ends."""
    if not _set(tx, job, "worker = worker"):
        raise Refused(Reason.LEASE_LOST, "another worker has this job now, or it is done")


def _set(tx: Transaction, job: Job, assignment: str, *values: object) -> int:
    """Change a job if it is still this worker's. An UPDATE, because it waits for the row and then looks again."""
    return tx.run(
        f"UPDATE jobs SET {assignment} WHERE kind = ? AND job_key = ? AND fence = ? AND state = 'waiting'",  # noqa: S608
        (*values, job.kind, job.key, job.fence),
    )


def _but(held: Collection[bytes]) -> str:
    return f" AND job_key NOT IN ({', '.join('?' * len(held))})" if held else ""


class Jobs:
    """The jobs of a node's store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def enqueue(self, kind: str, key: bytes) -> bool:
        """Add a job; False if one of that kind and key was ever added."""
        return await self._store.write(lambda tx: add_job(tx, kind, key), lock="none")

    async def lease(
        self, kind: str, worker: str, now_ms: int, seconds: float, held: Collection[bytes] = ()
    ) -> Job | None:
        """The job of that kind that has been due longest, for `seconds`; None if none is due.

        Not those that this worker has already (`held`), even if their lease ran out: they are renewed, not begun again.
        """
        end_ms = now_ms + round(seconds * 1000)

        def write(tx: Transaction) -> Job | None:
            found = tx.row(
                "SELECT job_key, fence FROM jobs WHERE kind = ? AND state = 'waiting' AND due_ms <= ?"  # noqa: S608
                f"{_but(held)} ORDER BY due_ms, job_key LIMIT 1{tx.claim}",
                (kind, now_ms, *held),
            )
            if found is None:
                return None
            key, fence = found
            tx.run(
                "UPDATE jobs SET attempts = attempts + 1, fence = ?, worker = ?, due_ms = ? WHERE kind = ? AND job_key = ?",
                (fence + 1, worker, end_ms, kind, key),
            )
            return Job(kind, key, worker, fence + 1, end_ms)

        return await self._store.write(write, lock="none")

    async def reclaim(self, kind: str, worker: str, now_ms: int, held: Collection[bytes] = ()) -> int:
        """Make this worker's abandoned jobs due at once, such as those from before a restart; how many there were.

        Their leases would run out by themselves, but after a clock was set back that can be hours away.
        """
        return await self._store.write(
            lambda tx: tx.run(
                "UPDATE jobs SET due_ms = ? WHERE kind = ? AND worker = ? AND state = 'waiting' AND due_ms > ?"  # noqa: S608
                f"{_but(held)}",
                (now_ms, kind, worker, now_ms, *held),
            ),
            lock="none",
        )

    async def is_due(self, kind: str, now_ms: int, held: Collection[bytes] = ()) -> bool:
        """Whether `lease` may give one."""
        sql = f"SELECT 1 FROM jobs WHERE kind = ? AND state = 'waiting' AND due_ms <= ?{_but(held)} LIMIT 1"  # noqa: S608
        return await self._store.read(lambda tx: tx.row(sql, (kind, now_ms, *held)) is not None)

    async def renew(self, jobs: Sequence[Job], now_ms: int, seconds: float) -> list[Job]:
        """Keep jobs for `seconds` from now, in one transaction; those that were not lost. Also one whose lease ran out and
        nobody took."""
        end_ms = now_ms + round(seconds * 1000)
        kept = await self._store.write(
            lambda tx: [job for job in jobs if _set(tx, job, "due_ms = ?", end_ms)], lock="none"
        )
        return [replace(job, lease_end_ms=end_ms) for job in kept]

    async def complete(self, job: Job) -> None:
        """The job is done, for ever; refused if it was lost."""

        def write(tx: Transaction) -> None:
            check_lease(tx, job)
            _set(tx, job, "state = 'done'")

        await self._store.write(write, lock="none")

    async def release(self, job: Job) -> None:
        """Give a job back at once for other workers, because this worker stops."""

        def write(tx: Transaction) -> None:
            check_lease(tx, job)
            # A higher fence: what this worker still has under way for the job can no longer commit.
            _set(tx, job, "due_ms = ?, worker = NULL, fence = fence + 1", _AT_ONCE)

        await self._store.write(write, lock="none")


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase the jobs whose key is the study."""
    tx.run("DELETE FROM jobs WHERE job_key = ?", (study_id,))
    return 0


T = TypeVar("T")
Item = TypeVar("Item")


class FencedStore:
    """Every write first makes sure, in its own transaction, that the job was not given to another worker."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store = store
        self._job = job

    @property
    def generation(self) -> bytes:
        """The store's generation."""
        return self._store.generation

    async def write(self, function: Callable[[Transaction], T], *, lock: Lock = "alone") -> T:
        """Run `function` if the job is still held; refused as `lease_lost` if it is not."""

        def fenced(tx: Transaction) -> T:
            check_lease(tx, self._job)
            return function(tx)

        return await self._store.write(fenced, lock=lock)

    async def write_each(self, function: Each[Item, T], item: Item) -> T:
        """As a write of its own: a worker's writes for a job are few."""

        def alone(tx: Transaction) -> T:
            answer = function(tx, [item])[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return await self.write(alone)

    async def read(self, function: Callable[[Transaction], T], *, settled: bool = False) -> T:
        """Read."""
        return await self._store.read(function, settled=settled)

    async def scrub(self) -> None:
        """Scrub."""
        await self._store.scrub()

    def close(self) -> None:
        """Nothing: the store is its node's to close."""


_KIND = "drive"
_LEASE_SECONDS = 15.0
_CLOSED_SECONDS = 60.0


@dataclass
class _Driven:
    """A study that this worker drives, by which lease, and whether that was lost."""

    driver: BatchDriver
    job: Job
    seen: object = None
    """What the store said of it when its driver was last woken."""
    lost: asyncio.Event = field(default_factory=asyncio.Event)


NewDriver = Callable[[Study, Store], BatchDriver]


class Drivers:
    """The drivers of this worker, and an observer for each study others drive.

    A study that is open and at rest costs nothing: its driver sleeps until this worker is told of something (`look`), the
    store has something new of it that another worker wrote, or a right provider has news.
    """

    def __init__(self, node: NodeContext, spawn: Spawn, new: Mapping[str, NewDriver]) -> None:
        self._node = node
        self._spawn = spawn
        self._new_of_suite = new
        self._jobs = Jobs(node.database)
        self._worker = f"{node.config.name} {node.config.own_address}"
        self._observers: dict[bytes, BatchDriver] = {}
        self._driving: dict[bytes, _Driven] = {}
        self._news = News(node, spawn, self._tell)
        self._look = asyncio.Event()
        # Whether this worker, perhaps before a restart, left a study whose lease may still be its own.
        self._dropped = True
        node.studies.on_forget.append(lambda study_id: self._observers.pop(study_id, None))

    def _new(self, study: Study, store: Store) -> BatchDriver:
        return self._new_of_suite[study.suite.name](study, store)

    def _of(self, study: Study) -> BatchDriver:
        """The study's driver, or an observer if another worker drives it."""
        if study.id in self._driving:
            return self._driving[study.id].driver
        if study.id not in self._observers:
            self._observers[study.id] = self._new(study, self._node.database)
        return self._observers[study.id]

    def look(self, study_id: bytes) -> None:
        """Wake up: the study may have to be driven, or there is work for its driver."""
        self._look.set()
        self._tell(study_id)

    def _tell(self, study_id: bytes) -> None:
        if study_id in self._driving:
            self._driving[study_id].driver.wake.set()

    async def run(self) -> None:
        """Drive studies for as long as the node runs."""
        node = self._node
        self._spawn(self._look_after_closed(), "following up closed studies")
        self._spawn(self._keep(), "renewing leases")
        while True:
            try:
                await self._take_on()
                if node.config.own_address:
                    await self._see_others_work()
            except (Refused, StoreError) as error:
                # The store may be full or unreachable: studies must go on once it is back.
                node.log.warning("cannot look for studies to drive yet: %s", error)
            except Exception:
                node.log.exception("failed while looking for studies to drive")
            self._look.clear()
            # Alone with its store, a worker is told of all there is to do.
            seldom = 1 if node.config.own_address or self._dropped else SELDOM
            await set_within(self._look, seldom * node.config.poll_seconds)

    async def _look_after_closed(self) -> None:
        """Tell right providers restored from a backup of studies closed since: they may hold their rows again; and have
        erased what a provider that was away, or a restore of this collector, has left."""
        node = self._node
        while True:
            for study in node.studies.all():
                if node.studies.state(study.id) != "closed":
                    continue
                try:
                    await self._of(study).look_after_closed()
                except Refused as error:
                    node.log.warning("closed study=%s: %s", study.id.hex()[:12], error)
                except Exception:
                    node.log.exception("failed while following up closed study=%s", study.id.hex()[:12])
            await asyncio.sleep(_CLOSED_SECONDS)

    async def _take_on(self) -> None:
        node = self._node
        await node.studies.refresh()
        for study in node.studies.all():
            if node.studies.state(study.id) != "closed" and study.id not in self._driving:
                await self._jobs.enqueue(_KIND, study.id)
        if self._dropped:
            # Before the call: a study that is dropped meanwhile says so again.
            self._dropped = False
            try:
                await self._jobs.reclaim(_KIND, self._worker, node.clock.now_ms(), list(self._driving))
            except BaseException:
                self._dropped = True
                raise
        while await self._jobs.is_due(_KIND, node.clock.now_ms(), list(self._driving)):
            job = await self._jobs.lease(
                _KIND, self._worker, node.clock.now_ms(), _LEASE_SECONDS, list(self._driving)
            )
            if job is None:
                break
            study = node.studies.get(job.key)
            driven = _Driven(self._new(study, FencedStore(node.database, job)), job)
            self._driving[study.id] = driven
            self._spawn(self._drive(study, driven), f"driving study {study.id.hex()[:12]}")
            self._news.follow(study)

    async def _see_others_work(self) -> None:
        """Wake the drivers of studies that the owner has changed at another worker of this node."""
        calls_for_work = await self._node.database.read(work_by_study)
        for study_id, driven in list(self._driving.items()):
            seen = calls_for_work.get(study_id)
            if seen != driven.seen:
                driven.seen = seen
                driven.driver.wake.set()

    async def _drive(self, study: Study, driven: _Driven) -> None:
        node = self._node
        driving = asyncio.create_task(driven.driver.run())
        losing = asyncio.create_task(driven.lost.wait())
        try:
            await asyncio.wait((driving, losing), return_when=asyncio.FIRST_COMPLETED)
            if driving.done():
                driving.result()
                await self._jobs.complete(driven.job)
            else:
                node.log.warning("study=%s: another worker has it now", study.id.hex()[:12])
        except Refused as error:
            node.log.warning("study=%s is left to another worker: %s", study.id.hex()[:12], error)
        except asyncio.CancelledError:
            await self._hand_back(
                driven.job
            )  # this worker stops; another need not wait for the lease to run out
            raise
        finally:
            for task in (driving, losing):
                task.cancel()
            await asyncio.gather(driving, losing, return_exceptions=True)
            self._driving.pop(study.id, None)
            self._dropped = True  # unless another worker has it, it is due again at once
            self._look.set()

    async def _hand_back(self, job: Job) -> None:
        with contextlib.suppress(Refused):
            await self._jobs.release(job)

    async def _keep(self) -> None:
        """Renew all leases; a driver whose lease is lost ends."""
        node = self._node
        while True:
            await node.clock.sleep(_LEASE_SECONDS / 3)
            held = list(self._driving.values())
            if not held:
                continue
            try:
                kept = await self._jobs.renew([one.job for one in held], node.clock.now_ms(), _LEASE_SECONDS)
            except (Refused, StoreError) as error:
                node.log.warning("cannot renew leases yet: %s", error)
                continue
            names = {job.key for job in kept}
            for one in held:
                if one.job.key not in names:
                    one.lost.set()
