"""The unmasking node's share of the check by tags: keys under the right mask, for the first left provider."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trimask_core.errors import Refused
from trimask_core.randomness import SEED_BYTES
from trimask_core.refusals import Reason
from trimask_core.rows.obfuscation import CHECK_DIRECTIONS
from trimask_core.rows.rotation import Matrix
from trimask_core.rows.tags import ELEMENT_BYTES, write_elements
from trimask_core.study import Study
from trimask_proto.v1 import common_pb2, left_masking_pb2, unmasking_pb2
from trimask_proto.v1.left_masking_pb2_grpc import LeftMaskingServiceStub
from trimask_server.node.context import NodeContext
from trimask_server.protocol.attempts import worker_of
from trimask_server.protocol.matrices import slices
from trimask_server.protocol.tag_check import BlockKeys

__all__ = ["TakeMaskedKeys", "read_keys", "read_openings", "send_masked_keys"]

TakeMaskedKeys = Callable[[Study, left_masking_pb2.PushMaskedKeysRequest], None]


def read_openings(data: bytes) -> Matrix:
    """What was opened of the rows of a component; nothing in a study without tags."""
    if len(data) % (8 * CHECK_DIRECTIONS):
        raise Refused(Reason.WRONG_SHAPE, f"openings are {CHECK_DIRECTIONS} numbers for each row")
    return np.frombuffer(data, dtype="<f8").reshape(-1, CHECK_DIRECTIONS)


def read_keys(study: Study, request: unmasking_pb2.PushTagKeysRequest) -> BlockKeys:
    """What a right provider holds for the rows of a block."""
    return BlockKeys(_seeds(study, request.keys), _seeds(study, request.check_seeds))


def _seeds(study: Study, data: bytes) -> list[bytes]:
    """One for each row of a block."""
    count, rest = divmod(len(data), SEED_BYTES)
    if rest or not study.rows.block_rows <= count <= study.rows.max_block_rows:
        raise Refused(Reason.WRONG_SHAPE, f"{SEED_BYTES} bytes for each row of a block were expected")
    return [data[at : at + SEED_BYTES] for at in range(0, len(data), SEED_BYTES)]


async def send_masked_keys(
    node: NodeContext,
    study: Study,
    attempt: common_pb2.Attempt,
    k: int,
    make: Callable[[], tuple[Matrix, list[int]]],
    here: TakeMaskedKeys | None,
) -> None:
    """Z B_k, which `make` works out, to the first left provider, or `here` if this node is that one."""
    keys, offsets = await node.workers.run(make)
    first = study.left[0]
    local = here if first.identity == node.keys.identity.public else None
    elements = write_elements(offsets)
    for piece in slices(keys):
        begin, count = piece.first_row * ELEMENT_BYTES, len(piece.values) // (8 * piece.columns)
        request = left_masking_pb2.PushMaskedKeysRequest(
            attempt=attempt,
            component=k,
            slice=piece,
            offsets=elements[begin : begin + count * ELEMENT_BYTES],
        )
        if local is not None:
            local(study, request)
        else:
            stub = LeftMaskingServiceStub(node.peers.channel(first, worker_of(study, attempt, "L1")))
            await node.peers.call(stub.PushMaskedKeys, request)
