"""Which key exchange a node's ports choose where both ends could have a hybrid one: what its TLS keeps from later days."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
from typing import Any

import grpc

from trimask_lab import Lab
from trimask_patience import patience

HYBRID, CLASSICAL = 0x11EC, 0x001D  # X25519MLKEM768 and X25519
_HEAD = 5 + 4 + 2 + 32  # record, handshake, version, random


def _extension(number: int, body: bytes) -> bytes:
    return struct.pack(">HH", number, len(body)) + body


def _extensions(data: bytes, at: int) -> dict[int, bytes]:
    end, found = at + 2 + int.from_bytes(data[at : at + 2], "big"), {}
    at += 2
    while at < end:
        number, size = struct.unpack(">HH", data[at : at + 4])
        found[number] = data[at + 4 : at + 4 + size]
        at += 4 + size
    return found


def chosen(host: str, port: int) -> int:
    """The group a server asks for (HelloRetryRequest) of a client that has both, prefers neither and sends no share."""
    extensions = b"".join(
        _extension(number, body)
        for number, body in (
            (43, b"\x02\x03\x04"),
            (10, struct.pack(">HHH", 4, HYBRID, CLASSICAL)),
            (51, bytes(2)),
            (13, struct.pack(">HHHHH", 8, 0x0403, 0x0804, 0x0807, 0x0503)),
            (16, b"\x00\x03\x02h2"),
        )
    )
    body = (
        b"\x03\x03"
        + os.urandom(32)
        + b"\x20"
        + os.urandom(32)
        + struct.pack(">HHH", 4, 0x1301, 0x1302)
        + b"\x01\x00"
    )
    body += struct.pack(">H", len(extensions)) + extensions
    hello = b"\x01" + len(body).to_bytes(3, "big") + body
    with socket.create_connection((host, port), timeout=30) as connection:
        connection.sendall(b"\x16\x03\x01" + struct.pack(">H", len(hello)) + hello)
        answer = connection.recv(65536)
    assert answer[0] == 22, "a handshake message, and no alert"
    at = _HEAD + 1 + answer[_HEAD] + 3
    return int.from_bytes(_extensions(answer, at)[51][:2], "big")


def offered(begin: Any) -> tuple[int, ...]:
    """The groups in the hello of a client that is made to call a port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        thread = threading.Thread(target=begin, args=(server.getsockname()[1],), daemon=True)
        thread.start()
        connection, _ = server.accept()
        data = b""
        with connection:
            while len(data) < 5 or len(data) < 5 + int.from_bytes(data[3:5], "big"):
                more = connection.recv(65536)
                assert more, "it hung up before its hello"
                data += more
    at = _HEAD + 1 + data[_HEAD]
    at += 2 + int.from_bytes(data[at : at + 2], "big")
    at += 1 + data[at]
    groups = _extensions(data, at)[10][2:]
    return struct.unpack(f">{len(groups) // 2}H", groups)


def test_nodes_offer_and_choose_a_hybrid_key_exchange(ops_lab: Lab) -> None:
    """Between nodes both ends are grpcio, whose BoringSSL has it: recorded traffic of theirs does not open to X25519."""
    for name in ("R1", "R2", "collector"):
        host, _, port = ops_lab.parties[name].peer_address.rpartition(":")
        assert chosen(host, int(port)) == HYBRID, name

    heard = threading.Event()

    def call(port: int) -> None:
        with grpc.secure_channel(f"127.0.0.1:{port}", grpc.ssl_channel_credentials()) as channel:
            ready = grpc.channel_ready_future(channel)
            heard.wait(patience(30))
            ready.cancel()

    try:
        assert offered(call)[0] == HYBRID
    finally:
        heard.set()


def test_a_device_has_what_its_openssl_has() -> None:
    """Python's TLS is the machine's OpenSSL, which has it from 3.5 on; devices' answers are sealed inside in any case."""

    def call(port: int) -> None:
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                ssl.create_default_context().wrap_socket(connection, server_hostname="localhost")
        except (OSError, ssl.SSLError):
            pass

    groups = offered(call)
    assert CLASSICAL in groups
    assert (HYBRID in groups) == (ssl.OPENSSL_VERSION_INFO >= (3, 5))
