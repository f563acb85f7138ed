"""ReleaseService: plan, reserve, draw, keep, reply. Rows are never served, because there are none.

The reply is sent after the answer is on disk. Questions about one study are answered one at a time, so that a reserved
entry met here is always one that an earlier run, or a caller who went away, left behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import defaultdict
from typing import Any

import grpc

from trimask_core.errors import Refused
from trimask_core.rows.normal import SecureNormals
from trimask_core.study import Budget, Study
from trimask_proto.v1 import release_pb2, release_pb2_grpc
from trimask_server.access.gate import require_access
from trimask_server.protocol.accounting import Price, Purses, left_after, spent_by
from trimask_server.collector.releases.budget_ledger import BudgetLedger, Entry
from trimask_server.collector.releases.factors import Factors
from trimask_server.collector.releases.mechanisms import plan_release, price_of
from trimask_server.collector.releases.plan import Drawn, Plan
from trimask_server.node.node import Node, require_owner
from trimask_server.node.peers import Context

__all__ = ["ReleaseOwnerServicer", "ReleaseServicer", "fingerprint_of"]

REQUEST_ID_BYTES = 16
_ENTRY_STATES = {
    "reserved": release_pb2.ENTRY_STATE_RESERVED,
    "answered": release_pb2.ENTRY_STATE_ANSWERED,
    "failed": release_pb2.ENTRY_STATE_FAILED,
}


def fingerprint_of(request: release_pb2.AskReleaseRequest) -> bytes:
    """What two requests must share to be the same question."""
    return hashlib.sha256(request.SerializeToString(deterministic=True)).digest()


def _purses(amounts: Purses | Price | Budget) -> release_pb2.Purses:
    return release_pb2.Purses(epsilon=amounts.epsilon, delta=amounts.delta, mu=amounts.mu)


class ReleaseServicer(release_pb2_grpc.ReleaseServiceServicer):
    """Private answers, and the budget they are paid from."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._ledger = BudgetLedger(node.database)
        self._factors = Factors(node.database, node.vault)
        self._one_at_a_time: defaultdict[bytes, asyncio.Lock] = defaultdict(asyncio.Lock)

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        release_pb2_grpc.add_ReleaseServiceServicer_to_server(self, server)
        return release_pb2.DESCRIPTOR.services_by_name["ReleaseService"].full_name

    def _study(self, study_id: bytes) -> tuple[Study, Budget]:
        study = self._node.studies.get(study_id)
        if study.protection.budget is None:
            raise Refused(
                "no_budget", "this study publishes datasets; private answers are for studies with a budget"
            )
        return study, study.protection.budget

    async def AskRelease(
        self, request: release_pb2.AskReleaseRequest, context: Context
    ) -> release_pb2.AskReleaseResponse:
        study, budget = self._study(request.study_id)
        # A budget is never refilled, so only the owner and whom the owner gave a token spend it; everybody may see it.
        require_access(self._node, context, study.id, "releases")
        if len(request.request_id) != REQUEST_ID_BYTES:
            raise Refused("malformed", f"request_id must be {REQUEST_ID_BYTES} random bytes")
        fingerprint = fingerprint_of(request)
        entry = await self._ledger.find(study.id, request.request_id, fingerprint)
        if entry is not None and entry.state != "reserved":
            return _reply(entry, replayed=True)
        price = price_of(request)
        if entry is None:
            await self._ledger.require_affordable(study.id, budget, price)
        rows = await self._answerable_rows(study)
        plan = await self._node.workers.run(plan_release, study, rows, request, price)
        wanted = Entry(
            request.request_id, fingerprint, plan.mechanism, price, self._node.clock.now_ms(), "reserved"
        )
        async with self._one_at_a_time[study.id]:
            entry = await self._ledger.reserve(study.id, budget, wanted)
            if entry.state != "reserved":
                return _reply(entry, replayed=True)
            return await self._answer(study, budget, plan, entry, rows)

    async def _answerable_rows(self, study: Study) -> int:
        state, rows = await self._factors.state(study.id)
        if state == "answerable":
            return rows
        if state == "spent":
            raise Refused("budget_spent", "this study's answers have ended and its factor is erased")
        if await self._node.studies.state_now(study.id) == "closed":
            raise Refused(
                "too_few_rows",
                f"fewer than {study.release_rows} rows came; they are erased, nothing is answered",
            )
        raise Refused("not_answerable", "rows are still being collected; ask when the study is closed")

    async def _answer(
        self, study: Study, budget: Budget, plan: Plan, entry: Entry, rows: int
    ) -> release_pb2.AskReleaseResponse:
        node = self._node
        try:
            factor = await self._factors.load(study.id)
        except Exception:
            await self._ledger.take_back(study.id, entry.request_id)
            raise
        try:
            drawn = await node.workers.run(plan.draw, factor, SecureNormals(node.source))
        except Exception as error:  # noqa: BLE001 - kept as a failed entry, whatever it was
            # What went wrong may depend on the data: the log says its kind, nobody is told more, and it stays paid.
            node.log.warning("release failed study=%s kind=%s", study.id.hex()[:12], type(error).__name__)
            await self._ledger.fail(study.id, budget, entry.request_id)
            raise Refused("release_failed", _FAILED) from None
        body = _answer_body(study, plan, entry, drawn, rows, node.clock.now_ms())
        signature = node.keys.identity.sign("release-answer", body)
        spent = await self._ledger.answer(study.id, budget, entry.request_id, body, signature)
        node.log.info(
            "answered study=%s mechanism=%s cost=%s", study.id.hex()[:12], plan.mechanism, entry.price
        )
        if spent:
            node.log.info("budget spent, factor erased study=%s", study.id.hex()[:12])
        return release_pb2.AskReleaseResponse(answer=body, signature=signature)

    async def GetBudget(
        self, request: release_pb2.GetBudgetRequest, context: Context
    ) -> release_pb2.GetBudgetResponse:
        study, budget = self._study(request.study_id)
        entries = await self._ledger.entries(study.id)
        state, rows = await self._factors.state(study.id)
        collecting = state == "none" and await self._node.studies.state_now(study.id) != "closed"
        shown = release_pb2.BUDGET_STATE_COLLECTING if collecting else release_pb2.BUDGET_STATE_CLOSED
        prices = [entry.price for entry in entries]
        return release_pb2.GetBudgetResponse(
            state=release_pb2.BUDGET_STATE_ANSWERING if state == "answerable" else shown,
            total=_purses(budget),
            spent=_purses(spent_by(budget, prices)),
            left=_purses(left_after(budget, prices)),
            rows=rows,
            entries=[
                release_pb2.BudgetEntry(
                    mechanism=entry.mechanism,
                    cost=_purses(entry.price),
                    reserve_time_ms=entry.reserve_time_ms,
                    state=_ENTRY_STATES[entry.state],
                )
                for entry in entries
            ],
        )


class ReleaseOwnerServicer(release_pb2_grpc.ReleaseOwnerServiceServicer):
    """Ending answers early: the owner's certificate only."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._ledger = BudgetLedger(node.database)

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        release_pb2_grpc.add_ReleaseOwnerServiceServicer_to_server(self, server)
        return release_pb2.DESCRIPTOR.services_by_name["ReleaseOwnerService"].full_name

    async def EndReleases(
        self, request: release_pb2.EndReleasesRequest, context: Context
    ) -> release_pb2.EndReleasesResponse:
        require_owner(self._node, context)
        study = self._node.studies.get(request.study_id)
        if await self._ledger.end(study.id):
            self._node.log.info("answers ended, factor erased study=%s", study.id.hex()[:12])
        return release_pb2.EndReleasesResponse()


_FAILED = (
    "this release failed after the data had been used; it stays paid for, because its failing may tell about the data. "
    "The owner's log says more"
)


def _reply(entry: Entry, *, replayed: bool) -> release_pb2.AskReleaseResponse:
    if entry.answer is None or entry.signature is None:
        raise Refused("release_failed", _FAILED)
    return release_pb2.AskReleaseResponse(answer=entry.answer, signature=entry.signature, replayed=replayed)


def _answer_body(study: Study, plan: Plan, entry: Entry, drawn: Drawn, rows: int, now_ms: int) -> bytes:
    body: dict[str, Any] = {
        "format": "trimask-answer/1",
        "study_id": study.id.hex(),
        "request_id": entry.request_id.hex(),
        "request_sha256": entry.fingerprint.hex(),
        "mechanism": plan.mechanism,
        "parameters": dict(plan.parameters),
        "rows": rows,
        "values": dict(drawn.values),
        "guarantee": drawn.guarantee.to_dict(),
        "cost": {"epsilon": entry.price.epsilon, "delta": entry.price.delta, "mu": entry.price.mu},
        "answered_ms": now_ms,
    }
    return json.dumps(body, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
