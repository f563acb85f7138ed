"""The left provider's share of a block: A_j, drawn for one try and forgotten with it."""

from __future__ import annotations

from dataclasses import dataclass, field

import grpc
import numpy as np

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_core.rows.rotation import Matrix, haar_rotate
from trimask_core.study import Study
from trimask_proto.v1 import common_pb2, left_masking_pb2, left_masking_pb2_grpc
from trimask_proto.v1.left_masking_pb2 import PushComponentRequest
from trimask_proto.v1.left_masking_pb2_grpc import LeftMaskingServiceStub
from trimask_proto.v1.unmasking_pb2 import PushMaskedRequest
from trimask_proto.v1.unmasking_pb2_grpc import UnmaskingServiceStub
from trimask_server.node.context import NodeContext
from trimask_server.operations.callers import Context, require_role, require_suite
from trimask_server.protocol.attempts import worker_of
from trimask_server.protocol.matrices import Assembler, slices
from trimask_server.suites.rows.tries import Tries
from trimask_server.suites.rows.unmasking import UnmaskingServicer

__all__ = ["LeftMaskingServicer", "apply_left_mask"]


def apply_left_mask(seed: bytes, stacked: Matrix) -> Matrix:
    """A_j [M_1 ... M_K1]: one Haar matrix for all components, applied in place."""
    return haar_rotate(seed, stacked)


@dataclass
class _Incoming:
    """The K1 matrices of one try, side by side in one array."""

    stacked: Matrix | None = None
    parts: dict[int, Assembler] = field(default_factory=dict)
    begun: bool = False


class LeftMaskingServicer(left_masking_pb2_grpc.LeftMaskingServiceServicer):
    """Serves right providers (L_1) or the left provider before."""

    def __init__(self, node: NodeContext, tries: Tries, unmasking: UnmaskingServicer) -> None:
        self._node = node
        self._tries = tries
        self._unmasking = unmasking
        self._incoming = tries.table(_Incoming)

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        left_masking_pb2_grpc.add_LeftMaskingServiceServicer_to_server(self, server)
        return left_masking_pb2.DESCRIPTOR.services_by_name["LeftMaskingService"].full_name

    async def PushComponent(
        self, request: left_masking_pb2.PushComponentRequest, context: Context
    ) -> left_masking_pb2.PushComponentResponse:
        node = self._node
        study = node.studies.get(request.attempt.study_id)
        require_suite(study, "rows")
        j = int(study.role_of(node.keys.identity.public)[1:])
        k, count = request.component, len(study.right)
        if not 1 <= k <= count:
            raise Refused(Reason.MALFORMED, f"component must be between 1 and {count}")
        require_role(context, study, [f"R{k}" if j == 1 else f"L{j - 1}"])
        incoming = self._incoming.get(request.attempt)
        if incoming.begun:
            return left_masking_pb2.PushComponentResponse()
        self._take(study, incoming, k, request.slice)
        if len(incoming.parts) == count and all(part.complete for part in incoming.parts.values()):
            incoming.begun = True
            work = self._mask(study, j, request.attempt, incoming)
            self._tries.begin(request.attempt, work, "left masking")
        return left_masking_pb2.PushComponentResponse()

    def _take(self, study: Study, incoming: _Incoming, k: int, piece: common_pb2.MatrixSlice) -> None:
        part = incoming.parts.get(k)
        allowed = range(study.rows.block_rows, study.rows.max_block_rows + 1)
        if part is None:
            if piece.rows not in allowed:
                raise Refused(
                    Reason.BLOCK_TOO_SMALL,
                    f"blocks of this study have {allowed.start} to {allowed.stop - 1} rows",
                )
            if incoming.stacked is None:
                incoming.stacked = np.empty((piece.rows, study.rows.columns * len(study.right)))
            if incoming.stacked.shape[0] != piece.rows:
                raise Refused(
                    Reason.WRONG_SHAPE, "the components of a block must have the same number of rows"
                )
            part = Assembler()
            part.into(incoming.stacked[:, (k - 1) * study.rows.columns : k * study.rows.columns])
            incoming.parts[k] = part
        part.add(piece, allowed, study.rows.columns)

    async def _mask(self, study: Study, j: int, attempt: common_pb2.Attempt, incoming: _Incoming) -> None:
        node = self._node
        stacked, incoming.stacked = incoming.stacked, None
        incoming.parts.clear()
        if stacked is None:
            raise Refused(Reason.WRONG_SHAPE, "there is nothing to mask")
        masked = await node.workers.run(apply_left_mask, node.source.seed(), stacked)
        p = study.rows.columns
        for k in range(1, len(study.right) + 1):
            await self._send(study, j, attempt, k, masked[:, (k - 1) * p : k * p])
        node.log.info(
            "masked block=%s try=%d rows=%d", attempt.block_id.hex(), attempt.number, masked.shape[0]
        )

    async def _send(self, study: Study, j: int, attempt: common_pb2.Attempt, k: int, masked: Matrix) -> None:
        peers = self._node.peers
        if j < len(study.left):
            forward = LeftMaskingServiceStub(
                peers.channel(study.left[j], worker_of(study, attempt, f"L{j + 1}"))
            )
            for piece in slices(masked):
                await peers.call(
                    forward.PushComponent, PushComponentRequest(attempt=attempt, component=k, slice=piece)
                )
            return
        role = study.rows.unmasking[k - 1]
        unmasker = study.party(role)
        local = unmasker.identity == self._node.keys.identity.public
        stub = (
            None if local else UnmaskingServiceStub(peers.channel(unmasker, worker_of(study, attempt, role)))
        )
        for piece in slices(masked):
            request = PushMaskedRequest(attempt=attempt, component=k, slice=piece)
            if stub is None:
                self._unmasking.take_masked(study, request)
            else:
                await peers.call(stub.PushMasked, request)
