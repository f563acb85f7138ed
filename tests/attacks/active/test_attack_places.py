"""One address takes every place that a port has for connections and unfinished messages, and keeps everybody else out.

When the connection to lose its place was chosen without regard to addresses, 128 connections with an unfinished body and ten
new ones a second served no browser at a round trip of 200 ms; and two gRPC connections with 1,800 streams a second, none of
which the rate limit counted, had every upload refused that took longer than 0.3 seconds.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trimask_https import tls
from trimask_lab import Lab
from trimask_patience import patience
from trimask_raw_h2 import Stranger
from trimask_server.local.cluster import ThreadCluster
from trimask_server.runtime import https_port, ports
from trimask_server.runtime.inbound_limits import Addresses, Arrivals

SUBMIT, KEYS = (f"/trimask_proto.v1.SubmissionService/{name}" for name in ("Submit", "GetSealingKeys"))
PLACES = 8
STRANGER, VISITOR = "127.0.0.1", "127.0.0.2"


class Door:
    """One right provider with few places, and those who come to it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = Lab(folder, right=2, left=1, https=True)
        self.made: list[Any] = []  # connections whose handshake is over
        self.arrivals: list[Arrivals] = []
        self.stack = contextlib.ExitStack()
        made = https_port.BoundedConnections.connection_made

        def counted(server: Any, handler: Any, transport: Any) -> None:
            made(server, handler, transport)
            self.made.append(handler)

        monkeypatch.setattr(https_port.BoundedConnections, "connection_made", counted)

    def few_places(self, monkeypatch: pytest.MonkeyPatch, *, shared: bool) -> None:
        def few(_config: Any, refusals: Any, _clock: Any, *, public: bool) -> Arrivals:
            found = Arrivals(PLACES if public else 64, 600.0, refusals)
            self.arrivals += [found] * public
            return found

        monkeypatch.setattr(https_port, "_MOST_CONNECTIONS", PLACES)
        monkeypatch.setattr(ports, "arrivals_of", few)
        if not shared:
            monkeypatch.setattr(Addresses, "of", lambda _self, _peer: "everybody")

    @contextlib.contextmanager
    def opened(self, *settings: str) -> Iterator[None]:
        path = self.lab.folder / "R1" / "node.toml"
        if settings:
            text = path.read_text().replace("rate_limit_per_second = 0 ", "#")
            path.write_text("\n".join((text, *settings)))
        self.lab.cluster = ThreadCluster(self.lab.folder)
        self.lab.cluster.workers = {"R1": ""}
        with self.stack, self.lab.cluster:
            yield

    def refused(self, reason: str) -> int:
        return int(self.lab.node("R1").context.refusals.as_dict().get(reason, 0))

    def browser(self, source: str) -> ssl.SSLSocket:
        """A connection of its own, of which nothing is sent after the handshake; the node has it when this returns."""
        host, _, port = self.lab.parties["R1"].https.removeprefix("https://").rpartition(":")
        wanted = len(self.made) + 1
        plain = socket.create_connection((host, int(port)), timeout=patience(30), source_address=(source, 0))
        context = tls(self.lab.owner / "ca.pem")
        found = self.stack.enter_context(context.wrap_socket(plain, server_hostname=host))
        self.lab.until(lambda: len(self.made) == wanted)
        return found

    def unfinished(self, source: str) -> ssl.SSLSocket:
        """The same, with a message that lacks its end."""
        found = self.browser(source)
        ask(found, SUBMIT, 1000, b"begun")
        return found

    def connect(self, source: str) -> Stranger:
        party = self.lab.parties["R1"]
        return self.stack.enter_context(
            Stranger(party.address, self.lab.owner / "ca.pem", party.tls_name, source)
        )


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Door:
    return Door(tmp_path, monkeypatch)


def ask(connection: ssl.SSLSocket, path: str, size: int, body: bytes) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/proto\r\nContent-Length: {size}\r\n\r\n"
    connection.sendall(head.encode() + body)


def answer(connection: ssl.SSLSocket) -> bytes:
    """The head of what comes back to a request for keys; empty if the connection was closed."""
    with contextlib.suppress(OSError):
        ask(connection, KEYS, 0, b"")
        return connection.recv(2000)
    return b""


@pytest.mark.parametrize("shared", [True, False])
def test_an_address_with_every_connection_keeps_no_browser_out(
    door: Door, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """All places have an unfinished body, and more connections come than there are places while a browser, on a slow line,
    has not sent its request yet. Where addresses are not told apart, none is served."""
    door.few_places(monkeypatch, shared=shared)
    with door.opened():
        for _ in range(PLACES):
            door.unfinished(STRANGER)
        served = []
        for _ in range(4):
            visitor = door.browser(VISITOR)
            for _ in range(PLACES + 1):
                door.browser(STRANGER)
            served.append(answer(visitor).startswith(b"HTTP/1.1 200"))
        assert served == [shared] * 4


def test_repro_a_connection_that_has_just_come_is_not_the_first_to_go(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even from the same address: whoever came last had sent no request yet, and was taken for idle."""
    door.few_places(monkeypatch, shared=True)
    with door.opened():
        for _ in range(PLACES):
            door.unfinished(STRANGER)
        for _ in range(4):
            visitor = door.browser(STRANGER)
            door.unfinished(STRANGER)
            assert answer(visitor).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("shared", [True, False])
def test_an_address_with_every_unfinished_message_refuses_no_upload(
    door: Door, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """Streams that never end come and go while an upload is under way. Where addresses are not told apart, the upload is
    the oldest before long, and loses its place."""
    door.few_places(monkeypatch, shared=shared)
    with door.opened():
        strangers = [door.connect(STRANGER) for _ in range(2)]
        for stranger in strangers:
            assert stranger.begin(SUBMIT, 20, 1000) == 20
        door.lab.until(lambda: door.refused("overloaded") == 40 - PLACES)
        upload = door.connect(VISITOR)
        upload.begin(KEYS, 1, 1000)
        (arrivals,) = door.arrivals
        door.lab.until(lambda: any(VISITOR in context.peer() for context in list(arrivals._arriving)))
        for stranger in strangers:
            assert stranger.begin(SUBMIT, 20, 1000) == 20
        door.lab.until(lambda: door.refused("overloaded") == 81 - PLACES)
        upload.finish()
        assert upload.statuses == {"0" if shared else "overloaded": 1}


def test_the_rate_limit_counts_what_was_begun(door: Door) -> None:
    """Messages that never end are taken from their address's bucket, over gRPC and over HTTPS; those of others are not."""
    with door.opened("rate_limit_per_second = 0.01", "rate_limit_burst = 4", 'proxies = ["127.0.0.3"]'):
        stranger = door.connect(STRANGER)
        assert stranger.begin(SUBMIT, 3, 1000) == 3
        door.unfinished(STRANGER)
        stranger.begin(SUBMIT, 2, 1000)
        stranger.wait(2)
        assert stranger.statuses == {"rate_limited": 2}
        assert b"trimask-reason: rate_limited" in answer(door.browser(STRANGER))
        assert answer(door.browser(VISITOR)).startswith(b"HTTP/1.1 200")
        for _ in range(6):  # behind a declared proxy nobody has an address of his own
            assert answer(door.browser("127.0.0.3")).startswith(b"HTTP/1.1 200")
