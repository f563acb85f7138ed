"""The HTTP port: /healthz, /readyz, /metrics, and on a collector the status pages. Plain HTTP, for loopback or a proxy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from trimask_core.errors import ConfigError
from trimask_server.operations.readiness import Readiness

__all__ = ["HttpPort"]

_METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"


class HttpPort:
    """One aiohttp server. Roles may add routes before it starts."""

    def __init__(
        self,
        name: str,
        role: str,
        address: str,
        ready: Callable[[], Awaitable[Readiness]],
        scrape: Callable[[], Awaitable[bytes]],
    ) -> None:
        self._name = name
        self._role = role
        self._address = address
        self._ready = ready
        self._scrape = scrape
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, routes: list[web.RouteDef], *, shared: bool = False) -> None:
        """Listen on `http_listen`; workers of one node may share it; any of them answers."""
        application = web.Application(client_max_size=1 << 16)
        application.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                *routes,
            ]
        )
        # A slow reader of a page must not delay stopping: after two seconds its connection is closed.
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=2.0)
        await self._runner.setup()
        host, _, port = self._address.rpartition(":")
        try:
            site = web.TCPSite(self._runner, host.strip("[]"), int(port), reuse_port=shared or None)
            await site.start()
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot listen on http_listen = {self._address!r}: {error}") from None
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.json_response({"alive": True, "node": self._name, "role": self._role})

    async def _readyz(self, _: web.Request) -> web.Response:
        found = await self._ready()
        return web.json_response(found.to_dict(), status=200 if found.ready else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=await self._scrape(), headers={"Content-Type": _METRICS_TYPE})
