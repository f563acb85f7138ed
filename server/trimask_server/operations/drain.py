"""Stopping well: health first, nothing new, tries handed back, what is under way finished, then the end.

A device whose submission was acknowledged has it on disk, for acknowledging comes after the commit; what is refused while
draining is sent again by the device. A try that this node was part of cannot be finished by anybody else, since masks are
never saved, so the collector is told and begins another when the node is back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trimask_core.errors import TrimaskError
from trimask_proto.v1 import common_pb2
from trimask_proto.v1.collection_pb2 import ReportFailureRequest
from trimask_proto.v1.collection_pb2_grpc import CollectionServiceStub

if TYPE_CHECKING:
    from trimask_server.node import Node

__all__ = ["CALLS_SECONDS", "wind_down"]

CALLS_SECONDS = 8.0
_TELL_SECONDS = 2.0


async def wind_down(node: Node) -> None:
    """What comes before the ports are closed. Returns when the collector was told of every try, or cannot be."""
    await node.drain()
    await node.health.set(serving=False)
    await asyncio.gather(*(_hand_back(node, attempt) for source in node.tries for attempt in source()))


async def _hand_back(node: Node, attempt: common_pb2.Attempt) -> None:
    try:
        stub = CollectionServiceStub(node.peers.channel(node.studies.get(attempt.study_id).collector))
        request = ReportFailureRequest(attempt=attempt, reason="draining")
        await node.peers.call(stub.ReportFailure, request, _TELL_SECONDS)
    except TrimaskError as error:  # it finds out by the boot id
        node.log.warning("could not hand try %d back: %s", attempt.number, error)
        return
    node.metrics.tries.labels("handed_back").inc()
