"""The collector gathers totals: commitments of all right providers first, then every delivery, checked and added up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from trimask_core.errors import Refused
from trimask_core.identity import verify
from trimask_core.moments.release import (
    asked_hash,
    commitment_message,
    decode,
    read_values,
    values_hash,
)
from trimask_core.study import Study
from trimask_proto.v1 import moments_pb2
from trimask_proto.v1.moments_pb2_grpc import MomentsServiceStub
from trimask_server.node.context import NodeContext
from trimask_server.suites.moments.introductions import right_roles
from trimask_server.suites.moments.question import Question

__all__ = ["Gathered", "gather"]


@dataclass(frozen=True)
class Gathered:
    """The noisy totals, with everything that proves them: what each provider committed to and delivered."""

    totals: list[int]
    accepted_hash: bytes
    accepted_count: int
    commitments: Sequence[moments_pb2.TotalsCommitment]
    deliveries: Sequence[moments_pb2.DeliverTotalsResponse]


async def gather(
    node: NodeContext, study: Study, number: int, batch_ids: Sequence[bytes], question: bytes = b""
) -> Gathered:
    """Ask every right provider; a repeat gets the same answer."""
    totals = moments_pb2.AskedTotals(
        study_id=study.id, release_number=number, batch_ids=b"".join(batch_ids), question=question
    )
    asked = asked_hash(study.id, number, totals.batch_ids, question)
    stubs = {role: MomentsServiceStub(node.peers.channel(study.party(role))) for role in right_roles(study)}
    request = moments_pb2.CommitTotalsRequest(totals=totals)
    answers = await asyncio.gather(*(node.peers.call(stub.CommitTotals, request) for stub in stubs.values()))
    commitments = [answer.commitment for answer in answers]
    for role, item in zip(stubs, commitments, strict=True):
        message = commitment_message(asked, role, item.accepted_hash, item.accepted_count, item.values_hash)
        verify(study.party(role).identity, "totals", message, item.signature, f"the commitment of {role}")
    if len({(item.accepted_hash, item.accepted_count) for item in commitments}) != 1:
        raise Refused("batch_disagreed", "the right providers have different reports in this release")
    deliver = moments_pb2.DeliverTotalsRequest(totals=totals, commitments=commitments)
    deliveries = await asyncio.gather(
        *(node.peers.call(stub.DeliverTotals, deliver) for stub in stubs.values())
    )
    count = _count(study, question)
    values = []
    for role, item, delivery in zip(stubs, commitments, deliveries, strict=True):
        found = read_values(delivery.values, count)
        if values_hash(found, delivery.salt) != item.values_hash:
            raise Refused("batch_disagreed", f"{role} delivered something other than it committed to")
        values.append(found)
    first = commitments[0]
    return Gathered(decode(values), first.accepted_hash, first.accepted_count, commitments, deliveries)


def _count(study: Study, question: bytes) -> int:
    layout = study.moments.layout
    if question:
        return len(Question.read(question, study).places(layout))
    return layout.q + len(layout.products)
