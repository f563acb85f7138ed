"""Servers for a device to talk to: a stock grpcio server, a peer that follows a script, and a real cluster."""

from __future__ import annotations

import contextlib
import datetime as dt
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest

from trimask_client import Endpoint, Transport
from trimask_client.transport import H2Transport
from trimask_core.study.signed import SignedStudy
from trimask_grpcio import GrpcioTransport
from trimask_lab import Lab
from trimask_patience import patience
from trimask_server.local.cluster import ThreadCluster
from trimask_server.local.keys import Authority, Certificate, issue_certificate, make_authority

NAME = "r1.trimask.local"
DEFINITION = """
title = "Sleep"
purpose = "Whether exercise goes with sleep"
contact = "owner@example.org"
[privacy]
epsilon = 1.0
delta = 1e-6
[collection]
block_rows = 24
release_rows = 48
[[attributes]]
name = "hours"
kind = "continuous"
minimum = 0
maximum = 14
unit = "h"
[[attributes]]
name = "active"
kind = "binary"
"""


@pytest.fixture(params=["grpcio", "h2"])
def transport(request: pytest.FixtureRequest) -> Iterator[Transport]:
    """Each transport in turn."""
    made: Transport = GrpcioTransport() if request.param == "grpcio" else H2Transport()
    yield made
    made.close()


@pytest.fixture
def h2_transport() -> Iterator[H2Transport]:
    made = H2Transport()
    yield made
    made.close()


@dataclass(frozen=True)
class Tls:
    """An authority and certificates from it."""

    authority: Authority
    good: Certificate
    expired: Certificate
    other_name: Certificate

    @property
    def roots(self) -> str:
        return self.authority.certificate.decode()


@pytest.fixture(scope="session")
def tls() -> Tls:
    authority = make_authority()
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    return Tls(
        authority,
        issue_certificate(authority, NAME),
        issue_certificate(authority, NAME, now - 2 * day, now - day),
        issue_certificate(authority, "r2.trimask.local"),
    )


@dataclass
class Stock:
    """A stock grpcio server with the methods /t.T/*."""

    certificate: Certificate
    roots: str
    port: int = 0
    peers: list[str] = field(default_factory=list)
    entered: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        handlers = {
            "Echo": self._echo,
            "Refuse": self._refuse,
            "Plain": self._plain,
            "Busy": self._busy,
            "Big": lambda request, _: bytes(int(request)),
            "Hang": self._hang,
        }
        options = [("grpc.max_receive_message_length", 16 << 20), ("grpc.so_reuseport", 0)]
        self._pool = ThreadPoolExecutor(4)
        self.server = grpc.server(self._pool, options=options)
        self.server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    "t.T",
                    {name: grpc.unary_unary_rpc_method_handler(call) for name, call in handlers.items()},
                ),
            )
        )
        pair = (self.certificate.private_key, self.certificate.certificate)
        self.port = self.server.add_secure_port(f"127.0.0.1:{self.port}", grpc.ssl_server_credentials([pair]))
        self.server.start()

    def stop(self) -> None:
        self.release.set()
        self.server.stop(None).wait()
        self._pool.shutdown()
        self.release.clear()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(f"127.0.0.1:{self.port}", NAME, self.roots)

    def _echo(self, request: bytes, context: Any) -> bytes:
        self.peers.append(context.peer())
        return request

    def _refuse(self, _: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("trimask-reason", "study_closed"),))
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "100 % closed: très désolé\n")
        raise AssertionError

    def _plain(self, _: bytes, context: Any) -> bytes:
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "not you")
        raise AssertionError

    def _busy(self, _: bytes, context: Any) -> bytes:
        context.abort(grpc.StatusCode.UNAVAILABLE, "later")
        raise AssertionError

    def _hang(self, _: bytes, __: Any) -> bytes:
        self.entered.set()
        self.release.wait(30)
        return b""


@pytest.fixture
def serve(tls: Tls) -> Iterator[Callable[..., Stock]]:
    """Starts stock servers."""
    started: list[Stock] = []

    def start(certificate: Certificate | None = None) -> Stock:
        stock = Stock(certificate or tls.good, tls.roots)
        stock.start()
        started.append(stock)
        return stock

    yield start
    for stock in started:
        stock.stop()


@pytest.fixture
def stock(serve: Callable[..., Stock]) -> Stock:
    return serve()


class PeerConnection:
    """The server's end of one connection, for a script to play."""

    def __init__(self, sock: ssl.SSLSocket, window: int | None) -> None:
        self.sock = sock
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding=None)
        )
        self.h2.initiate_connection()
        if window is not None:
            self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.flush()
        self._waiting: list[h2.events.Event] = []
        self.bodies: dict[int, bytearray] = {}

    def flush(self) -> None:
        self.sock.sendall(self.h2.data_to_send())

    def wait(self, kind: type[Any], *, acknowledge: bool = True) -> Any:
        """The next event of a kind; ConnectionError when the client has gone."""
        while True:
            while self._waiting:
                event = self._waiting.pop(0)
                if isinstance(event, h2.events.DataReceived):
                    self.bodies.setdefault(event.stream_id, bytearray()).extend(event.data)
                    if acknowledge:
                        self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                        self.flush()
                if isinstance(event, kind):
                    return event
            data = self.sock.recv(65536)
            if not data:
                raise ConnectionError
            self._waiting += self.h2.receive_data(data)
            self.flush()

    def request(self) -> int:
        """The stream of the next whole request."""
        return int(self.wait(h2.events.StreamEnded).stream_id)

    def answer(self, stream: int, message: bytes) -> None:
        """A proper answer, in frames of at most 4,096 bytes and within the client's window."""
        self.h2.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        body = memoryview(b"\0" + len(message).to_bytes(4, "big") + message)
        while body:
            room = min(4096, self.h2.local_flow_control_window(stream))
            if room == 0:
                self.flush()
                self.wait(h2.events.WindowUpdated)
                continue
            self.h2.send_data(stream, bytes(body[:room]))
            body = body[room:]
        self.h2.send_headers(stream, [("grpc-status", "0")], end_stream=True)
        self.flush()

    def linger(self) -> None:
        """Until the client has gone: closing with its bytes unread would reset the connection under its answer."""
        while self.sock.recv(4096):
            pass

    def raw(self, kind: int, payload: bytes) -> None:
        """A frame on stream 0, past h2's own ideas."""
        self.sock.sendall(len(payload).to_bytes(3, "big") + bytes([kind, 0]) + bytes(4) + payload)


Script = Callable[[PeerConnection], None]


@dataclass
class Peer:
    endpoint: Endpoint
    failures: list[BaseException] = field(default_factory=list)
    connections: int = 0


@pytest.fixture
def play(tls: Tls, tmp_path: Path) -> Iterator[Callable[..., Peer]]:
    """Starts a TLS peer that plays the given scripts, one a connection; after the last, connections are refused."""
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []
    found: list[Peer] = []

    def start(
        *scripts: Script, alpn: bool = True, window: int | None = None, handshake_after: float = 0.0
    ) -> Peer:
        (tmp_path / "cert.pem").write_bytes(tls.good.certificate + tls.good.private_key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "cert.pem")
        if alpn:
            context.set_alpn_protocols(["h2"])
        listener = socket.create_server(("127.0.0.1", 0))
        peer = Peer(Endpoint(f"127.0.0.1:{listener.getsockname()[1]}", NAME, tls.roots))
        found.append(peer)

        def serve(plain: socket.socket, script: Script) -> None:
            try:
                threading.Event().wait(handshake_after)  # as far away as that
                with context.wrap_socket(plain, server_side=True) as sock:
                    sockets.append(sock)
                    peer.connections += 1
                    script(PeerConnection(sock, window))
            except OSError:
                pass
            except BaseException as error:  # noqa: BLE001 - shown by the fixture
                peer.failures.append(error)

        def run() -> None:
            with listener:
                for script in scripts:
                    try:
                        plain, _ = listener.accept()
                    except OSError:
                        return
                    threads.append(threading.Thread(target=serve, args=(plain, script), daemon=True))
                    threads[-1].start()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        threads.append(thread)
        sockets.append(listener)
        return peer

    yield start
    for sock in sockets:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(patience(5))
        assert not thread.is_alive()
    assert [failure for peer in found for failure in peer.failures] == []


class DeviceLab(Lab):
    """Studies for devices."""

    def open_study(self, title: str = "Sleep") -> SignedStudy:
        return super().open_study(DEFINITION.replace("Sleep", title))


@pytest.fixture(scope="session")
def running_device_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceLab]:
    lab = DeviceLab(tmp_path_factory.mktemp("devices"))
    with ThreadCluster(lab.folder) as lab.cluster:
        yield lab


@pytest.fixture(scope="module")
def device_lab(running_device_lab: DeviceLab) -> Iterator[DeviceLab]:
    """Shared by all tests; studies are those of a module."""
    yield running_device_lab
    running_device_lab.rest()
