"""The nodes as processes: started from what is on disk, killed, started again with empty memory."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimask_core.basics.randomness import DeterministicRandom
from trimask_server.collector.publication import place_files
from trimask_server.local.cluster import node_of, role_of
from trimask_server.programs.roles import Node, assemble
from trimask_server.right.sealing_keys import RingKey, SealingRing
from trimask_server.runtime.context import NodeKeys, Workers, make_context
from trimask_server.runtime.host import Host
from trimask_server.settings.config import NodeConfig
from trimask_server.store.data_keys import KeyRing
from trimask_server.store.database import COLLECTOR, PROVIDER
from trimask_server.store.interface import StoreError
from trimask_server.suites.moments.deliveries import Deliveries
from trimask_simulation.disk import DiskState, SimulatedDatabase
from trimask_simulation.faults import Faults
from trimask_simulation.loop import Process, VirtualLoop
from trimask_simulation.network import WORKER_PORT, Endpoint, Network, SimulatedPeers
from trimask_simulation.people import Keys
from trimask_simulation.trace import Trace, TraceHandler

__all__ = ["PEER_PORT", "PUBLIC_PORT", "Party", "SkewedClock", "storage_ring"]

PUBLIC_PORT, PEER_PORT = 1, 2
EPOCH_MS = 1_800_000_000_000
_WRITING = (place_files, Deliveries._write_down)  # what writes files beside the store


def storage_ring(name: str) -> KeyRing:
    """A party's master key, which is no part of its database and outlives its processes."""
    return KeyRing.generate(DeterministicRandom(f"storage {name}"))


class SkewedClock:
    """A party's own idea of the time: virtual time, off by so much."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew_seconds: float) -> None:
        self._loop = loop
        self.skew_seconds = skew_seconds

    def now_ms(self) -> int:
        return EPOCH_MS + round((self._loop.time() + self.skew_seconds) * 1000)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _InlineWorkers(Workers):
    """Linear algebra at once, and virtual time around it in which anything can happen."""

    def __init__(self, state: DiskState, delay: random.Random) -> None:
        self._state = state
        self._delay = delay

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(self._delay.uniform(0.0, 0.2))
        if self._state.full and getattr(function, "__func__", function) in _WRITING:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        result = function(*args, **kwargs)
        await asyncio.sleep(self._delay.uniform(0.0, 0.2))
        return result

    def close(self) -> None:
        """There are no threads."""


@dataclass
class Party:
    """A node, or a worker of one (R1#2), whatever process runs it at the moment."""

    name: str
    tls_name: str
    keys: Keys
    folder: Path
    loop: VirtualLoop
    network: Network
    trace: Trace
    faults: Faults
    seed: int
    after_commit: Callable[[str, sqlite3.Connection], None]
    max_attempts: int = 30
    beside: Party | None = None  # the first worker of this node, with which it shares the disk
    shared: bool = False  # the node has several workers
    number: int = 0
    process: Process | None = None
    node: Node | None = None
    disk: DiskState = field(init=False)
    clock: SkewedClock = field(init=False)

    def __post_init__(self) -> None:
        self.disk = DiskState(self.folder) if self.beside is None else self.beside.disk
        skew = random.Random(f"skew {self.name} {self.seed}")
        self.clock = SkewedClock(self.loop, skew.choice((0.0, skew.uniform(-300, 300))))

    @property
    def database_path(self) -> Path:
        return self.folder / f"{role_of(self.name)}.sqlite3"

    def start(self) -> None:
        """A new process on the old disk."""
        self.number += 1
        self.process = Process(self.name, self.number)
        self.trace.event(str(self.process), "starts")
        self.loop.begin(self.process, self._begin(self.process))

    async def _begin(self, process: Process) -> None:
        try:
            await self._run(process)
        except (
            sqlite3.Error,
            StoreError,
        ) as error:  # a program that cannot start ends, and is started again later
            self.trace.event(str(process), f"cannot start: {error}")
            self.kill(process)

    async def _run(self, process: Process) -> None:
        delay = random.Random(f"delays {self.name} {self.number} {self.seed}")
        await asyncio.sleep(delay.uniform(0.05, 1.0))
        role, name = role_of(self.name), node_of(self.name)
        database = SimulatedDatabase(
            process, self.disk, self.database_path.name, COLLECTOR if role == "collector" else PROVIDER,
            loop=self.loop, trace=self.trace, faults=self.faults, delay=delay, kill=self.kill,
            after_commit=lambda connection: self.after_commit(name, connection), node=name, shared=self.shared,
        )  # fmt: skip
        context = make_context(
            role,
            NodeConfig(
                name=name, data=self.folder, keys=self.folder, peer_listen="", poll_seconds=1.0,
                worker_listen=f"{self.name}:{WORKER_PORT}" if self.shared else "",
                attempt_timeout_seconds=30.0, max_attempts=self.max_attempts, owner_tls_name="owner",
                rate_limit_per_second=0.0,
            ),
            keys=NodeKeys(
                self.keys.identity, b"", b"", b"", moments=self.keys.moments, storage=storage_ring(name)
            ),
            clock=self.clock,
            source=DeterministicRandom(f"{self.name} {self.number} {self.seed}"),
            database=database,
            peers=SimulatedPeers(self.network, self.name, self.tls_name),
            workers=_InlineWorkers(self.disk, delay),
        )  # fmt: skip
        context.log.handlers = [TraceHandler(self.trace)]
        host = Host(context)
        await host.load()
        node = assemble(
            host, None if self.keys.sealing is None else SealingRing([RingKey(self.keys.sealing)])
        )
        services = node.services
        await host.record_start(services.key_names)
        peer = Endpoint(context, services.peer, services.gate(mutual=True), public=False)
        public = Endpoint(context, services.public, services.gate(mutual=False), public=True)
        self.network.up(process, {PUBLIC_PORT: public, PEER_PORT: peer, WORKER_PORT: peer})
        host.begin()
        await database.scrub()
        services.begin()
        self.node = node
        self.trace.event(str(process), "is up")

    def kill(self, process: Process | None = None) -> None:
        """kill -9."""
        process = process or self.process
        if process is None or not process.alive:
            return
        process.alive = False
        self.trace.event(str(process), "is dead")
        for then in process.on_death:
            then()
        if process is self.process:
            self.process = self.node = None
