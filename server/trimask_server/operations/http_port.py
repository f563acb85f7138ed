"""The HTTP port: /healthz, /readyz, /metrics, and on a collector the status pages. Plain HTTP, for loopback or a proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from trimask_core.errors import ConfigError
from trimask_server.operations.readiness import check_readiness

if TYPE_CHECKING:
    from trimask_server.node.node import Node

__all__ = ["HttpPort"]

_METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"


class HttpPort:
    """One aiohttp server. Roles may add routes before it starts."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, routes: list[web.RouteDef]) -> None:
        """Listen on `http_listen`."""
        application = web.Application(client_max_size=1 << 16)
        application.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                *routes,
            ]
        )
        # A slow reader of a page must not hold up a stop: two seconds, then its connection is closed.
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=2.0)
        await self._runner.setup()
        host, _, port = self._node.config.http_listen.rpartition(":")
        try:
            site = web.TCPSite(self._runner, host.strip("[]"), int(port))
            await site.start()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"cannot listen on http_listen = {self._node.config.http_listen!r}: {error}"
            ) from None
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.json_response({"alive": True, "node": self._node.config.name, "role": self._node.role})

    async def _readyz(self, _: web.Request) -> web.Response:
        found = await check_readiness(self._node)
        return web.json_response(found.to_dict(), status=200 if found.ready else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        body = await self._node.metrics.render(self._node)
        return web.Response(body=body, headers={"Content-Type": _METRICS_TYPE})
