"""Messages on their way in: how many an address may begin, how many there are at once on a port, how long one may take.

gRPC holds an unfinished message in memory, up to the size its port takes (`limits.server_options`), for as long as the
connection lives. Here a call is answered as one that streams a single message, so that its handler runs before the message
is whole and the call can be ended. A port has a fixed number of places, shared out by address (`addresses.Shares`): when
all are taken, the address with most unfinished messages loses the one that has been arriving for longest. An honest message
takes a moment, a stalled one grows old.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import grpc

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_server.operations.addresses import Addresses, Shares, TokenBuckets
from trimask_server.operations.guard import status_of, trailers_of
from trimask_server.operations.refusal_counts import Refusals

__all__ = ["Arrivals", "Unread"]

_AGAIN_MS = 1000
_NO_PLACE = "as many messages are on their way to this node as it can hold; try again in a moment"


class Unread:
    """A request that was not read or not parsed, and why; `limits` raises it inside the guard, which counts it."""

    __slots__ = ("refusal",)

    def __init__(self, refusal: Refused) -> None:
        self.refusal = refusal


class Arrivals:
    """The places of one port: `most` unfinished messages, `seconds` for each; `buckets` say who may begin one.

    Without `buckets` anybody may; without `addresses` there is no proxy.
    """

    def __init__(
        self,
        most: int,
        seconds: float,
        refusals: Refusals,
        buckets: TokenBuckets | None = None,
        addresses: Addresses | None = None,
    ) -> None:
        self._places: Shares[Any] = Shares(most)
        self._seconds = seconds
        self._refusals = refusals
        self._buckets = buckets
        self._addresses = addresses or Addresses()
        self._arriving: dict[Any, float] = {}  # since when, oldest first
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def wrap(self, _method: str, handler: Any) -> Any:
        """A unary handler as one whose message is read here. Callers see no difference."""
        whole = handler.unary_unary

        async def read_first(_: Any, context: Any) -> Any:
            try:
                self.charge(context)
            except Refused as error:
                return await whole(Unread(error), context)
            self.enter(context)
            try:
                message = await context.read()
            finally:
                self.leave(context)
            if message is grpc.aio.EOF:  # also after a message that announces more than the port takes
                text = "there was no message, or one larger than this port takes"
                message = Unread(Refused(Reason.OVERSIZED_MESSAGE, text))
            return await whole(message, context)

        return grpc.stream_unary_rpc_method_handler(
            read_first,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def charge(self, context: Any) -> None:
        """Take a call from its address's bucket when it begins, so that what never ends is counted too."""
        address = self._addresses.of(context.peer()) if self._buckets is not None else None
        wait = self._buckets.take(address) if self._buckets is not None and address is not None else 0
        if wait:
            text = "too many calls from this address; slow down"
            raise Refused(Reason.RATE_LIMITED, text, retry_after_ms=wait)

    def enter(self, context: Any) -> None:
        """Give a call's message a place, until `leave`; `context.abort` ends one that loses it.

        Few lines, because every call comes through: no timer, task or lock of its own.
        """
        if self._timer is None:
            self._look_in(self._seconds)
        self._arriving[context] = time.monotonic()
        loses = self._places.enter(context, self._addresses.of(context.peer()))
        if loses is not None:
            self._end(loses, Refused(Reason.OVERLOADED, _NO_PLACE, retry_after_ms=_AGAIN_MS))

    def leave(self, context: Any) -> None:
        """Free the place: the message has arrived, or will not."""
        self._arriving.pop(context, None)
        self._places.leave(context)

    def _look_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        """End messages that took too long, and schedule the next look."""
        self._timer = None
        while self._arriving:
            context, since = next(iter(self._arriving.items()))
            left = since + self._seconds - time.monotonic()
            if left > 0:
                self._look_in(left)
                return
            text = f"a message must be whole after {self._seconds:g} seconds"
            self._end(context, Refused(Reason.SLOW_MESSAGE, text, retry_after_ms=_AGAIN_MS))

    def _end(self, context: Any, error: Refused) -> None:
        """Answer a call whose message is still on its way; gRPC then forgets what there is of it."""
        self.leave(context)
        self._refusals.count(error.reason)
        task = asyncio.get_running_loop().create_task(_abort(context, error))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _abort(context: Any, refusal: Refused) -> None:
    # Its caller may have gone, or its message have come, meanwhile.
    with contextlib.suppress(grpc.aio.AbortError, grpc.aio.BaseError, grpc.aio.UsageError):
        await context.abort(status_of(refusal.reason), str(refusal), trailers_of(refusal.reason, refusal))
