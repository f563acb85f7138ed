"""What a right provider of the moments suite serves: the other right providers, and the collector."""

from __future__ import annotations

import grpc

from trimask_core.study import Study
from trimask_proto.v1 import moments_pb2, moments_pb2_grpc
from trimask_proto.v1.common_pb2 import RefusalCount
from trimask_server.node.context import NodeContext
from trimask_server.operations.callers import Context, require_other_right, require_role, require_suite
from trimask_server.suites.moments.deliveries import Deliveries
from trimask_server.suites.moments.key_exchange import KeyExchange
from trimask_server.suites.moments.rounds import Rounds

__all__ = ["MomentsPeerServicer", "MomentsServicer"]


class MomentsPeerServicer(moments_pb2_grpc.MomentsPeerServiceServicer):
    """Serves the other right providers of a study, and nobody else."""

    def __init__(
        self, node: NodeContext, key_exchange: KeyExchange, rounds: Rounds, deliveries: Deliveries
    ) -> None:
        self._node = node
        self._key_exchange = key_exchange
        self._rounds = rounds
        self._deliveries = deliveries

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        moments_pb2_grpc.add_MomentsPeerServiceServicer_to_server(self, server)
        return moments_pb2.DESCRIPTOR.services_by_name["MomentsPeerService"].full_name

    def _caller(self, study: Study, context: Context) -> str:
        """Which of the other right providers calls."""
        require_suite(study, "moments")
        return require_other_right(context, study, self._node.role_in(study))

    async def Introduce(
        self, request: moments_pb2.IntroduceRequest, context: Context
    ) -> moments_pb2.IntroduceResponse:
        study = self._node.studies.get(request.study_id)
        return self._key_exchange.answer(study, self._caller(study, context), request)

    async def GetForms(
        self, request: moments_pb2.GetFormsRequest, context: Context
    ) -> moments_pb2.GetFormsResponse:
        study = self._node.studies.get(request.attempt.study_id)
        caller = self._caller(study, context)
        sealed = await self._rounds.sealed_forms(study, request.attempt, caller, request.submission_ids_hash)
        return moments_pb2.GetFormsResponse(sealed_values=sealed)

    async def GetVerdict(
        self, request: moments_pb2.GetVerdictRequest, context: Context
    ) -> moments_pb2.GetVerdictResponse:
        study = self._node.studies.get(request.attempt.study_id)
        self._caller(study, context)
        stored = await self._rounds.verdict(study, request.attempt, request.submission_ids_hash)
        return moments_pb2.GetVerdictResponse(accepted_hash=stored.accepted_hash, signature=stored.signature)

    async def CompareLedger(
        self, request: moments_pb2.CompareLedgerRequest, context: Context
    ) -> moments_pb2.CompareLedgerResponse:
        study = self._node.studies.get(request.study_id)
        caller, joined = self._caller(study, context), request.delivered
        delivered = {joined[i : i + 32] for i in range(0, len(joined), 32)}
        await self._deliveries.compare(study, caller, delivered, request.asked)
        return moments_pb2.CompareLedgerResponse()


class MomentsServicer(moments_pb2_grpc.MomentsServiceServicer):
    """Serves the collector."""

    def __init__(self, node: NodeContext, rounds: Rounds, deliveries: Deliveries) -> None:
        self._node = node
        self._rounds = rounds
        self._deliveries = deliveries

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        moments_pb2_grpc.add_MomentsServiceServicer_to_server(self, server)
        return moments_pb2.DESCRIPTOR.services_by_name["MomentsService"].full_name

    def _study(self, study_id: bytes, context: Context) -> Study:
        study = self._node.studies.get(study_id)
        require_role(context, study, ["collector"])
        require_suite(study, "moments")
        return study

    async def CheckBatch(
        self, request: moments_pb2.CheckBatchRequest, context: Context
    ) -> moments_pb2.CheckBatchResponse:
        study = self._study(request.attempt.study_id, context)
        stored = await self._rounds.check(study, request.attempt)
        return moments_pb2.CheckBatchResponse(
            accepted_count=stored.accepted_count,
            accepted_hash=stored.accepted_hash,
            refused=[RefusalCount(reason=reason, count=count) for reason, count in stored.refused.items()],
            accepted=stored.accepted,
        )

    async def CommitTotals(
        self, request: moments_pb2.CommitTotalsRequest, context: Context
    ) -> moments_pb2.CommitTotalsResponse:
        study = self._study(request.totals.study_id, context)
        return moments_pb2.CommitTotalsResponse(
            commitment=await self._deliveries.commit(study, request.totals)
        )

    async def DeliverTotals(
        self, request: moments_pb2.DeliverTotalsRequest, context: Context
    ) -> moments_pb2.DeliverTotalsResponse:
        study = self._study(request.totals.study_id, context)
        return await self._deliveries.deliver(study, request.totals, request.commitments)

    async def EraseTotals(
        self, request: moments_pb2.EraseTotalsRequest, context: Context
    ) -> moments_pb2.EraseTotalsResponse:
        study = self._study(request.study_id, context)
        await self._deliveries.end(study)
        return moments_pb2.EraseTotalsResponse()
