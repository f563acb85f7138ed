"""Right providers show each other, before rows are planned, that devices' tags are right (`tags`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.rows.payloads import read_components, read_tags
from trimask_core.rows.tags import ELEMENT_BYTES, TAG_BYTES, TAGS, read_elements, write_elements
from trimask_core.study.definition import Study
from trimask_proto.v1 import row_check_pb2
from trimask_proto.v1.row_check_pb2 import RowCheck
from trimask_proto.v1.row_check_pb2_grpc import RowCheckPeerServiceStub
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import CurrentKeyRing
from trimask_server.runtime.context import NodeContext
from trimask_server.suites.rows.attempt_shares import open_payloads
from trimask_server.suites.rows.check import seed_of
from trimask_server.suites.rows.tags import challenge, combination, combination_holds

_MESSAGE_BYTES = 1 << 20


class TagChecks:
    """One right provider's part: it shows its own components' tags, and checks those it holds keys of."""

    def __init__(self, node: NodeContext, rows: RowStore, key_ring: CurrentKeyRing) -> None:
        self._node = node
        self._rows = rows
        self._key_ring = key_ring

    async def openings(
        self, study: Study, check: RowCheck, seed: bytes, ids: Sequence[bytes], holder: int
    ) -> row_check_pb2.GetTagOpeningsResponse:
        """For each row that is asked for and here, e x + y and its tags for one holder."""
        k = int(self._node.role_in(study)[1:])
        rows = await self._rows.sealed(study.id, ids, check.check_id)

        def work() -> tuple[bytes, bytes]:
            e, payloads = challenge(seed), open_payloads(self._key_ring.ring, study, k, rows)
            components = read_components(study, k, payloads).tolist()
            parts = [read_tags(study, k, payload) for payload in payloads]
            shown = [
                combination(component, part.tagged, holder, e)
                for component, part in zip(components, parts, strict=True)
            ]
            return b"".join(write_elements(one) for one, _ in shown), b"".join(
                write_elements(tags) for _, tags in shown
            )

        values, tags = await self._node.workers.run(work)
        here = {name for name, _ in rows}
        held = bytes(name in here for name in ids)
        return row_check_pb2.GetTagOpeningsResponse(held=held, values=values, tags=tags)

    async def judge(
        self, study: Study, check: RowCheck, ids: Sequence[bytes]
    ) -> tuple[set[bytes], set[bytes]]:
        """The rows with wrong tags under a key that is held here; and those that somebody has no more."""
        own = int(self._node.role_in(study)[1:])
        held = [k for k, holders in enumerate(study.rows.tag_holders, 1) if own in holders]
        if not held or not ids:
            return set(), set()
        rows = await self._rows.sealed(study.id, ids, check.check_id)
        payloads = await self._node.workers.run(open_payloads, self._key_ring.ring, study, own, rows)
        parts = [read_tags(study, own, payload) for payload in payloads]
        wrong: set[bytes] = set()
        missing = set(ids) - {name for name, _ in rows}
        for k in held:
            keys = {name: part.keys[k] for (name, _), part in zip(rows, parts, strict=True)}
            await self._ask(study, check, k, keys, wrong, missing)
        return wrong, missing

    async def _ask(
        self,
        study: Study,
        check: RowCheck,
        k: int,
        keys: Mapping[bytes, bytes],
        wrong: set[bytes],
        missing: set[bytes],
    ) -> None:
        """Have R_k show its tags, a message at a time."""
        columns, names = study.rows.columns, list(keys)
        width = columns * ELEMENT_BYTES
        stub = RowCheckPeerServiceStub(self._node.peers.channel(study.party(f"R{k}")))
        e, step = challenge(seed_of(check)), max(1, _MESSAGE_BYTES // width)
        for first in range(0, len(names), step):
            some = names[first : first + step]
            request = row_check_pb2.GetTagOpeningsRequest(check=check, submission_ids=b"".join(some))
            answer = await self._node.peers.call(stub.GetTagOpenings, request)
            here = [name for name, mark in zip(some, answer.held, strict=False) if mark]
            count = len(here)
            if (len(answer.held), len(answer.values), len(answer.tags)) != (
                len(some),
                count * width,
                count * TAG_BYTES,
            ):
                raise Refused(Reason.WRONG_SHAPE, f"R{k} showed the tags of other rows than were asked for")
            missing |= set(some) - set(here)
            seeds = [keys[name] for name in here]
            holds = await self._node.workers.run(_hold, answer.values, answer.tags, seeds, columns, e)
            wrong |= {name for name, mark in zip(here, holds, strict=True) if not mark}


def _hold(values: bytes, tags: bytes, keys: Sequence[bytes], columns: int, e: int) -> list[bool]:
    """For each row, whether what was shown fits its key."""
    vectors, shown = read_elements(values), read_elements(tags)
    return [
        combination_holds(vectors[i * columns : (i + 1) * columns], shown[i * TAGS : (i + 1) * TAGS], key, e)
        for i, key in enumerate(keys)
    ]
