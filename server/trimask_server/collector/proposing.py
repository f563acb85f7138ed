"""From a study's owner to every operator and back: the collector forwards a proposal and gathers the decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_core.signed_study import SignedStudy
from trimask_core.study import Party, Study
from trimask_proto.v1 import governance_pb2, study_pb2
from trimask_proto.v1.governance_pb2_grpc import ProposalServiceStub
from trimask_server.access.governance import DECISIONS
from trimask_server.access.proposals import Proposals
from trimask_server.node.context import NodeContext

__all__ = ["gather_approvals", "send_proposal"]

_SECONDS = 10.0
Ask = Callable[[ProposalServiceStub], Awaitable[study_pb2.PartyDecision]]


async def send_proposal(
    node: NodeContext, proposals: Proposals, signed: SignedStudy
) -> list[study_pb2.PartyDecision]:
    """Keep a study for this node's operator and send it to every other; which nodes could not be reached, and why."""
    signed = signed.without_seed()
    study = signed.study
    node.require_collector_of(study)
    await proposals.propose(signed, node.clock.now_ms())
    request = governance_pb2.ProposeStudyRequest(signed_study=signed.to_json().encode())

    async def hand_over(stub: ProposalServiceStub) -> study_pb2.PartyDecision:
        await node.peers.call(stub.ProposeStudy, request, _SECONDS)
        return await _ask(node, stub, study)

    return await _each(node, proposals, study, hand_over)


async def gather_approvals(
    node: NodeContext, proposals: Proposals, study_id: bytes
) -> list[study_pb2.PartyDecision]:
    """What every operator decided about a study that was proposed."""
    found = await proposals.get(study_id)
    if found is None:
        raise Refused(
            Reason.UNKNOWN_STUDY, "that study was not proposed here; `trimask study propose` does it"
        )
    study = found.signed.study
    return await _each(node, proposals, study, lambda stub: _ask(node, stub, study))


async def _ask(node: NodeContext, stub: ProposalServiceStub, study: Study) -> study_pb2.PartyDecision:
    answer = await node.peers.call(
        stub.GetDecision, governance_pb2.GetDecisionRequest(study_id=study.id), _SECONDS
    )
    return study_pb2.PartyDecision(decision=answer.decision, approval=answer.approval, reason=answer.reason)


async def _each(
    node: NodeContext, proposals: Proposals, study: Study, ask: Ask
) -> list[study_pb2.PartyDecision]:
    async def one(role: str, party: Party) -> study_pb2.PartyDecision:
        if role == "collector":
            own = await proposals.get(study.id)
            decision = study_pb2.PartyDecision()
            if own is not None:
                decision = study_pb2.PartyDecision(
                    decision=DECISIONS[own.decision], approval=own.approval.encode(), reason=own.reason
                )
        else:
            try:
                decision = await ask(ProposalServiceStub(node.peers.channel(party)))
            except Refused as error:
                decision = study_pb2.PartyDecision(reason=f"{error.reason}: {error}")
        decision.role = role
        return decision

    return list(await asyncio.gather(*(one(role, party) for role, party in study.parties.items())))
