"""The rows of a check, opened once for its steps; and what right providers show each other of devices' tags (`check`)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.rows.payloads import TagPart, read_components, read_tags
from trimask_core.rows.tags import ELEMENT_BYTES, TAG_BYTES
from trimask_core.study.definition import Study
from trimask_proto.v1 import row_check_pb2
from trimask_proto.v1.row_check_pb2 import RowCheck
from trimask_proto.v1.row_check_pb2_grpc import RowCheckPeerServiceStub
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import CurrentKeyRing
from trimask_server.runtime.context import NodeContext
from trimask_server.suites.rows.attempt_shares import open_payloads
from trimask_server.suites.rows.check import (
    challenge,
    combinations,
    combinations_hold,
    seed_of,
)

_MESSAGE_BYTES = 1 << 20
KEPT_SECONDS = 60.0


@dataclass(frozen=True)
class Row:
    """A row of a check, opened: the hash of what was sealed, the component in it, and what came with that."""

    digest: bytes
    component: NDArray[np.int64] = field(repr=False)
    tags: TagPart | None = field(repr=False)


class OpenRows:
    """The rows of the last check, opened once for every step of it, and forgotten a minute later."""

    def __init__(self, node: NodeContext, rows: RowStore, key_ring: CurrentKeyRing) -> None:
        self._node = node
        self._rows = rows
        self._key_ring = key_ring
        self._check = (b"", b"")
        self._known: dict[bytes, Row] = {}
        self._turn = asyncio.Lock()  # who comes second finds them opened

    async def of(self, study: Study, check_id: bytes, ids: Sequence[bytes]) -> dict[bytes, Row]:
        """Those that are still here, by id."""
        here = dict(await self._rows.sealed(study.id, ids, check_id))
        async with self._turn:
            if self._check != (study.id, check_id):
                self._check, self._known = (study.id, check_id), {}
                asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget, self._check)
            known = self._known
            fresh = {
                name: sealed
                for name, sealed in here.items()
                if name not in known or known[name].digest != hashlib.sha256(sealed).digest()
            }
            if fresh:
                known |= await self._node.workers.run(self._open, study, fresh)
            return {name: known[name] for name in here}

    def _open(self, study: Study, rows: Mapping[bytes, bytes]) -> dict[bytes, Row]:
        k = int(self._node.role_in(study)[1:])
        payloads = open_payloads(self._key_ring.ring, study, k, list(rows.items()))
        components = read_components(study, k, payloads)
        tags = [read_tags(study, k, payload) if study.rows.tag_holders else None for payload in payloads]
        return {
            name: Row(hashlib.sha256(sealed).digest(), component, part)
            for (name, sealed), component, part in zip(rows.items(), components, tags, strict=True)
        }

    def _forget(self, check: tuple[bytes, bytes]) -> None:
        if self._check == check:
            self._check, self._known = (b"", b""), {}


class TagChecks:
    """One right provider's part: it shows its own components' tags, and checks those it holds keys of."""

    def __init__(self, node: NodeContext, rows: OpenRows) -> None:
        self._node = node
        self._rows = rows

    async def openings(
        self, study: Study, check: RowCheck, seed: bytes, ids: Sequence[bytes], holder: int
    ) -> row_check_pb2.GetTagOpeningsResponse:
        """For each row that is asked for and here, e x + y and its tags for one holder."""
        rows = await self._rows.of(study, check.check_id, ids)

        def work() -> tuple[bytes, bytes]:
            if not rows:
                return b"", b""
            tagged = [row.tags.tagged for row in rows.values() if row.tags is not None]
            components = np.array([row.component for row in rows.values()])
            return combinations(components, tagged, holder, challenge(seed))

        values, tags = await self._node.workers.run(work)
        held = bytes(name in rows for name in ids)
        return row_check_pb2.GetTagOpeningsResponse(held=held, values=values, tags=tags)

    async def judge(
        self, study: Study, check: RowCheck, ids: Sequence[bytes]
    ) -> tuple[set[bytes], set[bytes]]:
        """The rows with wrong tags under a key that is held here; and those that somebody has no more."""
        own = int(self._node.role_in(study)[1:])
        held = [k for k, holders in enumerate(study.rows.tag_holders, 1) if own in holders]
        if not held or not ids:
            return set(), set()
        rows = await self._rows.of(study, check.check_id, ids)
        wrong: set[bytes] = set()
        missing = set(ids) - rows.keys()
        for k in held:
            keys = {name: row.tags.keys[k] for name, row in rows.items() if row.tags is not None}
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
            holds = await self._node.workers.run(
                combinations_hold, answer.values, answer.tags, seeds, columns, e
            )
            wrong |= {name for name, mark in zip(here, holds, strict=True) if not mark}
