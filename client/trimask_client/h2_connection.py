"""One TLS connection that carries gRPC calls, one at a time: `h2` for the frames, `ssl` and a socket for the bytes.

Every wait, for the peer's name to connect, for room to write, for an answer, ends at the call's deadline. The one
exception is the name service, which Python cannot interrupt.

Framing, deadlines, status and percent-encoding are after the gRPC project's "gRPC over HTTP2": a message is a flag byte,
four bytes of length and the body; the outcome is in the trailers (or in the headers alone, when there is no body).
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from trimask_core.basics.refusals import REASON_KEY, RETRY_KEY, Status

PREFIX_BYTES = 5
MAX_RESPONSE_BYTES = 4 << 20
STATUS_NAMES = ("OK", *Status.__members__)
# What an HTTP status means where a proxy answered in the place of a gRPC server.
_HTTP = {"400": "INTERNAL", "401": "UNAUTHENTICATED", "403": "PERMISSION_DENIED", "404": "UNIMPLEMENTED"}
_HTTP |= dict.fromkeys(("429", "502", "503", "504"), "UNAVAILABLE")
# RST_STREAM codes: 7 REFUSED_STREAM, 8 CANCEL, 11 ENHANCE_YOUR_CALM, 12 INADEQUATE_SECURITY.
_RESET = {7: "UNAVAILABLE", 8: "CANCELLED", 11: "RESOURCE_EXHAUSTED", 12: "PERMISSION_DENIED"}
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


@dataclass
class CallFailed(Exception):
    """A call that ended without a message.

    `answered`: the server ended the call itself, so the connection is still good. `unprocessed`: it has surely not
    begun it, so the call may be made again on another connection. `retry_after` is the server's wish, as it came.
    """

    status: str
    details: str
    reason: str | None = None
    answered: bool = False
    unprocessed: bool = False
    retry_after: bytes | None = None


def frame_message(message: bytes) -> bytes:
    """The message as it goes into DATA frames, uncompressed."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def message_length(body: bytes | bytearray) -> int | None:
    """The announced length of the message that `body` begins with, once its prefix is there."""
    return int.from_bytes(body[1:PREFIX_BYTES], "big") if len(body) >= PREFIX_BYTES else None


def encode_timeout(seconds: float) -> str:
    """The grpc-timeout header: at most eight digits and a unit."""
    milliseconds = max(1, round(seconds * 1000))
    return f"{milliseconds}m" if milliseconds < 10**8 else f"{min(milliseconds // 1000, 10**8 - 1)}S"


def percent_decode(value: bytes) -> str:
    """grpc-message as text: %XX are bytes of UTF-8; what is not properly encoded stays as it came."""
    return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), value).decode("utf-8", "replace")


def reset_status(code: int) -> str:
    """The gRPC status of a reset stream."""
    return _RESET.get(code, "INTERNAL")


def read_answer(
    headers: Mapping[bytes, bytes], body: bytes | bytearray, trailers: Mapping[bytes, bytes]
) -> bytes:
    """The message of an answer that has ended, or `CallFailed` with what the trailers say."""
    found = {**headers, **trailers}
    http = headers.get(b":status", b"").decode("ascii", "replace")
    given = found.get(b"grpc-status")
    if given is None:
        if http == "200":
            raise CallFailed("UNKNOWN", "the answer ended without a gRPC status", answered=True)
        words = f"HTTP status {http or 'missing'} in place of a gRPC answer"
        raise CallFailed(_HTTP.get(http, "UNKNOWN"), words, answered=True)
    if given != b"0":
        number = int(given) if given.isdigit() else 2
        reason = found.get(REASON_KEY.encode())
        raise CallFailed(
            STATUS_NAMES[number] if number < len(STATUS_NAMES) else "UNKNOWN",
            percent_decode(found.get(b"grpc-message", b"")),
            None if reason is None else reason.decode("utf-8", "replace"),
            answered=True,
            retry_after=found.get(RETRY_KEY.encode()),
        )
    return read_message(body)


def read_message(body: bytes | bytearray) -> bytes:
    """The one message that it is."""
    length = message_length(body)
    if length is None or body[0] != 0 or len(body) != PREFIX_BYTES + length:
        raise CallFailed("INTERNAL", "the answer is not one uncompressed gRPC message", answered=True)
    return bytes(body[PREFIX_BYTES:])


_READ_BYTES = 1 << 16
_GOAWAY = 7
_FRAME_HEADER = 9
_IDLE_SECONDS = 20.0  # a connection idle for longer is pinged before it is used
_PING_SECONDS = 3.0
_NO_ANSWER = "no answer in time"
_DOWN = "no answer; it may be down, or the network"


class Deadline:
    """The time at which waiting ends."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def left(self) -> float:
        """Seconds left; `CallFailed` when there are none."""
        left = self._end - self._clock()
        if left <= 0:
            raise CallFailed("DEADLINE_EXCEEDED", _NO_ANSWER)
        return left

    def sooner(self, seconds: float) -> Deadline:
        """This deadline, or `seconds` from now if that is earlier."""
        return Deadline(min(seconds, self.left()), self._clock)


@dataclass
class _Stream:
    id: int
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    trailers: dict[bytes, bytes] = field(default_factory=dict)
    ended: bool = False
    reset: int | None = None

    @property
    def done(self) -> bool:
        return self.ended or self.reset is not None


class _GoAwayFilter:
    """Takes GOAWAY frames out of what h2 is given.

    A server that shuts down gracefully announces it with GOAWAY and then finishes the calls under way; h2 takes
    the first GOAWAY for the end of the connection and would refuse their answers.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self.last_stream: int | None = None

    def feed(self, data: bytes) -> bytes:
        self._held += data
        passed = bytearray()
        while len(self._held) >= _FRAME_HEADER:
            length = _FRAME_HEADER + int.from_bytes(self._held[:3], "big")
            # h2 checks lengths; a frame too long is passed on as it comes, for h2 to refuse.
            if len(self._held) < length <= _FRAME_HEADER + (1 << 20):
                break
            if self._held[3] == _GOAWAY and length >= _FRAME_HEADER + 8:
                body = self._held[_FRAME_HEADER:length]
                self.last_stream = int.from_bytes(body[:4], "big") & 0x7FFF_FFFF
            else:
                passed += self._held[:length]
            del self._held[:length]
        return bytes(passed)


class Connection:
    """A connection to one endpoint. Only one thread may use it at a time; any thread may call `close`."""

    def __init__(
        self,
        address: str,
        tls_name: str,
        context: ssl.SSLContext,
        deadline: Deadline,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authority = tls_name or address
        self._clock = clock
        self._socket = _open(address, tls_name, context, deadline)
        self._frames = _GoAwayFilter()
        self._stream: _Stream | None = None
        self._pongs = 0
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding=None)
        )
        self._h2.initiate_connection()
        self._used = clock()
        try:
            self._flush(deadline)
        except BaseException:
            self.close()
            raise

    @property
    def retired(self) -> bool:
        """The peer takes no more calls on this connection."""
        return self._frames.last_stream is not None

    def close(self) -> None:
        """Drop it; a call under way in another thread ends at once."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def usable(self, deadline: Deadline) -> bool:
        """Whether a call may be made: the peer has not ended the connection, and after a long pause it answers a ping."""
        try:
            while self._take(0.0, deadline):
                pass
            if not self.retired and self._clock() - self._used > _IDLE_SECONDS:
                wanted = self._pongs + 1
                self._h2.ping(b"trimask?")
                patience = deadline.sooner(_PING_SECONDS)
                self._flush(patience)
                while self._pongs < wanted:
                    self._take(patience.left(), patience)
        except CallFailed:
            return False
        return not self.retired

    def call(self, method: str, request: bytes, deadline: Deadline) -> bytes:
        """One unary call."""
        with self._calling() as stream:
            self._begin(stream, method, deadline, encode_timeout(deadline.left()))
            self._send(stream, request, deadline, last=True)
            while not stream.done:
                self._take(deadline.left(), deadline)
        return self._ended(stream)

    def exchange(self, method: str, requests: Iterable[bytes], seconds: float) -> Iterator[bytes]:
        """One call that streams both ways: the answer to each request, in order, while the next is on its way.

        Each may take `seconds`. Whoever does not read to the end closes the connection.
        """
        with self._calling() as stream:
            self._begin(stream, method, Deadline(seconds, self._clock))
            unanswered = 0
            for request in requests:
                self._send(stream, request, Deadline(seconds, self._clock))
                unanswered += 1
                if unanswered > 1:
                    yield self._answer(stream, Deadline(seconds, self._clock))
                    unanswered -= 1
            deadline = Deadline(seconds, self._clock)
            if not stream.done:
                self._h2.end_stream(stream.id)
                self._flush(deadline)
            for _ in range(unanswered):
                yield self._answer(stream, deadline)
            while not stream.done:
                self._take(deadline.left(), deadline)

    def _answer(self, stream: _Stream, deadline: Deadline) -> bytes:
        """The next message of an answer that streams; `CallFailed` if it ended instead."""
        while True:
            length = message_length(stream.body)
            if length is not None and len(stream.body) >= PREFIX_BYTES + length:
                message = read_message(stream.body[: PREFIX_BYTES + length])
                del stream.body[: PREFIX_BYTES + length]
                return message
            if stream.done:
                self._ended(stream)
                raise CallFailed("INTERNAL", "it answered fewer requests than it was sent", answered=True)
            self._take(deadline.left(), deadline)

    @contextlib.contextmanager
    def _calling(self) -> Iterator[_Stream]:
        """The stream of a call, the only one at a time."""
        stream = self._stream = _Stream(self._h2.get_next_available_stream_id())
        try:
            yield stream
        except h2.exceptions.ProtocolError:  # the peer allows no stream, or none of this size
            raise CallFailed("UNAVAILABLE", "it takes no calls on this connection") from None
        finally:
            self._stream = None
            self._used = self._clock()

    @staticmethod
    def _ended(stream: _Stream) -> bytes:
        if stream.reset is not None and b"grpc-status" not in {**stream.headers, **stream.trailers}:
            refused = stream.reset == h2.errors.ErrorCodes.REFUSED_STREAM
            raise CallFailed(reset_status(stream.reset), "it broke the call off", unprocessed=refused)
        return read_answer(stream.headers, stream.body, stream.trailers)

    def _begin(self, stream: _Stream, method: str, deadline: Deadline, timeout: str = "") -> None:
        self._h2.send_headers(
            stream.id,
            [
                (":method", "POST"),
                (":scheme", "https"),
                (":path", method),
                (":authority", self._authority),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "trimask-client"),
                *([("grpc-timeout", timeout)] if timeout else []),
            ],
        )
        self._flush(deadline)

    def _send(self, stream: _Stream, request: bytes, deadline: Deadline, *, last: bool = False) -> None:
        rest = memoryview(frame_message(request))
        while rest and not stream.done:
            room = min(self._h2.local_flow_control_window(stream.id), self._h2.max_outbound_frame_size)
            if room <= 0:  # the peer has not taken in what it was sent; it may also answer without doing so
                self._take(deadline.left(), deadline)
                continue
            part, rest = rest[:room], rest[room:]
            self._h2.send_data(stream.id, bytes(part), end_stream=last and not rest)
            self._flush(deadline)
        if rest and stream.reset is None:
            self._h2.reset_stream(stream.id, h2.errors.ErrorCodes.CANCEL)
            self._flush(deadline)

    def _flush(self, deadline: Deadline) -> None:
        data = memoryview(self._h2.data_to_send())
        try:
            while data:
                self._socket.settimeout(deadline.left())
                data = data[self._socket.send(data) :]
        except TimeoutError:
            raise CallFailed("DEADLINE_EXCEEDED", _NO_ANSWER) from None
        except OSError:
            raise CallFailed("UNAVAILABLE", _DOWN) from None

    def _take(self, timeout: float, deadline: Deadline) -> bool:
        """Take in what the peer sent, waiting up to `timeout` for it; False if there was nothing and none was waited for."""
        try:
            self._socket.settimeout(timeout)
            data = self._socket.recv(_READ_BYTES)
        except (ssl.SSLWantReadError, BlockingIOError):
            return False
        except TimeoutError:
            raise CallFailed("DEADLINE_EXCEEDED", _NO_ANSWER) from None
        except OSError:
            raise CallFailed("UNAVAILABLE", _DOWN) from None
        if not data:
            raise CallFailed("UNAVAILABLE", "it closed the connection")
        try:
            for event in self._h2.receive_data(self._frames.feed(data)):
                self._note(event)
        except h2.exceptions.ProtocolError:
            raise CallFailed("UNAVAILABLE", "it does not speak HTTP/2 properly") from None
        self._flush(deadline)  # what h2 answers by itself: settings, pings, windows
        stream, last = self._stream, self._frames.last_stream
        if stream is not None and last is not None and stream.id > last and not stream.done:
            raise CallFailed("UNAVAILABLE", "it is shutting down", unprocessed=True)
        return True

    def _note(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.PingAckReceived):
            self._pongs += 1
        elif isinstance(event, h2.events.DataReceived):
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        stream = self._stream
        if stream is None or getattr(event, "stream_id", None) != stream.id:
            return
        if isinstance(event, h2.events.ResponseReceived):
            stream.headers = dict(event.headers)
        elif isinstance(event, h2.events.TrailersReceived):
            stream.trailers = dict(event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            stream.ended = True
        elif isinstance(event, h2.events.StreamReset):
            stream.reset = int(event.error_code)
        elif isinstance(event, h2.events.DataReceived):
            stream.body += event.data
            if max(message_length(stream.body) or 0, len(stream.body) - 5) > MAX_RESPONSE_BYTES:
                raise CallFailed(
                    "RESOURCE_EXHAUSTED", f"the answer is larger than {MAX_RESPONSE_BYTES} bytes"
                )


def _open(address: str, tls_name: str, context: ssl.SSLContext, deadline: Deadline) -> ssl.SSLSocket:
    host, port = _split(address)
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise CallFailed("UNAVAILABLE", "its name is not found; there may be no network") from None
    for family, kind, protocol, _, place in places:
        plain = socket.socket(family, kind, protocol)
        try:
            plain.settimeout(deadline.left())
            plain.connect(place)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.settimeout(deadline.left())
            secure = context.wrap_socket(plain, server_hostname=tls_name or host)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise CallFailed("UNAVAILABLE", _certificate_words(error.verify_code)) from None
        except TimeoutError:
            plain.close()
            raise CallFailed("DEADLINE_EXCEEDED", _NO_ANSWER) from None
        except ssl.SSLError:
            plain.close()
            raise CallFailed("UNAVAILABLE", "the TLS handshake failed") from None
        except OSError:
            plain.close()
            continue
        except BaseException:
            plain.close()
            raise
        if secure.selected_alpn_protocol() != "h2":
            secure.close()
            raise CallFailed("UNAVAILABLE", "it does not offer HTTP/2")
        return secure
    raise CallFailed("UNAVAILABLE", _DOWN)


def _certificate_words(code: int) -> str:
    """OpenSSL's verification codes 10 (expired) and 62 (host name mismatch), and everything else."""
    why = {10: "is expired", 62: "carries another name"}.get(code, "is not from an authority the study names")
    return f"its TLS certificate {why}"


def _split(address: str) -> tuple[str, int]:
    """host:port or [v6]:port."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise CallFailed("UNAVAILABLE", "its address is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
