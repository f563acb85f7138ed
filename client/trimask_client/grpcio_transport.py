"""The transport where grpcio is installed."""

from __future__ import annotations

import grpc

from trimask_client.transport import REASON_KEY, Endpoint, Unreachable, refusal

__all__ = ["GrpcioTransport"]

_AGAIN = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
}


class GrpcioTransport:
    """One channel an endpoint."""

    def __init__(self) -> None:
        self._channels: dict[Endpoint, grpc.Channel] = {}

    def _channel(self, endpoint: Endpoint) -> grpc.Channel:
        if endpoint not in self._channels:
            credentials = grpc.ssl_channel_credentials(endpoint.roots.encode() or None)
            options = [
                ("grpc.ssl_target_name_override", endpoint.tls_name),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.min_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 2000),
            ]
            self._channels[endpoint] = grpc.secure_channel(endpoint.address, credentials, options)
        return self._channels[endpoint]

    def call(self, endpoint: Endpoint, method: str, request: bytes, timeout_seconds: float) -> bytes:
        """See `Transport`."""
        invoke: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel(endpoint).unary_unary(method)
        try:
            response: bytes = invoke(request, timeout=timeout_seconds)
        except grpc.RpcError as error:
            code, details = error.code(), error.details() or ""
            found = {item.key: item.value for item in error.trailing_metadata() or ()}
            reason = found.get(REASON_KEY)
            if reason is None and code in _AGAIN:
                raise Unreachable(f"{endpoint.address}: {_explain(details)}") from None
            text = reason.decode() if isinstance(reason, bytes) else reason
            raise refusal(text or code.name.lower(), details) from None
        return response

    def close(self) -> None:
        """See `Transport`."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()


def _explain(details: str) -> str:
    """grpc's words for a failed handshake are long; the part that helps is which check failed."""
    lowered = details.lower()
    if "certificate" in lowered or "ssl" in lowered or "handshake" in lowered:
        expired = "expired" in lowered or "CERTIFICATE_VERIFY_FAILED" in details
        why = "is expired, or not from an authority the study names" if expired else "was not accepted"
        return f"its TLS certificate {why}"
    return "no answer; it may be down, or the network"
