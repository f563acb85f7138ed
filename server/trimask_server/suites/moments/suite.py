"""The moments suite's parts for each role of a node, and what a right provider serves: the other ones, and the collector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.moments.report import MomentsSecret
from trimask_core.study.definition import Study
from trimask_proto.v1 import moments_pb2, moments_pb2_grpc
from trimask_proto.v1.common_pb2 import RefusalCount
from trimask_server.access.permissions import admitted
from trimask_server.collector.driver import BatchDriver
from trimask_server.collector.ledger import Ledger
from trimask_server.collector.provider_status import ProviderStatus
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import CurrentKeyRing
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.host import Host
from trimask_server.runtime.tls import Context
from trimask_server.settings.config import NodeRole
from trimask_server.store.interface import Erasers, Store
from trimask_server.suites.interface import CollectorPart, LeftPart, RightPart
from trimask_server.suites.moments.batch_check import Rounds
from trimask_server.suites.moments.batch_store import BatchStore
from trimask_server.suites.moments.deliveries import Deliveries
from trimask_server.suites.moments.key_exchange import KeyExchange

if TYPE_CHECKING:
    from trimask_server.collector.releases import Answers


class MomentsPeerServicer(moments_pb2_grpc.MomentsPeerServiceServicer):
    """Serves the other right providers of a study, and nobody else."""

    def __init__(
        self, node: NodeContext, key_exchange: KeyExchange, rounds: Rounds, deliveries: Deliveries
    ) -> None:
        self._node = node
        self._key_exchange = key_exchange
        self._rounds = rounds
        self._deliveries = deliveries

    async def Introduce(
        self, request: moments_pb2.IntroduceRequest, context: Context
    ) -> moments_pb2.IntroduceResponse:
        study, caller, _ = admitted()
        return self._key_exchange.answer(study, caller, request)

    async def GetForms(
        self, request: moments_pb2.GetFormsRequest, context: Context
    ) -> moments_pb2.GetFormsResponse:
        study, caller, _ = admitted()
        sealed = await self._rounds.sealed_forms(study, request.attempt, caller, request.submission_ids_hash)
        return moments_pb2.GetFormsResponse(sealed_values=sealed)

    async def GetVerdict(
        self, request: moments_pb2.GetVerdictRequest, context: Context
    ) -> moments_pb2.GetVerdictResponse:
        stored = await self._rounds.verdict(admitted().study, request.attempt, request.submission_ids_hash)
        return moments_pb2.GetVerdictResponse(accepted_hash=stored.accepted_hash, signature=stored.signature)

    async def CompareLedger(
        self, request: moments_pb2.CompareLedgerRequest, context: Context
    ) -> moments_pb2.CompareLedgerResponse:
        (study, caller, _), joined = admitted(), request.delivered
        delivered = {joined[i : i + 32] for i in range(0, len(joined), 32)}
        await self._deliveries.compare(study, caller, delivered, request.asked)
        return moments_pb2.CompareLedgerResponse()


class MomentsServicer(moments_pb2_grpc.MomentsServiceServicer):
    """Serves the collector."""

    def __init__(self, node: NodeContext, rounds: Rounds, deliveries: Deliveries) -> None:
        self._node = node
        self._rounds = rounds
        self._deliveries = deliveries

    async def CheckBatch(
        self, request: moments_pb2.CheckBatchRequest, context: Context
    ) -> moments_pb2.CheckBatchResponse:
        stored = await self._rounds.check(admitted().study, request.attempt)
        return moments_pb2.CheckBatchResponse(
            accepted_count=stored.accepted_count,
            accepted_hash=stored.accepted_hash,
            refused=[RefusalCount(reason=reason, count=count) for reason, count in stored.refused.items()],
            accepted=stored.accepted,
        )

    async def CommitTotals(
        self, request: moments_pb2.CommitTotalsRequest, context: Context
    ) -> moments_pb2.CommitTotalsResponse:
        commitment = await self._deliveries.commit(admitted().study, request.totals)
        return moments_pb2.CommitTotalsResponse(commitment=commitment)

    async def DeliverTotals(
        self, request: moments_pb2.DeliverTotalsRequest, context: Context
    ) -> moments_pb2.DeliverTotalsResponse:
        return await self._deliveries.deliver(admitted().study, request.totals, request.commitments)

    async def EraseTotals(
        self, request: moments_pb2.EraseTotalsRequest, context: Context
    ) -> moments_pb2.EraseTotalsResponse:
        await self._deliveries.end(admitted().study)
        return moments_pb2.EraseTotalsResponse()


_LARGEST_BATCH = 4096


class _Right:
    """R_k."""

    def __init__(self, host: Host, rows: RowStore, key_ring: CurrentKeyRing) -> None:
        node = host.context
        # A random one where there is no file: such a node has approved no study of this suite, and can take part in none.
        secret = node.keys.moments or MomentsSecret(node.source.seed())
        store = BatchStore(node.database, node.vault, rows, node.audit)
        key_exchange = KeyExchange(node, secret)
        key_ring.checked_soon.add(MomentsSuite.name)
        self._rounds = Rounds(node, rows, key_ring, store, key_exchange)
        deliveries = Deliveries(node, store, key_exchange, Path(node.config.keys))
        self.services: list[object] = [
            MomentsPeerServicer(node, key_exchange, self._rounds, deliveries),
            MomentsServicer(node, self._rounds, deliveries),
        ]

    def running(self) -> int:
        """Batches under way."""
        return self._rounds.running

    draws_blocks = False

    def check_plan(self, study: Study, rows: int) -> None:
        """Any number of reports is a batch, up to what fits in memory at once."""
        if not 1 <= rows <= _LARGEST_BATCH:
            raise Refused(Reason.WRONG_SHAPE, f"batches have 1 to {_LARGEST_BATCH} reports, not {rows}")

    def forget_block(self, study_id: bytes, block_id: bytes) -> None:
        """Forget shares of an erased batch."""
        self._rounds.forget(study_id, block_id)


class _Left:
    """No left provider takes part."""

    services: Sequence[object] = ()

    def running(self) -> int:
        """Nothing."""
        return 0


class _Collector:
    """Drivers that have batches added up."""

    services: Sequence[object] = ()

    def __init__(self, node: NodeContext, provider_status: ProviderStatus) -> None:

        self._node = node
        self._provider_status = provider_status

    @cached_property
    def answers(self) -> Answers:
        """Made when one is asked for: the statistics behind it take a second to import."""
        from trimask_server.suites.moments.answers import MomentsAnswers

        return MomentsAnswers(self._node)

    def driver(self, study: Study, database: Store) -> BatchDriver:
        """Batches checked and added up, releases gathered."""
        from trimask_server.suites.moments.block_work import MomentsWork
        from trimask_server.suites.moments.publisher import ReleaseLedger

        node = self._node
        ledger = Ledger(database, node.audit)
        work = MomentsWork(node, study, ledger, ReleaseLedger(database, node.audit), self._provider_status)
        return BatchDriver(node, study, ledger, self._provider_status, work)


@dataclass(frozen=True)
class MomentsSuite:
    """Second moments summed in shares, each report with a proof."""

    name: str = "moments"

    def erasers(self, role: NodeRole) -> Erasers:
        """Batches at a provider; a collector has nothing beside its own tables."""
        return Erasers(() if role == "collector" else (BatchStore.erase_study,))

    def right(self, host: Host, rows: RowStore, key_ring: CurrentKeyRing) -> RightPart:
        """At a right provider."""
        return _Right(host, rows, key_ring)

    def left(self, host: Host) -> LeftPart:
        """At a left provider."""
        return _Left()

    def collector(self, host: Host, provider_status: ProviderStatus) -> CollectorPart:
        """At a collector."""
        return _Collector(host.context, provider_status)
