"""Asking a study's providers what they are, and remembering when each last answered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from trimask_core.errors import Refused
from trimask_core.study import Study
from trimask_proto.v1 import node_pb2
from trimask_proto.v1.common_pb2 import Attempt
from trimask_proto.v1.node_pb2_grpc import NodeServiceStub
from trimask_server.collector.audit_heads import keep_audit_head
from trimask_server.node.context import NodeContext
from trimask_server.protocol.attempts import worker_of

__all__ = ["Described", "ProviderStatus"]

_FRESH_MS = 2000
Described = dict[str, node_pb2.DescribeNodeResponse | None]


@dataclass(frozen=True)
class ProviderStatus:
    """Shared by all studies of a collector, so that the worker driving a study and the others see the same."""

    node: NodeContext
    _seen_ms: dict[str, int] = field(default_factory=dict, init=False)  # by TLS name
    # By study: when it was asked, and the answer, which may be on its way.
    _recent: dict[bytes, tuple[int, asyncio.Future[Described]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.node.studies.on_forget.append(lambda study_id: self._recent.pop(study_id, None))

    def last_ms(self, tls_name: str) -> int:
        """When a provider last answered; 0 if not since this collector was started."""
        return self._seen_ms.get(tls_name, 0)

    async def describe(
        self, study: Study, timeout_seconds: float, attempt: Attempt | None = None
    ) -> Described:
        """Every provider's description by role (of the workers in `attempt`, if given); None where it did not answer."""
        node = self.node

        async def one(role: str) -> node_pb2.DescribeNodeResponse | None:
            address = "" if attempt is None else worker_of(study, attempt, role)
            stub = NodeServiceStub(node.peers.channel(study.party(role), address))
            try:
                answer: node_pb2.DescribeNodeResponse = await node.peers.call(
                    stub.DescribeNode, node_pb2.DescribeNodeRequest(study_id=study.id), timeout_seconds
                )
            except Refused:
                return None
            return answer

        roles = [role for role in study.parties if role != "collector"]
        found = dict(zip(roles, await asyncio.gather(*map(one, roles)), strict=True))
        now = node.clock.now_ms()
        for role, answer in found.items():
            if answer is not None:
                self._seen_ms[study.party(role).tls_name] = now
        return found

    async def describe_cached(self, study: Study) -> Described:
        """The same, cached for two seconds: many viewers cause one question to the nodes."""
        now = self.node.clock.now_ms()
        found = self._recent.get(study.id)
        if found is None or not 0 <= now - found[0] < _FRESH_MS:
            found = (now, asyncio.ensure_future(self._describe_and_keep_heads(study)))
            self._recent[study.id] = found
        return await asyncio.shield(found[1])  # a caller that hangs up does not cancel it for the others

    async def _describe_and_keep_heads(self, study: Study) -> Described:
        """Describe, and keep every audit head that was sent (docs/governance.md#the-audit-log)."""
        described = await self.describe(study, 1.0)
        for role, answer in described.items():
            if answer is not None:
                await keep_audit_head(self.node, study.party(role), answer.audit_head)
        return described

    async def refusals(self, study: Study) -> dict[str, dict[str, int]]:
        """Every node's refusals by reason; a node that does not answer is left out."""
        counts = {
            role: {item.reason: item.count for item in answer.refusals}
            for role, answer in (await self.describe(study, 2.0)).items()
            if answer is not None
        }
        return counts | {"collector": self.node.refusals.as_dict()}
