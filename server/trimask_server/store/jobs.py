"""Leased jobs: work that one worker at a time does, taken over by another when its worker is gone.

A worker leases a job for some seconds, renews the lease while it works, and completes or fails it. A lease that ran out
is given to the next worker that asks, with a higher fence. Time alone does not keep two workers apart (one may have been
suspended without noticing), so every transaction that writes for a job begins with `check_lease`: it fails for a worker
whose job was given to another, and keeps the job from being given away until the transaction has ended.

    job = await jobs.lease("study", worker, clock.now_ms(), seconds=30)

    def write(tx):
        check_lease(tx, job)
        ...

`FencedStore` writes only while this worker holds the job's lease.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TypeVar

from trimask_core.basics.clock import Backoff
from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import RandomSource, SystemRandom
from trimask_core.basics.refusals import Reason
from trimask_server.store.interface import Each, Store, Transaction

_PAUSES_MS = Backoff(first=1_000, longest=300_000, least=0.5)


@dataclass(frozen=True)
class Job:
    """A lease: who has the job, the number of the lease, and until when."""

    kind: str
    key: bytes
    worker: str
    attempt: int
    fence: int
    lease_end_ms: int


def add_job(tx: Transaction, kind: str, key: bytes, now_ms: int) -> bool:
    """Add a job inside a transaction; False if one of that kind and key was ever added."""
    return bool(
        tx.run(
            "INSERT INTO jobs (kind, job_key, state, attempts, fence, due_ms) VALUES (?, ?, 'waiting', 0, 0, ?)"
            " ON CONFLICT (kind, job_key) DO NOTHING",
            (kind, key, now_ms),
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

    def __init__(self, store: Store, source: RandomSource | None = None) -> None:
        self._store = store
        self._source = source or SystemRandom()

    async def enqueue(self, kind: str, key: bytes, now_ms: int) -> bool:
        """Add a job; False if one of that kind and key was ever added."""
        return await self._store.write(lambda tx: add_job(tx, kind, key, now_ms), exclusive=False)

    async def lease(
        self, kind: str, worker: str, now_ms: int, seconds: float, held: Collection[bytes] = ()
    ) -> Job | None:
        """The job of that kind that has been due longest, for `seconds`; None if none is due.

        Not those that this worker has already (`held`), even if their lease ran out: they are renewed, not begun again.
        """
        end_ms = now_ms + round(seconds * 1000)

        def write(tx: Transaction) -> Job | None:
            found = tx.row(
                "SELECT job_key, attempts, fence FROM jobs WHERE kind = ? AND state = 'waiting' AND due_ms <= ?"  # noqa: S608
                f"{_but(held)} ORDER BY due_ms, job_key LIMIT 1{tx.claim}",
                (kind, now_ms, *held),
            )
            if found is None:
                return None
            key, attempts, fence = found
            tx.run(
                "UPDATE jobs SET attempts = ?, fence = ?, worker = ?, due_ms = ? WHERE kind = ? AND job_key = ?",
                (attempts + 1, fence + 1, worker, end_ms, kind, key),
            )
            return Job(kind, key, worker, attempts + 1, fence + 1, end_ms)

        return await self._store.write(write, exclusive=False)

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
            exclusive=False,
        )

    async def renew(self, job: Job, now_ms: int, seconds: float) -> Job:
        """Keep a job for `seconds` from now; refused if it was lost. Also one whose lease ran out and nobody took."""
        end_ms = now_ms + round(seconds * 1000)

        def write(tx: Transaction) -> None:
            check_lease(tx, job)
            _set(tx, job, "due_ms = ?", end_ms)

        await self._store.write(write, exclusive=False)
        return replace(job, lease_end_ms=end_ms)

    async def complete(self, job: Job) -> None:
        """The job is done, for ever; refused if it was lost."""

        def write(tx: Transaction) -> None:
            check_lease(tx, job)
            _set(tx, job, "state = 'done'")

        await self._store.write(write, exclusive=False)

    async def fail(self, job: Job, now_ms: int) -> int:
        """Give a job back, to be tried again after a pause that doubles with every attempt; when that is."""
        return await self._give_back(job, now_ms + round(_PAUSES_MS.pause(job.attempt, self._source)))

    async def release(self, job: Job, now_ms: int) -> None:
        """Give a job back at once for other workers, because this worker stops."""
        await self._give_back(job, now_ms)

    async def _give_back(self, job: Job, due_ms: int) -> int:
        def write(tx: Transaction) -> int:
            check_lease(tx, job)
            # A higher fence: what this worker still has under way for the job can no longer commit.
            _set(tx, job, "due_ms = ?, worker = NULL, fence = fence + 1", due_ms)
            return due_ms

        return await self._store.write(write, exclusive=False)


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

    async def write(self, function: Callable[[Transaction], T], *, exclusive: bool = True) -> T:
        """Run `function` if the job is still held; refused as `lease_lost` if it is not."""

        def fenced(tx: Transaction) -> T:
            check_lease(tx, self._job)
            return function(tx)

        return await self._store.write(fenced, exclusive=exclusive)

    async def write_each(self, function: Each[Item, T], item: Item) -> T:
        """As a write of its own: a worker's writes for a job are few."""

        def alone(tx: Transaction) -> T:
            answer = function(tx, [item])[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return await self.write(alone)

    async def read(self, function: Callable[[Transaction], T]) -> T:
        """Read."""
        return await self._store.read(function)

    async def scrub(self) -> None:
        """Scrub."""
        await self._store.scrub()

    def close(self) -> None:
        """Nothing: the store is its node's to close."""
