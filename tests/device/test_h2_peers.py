"""What a stock server does seldom or never: peers that follow a script. Over both transports where both can tell."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import h2.events
import h2.settings
import pytest

from trimask_client import Endpoint, Transport, Unreachable
from trimask_client.h2_connection import CallFailed, Connection, Deadline
from trimask_client.transport import H2Transport, tls_context
from trimask_core.basics.errors import ConfigError, Refused
from trimask_patience import patience

SETTINGS, GOAWAY = 4, 7
LARGEST_STREAM = (2**31 - 1).to_bytes(4, "big")
NO_ERROR = bytes(4)


def test_a_graceful_goaway_lets_the_call_under_way_finish(
    transport: Transport, play: Callable[..., Any]
) -> None:
    def first(peer: Any) -> None:
        stream = peer.request()
        peer.raw(GOAWAY, LARGEST_STREAM + NO_ERROR)
        peer.raw(GOAWAY, stream.to_bytes(4, "big") + NO_ERROR)
        peer.answer(stream, b"finished")
        peer.linger()

    def second(peer: Any) -> None:
        peer.answer(peer.request(), b"elsewhere")
        peer.linger()

    peer = play(first, second)
    assert transport.call(peer.endpoint, "/t.T/M", b"x", 60) == b"finished"
    assert transport.call(peer.endpoint, "/t.T/M", b"x", 60) == b"elsewhere"


def test_a_call_the_goaway_leaves_out_is_made_again_elsewhere(
    transport: Transport, play: Callable[..., Any]
) -> None:
    def first(peer: Any) -> None:
        one = peer.request()
        peer.answer(one, b"one")
        peer.request()
        peer.raw(GOAWAY, one.to_bytes(4, "big") + NO_ERROR)
        peer.linger()

    def second(peer: Any) -> None:
        peer.answer(peer.request(), b"two")
        peer.linger()

    peer = play(first, second)
    assert transport.call(peer.endpoint, "/t.T/M", b"x", 60) == b"one"
    assert transport.call(peer.endpoint, "/t.T/M", b"x", 60) == b"two"
    assert peer.connections == 2


def test_a_goaway_between_calls_is_seen_before_the_next(
    h2_transport: H2Transport, play: Callable[..., Any]
) -> None:
    told = threading.Event()

    def first(peer: Any) -> None:
        stream = peer.request()
        peer.answer(stream, b"one")
        peer.raw(GOAWAY, stream.to_bytes(4, "big") + NO_ERROR)
        told.set()
        peer.linger()

    def second(peer: Any) -> None:
        peer.answer(peer.request(), b"two")
        peer.linger()

    peer = play(first, second)
    assert h2_transport.call(peer.endpoint, "/t.T/M", b"x", 60) == b"one"
    assert told.wait(patience(10))
    assert h2_transport.call(peer.endpoint, "/t.T/M", b"x", 60) == b"two"


def test_pings_are_answered_while_waiting(transport: Transport, play: Callable[..., Any]) -> None:
    def script(peer: Any) -> None:
        stream = peer.request()
        for number in range(3):
            peer.h2.ping(b"%08d" % number)
            peer.flush()
            assert peer.wait(h2.events.PingAckReceived).ping_data == b"%08d" % number
        peer.answer(stream, b"pong")
        peer.linger()

    assert transport.call(play(script).endpoint, "/t.T/M", b"x", 60) == b"pong"


def test_a_small_window_is_respected(transport: Transport, play: Callable[..., Any]) -> None:
    sent = bytes(range(256)) * 8

    def script(peer: Any) -> None:
        peer.answer(peer.request(), b"settings are there")
        stream = peer.request()  # h2 itself raises if more arrives than the window of 100 allows
        peer.answer(stream, bytes(peer.bodies[stream])[5:])
        peer.linger()

    endpoint = play(script, window=100).endpoint
    assert transport.call(endpoint, "/t.T/M", b"", 20) == b"settings are there"
    assert transport.call(endpoint, "/t.T/M", sent, 20) == sent


def test_a_handshake_may_take_its_time(transport: Transport, play: Callable[..., Any]) -> None:
    """grpcio gives a handshake only `grpc.min_reconnect_backoff_ms`, whatever its name says."""

    def script(peer: Any) -> None:
        peer.answer(peer.request(), b"from afar")
        peer.linger()

    assert transport.call(play(script, handshake_after=0.8).endpoint, "/t.T/M", b"x", 30) == b"from afar"


def test_a_refusal_before_the_request_is_through(transport: Transport, play: Callable[..., Any]) -> None:
    def script(peer: Any) -> None:
        stream = peer.wait(h2.events.RequestReceived).stream_id
        headers = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "8")]
        peer.h2.send_headers(stream, [*headers, ("trimask-reason", "oversized_message")], end_stream=True)
        peer.h2.reset_stream(stream, 0)
        peer.flush()
        stream = peer.wait(h2.events.RequestReceived, acknowledge=False).stream_id
        peer.answer(stream, b"next")
        peer.linger()

    endpoint = play(script, window=1000).endpoint
    with pytest.raises(Refused) as caught:
        transport.call(endpoint, "/t.T/M", bytes(100_000), 60)
    assert caught.value.reason == "oversized_message"
    assert transport.call(endpoint, "/t.T/M", b"", 60) == b"next"


def test_a_deadline_holds_against_a_peer_that_keeps_talking(
    transport: Transport, play: Callable[..., Any]
) -> None:
    def script(peer: Any) -> None:
        peer.answer(peer.request(), b"there")
        stream = peer.request()
        peer.h2.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        while True:  # a ping a round trip, and never an answer: ends when the client hangs up or cancels
            peer.h2.ping(b"12345678")
            peer.flush()
            peer.wait((h2.events.PingAckReceived, h2.events.StreamReset))

    endpoint = play(script).endpoint
    assert (
        transport.call(endpoint, "/t.T/M", b"x", 60) == b"there"
    )  # the time of the next is spent on nothing else
    with pytest.raises(Unreachable, match="in time"):
        transport.call(endpoint, "/t.T/M", b"x", 0.3)


def test_a_deadline_holds_while_the_peer_takes_nothing_in(
    transport: Transport, play: Callable[..., Any]
) -> None:
    def script(peer: Any) -> None:
        peer.wait(h2.events.StreamReset, acknowledge=False)

    # On a busy machine the time may be over before the connection is made, which is said in other words.
    with pytest.raises(Unreachable, match=r"in time|no answer"):
        transport.call(play(script).endpoint, "/t.T/M", bytes(200_000), 0.3)


@pytest.mark.parametrize("code", [0, 1, 2, 7, 8, 11])
def test_reset_streams(transport: Transport, play: Callable[..., Any], code: int) -> None:
    def script(peer: Any) -> None:
        for _ in range(20):  # grpcio makes a refused stream again
            peer.h2.reset_stream(peer.request(), code)
            peer.flush()

    with pytest.raises((Refused, Unreachable)) as caught:
        transport.call(play(*[script] * 20).endpoint, "/t.T/M", b"x", 2)
    expected = {0: "internal", 1: "internal", 2: "internal", 11: "resource_exhausted"}.get(code)
    assert getattr(caught.value, "reason", None) == expected


@pytest.mark.parametrize(
    ("status", "reason"),
    [("503", None), ("429", None), ("404", "unimplemented"), ("403", "permission_denied")],
)
def test_a_proxy_answers(
    transport: Transport, play: Callable[..., Any], status: str, reason: str | None
) -> None:
    def script(peer: Any) -> None:
        stream = peer.request()
        peer.h2.send_headers(stream, [(":status", status), ("content-type", "text/html")], end_stream=True)
        peer.flush()
        peer.linger()

    with pytest.raises((Refused, Unreachable)) as caught:
        transport.call(play(script).endpoint, "/t.T/M", b"x", 60)
    assert getattr(caught.value, "reason", None) == reason


def test_gone_after_the_request(transport: Transport, play: Callable[..., Any]) -> None:
    def script(peer: Any) -> None:
        peer.request()

    with pytest.raises(Unreachable):
        transport.call(play(script).endpoint, "/t.T/M", b"x", 60)


def test_gone_in_the_middle_of_the_answer(transport: Transport, play: Callable[..., Any]) -> None:
    def script(peer: Any) -> None:
        stream = peer.request()
        peer.h2.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        peer.h2.send_data(stream, b"\0\0\0\1\0half")
        peer.flush()

    with pytest.raises(Unreachable):
        transport.call(play(script).endpoint, "/t.T/M", b"x", 60)


def test_no_http2(h2_transport: H2Transport, play: Callable[..., Any]) -> None:
    with pytest.raises(Unreachable, match="HTTP/2"):
        h2_transport.call(play(lambda _: None, alpn=False).endpoint, "/t.T/M", b"x", 60)


def test_not_http2_after_all(h2_transport: H2Transport, play: Callable[..., Any]) -> None:
    def script(peer: Any) -> None:
        peer.sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4)
        peer.linger()

    with pytest.raises(Unreachable):
        h2_transport.call(play(script).endpoint, "/t.T/M", b"x", 2)


def test_a_peer_that_allows_no_streams(h2_transport: H2Transport, play: Callable[..., Any]) -> None:
    def script(peer: Any) -> None:
        peer.h2.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 0})
        peer.answer(peer.request(), b"one")
        peer.linger()

    endpoint = play(script).endpoint
    assert h2_transport.call(endpoint, "/t.T/M", b"x", 60) == b"one"
    with pytest.raises(Unreachable, match="takes no calls"):
        h2_transport.call(endpoint, "/t.T/M", b"x", 60)


@pytest.mark.parametrize("seed", range(40))
def test_garbage_is_never_more_than_unreachable(
    h2_transport: H2Transport, play: Callable[..., Any], seed: int
) -> None:
    rng = random.Random(seed)

    def script(peer: Any) -> None:
        peer.request()
        for _ in range(rng.randint(1, 8)):  # frames of every type, most of them wrong somewhere
            payload = rng.randbytes(rng.choice([0, 1, 4, 5, 8, 9, 30]))
            head = len(payload).to_bytes(3, "big") + bytes(
                [rng.randint(0, 10), rng.randint(0, 255) & rng.randint(0, 255)]
            )
            peer.sock.sendall(head + rng.choice([0, 1, 2, 3]).to_bytes(4, "big") + payload)
        peer.sock.sendall(rng.randbytes(rng.randint(0, 100)))

    with pytest.raises((Unreachable, Refused)):
        h2_transport.call(play(script).endpoint, "/t.T/M", b"x", 60)


@pytest.mark.parametrize("body", [b"", b"\0\0\0\0", b"\0\0\0\0\2x", b"\1\0\0\0\1x", b"\0\0\0\0\1xy"])
def test_an_answer_that_is_not_one_message(
    h2_transport: H2Transport, play: Callable[..., Any], body: bytes
) -> None:
    def script(peer: Any) -> None:
        stream = peer.request()
        peer.h2.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        peer.h2.send_data(stream, body)
        peer.h2.send_headers(stream, [("grpc-status", "0")], end_stream=True)
        peer.flush()
        peer.linger()

    with pytest.raises(Refused, match="one uncompressed gRPC message"):
        h2_transport.call(play(script).endpoint, "/t.T/M", b"x", 60)


def test_an_idle_connection_is_asked_for_a_sign_of_life(play: Callable[..., Any]) -> None:
    pings = []

    def script(peer: Any) -> None:
        peer.answer(peer.request(), b"one")
        pings.append(peer.wait(h2.events.PingReceived).ping_data)
        peer.answer(peer.request(), b"two")
        peer.linger()

    clock = _Clock()
    transport = H2Transport(clock=clock)
    endpoint = play(script).endpoint
    assert transport.call(endpoint, "/t.T/M", b"", 60) == b"one"
    clock.now += 60
    assert transport.call(endpoint, "/t.T/M", b"", 60) == b"two"
    assert len(pings) == 1
    transport.close()


def test_an_idle_connection_that_is_dead_is_not_used(play: Callable[..., Any]) -> None:
    def dead(peer: Any) -> None:
        peer.answer(peer.request(), b"one")
        seen = b""
        while b"trimask?" not in seen:  # read past h2, which would answer
            seen += peer.sock.recv(100)
        clock.now += 4  # longer than a ping is waited for; the bytes below make the client look at the clock
        peer.raw(SETTINGS, b"")
        peer.linger()

    clock = _Clock()
    endpoint = play(dead).endpoint
    connection = Connection(
        endpoint.address, endpoint.tls_name, tls_context(endpoint.roots), Deadline(100, clock), clock
    )
    assert connection.call("/t.T/M", b"", Deadline(100, clock)) == b"one"
    clock.now += 60
    assert not connection.usable(Deadline(100, clock))
    connection.close()


class _Clock:
    """Moves when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_call_that_finds_the_line_taken_ends_at_its_deadline(h2_transport: H2Transport, stock: Any) -> None:
    def hang() -> None:
        with pytest.raises(Unreachable):
            h2_transport.call(stock.endpoint, "/t.T/Hang", b"", 60)

    thread = threading.Thread(target=hang)
    thread.start()
    assert stock.entered.wait(patience(10))
    with pytest.raises(Unreachable, match="in time"):
        h2_transport.call(stock.endpoint, "/t.T/Echo", b"", 0.05)
    h2_transport.close()  # ends the call under way at once
    thread.join(patience(4))
    assert not thread.is_alive()


@pytest.mark.parametrize("address", ["", "nowhere", "host:port", "127.0.0.1:99999", "no-such-host.invalid:1"])
def test_addresses_that_lead_nowhere(h2_transport: H2Transport, address: str) -> None:
    with pytest.raises(Unreachable):
        h2_transport.call(Endpoint(address, "name", ""), "/t.T/M", b"", 60)


def test_roots_that_are_not_certificates(h2_transport: H2Transport) -> None:
    with pytest.raises(ConfigError, match="PEM"):
        h2_transport.call(Endpoint("127.0.0.1:1", "name", "not a certificate"), "/t.T/M", b"", 60)


def test_no_time_at_all(tls: Any) -> None:
    with pytest.raises(CallFailed):
        Connection("127.0.0.1:1", "name", None, Deadline(0))  # type: ignore[arg-type]
