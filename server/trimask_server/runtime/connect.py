"""Connect's unary protocol: one protobuf message over one HTTP POST, and a refusal as JSON.

https://connectrpc.com/docs/protocol: the path names the call, the content type the encoding; an error is a JSON object with
one of gRPC's codes, under the HTTP status that Connect gives it. What gRPC sends in trailers goes into headers here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.message import Message

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason

PROTO, JSON = "application/proto", "application/json"
_VERSION = "1"
# (Connect's name, HTTP status) of gRPC's statuses; "canceled" is Connect's spelling.
_CODES = {
    grpc.StatusCode.CANCELLED: ("canceled", 499),
    grpc.StatusCode.UNKNOWN: ("unknown", 500),
    grpc.StatusCode.INVALID_ARGUMENT: ("invalid_argument", 400),
    grpc.StatusCode.DEADLINE_EXCEEDED: ("deadline_exceeded", 504),
    grpc.StatusCode.NOT_FOUND: ("not_found", 404),
    grpc.StatusCode.ALREADY_EXISTS: ("already_exists", 409),
    grpc.StatusCode.PERMISSION_DENIED: ("permission_denied", 403),
    grpc.StatusCode.RESOURCE_EXHAUSTED: ("resource_exhausted", 429),
    grpc.StatusCode.FAILED_PRECONDITION: ("failed_precondition", 400),
    grpc.StatusCode.ABORTED: ("aborted", 409),
    grpc.StatusCode.OUT_OF_RANGE: ("out_of_range", 400),
    grpc.StatusCode.UNIMPLEMENTED: ("unimplemented", 501),
    grpc.StatusCode.INTERNAL: ("internal", 500),
    grpc.StatusCode.UNAVAILABLE: ("unavailable", 503),
    grpc.StatusCode.DATA_LOSS: ("data_loss", 500),
    grpc.StatusCode.UNAUTHENTICATED: ("unauthenticated", 401),
}


class HttpCall:
    """A call that came over HTTP, as the layers around a handler see it: what they use of gRPC's context."""

    __slots__ = ("_authorization", "_code", "_peer", "message", "reading", "task", "trailers")

    def __init__(self, peername: object, authorization: Iterable[str] = ()) -> None:
        self._peer = peer_of(peername)
        self._authorization = tuple(authorization)
        self._code: grpc.StatusCode | None = None
        self.message = ""
        self.trailers: tuple[tuple[str, str], ...] = ()
        self.task: Any = None  # what reads the message, while it does: `inbound_limits` may end it
        self.reading = False

    def peer(self) -> str:
        """Who calls, as gRPC writes it."""
        return self._peer

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Nobody shows a certificate here."""
        return {}

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """What the gate looks at."""
        return tuple(("authorization", value) for value in self._authorization)

    def code(self) -> grpc.StatusCode | None:
        """The status it was ended with."""
        return self._code

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """End the call: from its handler, or while its message is on its way."""
        self._code, self.message, self.trailers = code, details, trailing_metadata
        if self.reading:
            self.task.cancel()
            return
        raise grpc.aio.AbortError(details)


def peer_of(peername: object) -> str:
    """A socket's other end, as gRPC writes it."""
    host, port = peername[:2] if isinstance(peername, tuple) else ("", 0)
    return f"ipv6:[{host}]:{port}" if ":" in str(host) else f"ipv4:{host}:{port}"


def error_answer(code: grpc.StatusCode, message: str) -> tuple[int, bytes]:
    """The HTTP status and body of a refusal."""
    name, status = _CODES[code]
    return status, json.dumps({"code": name, "message": message}, ensure_ascii=False).encode()


def timeout_of(headers: Mapping[str, str]) -> float | None:
    """The seconds a caller waits; refused unless the protocol's headers are well formed."""
    version = headers.get("Connect-Protocol-Version", _VERSION)
    if version != _VERSION:
        raise Refused(Reason.MALFORMED, f"Connect-Protocol-Version must be {_VERSION}")
    given = headers.get("Connect-Timeout-Ms", "")
    if not given:
        return None
    if len(given) > 10 or not (given.isascii() and given.isdigit()):
        raise Refused(
            Reason.MALFORMED, "Connect-Timeout-Ms must be a whole number of milliseconds, at most 10 digits"
        )
    return int(given) / 1000


@cache
def message_types(method: str) -> tuple[type[Message], type[Message]]:
    """What a call takes and gives, by its path."""
    service, _, name = method.lstrip("/").partition("/")
    found = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
    return message_factory.GetMessageClass(found.input_type), message_factory.GetMessageClass(
        found.output_type
    )


def read_json_message(method: str, data: bytes) -> bytes:
    """A request in protobuf's JSON form as the bytes it stands for."""
    message = message_types(method)[0]()
    try:
        json_format.Parse(data, message, ignore_unknown_fields=True)
    except (json_format.ParseError, UnicodeDecodeError, RecursionError):
        raise Refused(Reason.MALFORMED, "the request is not the message this RPC takes, as JSON") from None
    return message.SerializeToString()
