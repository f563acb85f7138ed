"""gRPC channels to a node, for a researcher, a study owner or an operator. There is no way to open one without TLS.

A gRPC failure becomes the error that a caller should see.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, cast

import grpc

from trimask_core.basics.encoding import shown
from trimask_core.basics.errors import ConnectionFailed, ParameterError, Refused
from trimask_core.basics.refusals import REASON_KEY, read_reason

Pem: TypeAlias = str | bytes | Path
MAX_MESSAGE_BYTES = 4 << 20

# Reading can be repeated, so it is when the collector restarts; what changes something is named nowhere here.
_READ_AGAIN = json.dumps(
    {
        "methodConfig": [
            {
                "name": [
                    {"service": "trimask_proto.v1.StudyService"},
                    {"service": "trimask_proto.v1.DatasetService"},
                ],
                "retryPolicy": {
                    "maxAttempts": 4,
                    "initialBackoff": "0.2s",
                    "maxBackoff": "2s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ]
    }
)


def _read(pem: Pem | None, what: str) -> bytes | None:
    """PEM given as such, or as the path of a file that holds it."""
    if pem is None:
        return None
    if isinstance(pem, (str, Path)) and "-----BEGIN" not in str(pem):
        path = Path(pem).expanduser()
        if not path.is_file():
            raise ParameterError(what, "PEM text or the path of a PEM file", str(pem))
        content = path.read_bytes()
    else:
        content = pem if isinstance(pem, bytes) else str(pem).encode()
    if b"-----BEGIN" not in content:
        raise ParameterError(what, "PEM text or the path of a PEM file")
    return content


def open_channel(
    target: str,
    roots: Pem | None = None,
    tls_name: str | None = None,
    certificate: Pem | None = None,
    key: Pem | None = None,
    token: str | None = None,
) -> grpc.Channel:
    """A TLS channel to host:port.

    `roots` are the authorities to trust (the system's when None). `tls_name` is the name to expect in the
    server's certificate when it is not the host's. `certificate` and `key` prove who the caller is (mutual
    TLS of a study's owner). `token` is a researcher's, sent with every call.
    """
    address = target.removeprefix("https://").rstrip("/")
    if target.startswith("http://"):
        raise ParameterError("target", "host:port; there is no connection without TLS", target)
    if not address or "/" in address or ":" not in address:
        raise ParameterError("target", "host:port", target)
    if (certificate is None) != (key is None):
        raise ParameterError("certificate and key", "given together")
    credentials = grpc.ssl_channel_credentials(
        root_certificates=_read(roots, "roots"),
        private_key=_read(key, "key"),
        certificate_chain=_read(certificate, "certificate"),
    )
    if token is not None:
        if not token.isascii() or not token.isprintable() or " " in token or not token:
            raise ParameterError("token", "the text the study's owner was shown, without spaces")
        credentials = grpc.composite_channel_credentials(
            credentials, grpc.access_token_call_credentials(token)
        )
    options: list[tuple[str, str | int]] = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.service_config", _READ_AGAIN),
    ]
    if tls_name is not None:
        options.append(("grpc.ssl_target_name_override", tls_name))
    return grpc.secure_channel(address, credentials, options=options)


_UNREACHED = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}


@contextmanager
def plain_errors(target: str) -> Iterator[None]:
    """Turn `grpc.RpcError` raised inside into `Refused` or `ConnectionFailed`."""
    try:
        yield
    except grpc.RpcError as error:
        # What stubs raise is also a Call, which has the details; the type of RpcError does not say so.
        call = cast("grpc.Call", error)
        code, details = call.code(), shown(str(call.details() or "no details given"))
        reason = next((value for key, value in call.trailing_metadata() or () if key == REASON_KEY), None)
        if reason is not None:
            raise Refused(read_reason(reason, code.name), details) from None
        if code in _UNREACHED:
            details = details.rpartition("Failed to connect to remote host: ")[
                2
            ]  # gRPC names the address once more
            hint = " (check roots and tls_name)" if "SSL" in details or "handshake" in details.lower() else ""
            raise ConnectionFailed(f"{target} could not be reached: {details}{hint}") from None
        raise Refused(read_reason(None, code.name), f"{target}: {details}") from None
