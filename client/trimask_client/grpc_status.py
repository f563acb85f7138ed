"""From a gRPC failure to the error a caller should see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import grpc

from trimask_core.errors import ConnectionFailed, Refused
from trimask_core.letters import shown
from trimask_core.refusals import REASON_KEY, read_reason

__all__ = ["plain_errors"]

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
