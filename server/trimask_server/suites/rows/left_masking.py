"""The left provider's share of a block: A_j, drawn for one attempt and forgotten with it.

The first left provider masks nothing before it has checked, in studies with tags, that every row of every component is the
one its device has tagged (`tags.check_tags`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.rows.rotation import Matrix, haar_rotate
from trimask_core.rows.tags import ELEMENT_BYTES, TAGS, read_elements
from trimask_core.study.definition import Study
from trimask_proto.v1 import common_pb2, left_masking_pb2, left_masking_pb2_grpc
from trimask_proto.v1.left_masking_pb2 import PushComponentRequest
from trimask_proto.v1.left_masking_pb2_grpc import LeftMaskingServiceStub
from trimask_proto.v1.unmasking_pb2 import PushMaskedRequest
from trimask_proto.v1.unmasking_pb2_grpc import UnmaskingServiceStub
from trimask_server.access.permissions import admitted
from trimask_server.protocol.plans import worker_of
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.tls import Context
from trimask_server.suites.rows.attempt_shares import AttemptShares
from trimask_server.suites.rows.check import check_tags
from trimask_server.suites.rows.math import Assembler, slices
from trimask_server.suites.rows.unmasking import UnmaskingServicer


def apply_left_mask(seed: bytes, stacked: Matrix) -> Matrix:
    """A_j [M_1 ... M_K1]: one Haar matrix for all components, applied in place."""
    return haar_rotate(seed, stacked)


@dataclass
class _Elements:
    """Field elements that come with the rows of a matrix, by the number of the element."""

    values: dict[int, int] = field(default_factory=dict, repr=False)

    def add(self, piece: common_pb2.MatrixSlice, data: bytes, each: int) -> None:
        """Take in `each` elements for every row of a slice."""
        count = len(piece.values) // (8 * max(1, piece.columns))
        if len(data) != count * each * ELEMENT_BYTES:
            raise Refused(
                Reason.WRONG_SHAPE, f"{each} elements of {ELEMENT_BYTES} bytes must come with a row"
            )
        self.values.update(enumerate(read_elements(data), piece.first_row * each))

    def take(self) -> list[int]:
        """All of them, in order."""
        return [self.values[at] for at in sorted(self.values)]


@dataclass
class _Incoming:
    """The K1 matrices of one attempt, side by side in one array; at the first left provider also what checks them."""

    stacked: Matrix | None = None
    parts: dict[int, Assembler] = field(default_factory=dict)
    tags: dict[int, _Elements] = field(default_factory=dict)
    keys: dict[int, Assembler] = field(default_factory=dict)
    offsets: dict[int, _Elements] = field(default_factory=dict)
    begun: bool = False


class LeftMaskingServicer(left_masking_pb2_grpc.LeftMaskingServiceServicer):
    """Serves right providers (L_1) or the left provider before."""

    def __init__(self, node: NodeContext, attempts: AttemptShares, unmasking: UnmaskingServicer) -> None:
        self._node = node
        self._attempts = attempts
        self._unmasking = unmasking
        self._incoming = attempts.table(_Incoming)
        unmasking.take_masked_keys = self.take_masked_keys

    async def PushComponent(
        self, request: left_masking_pb2.PushComponentRequest, context: Context
    ) -> left_masking_pb2.PushComponentResponse:
        study, _, own = admitted()
        j, k = int(own[1:]), request.component
        incoming = self._incoming.get(request.attempt)
        if incoming.begun:
            return left_masking_pb2.PushComponentResponse()
        self._take(study, incoming, k, request.slice)
        if j == 1 and study.rows.tag_holders:
            incoming.tags.setdefault(k, _Elements()).add(request.slice, request.tags, TAGS)
        self._begin_if_complete(study, j, request.attempt, incoming)
        return left_masking_pb2.PushComponentResponse()

    async def PushMaskedKeys(
        self, request: left_masking_pb2.PushMaskedKeysRequest, context: Context
    ) -> left_masking_pb2.PushMaskedKeysResponse:
        study = admitted().study
        if not study.rows.tag_holders:
            raise Refused(Reason.MALFORMED, "this study has no tags")
        self.take_masked_keys(study, request)
        return left_masking_pb2.PushMaskedKeysResponse()

    def take_masked_keys(self, study: Study, request: left_masking_pb2.PushMaskedKeysRequest) -> None:
        """Take rows of Z B_k in, from the wire or from this node itself."""
        if study.role_of(self._node.keys.identity.public) != "L1":
            raise Refused(Reason.NOT_YOUR_ROLE, "the first left provider checks tags")
        incoming = self._incoming.get(request.attempt)
        if incoming.begun:
            return
        k, rows = request.component, study.rows
        allowed = range(TAGS * rows.block_rows, TAGS * rows.max_block_rows + 1)
        incoming.keys.setdefault(k, Assembler()).add(request.slice, allowed, rows.columns)
        incoming.offsets.setdefault(k, _Elements()).add(request.slice, request.offsets, 1)
        self._begin_if_complete(study, 1, request.attempt, incoming)

    def _begin_if_complete(
        self, study: Study, j: int, attempt: common_pb2.Attempt, incoming: _Incoming
    ) -> None:
        awaited = [incoming.parts, incoming.keys] if j == 1 and study.rows.tag_holders else [incoming.parts]
        for parts in awaited:
            if len(parts) < len(study.right) or not all(part.complete for part in parts.values()):
                return
        incoming.begun = True
        self._attempts.begin(attempt, lambda: self._mask(study, j, attempt, incoming), "left masking")

    def _take(self, study: Study, incoming: _Incoming, k: int, piece: common_pb2.MatrixSlice) -> None:
        part = incoming.parts.get(k)
        allowed = range(study.rows.block_rows, study.rows.max_block_rows + 1)
        if part is None:
            if piece.rows not in allowed:
                raise Refused(
                    Reason.WRONG_SHAPE,
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
        p = study.rows.columns
        for k in sorted(incoming.keys):
            await self._check(study, attempt, incoming, k, stacked[:, (k - 1) * p : k * p])
        masked = await node.workers.run(apply_left_mask, node.source.seed(), stacked)
        for k in range(1, len(study.right) + 1):
            await self._send(study, j, attempt, k, masked[:, (k - 1) * p : k * p])
        self._incoming.finish(attempt)
        node.log.info(
            "masked block=%s attempt=%d rows=%d", attempt.block_id.hex(), attempt.number, masked.shape[0]
        )

    async def _check(
        self, study: Study, attempt: common_pb2.Attempt, incoming: _Incoming, k: int, component: Matrix
    ) -> None:
        """Refuse a component with a row that its tags do not fit, before anything is masked."""
        node, rows = self._node, study.rows
        keys, offsets, tags = (
            incoming.keys.pop(k).take(),
            incoming.offsets.pop(k).take(),
            incoming.tags.pop(k),
        )
        if len(keys) != TAGS * len(component):
            raise Refused(Reason.WRONG_SHAPE, f"{TAGS} tag keys must come for each row")
        wrong = await node.workers.run(
            check_tags, component, tags.take(), keys, offsets, rows.grid, rows.longest_component
        )
        if wrong is None:
            return
        await node.audit.record(
            "row_not_as_sent",
            study=attempt.study_id.hex(),
            block=attempt.block_id.hex(),
            number=attempt.number,
            component=k,
            row=wrong + 1,
        )
        raise Refused(
            Reason.NOT_AS_SENT,
            f"row {wrong + 1} of component {k} of block {attempt.block_id.hex()} is not what its device has tagged",
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
