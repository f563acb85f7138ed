"""What a node serves about studies and itself: to collectors that propose, to its own operator, and to its peers.

Studies on their way to approval; registering those that all parties approved; describing itself.

Studies proposed to a node, and what its operator decided: approved (and signed), refused (and why), or waiting.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import SealingKey, SigningKey, verify
from trimask_core.study.definition import Study
from trimask_core.study.signed import Approval, SignedStudy, approve
from trimask_core.suites import payloads_of
from trimask_proto.v1 import governance_pb2, governance_pb2_grpc, node_pb2, node_pb2_grpc
from trimask_proto.v1.common_pb2 import Attempt, Worker
from trimask_server.access.permissions import admitted, sent_study
from trimask_server.runtime.audit import AuditHead, AuditLog
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.tls import Context, require_role
from trimask_server.settings.config import VERSION
from trimask_server.store.interface import Store, Transaction
from trimask_server.store.studies import end_refusal, refuse_collected, refuse_intake

DecisionWord = Literal["waiting", "approved", "refused"]
_MOST_WAITING = 200
_AROUND_BYTES = 4096  # what a submission has around its values: seal, ids, invitation
_COLUMNS = "signed_study, decision, approval, reason, propose_time_ms"


def refuse_collector(study: Study, allowed: tuple[str, ...]) -> None:
    """Refuse a study whose collector is not in the node's allow-list, by identity (hex) or TLS name."""
    collector = study.collector
    if allowed and collector.identity.hex() not in allowed and collector.tls_name not in allowed:
        raise Refused(
            Reason.COLLECTOR_NOT_ALLOWED,
            f"this node takes no studies of {collector.tls_name}; its operator lists collectors in allow_collectors",
        )


def refuse_size(study: Study, role: str, limit: int) -> None:
    """Refuse a right provider's part in a study whose submissions its public port would not take."""
    if not role.startswith("R"):
        return
    form = payloads_of(study).form_of(study, int(role[1:]))
    largest = 8 * form.values + form.more + _AROUND_BYTES
    if largest > limit:
        raise Refused(
            Reason.STUDY_TOO_LARGE,
            f"a submission may have {largest} bytes; this node takes {limit}: its operator sets max_submission_bytes",
        )


@dataclass(frozen=True)
class StoredProposal:
    """A proposal as it is kept."""

    signed: SignedStudy
    decision: DecisionWord
    approval: str
    reason: str
    propose_time_ms: int


@dataclass(frozen=True)
class Proposals:
    """Proposals on disk."""

    database: Store
    audit: AuditLog

    async def propose(self, signed: SignedStudy, now_ms: int) -> None:
        """Keep a study for the operator; proposing it again changes nothing."""
        study = signed.study

        def write(tx: Transaction) -> None:
            waiting = tx.row("SELECT COUNT(*) FROM proposals WHERE decision = 'waiting'")
            if waiting is not None and waiting[0] >= _MOST_WAITING:
                raise Refused(
                    Reason.TOO_MANY_PROPOSALS, "too many studies wait for this node's operator already"
                )
            if _insert(tx, signed, "waiting", "", "", now_ms):
                self.audit.append(
                    tx, "study_proposed", study=study.id.hex(), collector=study.collector.tls_name
                )

        await self.database.write(write)

    async def approve(self, signed: SignedStudy, approval: Approval, now_ms: int) -> None:
        """Keep the operator's signature; a study it had refused while open accepts submissions again."""
        text = json.dumps(approval.to_dict())

        def write(tx: Transaction) -> None:
            _decide(tx, signed, "approved", text, "", now_ms)
            end_refusal(tx, signed.study.id)
            self.audit.append(tx, "study_approved", study=signed.study.id.hex(), role=approval.role)

        await self.database.write(write)

    async def refuse(self, signed: SignedStudy, reason: str, now_ms: int) -> None:
        """Keep the operator's refusal, and stop the intake of the study if it is open."""

        def write(tx: Transaction) -> None:
            _decide(tx, signed, "refused", "", reason, now_ms)
            refuse_intake(tx, signed.study.id)
            self.audit.append(tx, "study_refused", study=signed.study.id.hex(), reason=reason)

        await self.database.write(write)

    async def get(self, study_id: bytes) -> StoredProposal | None:
        """One proposal."""
        row = await self.database.read(
            lambda tx: tx.row(f"SELECT {_COLUMNS} FROM proposals WHERE study_id = ?", (study_id,))  # noqa: S608
        )
        return None if row is None else _proposal(row)

    async def all(self) -> list[StoredProposal]:
        """Every proposal, oldest first."""
        rows = await self.database.read(
            lambda tx: tx.rows(f"SELECT {_COLUMNS} FROM proposals ORDER BY propose_time_ms, study_id")  # noqa: S608
        )
        return [_proposal(row) for row in rows]


def _insert(
    tx: Transaction, signed: SignedStudy, decision: str, approval: str, reason: str, now_ms: int
) -> int:
    refuse_collected(tx, signed.study.id)
    return tx.run(
        f"INSERT INTO proposals (study_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (study_id) DO NOTHING",  # noqa: S608
        (signed.study.id, signed.without_seed().to_json(), decision, approval, reason, now_ms),
    )


def _decide(
    tx: Transaction, signed: SignedStudy, decision: str, approval: str, reason: str, now_ms: int
) -> None:
    # A study that came by file is registered without ever having been proposed: it has no row until now.
    _insert(tx, signed, decision, approval, reason, now_ms)
    tx.run(
        "UPDATE proposals SET decision = ?, approval = ?, reason = ? WHERE study_id = ?",
        (decision, approval, reason, signed.study.id),
    )


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase a proposal and what was decided on it; the audit log has the decision."""
    tx.run("DELETE FROM proposals WHERE study_id = ?", (study_id,))
    return 0


def _proposal(row: tuple[Any, ...]) -> StoredProposal:
    text, decision, approval, reason, time_ms = row
    return StoredProposal(SignedStudy.from_json(text), decision, approval, reason, time_ms)


DECISIONS: dict[DecisionWord, governance_pb2.Decision.ValueType] = {
    "waiting": governance_pb2.DECISION_WAITING,
    "approved": governance_pb2.DECISION_APPROVED,
    "refused": governance_pb2.DECISION_REFUSED,
}
_PAGE = 1000
_REASON_CHARACTERS = 500


class ProposalServicer(governance_pb2_grpc.ProposalServiceServicer):
    """Serves the collector of a study."""

    def __init__(self, node: NodeContext, proposals: Proposals) -> None:
        self._node = node
        self._proposals = proposals

    async def ProposeStudy(
        self, request: governance_pb2.ProposeStudyRequest, context: Context
    ) -> governance_pb2.ProposeStudyResponse:
        node = self._node
        signed, role = sent_study().without_seed(), admitted().own
        refuse_collector(signed.study, node.config.allow_collectors)
        refuse_size(signed.study, role, node.config.max_submission_bytes)
        await self._proposals.propose(signed, node.clock.now_ms())
        node.log.info(
            "proposed study=%s role=%s title=%r", signed.study.id.hex()[:12], role, signed.study.title
        )
        return governance_pb2.ProposeStudyResponse(role=role)

    async def GetDecision(
        self, request: governance_pb2.GetDecisionRequest, context: Context
    ) -> governance_pb2.GetDecisionResponse:
        found = await self._proposals.get(request.study_id)
        if found is None:
            raise Refused(Reason.UNKNOWN_STUDY, "this study was not proposed to this node")
        require_role(context, found.signed.study, ["collector"])  # it may be registered nowhere yet
        return governance_pb2.GetDecisionResponse(
            decision=DECISIONS[found.decision], approval=found.approval.encode(), reason=found.reason
        )


class OperatorServicer(governance_pb2_grpc.OperatorServiceServicer):
    """Serves the operator, who is known by a pinned certificate (see `gate`). `running` counts attempts under way."""

    def __init__(self, node: NodeContext, proposals: Proposals, running: Callable[[], int]) -> None:
        self._node = node
        self._proposals = proposals
        self._running = running

    async def GetNodeStatus(
        self, request: governance_pb2.GetNodeStatusRequest, context: Context
    ) -> governance_pb2.GetNodeStatusResponse:
        node = self._node
        proposals = await self._proposals.all()
        return governance_pb2.GetNodeStatusResponse(
            role=node.role,
            name=node.config.name,
            identity=node.keys.identity.public,
            version=VERSION,
            start_time_ms=node.started_ms,
            draining=node.drain.on,
            studies=len(node.studies.all()),
            waiting=sum(item.decision == "waiting" for item in proposals),
            refusals=node.refusals.as_messages(),
            audit_head=head_message(await node.audit.head()),
            allow_collectors=node.config.allow_collectors,
        )

    async def ListProposals(
        self, request: governance_pb2.ListProposalsRequest, context: Context
    ) -> governance_pb2.ListProposalsResponse:
        return governance_pb2.ListProposalsResponse(
            proposals=[self._message(item) for item in await self._all()]
        )

    async def ShowStudy(
        self, request: governance_pb2.ShowStudyRequest, context: Context
    ) -> governance_pb2.ShowStudyResponse:
        found = await self._find(request.study_id)
        return governance_pb2.ShowStudyResponse(
            proposal=self._message(found), signed_study=found.signed.to_json().encode()
        )

    async def ApproveStudy(
        self, request: governance_pb2.ApproveStudyRequest, context: Context
    ) -> governance_pb2.ApproveStudyResponse:
        node = self._node
        found = await self._find(request.study_id, whole=True)
        study = found.signed.study
        # Whoever made the study chose the noise; the node does not sign what it has not recomputed.
        # Imported here, because scipy comes with it.
        from trimask_theory.planning.study_plan import verify_guarantees

        await node.workers.run(verify_guarantees, study)
        if node.role != "collector":  # which holds no sealed key
            SealingKey.generate(kind=study.sealing)  # says so where this machine cannot make one
        approval = approve(study, node.keys.identity, node.clock.now_ms(), node.keys.commitment(study))
        await self._proposals.approve(found.signed, approval, node.clock.now_ms())
        await node.studies.refresh()
        node.log.info("approved study=%s role=%s", study.id.hex()[:12], approval.role)
        return governance_pb2.ApproveStudyResponse(approval=json.dumps(approval.to_dict()).encode())

    async def RefuseStudy(
        self, request: governance_pb2.RefuseStudyRequest, context: Context
    ) -> governance_pb2.RefuseStudyResponse:
        node = self._node
        reason = " ".join(request.reason.split())
        if not reason or len(reason) > _REASON_CHARACTERS:
            raise Refused(Reason.MALFORMED, f"give a reason of at most {_REASON_CHARACTERS} characters")
        found = await self._find(request.study_id, whole=True)
        study = found.signed.study
        if node.role == "collector" and self._state(study.id):
            raise Refused(
                Reason.NOT_YOUR_ROLE, "a collector ends a study by closing it: `trimask study close`"
            )
        await self._proposals.refuse(found.signed, reason, node.clock.now_ms())
        await node.studies.refresh()
        node.log.warning("refused study=%s by its operator", study.id.hex()[:12])
        return governance_pb2.RefuseStudyResponse()

    async def DrainNode(
        self, request: governance_pb2.DrainNodeRequest, context: Context
    ) -> governance_pb2.DrainNodeResponse:
        await self._node.drain.tell_all(resume=request.resume)
        return governance_pb2.DrainNodeResponse(running=self._running())

    async def ReadAudit(
        self, request: governance_pb2.ReadAuditRequest, context: Context
    ) -> governance_pb2.ReadAuditResponse:
        entries = await self._node.audit.read(request.after_sequence, min(request.page_size or _PAGE, _PAGE))
        return governance_pb2.ReadAuditResponse(
            entries=[
                governance_pb2.AuditEntry(
                    sequence=entry.sequence,
                    entry_time_ms=entry.time_ms,
                    kind=entry.kind,
                    details=entry.details,
                    previous=entry.previous,
                    hash=entry.hash,
                    signature=entry.signature,
                )
                for entry in entries
            ],
            head=head_message(await self._node.audit.head()),
        )

    async def _all(self) -> list[StoredProposal]:
        """Proposals, and registered studies that were never proposed because their approvals came by file."""
        await self._node.studies.refresh()
        found = await self._proposals.all()
        known = {item.signed.study.id for item in found}
        by_file = [
            StoredProposal(self._node.studies.signed(study.id).without_seed(), "approved", "", "", 0)
            for study in self._node.studies.all()
            if study.id not in known
        ]
        return by_file + found

    async def _find(self, study_id: bytes, *, whole: bool = False) -> StoredProposal:
        if not study_id or (whole and len(study_id) != 32):
            raise Refused(Reason.MALFORMED, "name the study by its whole id" if whole else "name a study")
        found = [item for item in await self._all() if item.signed.study.id.startswith(study_id)]
        if len(found) != 1:
            raise Refused(
                Reason.UNKNOWN_STUDY,
                "several studies begin so; give more of the id"
                if found
                else "this node was proposed no such study",
            )
        return found[0]

    def _state(self, study_id: bytes) -> str:
        known = any(study.id == study_id for study in self._node.studies.all())
        return self._node.studies.state(study_id) if known else ""

    def _message(self, item: StoredProposal) -> governance_pb2.Proposal:
        study = item.signed.study
        return governance_pb2.Proposal(
            study_id=study.id,
            title=study.title,
            collector=study.collector.organisation,
            role=study.role_of(self._node.keys.identity.public),
            decision=DECISIONS[item.decision],
            reason=item.reason,
            propose_time_ms=item.propose_time_ms,
            state=self._state(study.id),
        )


def head_message(head: AuditHead) -> governance_pb2.AuditHead:
    """For the wire."""
    return governance_pb2.AuditHead(sequence=head.sequence, hash=head.hash, signature=head.signature)


Count = Callable[[bytes], Awaitable[int]]
"""Of a study, by its id."""


class NodeServicer(node_pb2_grpc.NodeServiceServicer):
    """Describing and registering."""

    def __init__(
        self,
        node: NodeContext,
        proposals: Proposals,
        used: Count | None = None,
        sent_together: Count | None = None,
    ) -> None:
        """At a right provider: how many invitations to a study came with a submission, and how many people came together."""
        self._node = node
        self._proposals = proposals
        self._used = used
        self._sent_together = sent_together

    async def DescribeNode(
        self, request: node_pb2.DescribeNodeRequest, context: Context
    ) -> node_pb2.DescribeNodeResponse:
        node = self._node
        return node_pb2.DescribeNodeResponse(
            role=node.role,
            name=node.config.name,
            identity=node.keys.identity.public,
            boot_id=node.boot_id,
            refusals=node.refusals.as_messages(),
            study_refusals=node.refusals.of_study(request.study_id),
            version=VERSION,
            worker_address=node.config.own_address,
            worker_signature=sign_worker(node.keys.identity, node.config.own_address),
            workers=[
                Worker(address=address, signature=sign_worker(node.keys.identity, address))
                for address in await node.drain.workers_up()
            ],
            store_generation=node.database.generation,
            audit_head=head_message(await node.audit.head()),
            draining=node.drain.on,
            clock_time_ms=node.clock.now_ms(),
            invitations_used=await self._invitations_used(request.study_id),
            sent_together=await self._sent_together(request.study_id) if self._sent_together else 0,
        )

    async def _invitations_used(self, study_id: bytes) -> int:
        if self._used is None or not study_id:
            return 0
        try:
            invited = self._node.studies.get(study_id).admission == "invited"
        except Refused:
            return 0
        return await self._used(study_id) if invited else 0

    async def RegisterStudy(
        self, request: node_pb2.RegisterStudyRequest, context: Context
    ) -> node_pb2.RegisterStudyResponse:
        node = self._node
        # A provider does not need the seed of B_0; if it is sent nevertheless, it is dropped here.
        signed, role = sent_study().without_seed(), admitted().own
        # All approvals verify, so this node's own operator has signed too.
        study = signed.verify()
        refuse_collector(study, node.config.allow_collectors)
        refuse_size(study, role, node.config.max_submission_bytes)
        decided = await self._proposals.get(study.id)
        if decided is not None and decided.decision == "refused":
            raise Refused(Reason.STUDY_REFUSED, f"this node's operator refused the study: {decided.reason}")
        entry = node.audit.entry(
            "study_registered", study=study.id.hex(), role=role, collector=study.collector.tls_name
        )
        await node.studies.register(signed, node.clock.now_ms(), entry)
        node.log.info("registered study=%s role=%s title=%r", study.id.hex()[:12], role, study.title)
        return node_pb2.RegisterStudyResponse(role=role)


_WORKER = "worker-address"


def sign_worker(key: SigningKey, address: str) -> bytes:
    """A node's signature on the address of one of its workers; empty for none."""
    return key.sign(_WORKER, address.encode()) if address else b""


def worker_of(study: Study, attempt: Attempt, role: str) -> str:
    """The address of the worker that takes part for `role`; empty where the node's own address will do.

    The address comes from other parties. One that the node itself has not signed is refused: nobody can make this node
    dial a place of their choice.
    """
    worker = next((worker for worker in attempt.workers if worker.role == role), None)
    if worker is None:
        return ""
    try:
        verify(study.party(role).identity, _WORKER, worker.address.encode(), worker.signature, "it")
    except VerificationError:
        raise Refused(
            Reason.BAD_SIGNATURE, f"{role} has not signed the address of its worker in this attempt"
        ) from None
    return worker.address
