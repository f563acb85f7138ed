"""A limit on the connections of the HTTPS port: aiohttp has none of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from trimask_core.refusals import Reason
from trimask_server.operations.addresses import Addresses, Shares
from trimask_server.operations.connect import peer_of
from trimask_server.operations.refusal_counts import Refusals

__all__ = ["BoundedConnections"]

_MOST_CONNECTIONS = 128  # each may hold half a MiB, most of it in the TLS library


class BoundedConnections(web.Server):
    """A server with so many connections, shared out by address (`operations.addresses.Shares`).

    The one to lose its place is the one that has kept this server waiting for longest, for a request or for the rest of
    one; what is being answered comes last.
    """

    def __init__(self, handler: Any, refusals: Refusals, addresses: Addresses, **settings: Any) -> None:
        super().__init__(handler, **settings)
        self._refusals = refusals
        self._addresses = addresses
        self._transports: dict[RequestHandler, asyncio.Transport] = {}
        self.places: Shares[RequestHandler] = Shares(_MOST_CONNECTIONS)
        self.reading: set[RequestHandler] = set()

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._transports[handler] = transport
        loses = self.places.enter(handler, self._addresses.of(peer_of(transport.get_extra_info("peername"))))
        if loses is not None:
            if loses in self.reading:
                self._refusals.count(Reason.OVERLOADED)
            held = self._transports[loses]
            self._forget(loses)
            held.abort()  # abort, because a client that sends half a message would not answer a TLS goodbye either
            loses.force_close()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._forget(handler)
        super().connection_lost(handler, exc)

    def _forget(self, handler: RequestHandler) -> None:
        self._transports.pop(handler, None)
        self.places.leave(handler)
        self.reading.discard(handler)
