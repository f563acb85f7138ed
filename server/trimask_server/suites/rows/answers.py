"""Private answers of the rows suite: drawn at the collector, from the pooled factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimask_core.budget_chain import BudgetLink
from trimask_core.rows.normal import SecureNormals
from trimask_core.study import Study
from trimask_proto.v1 import release_pb2, witness_pb2
from trimask_server.collector.releases.answering import NotBegun, Prepared
from trimask_server.collector.releases.factors import Factors
from trimask_server.collector.releases.mechanisms import plan_release
from trimask_server.collector.releases.plan import Drawn, Plan
from trimask_server.collector.releases.witnesses import end_witnessing, gather_witnesses
from trimask_server.node.context import NodeContext
from trimask_server.protocol.accounting import Price

__all__ = ["RowsAnswers"]


@dataclass(frozen=True)
class _Planned:
    """A plan, and where its factor is. Every request draws anew, so every request is paid for."""

    node: NodeContext
    study_id: bytes
    plan: Plan
    question: bytes | None = None

    @property
    def mechanism(self) -> str:
        """The plan's."""
        return self.plan.mechanism

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The plan's."""
        return self.plan.parameters

    async def draw(self) -> Drawn:
        """Read the factor, which tells nothing yet, and draw from it."""
        node = self.node
        try:
            factor = await Factors(node.database, node.vault).load(self.study_id)
        except Exception as error:  # noqa: BLE001 - whatever it was, nothing was drawn
            raise NotBegun(error) from None
        return await node.workers.run(self.plan.draw, factor, SecureNormals(node.source))


@dataclass(frozen=True)
class RowsAnswers:
    """`collector.releases.answering.Answers`."""

    node: NodeContext

    async def prepare(
        self, study: Study, rows: int, request: release_pb2.AskReleaseRequest, price: Price
    ) -> Prepared:
        """Calibrated for the study and the number of rows."""
        plan = await self.node.workers.run(plan_release, study, rows, request, price)
        return _Planned(self.node, study.id, plan)

    @property
    def witnessed(self) -> bool:
        """The ledger is the collector's alone, so others watch it."""
        return True

    async def witness(
        self, study: Study, links: Sequence[BudgetLink], number: int, answer: bytes
    ) -> witness_pb2.WitnessedSpend:
        """By all right providers, and the left ones that are there."""
        return await gather_witnesses(self.node, study, links, number, answer)

    async def erase(self, study: Study) -> None:
        """The factor is in the collector's store, and went with the entry that ended it; witnesses are told."""
        await end_witnessing(self.node, study)
