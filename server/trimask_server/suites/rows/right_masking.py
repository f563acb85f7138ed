"""The right provider's share of a block: plan, X^k B_k, erasure."""

from __future__ import annotations

import grpc
import numpy as np

from trimask_core.errors import Refused
from trimask_core.identity import verify
from trimask_core.rows.payloads import read_component
from trimask_core.rows.rotation import Matrix
from trimask_core.sealing import component_info
from trimask_core.study import Study
from trimask_core.submission import SUBMISSION_ID_BYTES
from trimask_proto.v1 import (
    common_pb2,
    left_masking_pb2,
    right_masking_pb2,
    right_masking_pb2_grpc,
    unmasking_pb2,
)
from trimask_proto.v1.left_masking_pb2_grpc import LeftMaskingServiceStub
from trimask_proto.v1.unmasking_pb2_grpc import UnmaskingServiceStub
from trimask_server.node.node import Node
from trimask_server.node.peers import Context, require_role
from trimask_server.protocol.attempts import worker_of
from trimask_server.protocol.matrices import slices
from trimask_server.protocol.right_mask import RightMask, apply_right_mask
from trimask_server.right.rows import RowStore, split_ids
from trimask_server.suites.rows.unmasking import UnmaskingServicer

__all__ = ["RightMaskingServicer", "plan_message"]

_PAGE = 8192


def plan_message(study_id: bytes, block_id: bytes, submission_ids: bytes) -> bytes:
    """What the collector signs when it plans a block."""
    return study_id + block_id + submission_ids


def _planned_ids(
    study: Study, request: right_masking_pb2.AssignBlockRequest | right_masking_pb2.EraseBlockRequest
) -> list[bytes]:
    """A plan's ids, which the collector signed."""
    ids = split_ids(request.submission_ids)
    message = plan_message(study.id, request.block_id, request.submission_ids)
    verify(study.collector.identity, "block-plan", message, request.signature, "the block plan")
    return ids


class RightMaskingServicer(right_masking_pb2_grpc.RightMaskingServiceServicer):
    """Serves the collector."""

    def __init__(self, node: Node, rows: RowStore, unmasking: UnmaskingServicer) -> None:
        self._node = node
        self._rows = rows
        self._unmasking = unmasking

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        right_masking_pb2_grpc.add_RightMaskingServiceServicer_to_server(self, server)
        return right_masking_pb2.DESCRIPTOR.services_by_name["RightMaskingService"].full_name

    def _study(self, study_id: bytes, context: Context) -> Study:
        study = self._node.studies.get(study_id)
        require_role(context, study, ["collector"])
        return study

    async def ListPending(
        self, request: right_masking_pb2.ListPendingRequest, context: Context
    ) -> right_masking_pb2.ListPendingResponse:
        study = self._study(request.study_id, context)
        token = request.page_token or "0"
        if not (token.isascii() and token.isdigit() and len(token) < 19):  # a row's sequence, 63 bits at most
            raise Refused("malformed", "page_token must be one that this provider gave")
        after = int(token)
        if request.stop_intake:
            entry = self._node.audit.entry("study_closing", study=study.id.hex())
            await self._node.studies.set_state(study.id, "closing", entry)
        limit = min(request.page_size or _PAGE, _PAGE)
        found = await self._rows.pending(study.id, after, limit)
        return right_masking_pb2.ListPendingResponse(
            submission_ids=b"".join(submission_id for _, submission_id in found),
            next_page_token=str(found[-1][0]) if len(found) == limit else "",
            store_generation=self._node.database.generation,
        )

    async def AssignBlock(
        self, request: right_masking_pb2.AssignBlockRequest, context: Context
    ) -> right_masking_pb2.AssignBlockResponse:
        study = self._study(request.study_id, context)
        ids = _planned_ids(study, request)
        if not study.rows.block_rows <= len(ids) <= study.rows.max_block_rows:
            raise Refused(
                "block_too_small",
                f"blocks of this study have {study.rows.block_rows} to {study.rows.max_block_rows} rows, not {len(ids)}",
            )
        if len(request.block_id) != SUBMISSION_ID_BYTES or ids != sorted(set(ids)):
            raise Refused("malformed", "a plan has a 16-byte block id and sorted, distinct submission ids")
        withdrawn = await self._rows.assign(study.id, request.block_id, ids)
        if withdrawn:
            self._node.log.info("declined block=%s withdrawn=%d", request.block_id.hex(), len(withdrawn))
            return right_masking_pb2.AssignBlockResponse(withdrawn_ids=b"".join(withdrawn))
        self._node.log.info("assigned block=%s rows=%d", request.block_id.hex(), len(ids))
        return right_masking_pb2.AssignBlockResponse()

    async def CancelBlock(
        self, request: right_masking_pb2.CancelBlockRequest, context: Context
    ) -> right_masking_pb2.CancelBlockResponse:
        study = self._study(request.study_id, context)
        if len(request.block_id) != SUBMISSION_ID_BYTES:
            raise Refused("malformed", "a block id has 16 bytes")
        verify(
            study.collector.identity, "block-cancel", plan_message(study.id, request.block_id, b""),
            request.signature, "the cancellation",
        )  # fmt: skip
        await self._rows.cancel(study.id, request.block_id)
        self._node.log.info("cancelled block=%s", request.block_id.hex())
        return right_masking_pb2.CancelBlockResponse()

    async def StartMasking(
        self, request: right_masking_pb2.StartMaskingRequest, context: Context
    ) -> right_masking_pb2.StartMaskingResponse:
        study = self._study(request.attempt.study_id, context)
        rows = await self._rows.start(study.id, request.attempt.block_id)
        work = self._node.run_attempt(
            request.attempt, self._mask(study, request.attempt, rows), "right masking"
        )
        self._node.spawn(work, "right masking")
        return right_masking_pb2.StartMaskingResponse()

    async def _mask(self, study: Study, attempt: common_pb2.Attempt, rows: list[tuple[bytes, bytes]]) -> None:
        node = self._node
        k = int(study.role_of(node.keys.identity.public)[1:])
        component = await node.workers.run(self._component, study, k, rows)
        masked, mask = await node.workers.run(apply_right_mask, component, node.source)
        await self._send_mask(study, attempt, k, mask)
        stub = LeftMaskingServiceStub(node.peers.channel(study.left[0], worker_of(attempt, "L1")))
        for piece in slices(masked):
            await node.peers.call(
                stub.PushComponent,
                left_masking_pb2.PushComponentRequest(attempt=attempt, component=k, slice=piece),
            )
        node.log.info("masked block=%s try=%d component=%d", attempt.block_id.hex(), attempt.number, k)

    def _component(self, study: Study, k: int, rows: list[tuple[bytes, bytes]]) -> Matrix:
        """X^k, a row for each submission, in the order of their ids."""
        ring = self._node.sealing
        if ring is None:
            raise Refused("not_your_role", "this node has no sealing key")
        component = np.empty((len(rows), study.rows.columns))
        for index, (submission_id, sealed) in enumerate(rows):
            payload = ring.open_held(sealed, component_info(study.id, k, submission_id))
            component[index] = study.rows.grid.to_float(read_component(study, k, payload))
        return component

    async def _send_mask(self, study: Study, attempt: common_pb2.Attempt, k: int, mask: RightMask) -> None:
        role = study.rows.unmasking[k - 1]
        unmasker = study.party(role)
        local = unmasker.identity == self._node.keys.identity.public
        stub = (
            None
            if local
            else UnmaskingServiceStub(self._node.peers.channel(unmasker, worker_of(attempt, role)))
        )
        for piece in slices(mask.basis):
            request = unmasking_pb2.PushRightMaskRequest(
                attempt=attempt,
                component=k,
                frame_seed=mask.frame_seed,
                basis=piece,
                probe_seed=mask.probe_seed,
                probe_gram=mask.probe_gram.astype("<f8").tobytes(),
            )
            if stub is None:
                self._unmasking.take_right_mask(study, request)
            else:
                await self._node.peers.call(stub.PushRightMask, request)

    async def EraseBlock(
        self, request: right_masking_pb2.EraseBlockRequest, context: Context
    ) -> right_masking_pb2.EraseBlockResponse:
        study = self._study(request.study_id, context)
        ids = _planned_ids(study, request) if request.submission_ids else []
        rows = await self._rows.erase_block(study.id, request.block_id, ids)
        self._unmasking.forget(study.id, request.block_id)
        self._node.metrics.erased_rows.labels("pooled").inc(rows)
        self._node.log.info("erased block=%s rows=%d", request.block_id.hex(), rows)
        return right_masking_pb2.EraseBlockResponse(erased_rows=rows)

    async def EraseStudy(
        self, request: right_masking_pb2.EraseStudyRequest, context: Context
    ) -> right_masking_pb2.EraseStudyResponse:
        study = self._study(request.study_id, context)
        entry = self._node.audit.entry("study_closed", study=study.id.hex())
        await self._node.studies.set_state(study.id, "closed", entry)
        rows = await self._rows.erase_pending(study.id)
        self._node.metrics.erased_rows.labels("unused").inc(rows)
        self._node.log.info("erased study=%s unused_rows=%d", study.id.hex()[:12], rows)
        return right_masking_pb2.EraseStudyResponse(erased_rows=rows)
