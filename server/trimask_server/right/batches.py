"""Which submissions are bound together: what a right provider serves the collector and its peers, whatever the suite.

A block of the rows suite and a batch of another are the same here: a set of submission ids, bound for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import grpc

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.identity import verify
from trimask_core.study.definition import Study
from trimask_core.study.progress import verify_close
from trimask_core.submit.inclusion import plan_hash
from trimask_core.submit.submission import SUBMISSION_ID_BYTES
from trimask_proto.v1 import right_batches_pb2, right_batches_pb2_grpc
from trimask_server.protocol.plans import plan_message, sign_bound, split_ids
from trimask_server.right.incomplete import find_missing, refuse_missing
from trimask_server.right.rows import RowStore
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.peer_identity import Context, require_other_right, require_role

_PAGE = 8192


class BlockRules(Protocol):
    """What a suite says about blocks at a right provider."""

    def check_plan(self, study: Study, rows: int) -> None:
        """Refuse a plan of so many rows, if the study has no blocks of that size."""
        ...

    @property
    def draws_blocks(self) -> bool:
        """Whether right providers draw blocks, and the collector plans none."""
        ...

    def forget_block(self, study_id: bytes, block_id: bytes) -> None:
        """Forget what is held in memory for a block that is erased."""
        ...


def _planned_ids(
    study: Study, request: right_batches_pb2.AssignBlockRequest | right_batches_pb2.EraseBlockRequest
) -> list[bytes]:
    """A plan's ids, which the collector signed."""
    ids = split_ids(request.submission_ids)
    message = plan_message(study.id, request.block_id, request.submission_ids)
    verify(study.collector.identity, "block-plan", message, request.signature, "the block plan")
    return ids


def _erased_ids(rules: BlockRules, study: Study, request: right_batches_pb2.EraseBlockRequest) -> list[bytes]:
    """The ids of a plan that is not known here. What is in a drawn block follows from its draw, not from the collector."""
    return _planned_ids(study, request) if request.submission_ids and not rules.draws_blocks else []


class RightBatchServicer(right_batches_pb2_grpc.RightBatchServiceServicer):
    """Serves the collector, and the other right providers one call."""

    def __init__(self, node: NodeContext, rows: RowStore, rules_of: Callable[[Study], BlockRules]) -> None:
        self._node = node
        self._rows = rows
        self._rules_of = rules_of

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        right_batches_pb2_grpc.add_RightBatchServiceServicer_to_server(self, server)
        return right_batches_pb2.DESCRIPTOR.services_by_name["RightBatchService"].full_name

    def _study(self, study_id: bytes, context: Context) -> Study:
        study = self._node.studies.get(study_id)
        require_role(context, study, ["collector"])
        return study

    async def FindMissing(
        self, request: right_batches_pb2.FindMissingRequest, context: Context
    ) -> right_batches_pb2.FindMissingResponse:
        study = self._node.studies.get(request.study_id)
        require_other_right(context, study, self._node.role_in(study))
        ids, now_ms, database = (
            split_ids(request.submission_ids),
            self._node.clock.now_ms(),
            self._node.database,
        )
        if request.refuse and study.admission == "open":
            missing = await database.write(lambda tx: refuse_missing(tx, study.id, ids, now_ms))
        else:
            missing = await database.read(lambda tx: find_missing(tx, study.id, ids))
        return right_batches_pb2.FindMissingResponse(missing_ids=b"".join(missing))

    async def ListPending(
        self, request: right_batches_pb2.ListPendingRequest, context: Context
    ) -> right_batches_pb2.ListPendingResponse:
        study = self._study(request.study_id, context)
        token = request.page_token or "0"
        if not (token.isascii() and token.isdigit() and len(token) < 19):  # a row's sequence, 63 bits at most
            raise Refused(Reason.MALFORMED, "page_token must be one that this provider gave")
        limit = min(request.page_size or _PAGE, _PAGE)
        found = await self._rows.pending(study.id, int(token), limit)
        return right_batches_pb2.ListPendingResponse(
            submission_ids=b"".join(submission_id for _, submission_id, _ in found),
            checked=bytes(mark for _, _, mark in found),
            draw_number=await self._rows.last_draw(study.id),
            next_page_token=str(found[-1][0]) if len(found) == limit else "",
            store_generation=self._node.database.generation,
        )

    async def PauseIntake(
        self, request: right_batches_pb2.PauseIntakeRequest, context: Context
    ) -> right_batches_pb2.PauseIntakeResponse:
        study = self._study(request.study_id, context)
        kind = "study_paused" if request.turn % 2 else "study_resumed"
        entry = self._node.audit.entry(kind, study=study.id.hex())
        turn = await self._node.studies.follow(study.id, request.turn, entry)
        return right_batches_pb2.PauseIntakeResponse(turn=turn)

    async def StopIntake(
        self, request: right_batches_pb2.StopIntakeRequest, context: Context
    ) -> right_batches_pb2.StopIntakeResponse:
        study = self._study(request.order.study_id, context)
        verify_close(study, request.order, self._node.clock.now_ms())
        entry = self._node.audit.entry("study_closing", study=study.id.hex())
        await self._node.studies.set_state(study.id, "closing", entry)
        return right_batches_pb2.StopIntakeResponse()

    async def AssignBlock(
        self, request: right_batches_pb2.AssignBlockRequest, context: Context
    ) -> right_batches_pb2.AssignBlockResponse:
        study = self._study(request.study_id, context)
        rules = self._rules_of(study)
        if rules.draws_blocks:
            joined = await self._rows.bind_drawn(study.id, request.block_id)
        else:
            ids, joined = _planned_ids(study, request), request.submission_ids
            rules.check_plan(study, len(ids))
            if len(request.block_id) != SUBMISSION_ID_BYTES or ids != sorted(set(ids)):
                raise Refused(
                    Reason.MALFORMED, "a plan has a 16-byte block id and sorted, distinct submission ids"
                )
            withdrawn = await self._rows.assign(study.id, request.block_id, ids)
            if withdrawn:
                self._node.log.info("declined block=%s withdrawn=%d", request.block_id.hex(), len(withdrawn))
                return right_batches_pb2.AssignBlockResponse(withdrawn_ids=b"".join(withdrawn))
        self._node.log.info("assigned block=%s", request.block_id.hex())
        plan = plan_hash(study.id, request.block_id, joined)
        return right_batches_pb2.AssignBlockResponse(
            bound_signature=sign_bound(self._node.keys.identity, plan)
        )

    async def CancelBlock(
        self, request: right_batches_pb2.CancelBlockRequest, context: Context
    ) -> right_batches_pb2.CancelBlockResponse:
        study = self._study(request.study_id, context)
        if len(request.block_id) != SUBMISSION_ID_BYTES:
            raise Refused(Reason.MALFORMED, "a block id has 16 bytes")
        if self._rules_of(study).draws_blocks:
            raise Refused(Reason.BLOCK_STARTED, "blocks of this study are drawn: none is cancelled")
        verify(
            study.collector.identity, "block-cancel", plan_message(study.id, request.block_id, b""),
            request.signature, "the cancellation",
        )  # fmt: skip
        await self._rows.cancel(study.id, request.block_id)
        self._node.log.info("cancelled block=%s", request.block_id.hex())
        return right_batches_pb2.CancelBlockResponse()

    async def EraseBlock(
        self, request: right_batches_pb2.EraseBlockRequest, context: Context
    ) -> right_batches_pb2.EraseBlockResponse:
        study = self._study(request.study_id, context)
        rules = self._rules_of(study)
        ids = _erased_ids(rules, study, request)
        rows = await self._rows.erase_block(study.id, request.block_id, ids)
        rules.forget_block(study.id, request.block_id)
        self._node.metrics.erased_rows.labels("pooled").inc(rows)
        self._node.log.info("erased block=%s rows=%d", request.block_id.hex(), rows)
        return right_batches_pb2.EraseBlockResponse(erased_rows=rows)

    async def EraseStudy(
        self, request: right_batches_pb2.EraseStudyRequest, context: Context
    ) -> right_batches_pb2.EraseStudyResponse:
        study = self._study(request.study_id, context)
        state, _ = await self._node.studies.intake(study.id)
        if state not in ("closing", "closed"):
            raise Refused(Reason.NO_ORDER, "the study is not closing here: its owner's order comes first")
        entry = self._node.audit.entry("study_closed", study=study.id.hex())
        await self._node.studies.set_state(study.id, "closed", entry)
        rows = await self._rows.erase_pending(study.id)
        self._node.metrics.erased_rows.labels("unused").inc(rows)
        self._node.log.info("erased study=%s unused_rows=%d", study.id.hex()[:12], rows)
        return right_batches_pb2.EraseStudyResponse(erased_rows=rows)
