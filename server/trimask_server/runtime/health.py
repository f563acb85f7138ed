"""Whether a node can do its work now, in words; HTTP and gRPC health say the same.

A node that is about to stop drains: it accepts no new work. Telling one worker of the node tells all of them. A device
whose submission was acknowledged has it on disk, for acknowledging comes after the commit; what is refused while draining
is sent again by the device.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpc_health.v1 import health, health_pb2

from trimask_core.basics.clock import Clock
from trimask_core.basics.errors import TrimaskError
from trimask_core.basics.randomness import RandomSource
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.tls import Certificates
from trimask_server.store.interface import Store, StoreError, Transaction

_LOOK_SECONDS = 1.0
_FACT = "draining"


@dataclass
class Drain:
    """Whether this process drains. `shared`: the node has other workers on the same store. Ends with the process."""

    database: Store
    audit: AuditLog
    clock: Clock
    source: RandomSource
    log: logging.Logger
    shared: bool = False
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
        if not self.shared:
            return
        # A fresh value each time, so that each worker sees that it changed.
        word = b"" if resume else self.source.read(16)
        await self.database.write(lambda tx: _write(tx, word))
        await self.clock.sleep(2 * _LOOK_SECONDS)

    async def follow_others(self) -> None:
        """Follow another worker of the node that was told to drain, or to stop draining."""
        seen = await self.database.read(_read)  # written before this process started: not meant for it
        while True:
            await self.clock.sleep(_LOOK_SECONDS)
            try:
                word = await self.database.read(_read)
            except (TrimaskError, StoreError) as error:
                self.log.warning("cannot see yet whether this node drains: %s", error)
                continue
            if word != seen:
                seen, self.on = word, bool(word)
                self.log.info("draining, as another worker was told" if word else "takes new work again")


def _write(tx: Transaction, word: bytes) -> None:
    tx.run(
        "INSERT INTO store_facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (_FACT, word),
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
    fact = ("written", now_ms.to_bytes(8, "big"))
    sql = "INSERT INTO store_facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    try:
        async with asyncio.timeout(_WRITE_SECONDS):
            await database.write(lambda tx: tx.run(sql, fact))
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
