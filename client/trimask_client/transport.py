"""The transport that sends bytes to a provider: h2 by default, or one that the program supplies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from trimask_core.basics.encoding import shown
from trimask_core.basics.errors import Refused, TrimaskError
from trimask_core.basics.refusals import read_reason

_LONGEST_RETRY_MS = 6 * 3600 * 1000
MAX_RESPONSE_BYTES = 4 << 20
# Without a reason from the node itself, these mean that the call did not reach it, or may not have.
_AGAIN = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED", "UNKNOWN"}


@dataclass(frozen=True)
class Endpoint:
    """Where a party is, the name its certificate must carry, and whom to trust for it (PEM; empty: the system's)."""

    address: str
    tls_name: str
    roots: str


class Unreachable(TrimaskError):
    """A provider could not be reached or did not answer in time; sending again later is safe."""


class Transport(Protocol):
    """Unary gRPC calls over TLS. Connections are kept and reused."""

    def call(self, endpoint: Endpoint, method: str, request: bytes, timeout_seconds: float) -> bytes:
        """The response's bytes; `Refused` if the other side refused, `Unreachable` if it could not be asked."""
        ...

    def close(self) -> None:
        """Drop all connections."""
        ...


def read_retry(value: str | bytes | None) -> int | None:
    """The node's requested delay before a retry, in milliseconds, at most six hours."""
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else value or ""
    return min(int(text), _LONGEST_RETRY_MS) if text.isascii() and text.isdigit() and len(text) < 12 else None


def call_error(
    endpoint: Endpoint, status: str, reason: str | None, details: str, retry_after_ms: int | None = None
) -> Refused | Unreachable:
    """What a call that ended in the gRPC status named `status` raises; `reason` is the node's own word for it."""
    details = shown(details)
    if reason is None and status == "DEADLINE_EXCEEDED":  # whichever side noticed first
        details = "no answer in time; it may be busy, or the network slow"
    if reason is None and status in _AGAIN:
        return Unreachable(f"{endpoint.address}: {details}")
    return Refused(read_reason(reason, status), details, retry_after_ms=retry_after_ms)
