"""A node's limits on what comes in: message size by RPC, concurrent calls, and messages that are not whole yet.

A refusal here costs little: it comes before the message is parsed, before anything is decrypted and before the store is
asked. `overloaded` says when to come again. Slow and idle clients hold a connection and no more; gRPC's own limits
(`server_options`) end those.

Messages on their way in are bounded too: how many an address may begin, how many there are at once on a port, how long
one may take. gRPC holds an unfinished message in memory, up to the size its port takes (`server_options`), for as long as
the connection lives. Here a call is answered as one that streams a single message, so that its handler runs before the
message is whole and the call can be ended. A port has a fixed number of places, shared out by address
(`Shares`): when all are taken, the address with most unfinished messages loses the one that has been arriving
for longest. An honest message takes a moment, a stalled one grows old.

Callers by address: who counts as one, how often one may call, and how places are shared out when they are short.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Generic, TypeVar
from urllib.parse import unquote

import grpc

from trimask_core.basics.clock import Clock
from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_server.runtime.interceptors import MAX_MESSAGE_BYTES, rewrapped, status_of, trailers_of
from trimask_server.runtime.metrics import Refusals
from trimask_server.settings.config import NodeConfig

_ADDRESSES = 65_536
Holder = TypeVar("Holder", bound=Hashable)


def _host(peer: str) -> IPv4Address | IPv6Address | str:
    """The other end of a connection, given gRPC's word for it."""
    host = unquote(peer).rpartition(":")[0].partition(":")[2].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


class Addresses:
    """Tells callers apart. Behind a declared proxy everybody has its address, which then says nothing."""

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        self._proxies = [ip_network(proxy) for proxy in proxies]

    def of(self, peer: str) -> str | None:
        """Who a caller is counted as: an IPv4 address, or the /64 of an IPv6 one, which is one household's; None for one
        that comes through a proxy."""
        host = _host(peer)
        if isinstance(host, str):
            return host
        if any(host in proxy for proxy in self._proxies):
            return None
        return str(host if isinstance(host, IPv4Address) else ip_network((host, 64), strict=False))


class TokenBuckets:
    """One bucket an address: `burst` calls at once, then `rate` a second. The longest unseen are forgotten."""

    def __init__(self, rate: float, burst: int, now_ms: Callable[[], int]) -> None:
        self._rate = rate
        self._burst = max(1, burst)
        self._now_ms = now_ms
        self._buckets: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def take(self, address: str) -> int:
        """0 if the call may pass, else the milliseconds after which it may."""
        if self._rate <= 0:
            return 0
        level = self._level(address)
        wait = 0 if level >= 1 else max(1, round((1 - level) / self._rate * 1000))
        self._put(address, level if wait else level - 1)
        return wait

    def owe(self, address: str, count: int) -> None:
        """Take `count` more, there or not: later calls wait until the debt is paid."""
        if self._rate > 0:
            self._put(address, self._level(address) - count)

    def _level(self, address: str) -> float:
        now = self._now_ms()
        level, since = self._buckets.pop(address, (float(self._burst), now))
        return min(self._burst, level + max(0, now - since) * self._rate / 1000)

    def _put(self, address: str, level: float) -> None:
        self._buckets[address] = (level, self._now_ms())
        if len(self._buckets) > _ADDRESSES:
            self._buckets.popitem(last=False)


class Shares(Generic[Holder]):
    """A number of places, which anybody may take while there is room and which addresses share when there is none.

    Then an address that holds most loses a place, the one it has held for longest: one address cannot take a place from
    another that holds fewer, and the young are spared. Where all hold as many, each has its place until `most` others came.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._turn = 0
        self._address: dict[Holder, object] = {}
        self._held: dict[
            object, dict[Holder, tuple[bool, int]]
        ] = {}  # by address: whether firm, since what turn

    def __len__(self) -> int:
        return len(self._address)

    def __contains__(self, holder: Holder) -> bool:
        return holder in self._address

    def enter(self, holder: Holder, address: str | None) -> Holder | None:
        """Give a place; who has lost its own for that, if there was no room. None counts as an address of its own."""
        counted = ("alone", holder) if address is None else address
        self._address[holder] = counted
        self._held.setdefault(counted, {})
        self.renew(holder)
        if len(self._address) <= self._most:
            return None
        most = max(map(len, self._held.values()))
        rivals = [one for held in self._held.values() if len(held) == most for one in held.items()]
        loses = min(rivals, key=lambda rival: rival[1])[0]
        self.leave(loses)
        return loses

    def renew(self, holder: Holder, *, firm: bool = False) -> None:
        """As if it had come now; an address loses a `firm` place only if it has no other."""
        if holder in self._address:
            self._turn += 1
            self._held[self._address[holder]][holder] = (firm, self._turn)

    def leave(self, holder: Holder) -> None:
        """Free a place; nothing happens for who has none."""
        if holder in self._address:
            counted = self._address.pop(holder)
            del self._held[counted][holder]
            if not self._held[counted]:
                del self._held[counted]


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

    def wrap_stream(self, _method: str, handler: Any) -> Any:
        """A unary handler as one that answers each message of a stream: the next is read once the last is answered, and
        waits until the bucket, from which each submission is taken, has room for it. A stream is slowed where a call would
        be refused; while it waits it has a place, as an unfinished message has."""
        whole = handler.unary_unary

        async def read_each(_: Any, context: Any) -> Any:
            try:
                self.charge(context)
            except Refused as error:
                return await whole(Unread(error), context)
            paid = True
            while True:
                self.enter(context)
                try:
                    message = await context.read()
                    if message is grpc.aio.EOF:
                        return None
                    while not paid and (wait := self._take(context)):  # noqa: ASYNC110 - a time, not an event
                        await asyncio.sleep(wait / 1000)
                finally:
                    self.leave(context)
                self._owe(context, max(1, len(getattr(message, "submissions", ()))) - 1)
                paid = False
                await context.write(await whole(message, context))

        return grpc.stream_stream_rpc_method_handler(
            read_each,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def charge(self, context: Any) -> None:
        """Take a call from its address's bucket when it begins, so that what never ends is counted too."""
        if wait := self._take(context):
            text = "too many calls from this address; slow down"
            raise Refused(Reason.RATE_LIMITED, text, retry_after_ms=wait)

    def _take(self, context: Any) -> int:
        address = self._addresses.of(context.peer()) if self._buckets is not None else None
        return self._buckets.take(address) if self._buckets is not None and address is not None else 0

    def _owe(self, context: Any, count: int) -> None:
        address = self._addresses.of(context.peer()) if self._buckets is not None else None
        if self._buckets is not None and address is not None:
            self._buckets.owe(address, count)

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
_SUBMISSIONS = ("Submit", "SubmitMany")
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
            if name not in _SUBMISSIONS:
                return await inner(request, context)
            count = len(request.submissions) if name == "SubmitMany" else 1
            # Every submission under way waits for its write, so this bounds the store's queue too.
            if self._submissions >= self._most:
                raise Refused(
                    Reason.OVERLOADED,
                    "this node has as many submissions under way as it can hold; try again in a moment",
                    retry_after_ms=_OVERLOADED_MS,
                )
            self._submissions += count
            try:
                return await inner(request, context)
            finally:
                self._submissions -= count

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
