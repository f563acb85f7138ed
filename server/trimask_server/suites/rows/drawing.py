"""A right provider's part in the draw of blocks (`protocol.draw`): each step written down, then signed or shown."""

from __future__ import annotations

import grpc

from trimask_core.closing import verify_abandon
from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_core.study import Study
from trimask_proto.v1 import row_draw_pb2, row_draw_pb2_grpc
from trimask_proto.v1.row_draw_pb2 import FrozenRows, PoolVerdicts, RowDraw
from trimask_server.node.context import NodeContext
from trimask_server.operations.callers import Context, require_role, require_suite
from trimask_server.protocol.draw import Draw, coin_of, freeze, most_rows, sign_verdicts
from trimask_server.suites.rows.draw_store import DrawStore

__all__ = ["RowDrawServicer"]


class RowDrawServicer(row_draw_pb2_grpc.RowDrawServiceServicer):
    """Serves the collector."""

    def __init__(self, node: NodeContext, store: DrawStore) -> None:
        self._node = node
        self._store = store

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        row_draw_pb2_grpc.add_RowDrawServiceServicer_to_server(self, server)
        return row_draw_pb2.DESCRIPTOR.services_by_name["RowDrawService"].full_name

    def _study(self, study_id: bytes, context: Context) -> Study:
        study = self._node.studies.get(study_id)
        require_suite(study, "rows")
        if not self._node.role_in(study).startswith("R"):
            raise Refused(Reason.NOT_YOUR_ROLE, "right providers draw blocks")
        require_role(context, study, ["collector"])
        return study

    def _verified(self, said: RowDraw, context: Context) -> tuple[Draw, int]:
        """The draw, and this provider's place among its lists."""
        study = self._study(said.study_id, context)
        return Draw.verified(study, said), int(self._node.role_in(study)[1:]) - 1

    def _with_verdicts(self, said: RowDraw, context: Context) -> tuple[Draw, FrozenRows, PoolVerdicts]:
        """The draw with the verdicts of all; this provider's own list and verdicts in it."""
        draw, own = self._verified(said, context)
        if not said.verdicts:
            raise Refused(Reason.MALFORMED, "a draw needs the verdicts of all right providers first")
        return draw, said.lists[own], said.verdicts[own]

    async def FreezeDraw(
        self, request: row_draw_pb2.FreezeDrawRequest, context: Context
    ) -> row_draw_pb2.FreezeDrawResponse:
        study, number = self._study(request.study_id, context), request.number
        if not number:
            raise Refused(Reason.MALFORMED, "draws are numbered from 1")
        key, role = self._node.keys.identity, self._node.role_in(study)

        def sign(rows: list[tuple[bytes, int]], closing: bool) -> FrozenRows:
            return freeze(key, role, study.id, number, rows, closing=closing)

        rows = await self._store.freeze(study.id, number, most_rows(study), sign)
        self._node.log.info("draw=%d rows=%d", number, len(rows.checked))
        return row_draw_pb2.FreezeDrawResponse(rows=rows)

    async def JudgeDraw(
        self, request: row_draw_pb2.JudgeDrawRequest, context: Context
    ) -> row_draw_pb2.JudgeDrawResponse:
        draw, own = self._verified(request.draw, context)
        key, role = self._node.keys.identity, self._node.role_in(draw.study)
        verdicts = await self._store.judge(
            draw, request.draw.lists[own], lambda marks: sign_verdicts(key, role, draw, marks)
        )
        return row_draw_pb2.JudgeDrawResponse(verdicts=verdicts)

    async def OpenDraw(
        self, request: row_draw_pb2.OpenDrawRequest, context: Context
    ) -> row_draw_pb2.OpenDrawResponse:
        draw, rows, verdicts = self._with_verdicts(request.draw, context)
        await self._store.open(draw, rows, verdicts)
        coin = coin_of(self._node.keys.identity, draw.study.id, draw.said.number, rows)
        return row_draw_pb2.OpenDrawResponse(coin=coin if draw.opens else b"")

    async def SettleDraw(
        self, request: row_draw_pb2.SettleDrawRequest, context: Context
    ) -> row_draw_pb2.SettleDrawResponse:
        draw, rows, verdicts = self._with_verdicts(request.draw, context)
        if not request.draw.coins:
            raise Refused(Reason.MALFORMED, "a draw needs the coins of all right providers first")
        await self._store.settle(draw, rows, verdicts)
        return row_draw_pb2.SettleDrawResponse()

    async def AbandonDraw(
        self, request: row_draw_pb2.AbandonDrawRequest, context: Context
    ) -> row_draw_pb2.AbandonDrawResponse:
        study = self._study(request.study_id, context)
        verify_abandon(study, request.number, request.order_signature)
        rows = await self._store.abandon(study.id, request.number)
        self._node.metrics.erased_rows.labels("unused").inc(rows)
        self._node.log.warning("draw=%d is abandoned by the study's owner rows=%d", request.number, rows)
        return row_draw_pb2.AbandonDrawResponse(erased_rows=rows)
