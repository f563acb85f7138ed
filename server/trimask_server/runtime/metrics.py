"""Prometheus metrics of one node. Several nodes may share a process, so nothing here is global.

No label carries anything about a person: rpc names, status words, refusal words, states, and the first digits of a study id.

Counts of every refusal by reason, kept across restarts.

Whether a node can do its work now, in words; HTTP and gRPC health say the same.

A node that is about to stop drains: it accepts no new work. Telling one worker of the node tells all of them. A device
whose submission was acknowledged has it on disk, for acknowledging comes after the commit; what is refused while draining
is sent again by the device.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpc_health.v1 import health, health_pb2
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from trimask_core.basics.clock import Clock
from trimask_core.basics.errors import TrimaskError
from trimask_core.basics.randomness import RandomSource
from trimask_proto.v1 import common_pb2
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.tls import Certificates
from trimask_server.store.interface import Store, StoreError, Transaction

_LOOK_SECONDS = 1.0
_FACT = "draining"
_UP = "worker up "
_UP_SECONDS, _GONE_SECONDS = 5.0, 15.0


@dataclass
class Drain:
    """Whether this process drains. `address`: its own, if the node has other workers on the same store, who are told that it
    is up for as long as it takes work. Ends with the process."""

    database: Store
    audit: AuditLog
    clock: Clock
    source: RandomSource
    log: logging.Logger
    address: str = ""
    on: bool = field(default=False, init=False)

    async def begin(self) -> None:
        """Take no new submissions and no new attempts, and finish what runs."""
        if not self.on:
            self.on = True
            await self.audit.record("drain_begun")
            self.log.info("draining: takes no new work")

    async def end(self) -> None:
        """Take new work again."""
        if self.on:
            self.on = False
            await self.audit.record("drain_ended")
            self.log.info("takes new work again")

    async def tell_all(self, *, resume: bool) -> None:
        """Drain every worker of the node, or have all accept work again; when this returns they do.

        Draining ends with the process: a worker that starts afterwards accepts work.
        """
        await (self.end() if resume else self.begin())
        if not self.address:
            return
        # A fresh value each time, so that each worker sees that it changed.
        word = b"" if resume else self.source.read(16)
        await self.database.write(lambda tx: _write(tx, word))
        await self.clock.sleep(2 * _LOOK_SECONDS)

    async def follow_others(self) -> None:
        """Follow another worker of the node that was told to drain, or to stop draining; and say that this one is up."""
        seen = await self.database.read(_read)  # written before this process started: not meant for it
        said_ms, said_on = 0, True
        while True:
            try:
                now_ms = self.clock.now_ms()
                if self.on != said_on or not 0 <= now_ms - said_ms < 1000 * _UP_SECONDS:
                    said_ms, said_on = now_ms, self.on
                    await self._say_up(0 if self.on else now_ms)
                await self.clock.sleep(_LOOK_SECONDS)
                word = await self.database.read(_read)
            except (TrimaskError, StoreError) as error:
                self.log.warning("cannot see yet whether this node drains: %s", error)
                continue
            if word != seen:
                seen, self.on = word, bool(word)
                self.log.info("draining, as another worker was told" if word else "takes new work again")

    async def _say_up(self, now_ms: int) -> None:
        await self.database.write(lambda tx: _write(tx, now_ms.to_bytes(8, "big"), _UP + self.address))

    async def workers_up(self) -> list[str]:
        """The addresses of this node's workers that take work, as each has said in the last seconds; none if it has one."""
        if not self.address:
            return []
        rows = await self.database.read(
            lambda tx: tx.rows("SELECT name, value FROM store_facts WHERE name LIKE ?", (f"{_UP}%",))
        )
        now_ms, up = (
            self.clock.now_ms(),
            {name.removeprefix(_UP): int.from_bytes(said, "big") for name, said in rows},
        )
        return sorted(address for address, ms in up.items() if abs(now_ms - ms) < 1000 * _GONE_SECONDS)


def _write(tx: Transaction, word: bytes, name: str = _FACT) -> None:
    tx.run(
        "INSERT INTO store_facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, word),
    )


def _read(tx: Transaction) -> bytes:
    found = tx.row("SELECT value FROM store_facts WHERE name = ?", (_FACT,))
    return b"" if found is None else bytes(found[0])


Check = tuple[bool, str]
_READ_SECONDS = 2.0
_WRITE_SECONDS = 10.0  # a busy store may take a while, and is ready all the same
LOW_BYTES = 1 << 30  # below this an operator is warned
_LEAST_BYTES = 32 << 20  # what SQLite's write-ahead log may take before it is emptied
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@dataclass(frozen=True)
class Readiness:
    """Each check by name: whether it holds, and a sentence. `warnings` do not make a node unready."""

    checks: dict[str, Check]
    warnings: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether every check holds."""
        return all(holds for holds, _ in self.checks.values())

    @property
    def wrong(self) -> str:
        """What does not hold and is nobody's wish, in words."""
        return "; ".join(
            f"{name} {said}"
            for name, (holds, said) in self.checks.items()
            if not holds and name != "draining"
        )

    def to_dict(self) -> dict[str, Any]:
        """For /readyz."""
        return {
            "ready": self.ready,
            "checks": {
                name: {"ok": holds, "detail": detail} for name, (holds, detail) in self.checks.items()
            },
            "warnings": list(self.warnings),
        }


async def check_readiness(
    database: Store,
    written: Check,
    data: Path,
    drain: Drain,
    certificates: Certificates,
    now_ms: int,
    listening: int,
    wanted: int,
) -> Readiness:
    """Ask the store and look at the rest. `written` is how the last write went, `data` the folder whose disk must have
    room; `listening` of `wanted` ports are open."""
    checks = {"store": await _try_read(database) if written[0] else written}
    free = free_bytes(data)
    checks["disk"] = (free >= _LEAST_BYTES, f"has {free >> 20:,} MiB left")
    warnings = []
    if _LEAST_BYTES <= free < LOW_BYTES:
        warnings.append(f"the disk of {data} has {free >> 20:,} MiB left; make room: a full one stops intake")
    checks["draining"] = (not drain.on, "takes no new work" if drain.on else "no")
    checks["ports"] = (listening >= wanted, f"{listening} of {wanted} ports listen")
    days = certificates.days_left(now_ms)
    begun = certificates.begins_ms <= now_ms
    valid = begun and days > 0
    checks["certificate"] = (
        valid, f"expires in {days:.0f} days" if valid else "expired" if begun else "not valid yet",
    )  # fmt: skip
    if valid and certificates.expires_soon(now_ms):
        warnings.append(
            f"the TLS certificate expires in {days:.1f} days; renew it, the node reloads it itself"
        )
    return Readiness(checks, tuple(warnings))


def free_bytes(folder: Path) -> int:
    """What this user may still write on the disk of a folder; 0 if the folder is gone."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


async def try_write(database: Store, now_ms: int) -> Check:
    """Write something small: a full or failing disk can still be read."""
    try:
        async with asyncio.timeout(_WRITE_SECONDS):
            await database.write(lambda tx: _write(tx, now_ms.to_bytes(8, "big"), "written"))
    except TimeoutError:
        return False, f"cannot be written: no answer within {_WRITE_SECONDS:.0f} seconds"
    except Exception as error:  # noqa: BLE001 - whatever it is, the store takes nothing
        return False, f"cannot be written: {error}"
    return True, "answers"


async def _try_read(database: Store) -> Check:
    try:
        async with asyncio.timeout(_READ_SECONDS):
            await database.read(lambda tx: tx.row("SELECT 1"))
    except Exception as error:  # noqa: BLE001 - whatever it is, the store does not answer
        return False, f"does not answer ({type(error).__name__})"
    return True, "answers"


class Health:
    """The gRPC health services of a node's ports, moved together."""

    def __init__(self) -> None:
        self._services: list[tuple[health.aio.HealthServicer, tuple[str, ...]]] = []
        self._serving = True

    async def add(self, servicer: health.aio.HealthServicer, names: tuple[str, ...]) -> None:
        """A port's health service and what it speaks for."""
        self._services.append((servicer, names))
        await self._tell(servicer, names)

    async def set(self, *, serving: bool) -> None:
        """Tell everybody who watches."""
        if serving != self._serving:
            self._serving = serving
            for servicer, names in self._services:
                await self._tell(servicer, names)

    async def _tell(self, servicer: health.aio.HealthServicer, names: tuple[str, ...]) -> None:
        for name in names:
            await servicer.set(name, _SERVING if self._serving else _NOT_SERVING)


_ID_BYTES = 32
_MOST_STUDIES = 1000


class Refusals:
    """In memory, written to the store when the node asks (so that a flood of bad requests costs no disk writes)."""

    def __init__(self, stored: dict[str, int]) -> None:
        self._stored = collections.Counter(stored)  # of all workers of the node
        self._unsaved: collections.Counter[str] = collections.Counter()
        self._saving: collections.Counter[str] = collections.Counter()
        self._here: collections.Counter[str] = collections.Counter()
        self._studies: dict[bytes, collections.Counter[str]] = {}

    @classmethod
    async def load(cls, database: Store) -> Refusals:
        """The counts so far."""
        return cls(await database.read(_read_counts))

    async def refresh(self, database: Store) -> None:
        """Read again what all workers of the node have saved. Counts only grow: a save may overtake the read."""
        self._stored |= collections.Counter(await database.read(_read_counts))

    def count(self, reason: str, study_id: bytes = b"") -> None:
        """One more refusal, or one more of what is counted beside them (`trimask_core.basics.refusals`)."""
        text = str(reason)  # as plain text: this goes into the store
        self._unsaved[text] += 1
        self._here[text] += 1
        # Bounded: callers that name unknown studies must not fill the memory.
        if len(study_id) == _ID_BYTES and (study_id in self._studies or len(self._studies) < _MOST_STUDIES):
            self._studies.setdefault(study_id, collections.Counter())[text] += 1

    def of_study(self, study_id: bytes) -> list[common_pb2.RefusalCount]:
        """A study's own, by reason, since this process began."""
        found = self._studies.get(study_id, collections.Counter())
        return [
            common_pb2.RefusalCount(reason=reason, count=count) for reason, count in sorted(found.items())
        ]

    def as_dict(self) -> dict[str, int]:
        """Counts by reason: the node's, whatever its workers have saved."""
        return dict(sorted((self._stored + self._saving + self._unsaved).items()))

    def in_this_process(self) -> dict[str, int]:
        """Counts by reason since this process began."""
        return dict(sorted(self._here.items()))

    def as_messages(self) -> list[common_pb2.RefusalCount]:
        """Counts by reason, for the wire."""
        return [
            common_pb2.RefusalCount(reason=reason, count=count) for reason, count in self.as_dict().items()
        ]

    async def save(self, database: Store, audit: AuditLog | None = None) -> None:
        """Write what changed since the last save, and one entry in the audit log for all of it."""
        if not self._unsaved:
            return
        changed, self._unsaved = self._unsaved, collections.Counter()
        self._saving += changed

        def write(tx: Transaction) -> dict[str, int]:
            add_counts(tx, changed)
            if audit is not None:
                audit.append(tx, "requests_refused", counts=dict(sorted(changed.items())))
            return _read_counts(tx)

        try:
            self._stored = collections.Counter(await database.write(write))
        except Exception:
            self._unsaved += changed  # to be written when the store is back
            raise
        finally:
            self._saving -= changed


def add_counts(tx: Transaction, counts: Mapping[str, int]) -> None:
    """Count in the store itself, where a count belongs to what is written with it; `Refusals.refresh` reads it."""
    for reason, count in counts.items():
        tx.run(
            "INSERT INTO refusals (reason, count) VALUES (?, ?)"
            " ON CONFLICT (reason) DO UPDATE SET count = refusals.count + excluded.count",
            (reason, count),
        )


def _read_counts(tx: Transaction) -> dict[str, int]:
    return {row[0]: row[1] for row in tx.rows("SELECT reason, count FROM refusals")}


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_GROUPS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters that are moved as things happen; `http_port` adds what is read from the node when it is scraped."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("trimask_requests", "Calls answered.", "rpc", "status")
        self.request_seconds = self._histogram(
            "trimask_request_seconds", "From a call's arrival to its answer.", _SECONDS, "rpc"
        )
        self.under_way = Gauge(
            "trimask_requests_under_way", "Calls being answered now.", registry=self.registry
        )
        self.peer_calls = self._counter(
            "trimask_peer_calls", "Calls to other nodes, by outcome.", "rpc", "outcome"
        )
        self.attempts = self._counter(
            "trimask_attempts", "This node's shares of attempts at blocks, by outcome.", "outcome"
        )
        self.erased_rows = self._counter("trimask_erased_rows", "Rows erased, by why.", "why")
        self.collected_studies = self._counter("trimask_collected_studies", "Closed studies forgotten.")
        self.reloads = self._counter("trimask_reloads", "Reloads of key files, by outcome.", "outcome")
        self.store_group = self._histogram("trimask_store_group_size", "Writes in one commit.", _GROUPS)
        self.store_seconds = self._histogram("trimask_store_commit_seconds", "A group's commit.", _SECONDS)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(name, what, labels, registry=self.registry)

    def _histogram(self, name: str, what: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, what, labels, buckets=buckets, registry=self.registry)

    def observe_commit(self, writes: int, seconds: float) -> None:
        """What the store's writer calls after each group, from its own thread."""
        self.store_group.observe(writes)
        self.store_seconds.observe(seconds)
