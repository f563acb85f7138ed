"""How bytes reach a provider. One interface, so that a device without grpcio can bring its own gRPC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from trimask_core.errors import Refused, TrimaskError

__all__ = ["REASON_KEY", "Endpoint", "Transport", "Unreachable", "default_transport"]

REASON_KEY = "trimask-reason"


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


def default_transport() -> Transport:
    """grpcio."""
    from trimask_client.grpcio_transport import GrpcioTransport

    return GrpcioTransport()


def refusal(reason: str | None, details: str) -> Refused:
    """A refusal as it came over the wire."""
    return Refused(reason or "refused", details)
