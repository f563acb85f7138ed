"""ReleaseService: plan, reserve, draw, keep, reply. Nothing is served but answers with noise.

The reply is sent after the answer is on disk. Questions about one study are answered one at a time, so that a reserved
entry met here is always one that an earlier run, or a caller who went away, left behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from trimask_core.basics.errors import ParameterError, Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget
from trimask_proto.v1 import release_pb2, release_pb2_grpc
from trimask_server.access.gate import require_access
from trimask_server.collector.releases.budget_ledger import (
    Answers,
    BudgetLedger,
    Drawn,
    Entry,
    NotBegun,
    Prepared,
    Unfinished,
)
from trimask_server.protocol.accounting import Price, Purses, left_after, spent_by
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.tls import Context
from trimask_server.store.release_table import answers_state

REQUEST_ID_BYTES = 16
_ENTRY_STATES = {
    "reserved": release_pb2.ENTRY_STATE_RESERVED,
    "answered": release_pb2.ENTRY_STATE_ANSWERED,
    "failed": release_pb2.ENTRY_STATE_FAILED,
}


def fingerprint_of(request: release_pb2.AskReleaseRequest) -> bytes:
    """What two requests must share to be the same question."""
    return hashlib.sha256(request.SerializeToString(deterministic=True)).digest()


def _price(request: release_pb2.AskReleaseRequest) -> Price:
    """What the request offers to pay."""
    which = request.WhichOneof("price")
    if which == "approximate":
        return Price(epsilon=request.approximate.epsilon, delta=request.approximate.delta)
    if which == "gaussian":
        return Price(mu=request.gaussian.mu)
    raise ParameterError("price", "epsilon and delta, or mu")


def _purses(amounts: Purses | Price | Budget) -> release_pb2.Purses:
    return release_pb2.Purses(epsilon=amounts.epsilon, delta=amounts.delta, mu=amounts.mu)


class ReleaseServicer(release_pb2_grpc.ReleaseServiceServicer):
    """Private answers, and the budget they are paid from. `answers` gives a study's suite's."""

    def __init__(self, node: NodeContext, answers: Callable[[Study], Answers]) -> None:
        self._node = node
        self._answers = answers
        self._ledger = BudgetLedger(node.database)
        self._one_at_a_time: defaultdict[bytes, asyncio.Lock] = defaultdict(asyncio.Lock)

    def _study(self, study_id: bytes) -> tuple[Study, Budget]:
        study = self._node.studies.get(study_id)
        if study.protection.budget is None:
            raise Refused(
                Reason.NO_BUDGET,
                "this study publishes datasets; private answers are for studies with a budget",
            )
        return study, study.protection.budget

    async def AskRelease(
        self, request: release_pb2.AskReleaseRequest, context: Context
    ) -> release_pb2.AskReleaseResponse:
        study, budget = self._study(request.study_id)
        # A budget is never refilled, so only the owner and people with the owner's token spend it; everybody may see it.
        require_access(self._node.config, context, study.id, "releases")
        if len(request.request_id) != REQUEST_ID_BYTES:
            raise Refused(Reason.MALFORMED, f"request_id must be {REQUEST_ID_BYTES} random bytes")
        fingerprint = fingerprint_of(request)
        entry = await self._ledger.find(study.id, request.request_id, fingerprint)
        price = _price(request)
        state, rows = await self._state(study.id)
        if state == "none":
            raise await self._not_answerable(study)
        asked = await self._answers(study).prepare(study, rows, request, price)
        entry = entry or await self._ledger.find_question(study.id, asked.question)
        if entry is not None and entry.state != "reserved":
            return self._again(asked, request, fingerprint, entry)
        if state == "spent":
            raise Refused(Reason.BUDGET_SPENT, _ENDED)
        wanted = Entry(
            request.request_id, fingerprint, asked.mechanism, price, self._node.clock.now_ms(), "reserved",
            asked.question,
        )  # fmt: skip
        async with self._one_at_a_time[study.id]:
            entry = await self._ledger.reserve(study.id, budget, wanted)
            if entry.state != "reserved":
                return self._again(asked, request, fingerprint, entry)
            drawn = await self._draw(study, budget, asked, entry, fresh=entry is wanted)
            # From here on the answer is this request's, whichever request reserved the entry.
            entry = replace(entry, fingerprint=fingerprint)
            return await self._keep(study, budget, asked, request, entry, drawn, rows)

    async def _state(self, study_id: bytes) -> tuple[str, int]:
        return await self._node.database.read(lambda tx: answers_state(tx, study_id))

    async def _not_answerable(self, study: Study) -> Refused:
        if await self._node.studies.state_now(study.id) == "closed":
            return Refused(
                Reason.TOO_FEW_ROWS, "nothing was accepted before the study closed: nothing is answered"
            )
        return Refused(Reason.NOT_YET, "rows are still being collected; ask when the study is closed")

    async def _draw(
        self, study: Study, budget: Budget, asked: Prepared, entry: Entry, *, fresh: bool
    ) -> Drawn:
        node = self._node
        try:
            return await asked.draw()
        except NotBegun as error:
            # What an earlier attempt may have had charged elsewhere stays charged here.
            if fresh:
                await self._ledger.take_back(study.id, entry.request_id)
            raise error.refusal from None
        except Unfinished as error:
            raise error.refusal from None
        except Exception as error:  # noqa: BLE001 - kept as a failed entry, whatever it was
            # What went wrong may depend on the data: the log says its kind and no more, and it stays paid.
            node.log.warning("release failed study=%s kind=%s", study.id.hex()[:12], type(error).__name__)
            await self._ledger.fail(study.id, budget, entry.request_id)
            raise Refused(Reason.RELEASE_FAILED, _FAILED) from None

    async def _keep(
        self,
        study: Study,
        budget: Budget,
        asked: Prepared,
        request: release_pb2.AskReleaseRequest,
        entry: Entry,
        drawn: Drawn,
        rows: int,
    ) -> release_pb2.AskReleaseResponse:
        node = self._node
        body = _answer_body(study, asked, request, entry, drawn, rows, node.clock.now_ms())
        signature = node.keys.identity.sign("release-answer", body)
        try:
            spent = await self._ledger.answer(study.id, budget, entry.request_id, body, signature)
        except Refused as error:
            # Another worker may have completed the same question meanwhile, with the same values.
            kept = await self._ledger.find_question(study.id, asked.question)
            if error.reason is not Reason.NOT_RESERVED or kept is None:
                raise
            return self._again(asked, request, entry.fingerprint, kept)
        price = entry.price
        node.log.info("answered study=%s mechanism=%s cost=%s", study.id.hex()[:12], asked.mechanism, price)
        if spent:
            node.log.info("budget spent study=%s", study.id.hex()[:12])
            try:
                await self._answers(study).erase(study)
            except Refused as error:
                # The answer is paid for and goes out; `EndReleases` finishes this.
                node.log.warning("study=%s is spent: %s", study.id.hex()[:12], error)
        return release_pb2.AskReleaseResponse(answer=body, signature=signature)

    def _again(
        self, asked: Prepared, request: release_pb2.AskReleaseRequest, fingerprint: bytes, entry: Entry
    ) -> release_pb2.AskReleaseResponse:
        """An earlier answer, for this request: the same bytes if it is the request they were made for."""
        if entry.answer is None:
            raise Refused(Reason.RELEASE_FAILED, _FAILED)
        kept = json.loads(entry.answer)
        body = _json(kept | _about(asked, request, fingerprint))
        signature = self._node.keys.identity.sign("release-answer", body)
        return release_pb2.AskReleaseResponse(answer=body, signature=signature, replayed=True)

    async def GetBudget(
        self, request: release_pb2.GetBudgetRequest, context: Context
    ) -> release_pb2.GetBudgetResponse:
        study, budget = self._study(request.study_id)
        entries = await self._ledger.entries(study.id)
        state, rows = await self._state(study.id)
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

    def __init__(self, node: NodeContext, answers: Callable[[Study], Answers]) -> None:
        self._node = node
        self._answers = answers
        self._ledger = BudgetLedger(node.database)

    async def EndReleases(
        self, request: release_pb2.EndReleasesRequest, context: Context
    ) -> release_pb2.EndReleasesResponse:
        study = self._node.studies.get(request.study_id)
        if await self._ledger.end(study.id):
            self._node.log.info("answers ended study=%s", study.id.hex()[:12])
        if study.protection.budget is not None:
            # Also when they had ended before: somebody may not have been there to erase.
            await self._answers(study).erase(study)
        return release_pb2.EndReleasesResponse()


_ENDED = "this study's answers have ended, and the data they came from is erased"
_FAILED = (
    "this release failed after the data had been used; it stays paid for, because the failure itself may reveal something "
    "about the data. The collector's log says more"
)


def _about(asked: Prepared, request: release_pb2.AskReleaseRequest, fingerprint: bytes) -> dict[str, Any]:
    """The part of an answer that is about the request."""
    return {
        "request_id": request.request_id.hex(),
        "request_sha256": fingerprint.hex(),
        "mechanism": asked.mechanism,
        "parameters": dict(asked.parameters),
    }


def _answer_body(
    study: Study,
    asked: Prepared,
    request: release_pb2.AskReleaseRequest,
    entry: Entry,
    drawn: Drawn,
    rows: int,
    now_ms: int,
) -> bytes:
    body: dict[str, Any] = {
        "format": "trimask-answer/1",
        "study_id": study.id.hex(),
        **_about(asked, request, entry.fingerprint),
        "rows": rows,
        "values": dict(drawn.values),
        "guarantee": drawn.guarantee.to_dict(),
        "cost": {"epsilon": entry.price.epsilon, "delta": entry.price.delta, "mu": entry.price.mu},
        "answered_ms": now_ms,
    }
    return _json(body)


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
