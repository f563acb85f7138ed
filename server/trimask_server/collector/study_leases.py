"""Which worker drives which study: each worker of the collector leases studies that have no driver and renews the leases.

A study's driver is a leased job. A worker that dies stops renewing, and another one goes on from the ledger; a worker
that was only suspended finds its writes refused, because the lease has a higher fence by then. A worker that starts again
under its own name takes back what it had at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_server.collector.driver import Driver
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.host import Spawn
from trimask_server.store.interface import Store, StoreError
from trimask_server.store.jobs import FencedStore, Job, Jobs

_KIND = "drive"
_LEASE_SECONDS = 15.0
_CLOSED_SECONDS = 60.0


class Drivers:
    """The drivers of this worker, and an observer for each study others drive."""

    def __init__(self, node: NodeContext, spawn: Spawn, new: Callable[[Study, Store], Driver]) -> None:
        self._node = node
        self._spawn = spawn
        self._new = new
        self._jobs = Jobs(node.database, node.source)
        self._worker = f"{node.config.name} {node.config.own_address}"
        self._observers: dict[bytes, Driver] = {}
        self._driving: dict[bytes, Driver] = {}
        self._look = asyncio.Event()
        # Whether this worker, perhaps before a restart, left a study whose lease may still be its own.
        self._dropped = True
        node.studies.on_forget.append(lambda study_id: self._observers.pop(study_id, None))

    def _of(self, study: Study) -> Driver:
        """The study's driver, or an observer if another worker drives it."""
        if study.id in self._driving:
            return self._driving[study.id]
        if study.id not in self._observers:
            self._observers[study.id] = self._new(study, self._node.database)
        return self._observers[study.id]

    def look(self) -> None:
        """Wake up: there may be a study to drive, or work for a driver."""
        self._look.set()
        for driver in self._driving.values():
            driver.wake.set()

    async def run(self) -> None:
        """Drive studies for as long as the node runs."""
        node = self._node
        self._spawn(self._look_after_closed(), "following up closed studies")
        while True:
            try:
                await self._take_on()
            except (Refused, StoreError) as error:
                # The store may be full or unreachable: studies must go on once it is back.
                node.log.warning("cannot look for studies to drive yet: %s", error)
            except Exception:
                node.log.exception("failed while looking for studies to drive")
            self._look.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), node.config.poll_seconds)

    async def _look_after_closed(self) -> None:
        """Tell right providers restored from a backup of studies closed since: they may hold their rows again."""
        node = self._node
        while True:
            for study in node.studies.all():
                if node.studies.state(study.id) != "closed":
                    continue
                try:
                    await self._of(study).handle_restores()
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
                await self._jobs.enqueue(_KIND, study.id, node.clock.now_ms())
        if self._dropped:
            await self._take_back()
        while job := await self._jobs.lease(
            _KIND, self._worker, node.clock.now_ms(), _LEASE_SECONDS, list(self._driving)
        ):
            study = node.studies.get(job.key)
            self._driving[study.id] = self._new(study, FencedStore(node.database, job))
            self._spawn(self._drive(study, job), f"driving study {study.id.hex()[:12]}")

    async def _take_back(self) -> None:
        self._dropped = False
        try:
            await self._jobs.reclaim(_KIND, self._worker, self._node.clock.now_ms(), list(self._driving))
        except BaseException:
            self._dropped = True
            raise

    async def _drive(self, study: Study, job: Job) -> None:
        node = self._node
        driving = asyncio.create_task(self._driving[study.id].run())
        keeping = asyncio.create_task(self._keep(job))
        try:
            await asyncio.wait((driving, keeping), return_when=asyncio.FIRST_COMPLETED)
            if driving.done():
                driving.result()
                await self._jobs.complete(job)
            else:
                keeping.result()
        except Refused as error:
            node.log.warning("study=%s is left to another worker: %s", study.id.hex()[:12], error)
        except asyncio.CancelledError:
            await self._hand_back(job)  # this worker stops; another need not wait for the lease to run out
            raise
        finally:
            for task in (driving, keeping):
                task.cancel()
            await asyncio.gather(driving, keeping, return_exceptions=True)
            self._driving.pop(study.id, None)
            self._dropped = True  # unless another worker has it, it is due again at once

    async def _hand_back(self, job: Job) -> None:
        with contextlib.suppress(Refused):
            await self._jobs.release(job, self._node.clock.now_ms())

    async def _keep(self, job: Job) -> None:
        """Renew the lease; `Refused` once it is lost."""
        node = self._node
        while True:
            await node.clock.sleep(_LEASE_SECONDS / 3)
            try:
                job = await self._jobs.renew(job, node.clock.now_ms(), _LEASE_SECONDS)
            except (Refused, StoreError) as error:
                if isinstance(error, Refused) and error.reason is Reason.LEASE_LOST:
                    raise
                node.log.warning("cannot renew a lease yet study=%s why=%s", job.key.hex()[:12], error)
