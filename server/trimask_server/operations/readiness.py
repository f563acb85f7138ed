"""Whether a node can do its work now, in words; HTTP and gRPC health say the same."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from grpc_health.v1 import health, health_pb2

from trimask_server.operations.certificates import Certificates
from trimask_server.operations.drain import Drain
from trimask_server.store.interface import Store

__all__ = ["Health", "Readiness", "check_readiness"]

_STORE_SECONDS = 2.0
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@dataclass(frozen=True)
class Readiness:
    """Each check by name: whether it holds, and a sentence. `warnings` do not make a node unready."""

    checks: dict[str, tuple[bool, str]]
    warnings: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether every check holds."""
        return all(holds for holds, _ in self.checks.values())

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
    database: Store, drain: Drain, certificates: Certificates, now_ms: int, listening: int, wanted: int
) -> Readiness:
    """Ask the store and look at the rest. `listening` of `wanted` ports are open."""
    checks = {"store": await _store(database)}
    checks["draining"] = (not drain.on, "takes no new work" if drain.on else "no")
    checks["ports"] = (listening >= wanted, f"{listening} of {wanted} ports listen")
    days = certificates.days_left(now_ms)
    begun = certificates.begins_ms <= now_ms
    valid = begun and days > 0
    checks["certificate"] = (
        valid, f"expires in {days:.0f} days" if valid else "expired" if begun else "not valid yet",
    )  # fmt: skip
    warnings: tuple[str, ...] = ()
    if valid and certificates.expires_soon(now_ms):
        warnings = (f"the TLS certificate expires in {days:.1f} days; renew it, the node reloads it itself",)
    return Readiness(checks, warnings)


async def _store(database: Store) -> tuple[bool, str]:
    try:
        async with asyncio.timeout(_STORE_SECONDS):
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
