"""A node's limits: message size by RPC, concurrent calls, and call rate by address.

A refusal here costs little: it comes before the message is parsed, before anything is decrypted and before the store is
asked. `overloaded` and `rate_limited` say when to come again. Slow and idle clients hold a connection and no more;
gRPC's own limits (`server_options`) end those. What unfinished messages may hold is bounded by `arrivals`.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from trimask_core.clock import Clock
from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_server.operations.arrivals import Arrivals, Unread
from trimask_server.operations.guard import MAX_MESSAGE_BYTES, rewrapped
from trimask_server.operations.refusal_counts import Refusals
from trimask_server.settings.config import NodeConfig

__all__ = ["Limits", "TokenBuckets", "address_of", "arrivals_of", "message_limit", "server_options"]

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
_ADDRESSES = 65_536
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


def arrivals_of(config: NodeConfig, refusals: Refusals, *, public: bool) -> Arrivals:
    """The places a port has for unfinished messages, of the largest size it takes."""
    room, seconds = (_PUBLIC_ROOM_BYTES, 30.0) if public else (_PEER_ROOM_BYTES, 60.0)
    return Arrivals(max(16, room // _largest(config, public=public)), seconds, refusals)


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
        now = self._now_ms()
        level, since = self._buckets.pop(address, (float(self._burst), now))
        level = min(self._burst, level + max(0, now - since) * self._rate / 1000)
        wait = 0 if level >= 1 else max(1, round((1 - level) / self._rate * 1000))
        self._buckets[address] = (level if wait else level - 1, now)
        if len(self._buckets) > _ADDRESSES:
            self._buckets.popitem(last=False)
        return wait


class Limits:
    """The layer inside the refusal guard: what it raises is counted and answered there."""

    def __init__(self, config: NodeConfig, clock: Clock, *, public: bool) -> None:
        self._config, self._public = config, public
        self._limits_rate = public and config.rate_limit_per_second > 0
        self._most = config.max_concurrent_submissions
        self._submissions = 0
        self._buckets = TokenBuckets(
            config.rate_limit_per_second if public else 0.0, config.rate_limit_burst, clock.now_ms
        )

    def wrap(self, method: str, handler: Any) -> Any:
        """A handler within these limits."""
        inner, name = handler.unary_unary, method.rpartition("/")[2]
        limits_rate = self._limits_rate

        async def limited(request: Any, context: Any) -> Any:
            if limits_rate:
                self._check_rate(context)
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

    def _check_rate(self, context: Any) -> None:
        wait = self._buckets.take(address_of(context.peer()))
        if wait:
            raise Refused(
                Reason.RATE_LIMITED,
                "too many calls from this address; slow down",
                retry_after_ms=wait,
            )


def address_of(peer: str) -> str:
    """Whose bucket a call is taken from: an IPv4 address, or the /64 of an IPv6 one, which is one household's."""
    host = unquote(peer).rpartition(":")[0].partition(":")[2].strip("[]").partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


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
