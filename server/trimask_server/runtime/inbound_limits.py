"""A node's limits on what comes in: message size by RPC, concurrent calls, and messages that are not whole yet.

A refusal here costs little: it comes before the message is parsed, before anything is decrypted and before the store is
asked. `overloaded` says when to come again. Slow and idle clients hold a connection and no more; gRPC's own limits
(`server_options`) end those.

Messages on their way in are bounded too: how many an address may begin, how many there are at once on a port, how long
one may take. gRPC holds an unfinished message in memory, up to the size its port takes (`server_options`), for as long as
the connection lives. Here a call is answered as one that streams a single message, so that its handler runs before the
message is whole and the call can be ended. A port has a fixed number of places, shared out by address
(`addresses.Shares`): when all are taken, the address with most unfinished messages loses the one that has been arriving
for longest. An honest message takes a moment, a stalled one grows old.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import grpc

from trimask_core.basics.clock import Clock
from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_server.runtime.addresses import Addresses, Shares, TokenBuckets
from trimask_server.runtime.interceptors import MAX_MESSAGE_BYTES, rewrapped, status_of, trailers_of
from trimask_server.runtime.refusal_counts import Refusals
from trimask_server.settings.config import NodeConfig

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


_DEFAULT_BYTES = 256 << 10
# What may be larger on the port of peers: a study with its approvals, a plan's ids, and slices of matrices.
_LARGER_BYTES = {
    "OpenStudy": 1 << 20,
    "RegisterStudy": 1 << 20,
    "AssignBlock": MAX_MESSAGE_BYTES,
    "EraseBlock": MAX_MESSAGE_BYTES,
    "JudgeDraw": MAX_MESSAGE_BYTES,
    "OpenDraw": MAX_MESSAGE_BYTES,
    "SettleDraw": MAX_MESSAGE_BYTES,
    "PushComponent": MAX_MESSAGE_BYTES,
    "PushRightMask": MAX_MESSAGE_BYTES,
    "PushTagKeys": MAX_MESSAGE_BYTES,
    "PushMaskedKeys": MAX_MESSAGE_BYTES,
    "PushMasked": MAX_MESSAGE_BYTES,
    "PushDelivery": MAX_MESSAGE_BYTES,
}
_SLACK_BYTES = 16 << 10
_PUBLIC_ROOM_BYTES = 48 << 20
_PEER_ROOM_BYTES = 512 << 20
_OVERLOADED_MS = 1000
HANDSHAKE_MS = 10_000


def message_limit(method: str, config: NodeConfig, *, public: bool) -> int:
    """The most bytes a request of this RPC may have. Nothing that strangers send is larger than a submission."""
    if public:
        return config.max_submission_bytes
    return _LARGER_BYTES.get(method.rpartition("/")[2], _DEFAULT_BYTES)


def _largest(config: NodeConfig, *, public: bool) -> int:
    """What gRPC takes: held against the length a message announces, before it is here. A little more than the limit of any
    call, so that what is a little too large is refused in our words, and counted."""
    return (config.max_submission_bytes if public else MAX_MESSAGE_BYTES) + _SLACK_BYTES


def arrivals_of(config: NodeConfig, refusals: Refusals, clock: Clock, *, public: bool) -> Arrivals:
    """The places a port has for unfinished messages, of the largest size it takes."""
    room, seconds = (_PUBLIC_ROOM_BYTES, 30.0) if public else (_PEER_ROOM_BYTES, 60.0)
    rate = config.rate_limit_per_second if public else 0.0
    return Arrivals(
        max(16, room // _largest(config, public=public)),
        seconds,
        refusals,
        TokenBuckets(rate, config.rate_limit_burst, clock.now_ms) if rate else None,
        Addresses(config.proxies),
    )


def server_options(config: NodeConfig, *, public: bool) -> tuple[tuple[str, int], ...]:
    """gRPC's own limits. A stranger's connection is ended earlier than a peer's, and its messages are smaller."""
    common = (
        # Workers of one node share a port; any other program would get half of the calls.
        ("grpc.so_reuseport", int(bool(config.own_address))),
        ("grpc.max_send_message_length", 2 * MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", _largest(config, public=public)),
        # A TLS handshake takes a second on a bad line; a slower one is cut off.
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
        ("grpc.max_concurrent_streams", 256),
        ("grpc.max_metadata_size", 16 << 10),
        # Who pings oftener than this is cut off ("too many pings").
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 30_000),
        ("grpc.http2.max_ping_strikes", 2),
        # And who does not answer ours is gone.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
    )
    if not public:
        return (*common, ("grpc.keepalive_permit_without_calls", 1))
    return (
        *common,
        # What a call may send before it is read; not to be widened for fast senders.
        ("grpc.http2.lookahead_bytes", 64 << 10),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.max_connection_idle_ms", 5 * 60_000),
        # Also bounds a request whose bytes never end: the connection is closed under it.
        ("grpc.max_connection_age_ms", 15 * 60_000),
        ("grpc.max_connection_age_grace_ms", 60_000),
    )


class Limits:
    """The layer inside the refusal guard: what it raises is counted and answered there."""

    def __init__(self, config: NodeConfig, *, public: bool) -> None:
        self._config, self._public = config, public
        self._most = config.max_concurrent_submissions
        self._submissions = 0

    def wrap(self, method: str, handler: Any) -> Any:
        """A handler within these limits."""
        inner, name = handler.unary_unary, method.rpartition("/")[2]

        async def limited(request: Any, context: Any) -> Any:
            if isinstance(request, Unread):
                raise request.refusal
            if name != "Submit":
                return await inner(request, context)
            # Every submission under way waits for its write, so this bounds the store's queue too.
            if self._submissions >= self._most:
                raise Refused(
                    Reason.OVERLOADED,
                    "this node has as many submissions under way as it can hold; try again in a moment",
                    retry_after_ms=_OVERLOADED_MS,
                )
            self._submissions += 1
            try:
                return await inner(request, context)
            finally:
                self._submissions -= 1

        limit = message_limit(method, self._config, public=self._public)
        return rewrapped(handler, limited, _guarded(handler.request_deserializer, limit))


def _guarded(parse: Callable[[bytes], Any], limit: int) -> Callable[[bytes], Any]:
    """Parse what is small enough; a handler is given the refusal instead of the message otherwise."""

    def guarded(data: bytes) -> Any:
        if len(data) > limit:
            return Unread(
                Refused(
                    Reason.OVERSIZED_MESSAGE,
                    f"this message may have {limit} bytes",
                )
            )
        try:
            return parse(data)
        except Exception:  # noqa: BLE001 - protobuf raises DecodeError and, rarely, others: the sender's doing
            return Unread(Refused(Reason.MALFORMED, "the request is not the message this RPC takes"))

    return guarded
