"""What every node serves its peers: describing itself, and registering studies that all parties approved."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import grpc

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_core.signed_study import SignedStudy
from trimask_proto.v1 import node_pb2, node_pb2_grpc
from trimask_server.access.governance import head_message
from trimask_server.access.proposals import Proposals, refuse_collector, refuse_size
from trimask_server.node.context import NodeContext
from trimask_server.operations.callers import Context, require_role
from trimask_server.protocol.attempts import sign_worker
from trimask_server.settings.version import VERSION

__all__ = ["NodeServicer", "UsedInvitations"]

UsedInvitations = Callable[[bytes], Awaitable[int]]


class NodeServicer(node_pb2_grpc.NodeServiceServicer):
    """Describing and registering."""

    def __init__(self, node: NodeContext, proposals: Proposals, used: UsedInvitations | None = None) -> None:
        """`used`: how many invitations to a study came with a submission, at a right provider."""
        self._node = node
        self._proposals = proposals
        self._used = used

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        node_pb2_grpc.add_NodeServiceServicer_to_server(self, server)
        return node_pb2.DESCRIPTOR.services_by_name["NodeService"].full_name

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
            store_generation=node.database.generation,
            audit_head=head_message(await node.audit.head()),
            draining=node.drain.on,
            clock_time_ms=node.clock.now_ms(),
            invitations_used=await self._invitations_used(request.study_id),
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
        signed = SignedStudy.from_json(request.signed_study).without_seed()
        # All approvals verify, so this node's own operator has signed too.
        study = signed.verify()
        role = node.role_in(study)
        require_role(context, study, ["collector"])
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
