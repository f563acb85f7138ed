"""Which submissions are bound together: what a right provider serves the collector and its peers, whatever the suite.

A block of the rows suite and a batch of another are the same here: a set of submission ids, bound for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import grpc

from trimask_core.counted import verify_bound
from trimask_core.errors import Refused
from trimask_core.identity import verify
from trimask_core.refusals import Reason
from trimask_core.study import Study
from trimask_core.submission import SUBMISSION_ID_BYTES
from trimask_proto.v1 import right_batches_pb2, right_batches_pb2_grpc
from trimask_server.node.context import NodeContext
from trimask_server.operations.callers import Context, require_other_right, require_role
from trimask_server.protocol.draw import absent_rows, sign_absence, sign_bound, split_places
from trimask_server.protocol.plans import plan_hash, plan_message, split_ids
from trimask_server.right.drawing import Draw, NotDrawn
from trimask_server.right.incomplete import find_missing, refuse_missing
from trimask_server.right.rows import RowStore

__all__ = ["BlockRules", "RightBatchServicer"]

_PAGE = 8192


class BlockRules(Protocol):
    """What a suite says about blocks at a right provider."""

    def check_plan(self, study: Study, rows: int) -> None:
        """Refuse a plan of so many rows, if the study has no blocks of that size."""
        ...

    @property
    def checks_rows(self) -> bool:
        """Whether rows may be planned only once a check has accepted them."""
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
            submission_ids=b"".join(submission_id for _, submission_id, _, _ in found),
            checked=bytes(mark for _, _, mark, _ in found),
            places=b"".join(at for _, _, _, at in found),
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
        study = self._study(request.study_id, context)
        entry = self._node.audit.entry("study_closing", study=study.id.hex())
        await self._node.studies.set_state(study.id, "closing", entry)
        return right_batches_pb2.StopIntakeResponse()

    async def AssignBlock(
        self, request: right_batches_pb2.AssignBlockRequest, context: Context
    ) -> right_batches_pb2.AssignBlockResponse:
        study = self._study(request.study_id, context)
        ids = _planned_ids(study, request)
        rules = self._rules_of(study)
        rules.check_plan(study, len(ids))
        if len(request.block_id) != SUBMISSION_ID_BYTES or ids != sorted(set(ids)):
            raise Refused(
                Reason.MALFORMED, "a plan has a 16-byte block id and sorted, distinct submission ids"
            )
        plan = plan_hash(study.id, request.block_id, request.submission_ids)
        draw = await self._draw(study, request, plan) if rules.checks_rows else None
        try:
            withdrawn = await self._rows.assign(
                study.id, request.block_id, ids, checked=rules.checks_rows, draw=draw
            )
        except NotDrawn as error:
            self._node.log.info("not drawn block=%s skipped=%d", request.block_id.hex(), len(error.skipped))
            skipped = error.skipped[:_PAGE]
            return right_batches_pb2.AssignBlockResponse(
                not_drawn=True,
                skipped_ids=b"".join(name for name, _ in skipped),
                skipped_places=b"".join(at for _, at in skipped),
            )
        if withdrawn:
            self._node.log.info("declined block=%s withdrawn=%d", request.block_id.hex(), len(withdrawn))
            return right_batches_pb2.AssignBlockResponse(withdrawn_ids=b"".join(withdrawn))
        self._node.log.info("assigned block=%s rows=%d", request.block_id.hex(), len(ids))
        return right_batches_pb2.AssignBlockResponse(
            bound_signature=sign_bound(self._node.keys.identity, plan)
        )

    async def _draw(
        self, study: Study, request: right_batches_pb2.AssignBlockRequest, plan: bytes
    ) -> Draw | None:
        """What the plan must be here; None where this provider has bound it before its store was restored."""
        if request.bound_signature:
            role = study.role_of(self._node.keys.identity.public)
            verify_bound(study, role, plan, request.bound_signature)
            return None
        pool = 0 if await self._node.studies.is_closing(study.id) else 2 * study.rows.block_rows
        return Draw(pool, frozenset(absent_rows(study, request.absences)))

    async def ConfirmAbsent(
        self, request: right_batches_pb2.ConfirmAbsentRequest, context: Context
    ) -> right_batches_pb2.ConfirmAbsentResponse:
        study = self._study(request.study_id, context)
        asked = split_places(request.submission_ids, request.places)
        if len(asked) > _PAGE:
            raise Refused(Reason.MALFORMED, f"at most {_PAGE} submission ids")
        gone = set(await self._rows.absent(study.id, [name for name, _ in asked]))
        key = self._node.keys.identity
        rows = [row for row in asked if row[0] in gone]
        absence = sign_absence(key, study.role_of(key.public), study.id, rows)
        return right_batches_pb2.ConfirmAbsentResponse(absence=absence)

    async def CancelBlock(
        self, request: right_batches_pb2.CancelBlockRequest, context: Context
    ) -> right_batches_pb2.CancelBlockResponse:
        study = self._study(request.study_id, context)
        if len(request.block_id) != SUBMISSION_ID_BYTES:
            raise Refused(Reason.MALFORMED, "a block id has 16 bytes")
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
        ids = _planned_ids(study, request) if request.submission_ids else []
        rows = await self._rows.erase_block(study.id, request.block_id, ids)
        self._rules_of(study).forget_block(study.id, request.block_id)
        self._node.metrics.erased_rows.labels("pooled").inc(rows)
        self._node.log.info("erased block=%s rows=%d", request.block_id.hex(), rows)
        return right_batches_pb2.EraseBlockResponse(erased_rows=rows)

    async def EraseStudy(
        self, request: right_batches_pb2.EraseStudyRequest, context: Context
    ) -> right_batches_pb2.EraseStudyResponse:
        study = self._study(request.study_id, context)
        entry = self._node.audit.entry("study_closed", study=study.id.hex())
        await self._node.studies.set_state(study.id, "closed", entry)
        rows = await self._rows.erase_pending(study.id)
        self._node.metrics.erased_rows.labels("unused").inc(rows)
        self._node.log.info("erased study=%s unused_rows=%d", study.id.hex()[:12], rows)
        return right_batches_pb2.EraseStudyResponse(erased_rows=rows)
