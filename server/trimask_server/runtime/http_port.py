"""The HTTP port: /healthz, /readyz, /metrics, and on a collector the status pages. Plain HTTP, for loopback or a proxy.

What its callers may hold is bounded, because files are one number for the whole process: without a bound, connections that
send nothing here would leave none for devices and peers.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from trimask_core.basics.errors import ConfigError, Refused
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.metrics import Readiness, free_bytes
from trimask_server.settings.config import VERSION
from trimask_server.store.interface import GroupedStore, StoreError, Transaction, count_states

_IDLE_SECONDS = 30.0  # between requests, and for a request's head
_MOST_CONNECTIONS = 256
_STORE_SECONDS = 2.0
_METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"


class HttpPort:
    """One aiohttp server. Roles may add routes before it starts."""

    def __init__(self, node: NodeContext, ready: Callable[[], Awaitable[Readiness]]) -> None:
        self._node = node
        self._ready = ready
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._answering: set[object] = set()
        self.port = 0

    async def start(self, routes: list[web.RouteDef]) -> None:
        """Listen on `http_listen`; workers of one node may share it; any of them answers."""
        config = self._node.config
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
        host, _, port = config.http_listen.rpartition(":")
        shared = bool(config.own_address) or None
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._connection, host.strip("[]"), int(port), reuse_port=shared, backlog=128
            )
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot listen on http_listen = {config.http_listen!r}: {error}") from None
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
        return web.json_response({"alive": True, "node": self._node.config.name, "role": self._node.role})

    async def _readyz(self, _: web.Request) -> web.Response:
        found = await self._ready()
        return web.json_response(found.to_dict(), status=200 if found.ready else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        text = await scrape(self._node, await self._ready())
        return web.Response(body=text, headers={"Content-Type": _METRICS_TYPE})


async def scrape(node: NodeContext, found: Readiness) -> bytes:
    """The text Prometheus reads. Rows and blocks are counted in the store, now; one that does not answer must not keep
    back the rest, which says so."""
    try:
        async with asyncio.timeout(_STORE_SECONDS):
            stored = await _of_store(node)
    except (Refused, StoreError, OSError):  # TimeoutError is an OSError
        stored = []
    read = CollectorRegistry()
    read.register(_Reading([*_of_memory(node, found), *stored]))
    return generate_latest(node.metrics.registry) + generate_latest(read)


class _Reading:
    """Values read once, in the form a registry wants."""

    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


def _of_memory(node: NodeContext, found: Readiness) -> list[Metric]:
    refusals = CounterMetricFamily(
        "trimask_refusals", "Refusals since the start, by reason.", labels=["reason"]
    )
    for reason, count in node.refusals.in_this_process().items():
        refusals.add_metric([reason], count)
    build = GaugeMetricFamily("trimask_build_info", "What runs here.", labels=["version", "python", "role"])
    build.add_metric([VERSION, platform.python_version(), node.role], 1)
    certificates = GaugeMetricFamily(
        "trimask_certificate_expiry_seconds", "Until a TLS certificate expires.", labels=["file"]
    )
    for file, ends_ms in node.certificates.ends_ms().items():
        certificates.add_metric([file], (ends_ms - node.clock.now_ms()) / 1000)
    return [
        refusals,
        build,
        certificates,
        GaugeMetricFamily(
            "trimask_free_bytes",
            "What can still be written on the disk of the node's data.",
            value=free_bytes(node.config.data),
        ),
        GaugeMetricFamily("trimask_ready", "1 while /readyz says ready.", value=int(found.ready)),
        GaugeMetricFamily(
            "trimask_store_queue_depth",
            "Writes waiting for the store.",
            value=node.database.depth if isinstance(node.database, GroupedStore) else 0,
        ),
        GaugeMetricFamily("trimask_draining", "1 while the node drains.", value=int(node.drain.on)),
    ]


async def _of_store(node: NodeContext) -> list[Metric]:
    blocks = GaugeMetricFamily("trimask_blocks", "Blocks, by state.", labels=["study", "state"])

    def read(tx: Transaction) -> tuple[list[tuple[bytes, str, int]], list[tuple[bytes, int]]]:
        held = (
            tx.rows(
                "SELECT study_id, count(*) FROM submissions WHERE block_id IS NULL AND payload IS NOT NULL"
                " GROUP BY study_id"
            )
            if node.role == "right"
            else []
        )
        return count_states(tx, "blocks"), [(row[0], row[1]) for row in held]

    counted, held = await node.database.read(read)
    for study_id, state, count in counted:
        blocks.add_metric([study_id.hex()[:12], state], count)
    if node.role != "right":
        return [blocks]
    pending = GaugeMetricFamily(
        "trimask_pending_rows", "Rows held that are in no block yet.", labels=["study"]
    )
    for study_id, rows in held:
        pending.add_metric([study_id.hex()[:12]], rows)
    return [blocks, pending]
