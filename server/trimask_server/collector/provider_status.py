"""Asking a study's providers what they are, and remembering when each last answered and the head of its audit log.

A provider's operator holds the key its log is signed with and could write another log. What it cannot do is make the
new one agree with a head somebody else kept: a log cut short or rewritten is noticed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Alarm
from trimask_core.study.definition import Study
from trimask_core.study.party import Party
from trimask_proto.v1 import governance_pb2, node_pb2, right_batches_pb2
from trimask_proto.v1.common_pb2 import Attempt, Worker
from trimask_proto.v1.node_pb2_grpc import NodeServiceStub
from trimask_proto.v1.right_batches_pb2_grpc import RightBatchServiceStub
from trimask_server.access.governance import worker_of
from trimask_server.runtime.audit import AuditHead
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.host import Spawn
from trimask_server.store.interface import Transaction


async def keep_audit_head(node: NodeContext, party: Party, message: governance_pb2.AuditHead) -> None:
    """Remember a head; count and record one that goes back, or that has another hash under the same number."""
    head = AuditHead(message.sequence, message.hash, message.signature)
    if not head.sequence:
        return
    try:
        head.verify(party.identity)
    except VerificationError:
        node.refusals.count(Alarm.BAD_AUDIT_HEAD)
        return

    def write(tx: Transaction) -> bool:
        row = tx.row("SELECT sequence, hash FROM witnessed_heads WHERE identity = ?", (party.identity,))
        gone_back = row is not None and (
            head.sequence < row[0] or (head.sequence == row[0] and head.hash != bytes(row[1]))
        )
        if row is None or head.sequence != row[0] or gone_back:
            tx.run(
                "INSERT INTO witnessed_heads (identity, sequence, hash, signature) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (identity) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash,"
                " signature = excluded.signature",
                (party.identity, head.sequence, head.hash, head.signature),
            )
        if row is not None and gone_back:
            node.audit.append(
                tx,
                "peer_log_rewritten",
                node=party.tls_name,
                had=int(row[0]),
                hash=bytes(row[1]).hex(),
                now=head.sequence,
            )
        return gone_back

    if await node.database.write(write):
        node.refusals.count(Alarm.PEER_LOG_REWRITTEN)
        node.log.error("the audit log of %s was cut short or rewritten", party.tls_name)


_FRESH_MS = 2000
Described = dict[str, node_pb2.DescribeNodeResponse | None]


@dataclass(frozen=True)
class ProviderStatus:
    """Shared by all studies of a collector, so that the worker driving a study and the others see the same."""

    node: NodeContext
    in_hand: Counter[str] = field(default_factory=Counter, init=False)
    """How many batches each worker of a right provider has been given by this collector, by address."""
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

    def free_workers(self, answers: Mapping[str, node_pb2.DescribeNodeResponse]) -> list[Worker]:
        """Of each node that has several workers the one with fewest batches in hand, which has one more from now on."""
        chosen = []
        for role, answer in answers.items():
            own = Worker(address=answer.worker_address, signature=answer.worker_signature)
            one = min([*answer.workers, own], key=lambda worker: self.in_hand[worker.address])
            if answer.worker_address:
                chosen.append(Worker(role=role, address=one.address, signature=one.signature))
        self.in_hand.update(worker.address for worker in chosen)
        return chosen

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

    async def counted(self, study: Study) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
        """Every node's refusals by reason, and how many of the study's people came together to each right provider that any
        did; a node that does not answer is left out."""
        described = await self.describe(study, 2.0)
        answers = {role: answer for role, answer in described.items() if answer is not None}
        refusals = {
            role: {item.reason: item.count for item in answer.refusals} for role, answer in answers.items()
        }
        together = {role: answer.sent_together for role, answer in answers.items() if answer.sent_together}
        return refusals | {"collector": self.node.refusals.as_dict()}, together


SELDOM = 4
"""Times `poll_seconds`: how seldom one looks where nothing came the last time."""
_NEWS_SECONDS = 5.0


class News:
    """Asks every right provider what came, one question for all studies that this worker drives, and tells their drivers.

    At the pace of `poll_seconds` while something comes; seldom when nothing does. Where a provider does not answer, or has
    another store than before, the drivers of all its studies look for themselves.
    """

    def __init__(self, node: NodeContext, spawn: Spawn, tell: Callable[[bytes], None]) -> None:
        self._node = node
        self._spawn = spawn
        self._tell = tell
        self._studies: dict[str, dict[bytes, Study]] = {}  # by TLS name and address

    def follow(self, study: Study) -> None:
        """Ask about this study too, until it is closed."""
        for party in study.right:
            key = f"{party.tls_name} {party.peer_address}"
            if key not in self._studies:
                self._studies[key] = {}
                self._spawn(self._ask(party, key), f"asking {party.tls_name} for news")
            self._studies[key][study.id] = study

    async def _ask(self, party: Party, key: str) -> None:
        node, after, store, pause = self._node, 0, b"", 0.0
        while True:
            here = self._studies[key]
            open_now = {study.id for study in node.studies.all() if node.studies.state(study.id) != "closed"}
            for study_id in here.keys() - open_now:
                del here[study_id]
            if not here:
                del self._studies[key]
                return
            stub = RightBatchServiceStub(node.peers.channel(party))
            request = right_batches_pb2.ListNewsRequest(after=after)
            try:
                answer = await node.peers.call(stub.ListNews, request, _NEWS_SECONDS)
            except Refused as error:
                node.log.info("%s does not say what came: %s", party.tls_name, error)
                store, told = b"", set(here)
            else:
                told = set(here) if answer.store_generation != store else {*answer.study_ids} & here.keys()
                after, store = answer.newest, answer.store_generation
            for study_id in told:
                self._tell(study_id)
            least = node.config.poll_seconds
            pause = least if told else min(2 * pause, SELDOM * least)
            await node.clock.sleep(pause)
