"""ReleaseService over a connection that is open already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimask_proto.v1.release_pb2_grpc import ReleaseServiceStub

if TYPE_CHECKING:
    from trimask.connection import Connection

__all__ = ["release_stub"]


def release_stub(connection: Connection) -> tuple[ReleaseServiceStub, float]:
    """The stub and the connection's timeout in seconds."""
    return ReleaseServiceStub(connection._channel), connection._timeout
