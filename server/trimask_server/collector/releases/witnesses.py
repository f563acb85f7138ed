"""The collector has a study's providers witness what an answer costs, before the answer goes out.

Every right provider must sign, so an answer waits while one of them is away: asked again, it comes as it was drawn. Left
providers are asked too: one that is unreachable delays nothing, one that has seen a different chain does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trimask_core.budget_chain import BudgetLink, chain, verify_spend
from trimask_core.errors import Refused, VerificationError
from trimask_core.refusals import Reason
from trimask_core.study import Study
from trimask_proto.v1 import witness_pb2
from trimask_proto.v1.witness_pb2_grpc import WitnessServiceStub
from trimask_server.collector.releases.answering import Unfinished
from trimask_server.node.context import NodeContext

__all__ = ["end_witnessing", "gather_witnesses"]

_SECONDS = 8.0
_AGAIN = "The answer is drawn and paid for: ask again with the same request id, it costs nothing more"


async def _ask(
    node: NodeContext, study: Study, request: witness_pb2.WitnessBudgetRequest
) -> dict[str, bytes | Refused]:
    async def one(role: str) -> bytes | Refused:
        stub = WitnessServiceStub(node.peers.channel(study.party(role)))
        try:
            answer = await node.peers.call(stub.WitnessBudget, request, _SECONDS)
        except Refused as error:
            return error
        return bytes(answer.signature)

    roles = [role for role in study.parties if role != "collector"]
    return dict(zip(roles, await asyncio.gather(*map(one, roles)), strict=True))


async def gather_witnesses(
    node: NodeContext, study: Study, links: Sequence[BudgetLink], number: int, answer: bytes
) -> witness_pb2.WitnessedSpend:
    """Every right provider's signature, and those of left ones that are there; `Unfinished` if the answer must wait."""
    found = await _ask(node, study, _request(study, links, number))
    refused = {role: word for role, word in found.items() if isinstance(word, Refused)}
    for role, error in refused.items():
        if error.reason in (Reason.BUDGET_FORKED, Reason.BUDGET_SPENT):
            await node.audit.record("budget_unwitnessed", study=study.id.hex(), number=number, by=role)
            raise Unfinished(Refused(Reason.BUDGET_FORKED, f"{role}: {error}"))
    away = [role for role in refused if role.startswith("R")]
    if away:
        text = (
            f"{', '.join(away)} must witness what this answer costs and did not: {refused[away[0]]}. {_AGAIN}"
        )
        raise Unfinished(Refused(Reason.UNWITNESSED, text))
    signatures = {role: word for role, word in found.items() if isinstance(word, bytes)}
    head = chain(study.id, links)[number - 1]
    try:
        verify_spend(study, number, head, answer, signatures)
    except VerificationError as error:
        raise Unfinished(Refused(Reason.UNWITNESSED, f"{error}. {_AGAIN}")) from None
    return witness_pb2.WitnessedSpend(
        number=number,
        head=head,
        signatures=[
            witness_pb2.WitnessSignature(role=role, signature=signature)
            for role, signature in sorted(signatures.items())
        ],
    )


async def end_witnessing(node: NodeContext, study: Study) -> None:
    """Tell every provider that answers have ended, so that it may erase what it kept of them."""
    request = witness_pb2.WitnessBudgetRequest(study_id=study.id, ended=True)
    for role, error in (await _ask(node, study, request)).items():
        # One that no longer knows the study keeps nothing of it.
        if isinstance(error, Refused) and error.reason is not Reason.UNKNOWN_STUDY:
            raise Refused(
                error.reason,
                f"answers have ended, but {role} was not told: {error}. End the releases again when it is back",
            )


def _request(study: Study, links: Sequence[BudgetLink], number: int) -> witness_pb2.WitnessBudgetRequest:
    return witness_pb2.WitnessBudgetRequest(
        study_id=study.id,
        number=number,
        links=[
            witness_pb2.BudgetLink(
                answer_hash=link.answer_hash, epsilon=link.epsilon, delta=link.delta, mu=link.mu
            )
            for link in links
        ],
    )
