"""The right provider's share of an attempt: X^k B_k, and B_k for the node that removes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.rows.noise_columns import CHECK_DIRECTIONS
from trimask_core.rows.payloads import read_components, read_tags
from trimask_core.rows.rotation import Matrix
from trimask_core.rows.tags import TAG_BYTES, add_elements, write_elements
from trimask_core.study.definition import Study
from trimask_proto.v1 import (
    common_pb2,
    left_masking_pb2,
    right_masking_pb2,
    right_masking_pb2_grpc,
    unmasking_pb2,
)
from trimask_proto.v1.left_masking_pb2_grpc import LeftMaskingServiceStub
from trimask_proto.v1.unmasking_pb2_grpc import UnmaskingServiceStub
from trimask_server.access.permissions import admitted
from trimask_server.protocol.plans import worker_of
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import CurrentKeyRing
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.tls import Context
from trimask_server.suites.rows.attempt_shares import AttemptShares, Frames, open_payloads
from trimask_server.suites.rows.check import directions, take_out
from trimask_server.suites.rows.math import RightMask, apply_right_mask, slices
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
        key_ring: CurrentKeyRing,
        unmasking: UnmaskingServicer,
        checks: CheckStore,
        frames: Frames,
    ) -> None:
        self._node = node
        self._attempts = attempts
        self._rows = rows
        self._key_ring = key_ring
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
        payloads = await node.workers.run(open_payloads, self._key_ring.ring, study, k, rows)
        component, held = await node.workers.run(self._read, study, k, rows, seeds, payloads)
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
        self, study: Study, k: int, rows: Rows, seeds: dict[bytes, bytes], payloads: list[bytes]
    ) -> tuple[Matrix, _Held]:
        """X^k, a row for each submission, in the order of their ids, without what was opened of each to check it; and, in a
        study with tags, what came with the rows.

        If what was opened were left in, a party that saw it would have seen A X and X along the same directions: part of A.
        """
        component = study.rows.grid.to_float(read_components(study, k, payloads))
        openings = np.empty((len(rows), CHECK_DIRECTIONS))
        for these, taken in self._checked(study, rows, seeds):
            openings[these] = component[these] @ taken.T
            component[these] = take_out(component[these], taken)
        if not study.rows.tag_holders:
            return component, _Held(b"", {}, b"")
        parts = [read_tags(study, k, payload) for payload in payloads]
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
