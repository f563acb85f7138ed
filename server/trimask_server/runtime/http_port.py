"""The HTTP port: /healthz, /readyz, /metrics, and on a collector the status pages. Plain HTTP, for loopback or a proxy.

What its callers may hold is bounded, because files are one number for the whole process: without a bound, connections that
send nothing here would leave none for devices and peers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from trimask_core.basics.errors import ConfigError
from trimask_server.runtime.metrics import Readiness

_IDLE_SECONDS = 30.0  # between requests, and for a request's head
_MOST_CONNECTIONS = 256
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
        self._server: asyncio.Server | None = None
        self._answering: set[object] = set()
        self.port = 0

    async def start(self, routes: list[web.RouteDef], *, shared: bool = False) -> None:
        """Listen on `http_listen`; workers of one node may share it; any of them answers."""
        application = web.Application(client_max_size=1 << 16, middlewares=[self._note])
        application.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                *routes,
            ]
        )
        # A slow reader of a page must not delay stopping: after two seconds its connection is closed.
        self._runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=2.0, keepalive_timeout=_IDLE_SECONDS
        )
        await self._runner.setup()
        host, _, port = self._address.rpartition(":")
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._connection, host.strip("[]"), int(port), reuse_port=shared or None, backlog=128
            )
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot listen on http_listen = {self._address!r}: {error}") from None
        self.port = int(self._server.sockets[0].getsockname()[1])

    def _connection(self) -> RequestHandler:
        """One more connection. Above the limit the oldest that is not being answered is closed, or the oldest of all."""
        assert self._runner is not None  # noqa: S101 - for the type checker
        server = self._runner.server
        assert server is not None  # noqa: S101 - for the type checker
        held = server.connections
        if len(held) >= _MOST_CONNECTIONS:
            next((one for one in held if one not in self._answering), held[0]).force_close()
        return server()

    @web.middleware
    async def _note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._answering.add(request.protocol)
        try:
            return await handler(request)
        finally:
            self._answering.discard(request.protocol)

    async def stop(self) -> None:
        """Close."""
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.json_response({"alive": True, "node": self._name, "role": self._role})

    async def _readyz(self, _: web.Request) -> web.Response:
        found = await self._ready()
        return web.json_response(found.to_dict(), status=200 if found.ready else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=await self._scrape(), headers={"Content-Type": _METRICS_TYPE})
