"""One question to a collector, paid once.

A request carries a random id. If the reply is lost, the same id sent again brings the same answer at no further cost:
that is done here a few times, and after that the error says which id to ask again with.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

from trimask.catalogue import study_key
from trimask.errors import ConnectionFailed, ParameterError
from trimask.release.answer import Answer
from trimask.release.stub import release_stub
from trimask_client.grpc_status import plain_errors
from trimask_core.study import Study
from trimask_proto.v1 import release_pb2

if TYPE_CHECKING:
    from trimask.connection import Connection

__all__ = ["Price", "ask_collector"]

Price: TypeAlias = tuple[float | None, float | None, float | None]
"""epsilon, delta and mu."""
_TRIES = 3


def _request_id(given: bytes | str | None) -> bytes:
    if given is None:
        return os.urandom(16)
    try:
        key = bytes.fromhex(given) if isinstance(given, str) else bytes(given)
    except ValueError:
        key = b""
    if len(key) != 16:
        raise ParameterError("request_id", "32 hexadecimal digits, or 16 bytes", given)
    return key


def ask_collector(
    connection: Connection,
    study_id: str | bytes,
    price: Price,
    request_id: bytes | str | None,
    **mechanism: Any,
) -> tuple[Study, Answer]:
    """Send one question at a price of epsilon and delta, or mu; the study, and the answer, checked."""
    epsilon, delta, mu = price
    request = release_pb2.AskReleaseRequest(
        study_id=study_key(study_id), request_id=_request_id(request_id), **mechanism
    )
    if mu is not None and epsilon is None and delta is None:
        request.gaussian.mu = mu
    elif mu is None and epsilon is not None and delta is not None:
        request.approximate.epsilon, request.approximate.delta = epsilon, delta
        request.approximate.SetInParent()
    else:
        raise ParameterError("price", "epsilon and delta, or mu")
    study = connection.study(study_id)
    stub, timeout = release_stub(connection)
    for left in reversed(range(_TRIES)):
        try:
            with plain_errors(connection.target):
                response = stub.AskRelease(request, timeout=timeout)
        except ConnectionFailed as error:
            if left:
                continue
            raise ConnectionFailed(
                f"{error}. If the collector had answered it is paid for: ask again with "
                f"request_id={request.request_id.hex()!r}, which costs nothing more"
            ) from None
        else:
            return study, Answer.read(study, request, response)
    raise AssertionError  # the loop returns or raises
