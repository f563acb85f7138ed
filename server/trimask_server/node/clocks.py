"""Clock skew between nodes, with which invitations, tokens and certificates expire too early or too late."""

from __future__ import annotations

import asyncio

from trimask_core.errors import Refused
from trimask_core.study import Party
from trimask_proto.v1 import node_pb2
from trimask_proto.v1.node_pb2_grpc import NodeServiceStub
from trimask_server.node.context import NodeContext

__all__ = ["SKEW_SECONDS", "skew_seconds", "skew_words", "warn_of_skew"]

SKEW_SECONDS = 5.0
_WAIT_SECONDS = 30.0  # peers may be starting up as well


def skew_seconds(before_ms: int, theirs_ms: int, after_ms: int) -> float:
    """How far a peer's clock is ahead of ours, at least: it answered at some moment between asking and its answer."""
    if not theirs_ms:  # a node that does not say
        return 0.0
    if theirs_ms > after_ms:
        return (theirs_ms - after_ms) / 1000
    return min(0, theirs_ms - before_ms) / 1000


def skew_words(name: str, seconds: float) -> str:
    """A skew in words; nothing if it is small."""
    if abs(seconds) < SKEW_SECONDS:
        return ""
    how = "ahead of" if seconds > 0 else "behind"
    return f"the clock of {name} is {abs(seconds):,.0f} seconds {how} ours: one of the two is wrong"


async def warn_of_skew(context: NodeContext) -> None:
    """Ask every peer of every study for its time once, and log the clocks that differ."""
    peers: dict[str, Party] = {}
    for study in context.studies.all():
        peers |= {party.tls_name: party for party in study.parties.values()}

    async def one(party: Party) -> None:
        stub = NodeServiceStub(context.peers.channel(party))
        before = context.clock.now_ms()
        try:
            answer = await context.peers.call(
                stub.DescribeNode, node_pb2.DescribeNodeRequest(), _WAIT_SECONDS
            )
        except Refused:
            return
        words = skew_words(
            f"{party.name} ({party.tls_name})",
            skew_seconds(before, answer.clock_time_ms, context.clock.now_ms()),
        )
        if words:
            context.log.warning("%s; keep this machine's clock by NTP", words)

    own = context.keys.identity.public
    await asyncio.gather(*(one(party) for party in peers.values() if party.identity != own))
