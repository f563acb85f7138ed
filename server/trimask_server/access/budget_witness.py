"""A provider witnesses what a collector spends from a study's budget: each spend once, in one place, within the budget.

A provider keeps the hash of every link of the chain it was shown (`trimask_core.budget_chain`). A chain with a different
hash in a known place is a ledger that was rolled back or forked: it is refused, counted as an alarm and written into the
audit log.
"""

from __future__ import annotations

import grpc

from trimask_core.budget_chain import BudgetLink, chain, sign_spend
from trimask_core.errors import Refused, TrimaskError
from trimask_core.refusals import Alarm, Reason
from trimask_core.signed_study import SignedStudy
from trimask_core.study import Study
from trimask_proto.v1 import witness_pb2, witness_pb2_grpc
from trimask_server.node.context import NodeContext
from trimask_server.operations.callers import Context, require_role
from trimask_server.protocol.accounting import Price, require_affordable
from trimask_server.store.interface import Transaction

__all__ = ["WitnessServicer", "erase_study", "still_needed"]


class WitnessServicer(witness_pb2_grpc.WitnessServiceServicer):
    """Serves the collector of a study."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        witness_pb2_grpc.add_WitnessServiceServicer_to_server(self, server)
        return witness_pb2.DESCRIPTOR.services_by_name["WitnessService"].full_name

    async def WitnessBudget(
        self, request: witness_pb2.WitnessBudgetRequest, context: Context
    ) -> witness_pb2.WitnessBudgetResponse:
        node = self._node
        study = node.studies.get(request.study_id)
        require_role(context, study, ["collector"])
        links = [
            BudgetLink(
                link.answer_hash,
                link.epsilon if link.HasField("epsilon") else None,
                link.delta if link.HasField("delta") else None,
                link.mu if link.HasField("mu") else None,
            )
            for link in request.links
        ]
        if request.number > len(links):
            raise Refused(Reason.MALFORMED, f"there are {len(links)} links and no link {request.number}")
        heads = chain(study.id, links)
        try:
            _refuse_overspent(study, links)
            await node.database.write(lambda tx: _keep(tx, study.id, heads, ended=request.ended))
        except Refused as error:
            if error.reason not in (Reason.BUDGET_FORKED, Reason.BUDGET_SPENT):
                raise
            node.refusals.count(Alarm.BUDGET_ROLLED_BACK)
            node.log.warning(
                "study=%s: its collector's budget ledger is refused: %s", study.id.hex()[:12], error
            )
            await node.audit.record(
                "budget_rolled_back", study=study.id.hex(), shown=len(links), reason=str(error.reason)
            )
            raise
        if not request.number:
            return witness_pb2.WitnessBudgetResponse()
        link = links[request.number - 1]
        signature = sign_spend(node.keys.identity, study.id, request.number, heads, link)
        return witness_pb2.WitnessBudgetResponse(signature=signature)


def _refuse_overspent(study: Study, links: list[BudgetLink]) -> None:
    budget = study.protection.budget
    if budget is None:
        raise Refused(Reason.NO_BUDGET, "this study publishes datasets and has no budget to witness")
    paid: list[Price] = []
    for link in links:
        try:
            price = Price(link.epsilon, link.delta, link.mu)
        except TrimaskError as error:
            raise Refused(Reason.MALFORMED, f"a link's price is not valid: {error}") from None
        require_affordable(budget, paid, price)
        paid.append(price)


def _keep(tx: Transaction, study_id: bytes, heads: list[bytes], *, ended: bool) -> None:
    if ended:
        tx.run("INSERT INTO budget_ends (study_id) VALUES (?) ON CONFLICT (study_id) DO NOTHING", (study_id,))
    known = {
        int(number): bytes(head)
        for number, head in tx.rows("SELECT number, head FROM budget_links WHERE study_id = ?", (study_id,))
    }
    for number, head in enumerate(heads, 1):
        if known.get(number, head) != head:
            raise Refused(
                Reason.BUDGET_FORKED,
                f"another spend was witnessed in place {number} of {len(known)}: the collector's ledger went back. "
                "Restore its newest copy, or end the answers (`trimask study end-releases`)",
            )
    new = [(study_id, number, head) for number, head in enumerate(heads, 1) if number not in known]
    tx.run_many("INSERT INTO budget_links (study_id, number, head) VALUES (?, ?, ?)", new)


def still_needed(tx: Transaction, study_id: bytes) -> bool:
    """Whether a study's budget may still be spent: what was witnessed stays until its collector says that answers ended."""
    row = tx.row("SELECT signed_study FROM studies WHERE study_id = ?", (study_id,))
    if row is None or tx.row("SELECT 1 FROM budget_ends WHERE study_id = ?", (study_id,)) is not None:
        return False
    try:
        study = SignedStudy.from_json(str(row[0])).study
    except TrimaskError:
        return False
    return study.suite.name == "rows" and study.protection.budget is not None


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase the chain of a study whose answers have ended."""
    tx.run("DELETE FROM budget_links WHERE study_id = ?", (study_id,))
    tx.run("DELETE FROM budget_ends WHERE study_id = ?", (study_id,))
    return 0
