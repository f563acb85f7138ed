"""What a provider holds of attempts at blocks: its shares begun, finished, given up, and handed back when the node drains.

Masks are never saved, so nobody else can finish an attempt that this node was part of. The collector is told, and begins
another when the node is back. A right provider opens its rows once, for the components and the tags that came with them.
The study names the seed of B_0 by its hash, and the collector sends it with a check of rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from trimask_core.basics.errors import ImpossibleStudy, Refused, TrimaskError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.sealing import component_info
from trimask_core.rows.study import RowsSettings
from trimask_core.study.definition import Study
from trimask_proto.v1 import common_pb2
from trimask_proto.v1.collection_pb2 import ReportFailureRequest
from trimask_proto.v1.collection_pb2_grpc import CollectionServiceStub
from trimask_server.protocol.plans import AttemptTable, worker_of
from trimask_server.right.sealing_keys import SealingRing
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.host import Spawn
from trimask_server.runtime.logs import reason_of_failure

T = TypeVar("T")
TELL_SECONDS = 2.0


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


def open_payloads(
    ring: SealingRing, study: Study, k: int, rows: Sequence[tuple[bytes, bytes]]
) -> list[bytes]:
    """The payloads of R_k from (submission id, sealed payload), in their order."""
    return [
        ring.open_held(sealed, component_info(study.binding, k, submission_id), study.sealing)
        for submission_id, sealed in rows
    ]


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
