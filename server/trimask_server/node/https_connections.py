"""A limit on the connections of the HTTPS port: aiohttp has none of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from trimask_core.refusals import Reason
from trimask_server.operations.refusal_counts import Refusals

__all__ = ["BoundedConnections"]

_MOST_CONNECTIONS = 128  # each may hold half a MiB, most of it in the TLS library


class BoundedConnections(web.Server):
    """A server with at most so many connections.

    Above the limit it closes the one idle for longest; if none is idle, the one whose message has been arriving for
    longest; the new one only if all others are being answered.
    """

    def __init__(self, handler: Any, refusals: Refusals, **settings: Any) -> None:
        super().__init__(handler, **settings)
        self._refusals = refusals
        self.open: dict[RequestHandler, asyncio.Transport] = {}
        self.waiting: dict[RequestHandler, None] = {}
        self.reading: dict[RequestHandler, None] = {}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self.open[handler], self.waiting[handler] = transport, None
        if len(self.open) > _MOST_CONNECTIONS:
            idle = next(iter(self.waiting))  # the new one, if no other waits
            loses = next(iter(self.reading), idle) if idle is handler else idle
            if loses in self.reading:
                self._refusals.count(Reason.OVERLOADED)
            held = self.open[loses]
            self._forget(loses)
            held.abort()  # abort, because a client that sends half a message would not answer a TLS goodbye either
            loses.force_close()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._forget(handler)
        super().connection_lost(handler, exc)

    def _forget(self, handler: RequestHandler) -> None:
        self.open.pop(handler, None)
        self.waiting.pop(handler, None)
        self.reading.pop(handler, None)
