"""A stranger's HTTP/2 connection to a public port, bound by nothing but what the server enforces."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from collections import Counter
from pathlib import Path
from types import TracebackType

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from trimask_patience import patience

__all__ = ["Stranger"]


class Stranger:
    """Opens calls, and sends of each announced message all but the last byte."""

    def __init__(self, address: str, roots: Path, tls_name: str, source: str = "127.0.0.1") -> None:
        host, _, port = address.rpartition(":")
        context = ssl.create_default_context(cafile=roots)
        context.set_alpn_protocols(["h2"])
        plain = socket.create_connection((host, int(port)), timeout=patience(20), source_address=(source, 0))
        self._socket = context.wrap_socket(plain, server_hostname=tls_name)
        self._connection = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        )
        self._left: dict[int, int] = {}
        self.sent = 0
        self.statuses: Counter[str] = Counter()  # of calls that were answered, by reason or gRPC status
        self._connection.initiate_connection()
        self._flush()
        self._receive(20)

    def __enter__(self) -> Stranger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def begin(self, path: str, count: int, size: int) -> int:
        """Begin up to `count` calls with a message of `size` bytes each, as many as may be open; how many."""
        may = self._connection.remote_settings.max_concurrent_streams - len(self._left)
        for _ in range(min(count, may)):
            stream = self._connection.get_next_available_stream_id()
            headers = [
                (":method", "POST"), (":scheme", "https"), (":path", path), (":authority", "x"),
                ("te", "trailers"), ("content-type", "application/grpc"),
            ]  # fmt: skip
            self._connection.send_headers(stream, headers)
            self._connection.send_data(stream, b"\0" + size.to_bytes(4, "big"))
            self._left[stream] = size - 1
        self._flush()
        return min(count, may)

    def push(self, quiet_seconds: float = 1.5) -> None:
        """Send whatever is still accepted, until nothing has been for a while."""
        more = True
        while more and self._left:
            moved = sum(self._send_some(stream) for stream in list(self._left)) > 0
            more = self._flush() and (moved or self._receive(quiet_seconds))
            while more and select.select([self._socket], [], [], 0)[0]:
                more = self._receive(quiet_seconds)

    def finish(self) -> None:
        """Send what is left of every message, the last byte too, and wait for the answers."""
        wanted = self.statuses.total() + len(self._left)
        for stream, size in self._left.items():
            self._connection.send_data(stream, bytes(size + 1), end_stream=True)
        self._flush()
        self.wait(wanted)

    def drain(self) -> None:
        """Take in what the server has sent so far."""
        while select.select([self._socket], [], [], 0.2)[0] and self._receive(1):
            pass

    def wait(self, answers: int) -> None:
        """Until so many calls were answered."""
        while self.statuses.total() < answers:
            assert self._receive(60), "no more answers"

    def _send_some(self, stream: int) -> bool:
        with contextlib.suppress(h2.exceptions.ProtocolError):
            window = self._connection.local_flow_control_window(stream)
            size = min(window, self._connection.max_outbound_frame_size, self._left[stream])
            if size > 0:
                self._connection.send_data(stream, bytes(size))
                self._left[stream] -= size
                self.sent += size
                return True
            return False
        self._left.pop(stream)
        return False

    def _flush(self) -> bool:
        try:
            self._socket.sendall(self._connection.data_to_send())
        except OSError:
            return False
        return True

    def _receive(self, seconds: float) -> bool:
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(1 << 16)
        except OSError:
            return False
        finally:
            self._socket.settimeout(20)
        for event in self._connection.receive_data(data):
            if isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                found = dict(event.headers)
                if "grpc-status" in found:
                    self.statuses[found.get("trimask-reason") or found["grpc-status"]] += 1
            if isinstance(event, (h2.events.StreamReset, h2.events.StreamEnded)):
                self._left.pop(event.stream_id, None)
        self._flush()
        return bool(data)
