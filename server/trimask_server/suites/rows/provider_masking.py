"""What providers do with a block for one attempt: R_k's X^k B_k, with B_k for the node that removes it; then A_j.

A_j is drawn for one attempt and forgotten with it. The first left provider masks nothing before it has checked, in studies
with tags, that every row of every component is the one its device has tagged (`check.check_tags`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.rows.arrays import Matrix, haar_rotate
from trimask_core.rows.noise_columns import CHECK_DIRECTIONS
from trimask_core.rows.payloads import ELEMENT_BYTES, TAG_BYTES, add_elements, read_elements, write_elements
from trimask_core.rows.study import TAGS
from trimask_core.study.definition import Study
from trimask_proto.v1 import (
    common_pb2,
    left_masking_pb2,
    left_masking_pb2_grpc,
    right_masking_pb2,
    right_masking_pb2_grpc,
    unmasking_pb2,
)
from trimask_proto.v1.left_masking_pb2 import PushComponentRequest
from trimask_proto.v1.left_masking_pb2_grpc import LeftMaskingServiceStub
from trimask_proto.v1.unmasking_pb2 import PushMaskedRequest
from trimask_proto.v1.unmasking_pb2_grpc import UnmaskingServiceStub
from trimask_server.access.governance import worker_of
from trimask_server.access.permissions import admitted
from trimask_server.right.rows import RowStore
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.tls import Context
from trimask_server.suites.rows.attempt_shares import AttemptShares, Frames, OpenRows, Row
from trimask_server.suites.rows.check import check_tags, directions, take_out
from trimask_server.suites.rows.math import Assembler, RightMask, apply_right_mask, slices
from trimask_server.suites.rows.right_checks import CheckStore
from trimask_server.suites.rows.unmasking import UnmaskingServicer

Rows = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class _Held:
    """What is held with the rows of a block: their tags, keys of other components, and what was opened of the rows."""

    tags: bytes = field(repr=False)
    keys: Mapping[int, bytes] = field(repr=False)
    openings: bytes = field(repr=False)


class RightMaskingServicer(right_masking_pb2_grpc.RightMaskingServiceServicer):
    """Serves the collector."""

    def __init__(
        self,
        node: NodeContext,
        attempts: AttemptShares,
        rows: RowStore,
        opened: OpenRows,
        unmasking: UnmaskingServicer,
        checks: CheckStore,
        frames: Frames,
    ) -> None:
        self._node = node
        self._attempts = attempts
        self._rows = rows
        self._opened = opened
        self._unmasking = unmasking
        self._checks = checks
        self._frames = frames

    async def StartMasking(
        self, request: right_masking_pb2.StartMaskingRequest, context: Context
    ) -> right_masking_pb2.StartMaskingResponse:
        study = admitted().study
        known = self._frames.learn(study, request.mask_seed)
        rows = await self._rows.start(study.id, request.attempt.block_id, request.attempt.plan_hash)
        self._attempts.begin(
            request.attempt, lambda: self._mask(known, request.attempt, rows), "right masking"
        )
        return right_masking_pb2.StartMaskingResponse()

    async def _mask(self, study: Study, attempt: common_pb2.Attempt, rows: list[tuple[bytes, bytes]]) -> None:
        node = self._node
        k = int(study.role_of(node.keys.identity.public)[1:])
        seeds = await self._checks.seeds(study.id, attempt.block_id)
        opened = await self._opened.take(study, rows)
        component, held = await node.workers.run(self._read, study, rows, seeds, opened)
        del opened
        masked, mask = await node.workers.run(apply_right_mask, component, node.source)
        await self._send_mask(study, attempt, k, mask, held.openings)
        for of, keys in held.keys.items():
            await self._send_keys(study, attempt, of, keys, b"".join(seeds[name] for name, _ in rows))
        stub = LeftMaskingServiceStub(node.peers.channel(study.left[0], worker_of(study, attempt, "L1")))
        for piece in slices(masked):
            first = piece.first_row * TAG_BYTES
            count = len(piece.values) // (8 * piece.columns)
            await node.peers.call(
                stub.PushComponent,
                left_masking_pb2.PushComponentRequest(
                    attempt=attempt,
                    component=k,
                    slice=piece,
                    tags=held.tags[first : first + count * TAG_BYTES],
                ),
            )
        node.log.info("masked block=%s attempt=%d component=%d", attempt.block_id.hex(), attempt.number, k)

    def _read(
        self, study: Study, rows: Rows, seeds: dict[bytes, bytes], opened: Sequence[Row]
    ) -> tuple[Matrix, _Held]:
        """X^k, a row for each submission, in the order of their ids, without what was opened of each to check it; and, in a
        study with tags, what came with the rows.

        If what was opened were left in, a party that saw it would have seen A X and X along the same directions: part of A.
        """
        component = study.rows.grid.to_float(np.array([row.component for row in opened]))
        openings = np.empty((len(rows), CHECK_DIRECTIONS))
        for these, taken in self._checked(study, rows, seeds):
            openings[these] = component[these] @ taken.T
            component[these] = take_out(component[these], taken)
        if not study.rows.tag_holders:
            return component, _Held(b"", {}, b"")
        parts = [row.tags for row in opened if row.tags is not None]
        tags = b"".join(write_elements(add_elements(part.tagged.tags)) for part in parts)
        keys = {of: b"".join(part.keys[of] for part in parts) for of in parts[0].keys}
        return component, _Held(tags, keys, openings.astype("<f8").tobytes())

    def _checked(
        self, study: Study, rows: list[tuple[bytes, bytes]], seeds: dict[bytes, bytes]
    ) -> Iterator[tuple[list[int], Matrix]]:
        """Rows that were checked together, and the directions that were opened of them."""
        if not all(name in seeds for name, _ in rows):
            raise Refused(Reason.ROW_NOT_CHECKED, "a row of this block was not checked here")
        for seed in sorted(set(seeds.values())):
            yield [i for i, (name, _) in enumerate(rows) if seeds[name] == seed], directions(study, seed)

    async def _send_keys(
        self, study: Study, attempt: common_pb2.Attempt, of: int, keys: bytes, check_seeds: bytes
    ) -> None:
        """The tag keys of component `of` that are held here, to the node that removes its mask."""
        request = unmasking_pb2.PushTagKeysRequest(
            attempt=attempt,
            component=of,
            keys=keys,
            check_seeds=check_seeds,
            mask_seed=study.rows.mask_seed,
        )
        stub = self._unmasking_stub(study, attempt, of)
        if stub is None:
            self._unmasking.take_tag_keys(study, request, study.role_of(self._node.keys.identity.public))
        else:
            await self._node.peers.call(stub.PushTagKeys, request)

    def _unmasking_stub(
        self, study: Study, attempt: common_pb2.Attempt, k: int
    ) -> UnmaskingServiceStub | None:
        """U_k; None if it is this node."""
        role = study.rows.unmasking[k - 1]
        unmasker = study.party(role)
        if unmasker.identity == self._node.keys.identity.public:
            return None
        return UnmaskingServiceStub(self._node.peers.channel(unmasker, worker_of(study, attempt, role)))

    async def _send_mask(
        self, study: Study, attempt: common_pb2.Attempt, k: int, mask: RightMask, openings: bytes
    ) -> None:
        stub = self._unmasking_stub(study, attempt, k)
        for piece in slices(mask.basis):
            request = unmasking_pb2.PushRightMaskRequest(
                attempt=attempt,
                component=k,
                frame_seed=mask.frame_seed,
                basis=piece,
                probe_seed=mask.probe_seed,
                probe_gram=mask.probe_gram.astype("<f8").tobytes(),
                openings=openings,
            )
            if stub is None:
                self._unmasking.take_right_mask(study, request)
            else:
                await self._node.peers.call(stub.PushRightMask, request)


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
