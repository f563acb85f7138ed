"""Blinded deliveries coming in, and A X1 out of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import grpc
import numpy as np
from numpy.typing import NDArray

from trimask_core.errors import Refused
from trimask_core.refusals import AnyReason, Reason, Status, attempt_counter, read_reason
from trimask_core.rows.rotation import Matrix
from trimask_core.study import Study
from trimask_proto.v1 import collection_pb2, collection_pb2_grpc, common_pb2
from trimask_server.node.context import NodeContext
from trimask_server.operations.callers import Context, require_role, require_suite
from trimask_server.protocol.answer_bound import refuse_heavy
from trimask_server.protocol.blinding import sum_deliveries
from trimask_server.protocol.matrices import Assembler

__all__ = ["CollectionServicer", "PendingDelivery", "masked_answers"]

_ENERGY = (
    1 / 256,
    64.0,
)  # what rows that a check has accepted can weigh at most (docs/theory/collection.md#row-check)


def masked_answers(study: Study, deliveries: list[NDArray[np.uint64]]) -> Matrix:
    """A (X1 + C): the sum of the deliveries with B_0 and the noise columns removed, if it can be that of rows in range.

    What is removed must weigh what noise columns of checked rows can weigh: tau^2 times the n p2 that the check has left,
    within `_ENERGY`. If left providers masked the components differently, the shares do not cancel and it is larger by
    many orders; a Gram check of each component alone cannot see that.
    """
    masked = study.rows.grid.to_float(sum_deliveries(deliveries))
    answers = study.rows.frame.unapply(masked)
    n = masked.shape[0]
    energy = float(np.sum(masked**2) - np.sum(answers**2)) / study.rows.tau**2
    expected = n * study.rows.left_columns
    if not _ENERGY[0] * expected <= energy <= _ENERGY[1] * expected:
        raise Refused(
            Reason.IMPLAUSIBLE_SUM,
            "its components do not add up to rows: some were masked differently",
        )
    refuse_heavy(study, answers)
    return answers


def _assemblers(count: int) -> list[Assembler]:
    return [Assembler(np.uint64) for _ in range(count)]


@dataclass
class PendingDelivery:
    """What has arrived for the current attempt. `outcome` is the list of deliveries, or the failure.

    `held` is done when every component is held by its unmasking node: only then is any of them asked to deliver.
    """

    attempt: common_pb2.Attempt
    rows: int
    parts: list[Assembler]
    outcome: asyncio.Future[list[NDArray[np.uint64]]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    held: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    components_held: set[int] = field(default_factory=set)

    def fail(self, reason: AnyReason, message: str) -> None:
        """Give the attempt up."""
        for future in (self.held, self.outcome):
            if not future.done():
                future.set_exception(Refused(reason, message))

    def seen(self) -> None:
        """Mark the failure as seen, so that asyncio does not report it as never retrieved."""
        for future in (self.held, self.outcome):
            if future.done() and not future.cancelled():
                future.exception()


class CollectionServicer(collection_pb2_grpc.CollectionServiceServicer):
    """Serves unmasking nodes (deliveries) and every node of a study (failures)."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._pending: dict[bytes, PendingDelivery] = {}

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        collection_pb2_grpc.add_CollectionServiceServicer_to_server(self, server)
        return collection_pb2.DESCRIPTOR.services_by_name["CollectionService"].full_name

    def expect(self, study: Study, attempt: common_pb2.Attempt, rows: int) -> PendingDelivery:
        """Begin an attempt: earlier ones of the block are forgotten."""
        pending = PendingDelivery(attempt, rows, _assemblers(len(study.right)))
        self._pending[attempt.block_id] = pending
        return pending

    def end(self, attempt: common_pb2.Attempt) -> None:
        """Forget an attempt."""
        self._pending.pop(attempt.block_id, None)

    def _find(self, attempt: common_pb2.Attempt) -> PendingDelivery | None:
        pending = self._pending.get(attempt.block_id)
        return pending if pending is not None and pending.attempt.number == attempt.number else None

    async def ReportHeld(
        self, request: collection_pb2.ReportHeldRequest, context: Context
    ) -> collection_pb2.ReportHeldResponse:
        study, pending = self._delivery(request, context)
        pending.components_held.add(request.component)
        if len(pending.components_held) == len(study.right) and not pending.held.done():
            pending.held.set_result(None)
        return collection_pb2.ReportHeldResponse()

    def _delivery(
        self, request: collection_pb2.PushDeliveryRequest | collection_pb2.ReportHeldRequest, context: Context
    ) -> tuple[Study, PendingDelivery]:
        """The study and the attempt, of a node that unmasks the component it names."""
        study = self._node.studies.get(request.attempt.study_id)
        require_suite(study, "rows")
        k = request.component
        if not 1 <= k <= len(study.right):
            raise Refused(Reason.MALFORMED, f"component must be between 1 and {len(study.right)}")
        require_role(context, study, [study.rows.unmasking[k - 1]])
        pending = self._find(request.attempt)
        if pending is None:
            raise Refused(Reason.STALE_ATTEMPT, "that attempt is over")
        if request.attempt.plan_hash != pending.attempt.plan_hash:
            raise Refused(Reason.PLAN_DIFFERS, "this delivery is of another plan of the block")
        return study, pending

    async def PushDelivery(
        self, request: collection_pb2.PushDeliveryRequest, context: Context
    ) -> collection_pb2.PushDeliveryResponse:
        study, pending = self._delivery(request, context)
        k = request.component
        if not pending.outcome.done():
            pending.parts[k - 1].add(request.slice, range(pending.rows, pending.rows + 1), study.rows.columns)
            if all(part.complete for part in pending.parts):
                pending.outcome.set_result([part.take() for part in pending.parts])
        return collection_pb2.PushDeliveryResponse()

    async def ReportFailure(
        self, request: collection_pb2.ReportFailureRequest, context: Context
    ) -> collection_pb2.ReportFailureResponse:
        study = self._node.studies.get(request.attempt.study_id)
        require_suite(study, "rows")
        require_role(context, study, study.parties)
        pending = self._find(request.attempt)
        if pending is not None:
            reason = read_reason(request.reason, Status.ABORTED.name)
            self._node.refusals.count(attempt_counter(reason))
            pending.fail(reason, f"a node gave the attempt up: {reason}")
        return collection_pb2.ReportFailureResponse()
