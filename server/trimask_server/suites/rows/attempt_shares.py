"""What a provider holds of attempts at blocks: its shares begun, finished, given up, and handed back when the node drains.

Masks are never saved, so nobody else can finish an attempt that this node was part of. The collector is told, and begins
another when the node is back. A right provider opens its rows once, for the components and the tags that came with them.
The study names the seed of B_0 by its hash, and the collector sends it with a check of rows.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.clock import Clock
from trimask_core.basics.errors import ImpossibleStudy, Refused, TrimaskError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import component_info
from trimask_core.rows.arrays import read_components
from trimask_core.rows.payloads import TagPart, read_tags
from trimask_core.rows.study import RowsSettings
from trimask_core.study.definition import Study
from trimask_proto.v1 import common_pb2
from trimask_proto.v1.collection_pb2 import ReportFailureRequest
from trimask_proto.v1.collection_pb2_grpc import CollectionServiceStub
from trimask_server.access.governance import worker_of
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import CurrentKeyRing
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.host import Spawn
from trimask_server.runtime.logs import reason_of_failure

T = TypeVar("T")
TELL_SECONDS = 2.0


_KEEP_MS = 15 * 60 * 1000


def attempt_bytes(attempt: common_pb2.Attempt) -> bytes:
    """An unambiguous form of an attempt, for signatures and key derivation."""
    return attempt.study_id + attempt.block_id + attempt.number.to_bytes(4, "big") + attempt.plan_hash


@dataclass
class _Entry(Generic[T]):
    number: int
    since_ms: int
    plan: bytes
    state: T
    finished: bool = False


class AttemptTable(Generic[T]):
    """State by block. A higher attempt number forgets the lower one; a lower one is refused; old ones expire.

    Every party to an attempt must name the same plan as the first that arrived: a collector may have given providers
    different plans under one block id.
    """

    def __init__(self, clock: Clock, fresh: Callable[[], T]) -> None:
        self._clock = clock
        self._fresh = fresh
        self._entries: dict[tuple[bytes, bytes], _Entry[T]] = {}

    def get(self, attempt: common_pb2.Attempt) -> T:
        """The state of this attempt, new if it is newer than what is held."""
        now = self._clock.now_ms()
        for old in [key for key, entry in self._entries.items() if now - entry.since_ms > _KEEP_MS]:
            del self._entries[old]
        key = (attempt.study_id, attempt.block_id)
        entry = self._entries.get(key)
        if entry is None or attempt.number > entry.number:
            entry = self._entries[key] = _Entry(attempt.number, now, attempt.plan_hash, self._fresh())
        elif attempt.number < entry.number:
            raise Refused(
                Reason.OUT_OF_STEP,
                f"attempt {attempt.number} of this block was replaced by attempt {entry.number}",
            )
        elif attempt.plan_hash != entry.plan:
            raise Refused(Reason.OUT_OF_STEP, "others in this attempt work on another plan of the block")
        return entry.state

    def finish(self, attempt: common_pb2.Attempt) -> None:
        """This node's share is done: it is remembered, so that late messages find it, and no longer under way."""
        entry = self._entries.get((attempt.study_id, attempt.block_id))
        if entry is not None and entry.number == attempt.number:
            entry.finished = True

    def attempts(self) -> list[common_pb2.Attempt]:
        """The attempts under way here."""
        return [
            common_pb2.Attempt(
                study_id=study_id, block_id=block_id, number=entry.number, plan_hash=entry.plan
            )
            for (study_id, block_id), entry in self._entries.items()
            if not entry.finished
        ]

    def forget(self, study_id: bytes, block_id: bytes) -> None:
        """Forget a block."""
        self._entries.pop((study_id, block_id), None)


class AttemptShares:
    """The attempts one node takes part in."""

    def __init__(self, node: NodeContext, spawn: Spawn) -> None:
        self._node = node
        self._spawn = spawn
        self._tables: list[AttemptTable[Any]] = []
        self.running = 0
        """Shares of attempts that are being worked on now."""

    def table(self, fresh: Callable[[], T]) -> AttemptTable[T]:
        """A table of what a service holds for attempts; they are handed back when the node drains."""
        table = AttemptTable(self._node.clock, fresh)
        self._tables.append(table)
        return table

    def begin(
        self, attempt: common_pb2.Attempt, work: Callable[[], Coroutine[Any, Any, None]], what: str
    ) -> None:
        """Work on this node's share of an attempt in the background; a failure is reported to the collector."""
        self._spawn(self._run(attempt, work, what), what)

    async def _run(
        self, attempt: common_pb2.Attempt, work: Callable[[], Coroutine[Any, Any, None]], what: str
    ) -> None:
        node = self._node
        self.running += 1
        try:
            await node.audit.record(
                "try_begun",
                study=attempt.study_id.hex(),
                block=attempt.block_id.hex(),
                number=attempt.number,
                part=what,
                plan=attempt.plan_hash.hex(),
            )
            await work()
            node.metrics.attempts.labels("done").inc()
        except Exception as error:
            node.metrics.attempts.labels("given_up").inc()
            reason = error.reason if isinstance(error, Refused) else reason_of_failure(error)
            if not isinstance(error, Refused):
                node.log.exception("failed while %s", what)
            node.refusals.count(reason)
            node.log.warning("gave up an attempt number=%d reason=%s while %s", attempt.number, reason, what)
            study = node.studies.get(attempt.study_id)
            try:
                address = worker_of(study, attempt, "collector")
            except Refused:  # any worker of the collector, at the address in the study
                address = ""
            stub = CollectionServiceStub(node.peers.channel(study.collector, address))
            await node.peers.call(stub.ReportFailure, ReportFailureRequest(attempt=attempt, reason=reason))
        finally:
            self.running -= 1

    async def hand_back(self) -> None:
        """Tell the collectors of all attempts held here that they have to begin others."""
        await asyncio.gather(
            *(self._hand_back(attempt) for table in self._tables for attempt in table.attempts())
        )

    async def _hand_back(self, attempt: common_pb2.Attempt) -> None:
        node = self._node
        try:
            stub = CollectionServiceStub(node.peers.channel(node.studies.get(attempt.study_id).collector))
            request = ReportFailureRequest(attempt=attempt, reason=Reason.DRAINING)
            await node.peers.call(stub.ReportFailure, request, TELL_SECONDS)
        except TrimaskError as error:  # it finds out by the boot id
            node.log.warning("could not hand attempt %d back: %s", attempt.number, error)
            return
        node.metrics.attempts.labels("handed_back").inc()


@dataclass(frozen=True)
class Row:
    """A row, opened: the hash of what was sealed, the component in it, and what came with that in a study with tags."""

    digest: bytes
    component: NDArray[np.int64] = field(repr=False)
    tags: TagPart | None = field(repr=False)


KEPT_SECONDS = 60.0
_KEPT_BYTES = 64 << 20  # of components; what goes beyond is opened again when it is wanted


class OpenRows:
    """The rows of checks, opened once for every step, and for masking if that comes within a minute; then forgotten."""

    def __init__(self, node: NodeContext, rows: RowStore, key_ring: CurrentKeyRing) -> None:
        self._node = node
        self._rows = rows
        self._key_ring = key_ring
        self._known: dict[
            tuple[bytes, bytes], tuple[int, Row]
        ] = {}  # with the number of the call that kept it
        self._calls = self._bytes = 0
        self._turn = asyncio.Lock()  # who comes second finds them opened

    async def of(self, study: Study, check_id: bytes, ids: Sequence[bytes]) -> dict[bytes, Row]:
        """Those rows of a check that are still here, by id."""
        here = await self._rows.digests(study.id, ids, check_id)
        async with self._turn:
            found = self._find(study.id, here)
            if fresh := [name for name in ids if name in here and name not in found]:
                sealed = await self._rows.sealed(study.id, fresh, check_id)
                found |= await self._node.workers.run(self._open, study, sealed)
                self._keep(study.id, {name: found[name] for name, _ in sealed})
            return {name: found[name] for name in ids if name in found}

    async def take(self, study: Study, rows: Sequence[tuple[bytes, bytes]]) -> list[Row]:
        """The rows of a block, from (id, sealed payload), in their order; they are forgotten here."""
        here = {name: hashlib.sha256(sealed).digest() for name, sealed in rows}
        found = self._find(study.id, here)
        self._forget([(study.id, name) for name in here])
        fresh = [(name, sealed) for name, sealed in rows if name not in found]
        if fresh:
            found |= await self._node.workers.run(self._open, study, fresh)
        return [found[name] for name, _ in rows]

    def _find(self, study_id: bytes, here: Mapping[bytes, bytes]) -> dict[bytes, Row]:
        known = ((name, self._known.get((study_id, name))) for name in here)
        return {name: kept[1] for name, kept in known if kept is not None and kept[1].digest == here[name]}

    def _open(self, study: Study, rows: Sequence[tuple[bytes, bytes]]) -> dict[bytes, Row]:
        k, ring = int(self._node.role_in(study)[1:]), self._key_ring.ring
        payloads = [
            ring.open_held(sealed, component_info(study.binding, k, name), study.sealing)
            for name, sealed in rows
        ]
        components = read_components(study, k, payloads)
        tags = [read_tags(study, k, payload) if study.rows.tag_holders else None for payload in payloads]
        return {
            name: Row(hashlib.sha256(sealed).digest(), component, part)
            for (name, sealed), component, part in zip(rows, components, tags, strict=True)
        }

    def _keep(self, study_id: bytes, rows: Mapping[bytes, Row]) -> None:
        """The newest, as many as there is room for."""
        names, call = [(study_id, name) for name in rows], self._calls + 1
        self._forget(names)
        self._calls = call
        for at, row in zip(names, rows.values(), strict=True):
            # A copy: all that were opened together are one array, which would stay whole.
            self._known[at] = call, replace(row, component=row.component.copy())
            self._bytes += row.component.nbytes
        while self._bytes > _KEPT_BYTES:
            self._forget([next(iter(self._known))])
        asyncio.get_running_loop().call_later(
            KEPT_SECONDS,
            lambda: self._forget([at for at in names if self._known.get(at, (0,))[0] == call]),
        )

    def _forget(self, names: Sequence[tuple[bytes, bytes]]) -> None:
        for at in names:
            if (kept := self._known.pop(at, None)) is not None:
                self._bytes -= kept[1].component.nbytes


class Frames:
    """Studies with the seed of B_0, in memory: it is no secret, and a provider needs it at no other time."""

    def __init__(self, node: NodeContext) -> None:
        self._known: dict[bytes, Study] = {}
        node.studies.on_forget.append(lambda study_id: self._known.pop(study_id, None))

    def learn(self, study: Study, seed: bytes) -> Study:
        """The study with its seed; refused if it is not the one the study names."""
        known = self._known.get(study.id)
        if known is None:
            suite = study.suite
            if not isinstance(suite, RowsSettings) or not seed:
                raise Refused(Reason.MALFORMED, "a check of rows comes with the seed of B_0")
            try:
                known = self._known[study.id] = replace(study, suite=replace(suite, mask_seed=seed))
            except ImpossibleStudy:
                raise Refused(
                    Reason.BAD_SIGNATURE, "this is not the seed of B_0 that the study names"
                ) from None
        return known
