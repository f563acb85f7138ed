"""gRPC on HTTP/2, the parts that are bytes and words: message framing, deadlines, status, percent-encoding.

After the protocol description "gRPC over HTTP2" of the gRPC project: a message is a flag byte, four bytes of
length and the body; the outcome is in the trailers (or in the headers alone, when there is no body).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trimask_core.refusals import REASON_KEY, RETRY_KEY

__all__ = [
    "STATUS_NAMES",
    "CallFailed",
    "encode_timeout",
    "frame_message",
    "message_length",
    "percent_decode",
    "read_answer",
    "reset_status",
]

PREFIX_BYTES = 5
STATUS_NAMES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
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
    length = message_length(body)
    if length is None or body[0] != 0 or len(body) != PREFIX_BYTES + length:
        raise CallFailed("INTERNAL", "the answer is not one uncompressed gRPC message", answered=True)
    return bytes(body[PREFIX_BYTES:])
