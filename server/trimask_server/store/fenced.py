"""A store that writes only while this worker holds the job's lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from trimask_server.store.interface import Each, Store, Transaction
from trimask_server.store.jobs import Job, check_lease

__all__ = ["FencedStore"]

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
