"""A gRPC peer that is not ours: the client's calls by grpcio. Nodes are tried with it as with our h2 transport."""

from __future__ import annotations

import threading

import grpc

from trimask_client.h2_connection import MAX_RESPONSE_BYTES
from trimask_client.transport import Endpoint, call_error, read_retry
from trimask_core.basics.refusals import REASON_KEY, RETRY_KEY

__all__ = ["GrpcioTransport"]


class GrpcioTransport:
    """One channel an endpoint."""

    def __init__(self) -> None:
        self._channels: dict[Endpoint, grpc.Channel] = {}
        self._guard = threading.Lock()

    def _channel(self, endpoint: Endpoint) -> grpc.Channel:
        with self._guard:
            if endpoint not in self._channels:
                self._channels[endpoint] = _open(endpoint)
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
            text = reason.decode() if isinstance(reason, bytes) else reason
            words = details if text is not None else _explain(code, details)
            again = read_retry(found.get(RETRY_KEY))
            raise call_error(endpoint, code.name, text, words, again) from None
        return response

    def close(self) -> None:
        """See `Transport`."""
        with self._guard:
            channels = list(self._channels.values())
            self._channels.clear()
        for channel in channels:
            channel.close()


def _open(endpoint: Endpoint) -> grpc.Channel:
    credentials = grpc.ssl_channel_credentials(endpoint.roots.encode() or None)
    options = [
        ("grpc.ssl_target_name_override", endpoint.tls_name),
        ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2000),
    ]
    return grpc.secure_channel(endpoint.address, credentials, options)


def _explain(code: grpc.StatusCode, details: str) -> str:
    """grpc's words for a failed handshake are long; the part that helps is which check failed."""
    lowered = details.lower()
    if code != grpc.StatusCode.UNAVAILABLE:
        return details
    if "certificate has expired" in lowered:
        return "its TLS certificate is expired"
    if "certificate_verify_failed" in lowered:
        return "its TLS certificate is not from an authority the study names"
    if "hostname verification" in lowered:
        return "its TLS certificate carries another name"
    return "no answer; it may be down, or the network"
