"""The budget ledger: reserve, then answer, once.

An entry is written with its cost before anything is computed and stays for ever. reserved -> answered is one transaction
with the answer in it, so that an answer anybody can have seen is always on disk and paid for; the same request later is
given the very same bytes. A crash in between leaves the entry reserved: its cost stays counted, and the same request
resumes it. An entry whose computation failed after it had touched the data is kept, paid, as failed: the failure itself
may reveal something about the data. Only an entry that failed before that is taken back.

A question has one answer, whoever asks, and so one entry, whatever request id it comes under.

How a suite answers private questions: what `service` asks of it between reserving a price and keeping an answer.

ReleaseService: plan, reserve, draw, keep, reply. Nothing is served but answers with noise.

The reply is sent after the answer is on disk. Questions about one study are answered one at a time, so that a reserved
entry met here is always one that an earlier run, or a caller who went away, left behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from trimask_core.basics.errors import ParameterError, Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget, Guarantee
from trimask_proto.v1 import release_pb2, release_pb2_grpc
from trimask_server.collector.accounting import Price, Purses, left_after, require_affordable, spent_by
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.tls import Context
from trimask_server.store.interface import Store, Transaction
from trimask_server.store.release_table import answers_state, end_answers


class NotBegun(Exception):
    """Nothing was drawn, sent or charged: the price is returned, and the caller gets `refusal`."""

    def __init__(self, refusal: Exception) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class Unfinished(Exception):
    """Some providers may have drawn their noise: the price stays paid, and the same question completes the answer later."""

    def __init__(self, refusal: Refused) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


@dataclass(frozen=True)
class Drawn:
    """What came out: JSON-ready values, and the guarantee they carry."""

    values: Mapping[str, Any]
    guarantee: Guarantee


class Prepared(Protocol):
    """A question that can be answered: all checks that do not need the data have passed, so a refusal cost nothing."""

    @property
    def mechanism(self) -> str:
        """Its name."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What was asked and calibrated, JSON-ready."""
        ...

    @property
    def question(self) -> bytes:
        """Names the question. It has one answer, whoever asks and under any request id, and is charged once."""
        ...

    async def draw(self) -> Drawn:
        """Make the answer. `NotBegun` and `Unfinished` say what happens to its price; any other error keeps it as failed."""
        ...


class Answers(Protocol):
    """A suite's answers."""

    async def prepare(
        self, study: Study, rows: int, request: release_pb2.AskReleaseRequest, price: Price
    ) -> Prepared:
        """Plan the question, or say why there is no answer to it."""
        ...

    async def erase(self, study: Study) -> None:
        """Answers have ended: erase what they came from, wherever it is. May be repeated."""
        ...


EntryState = Literal["reserved", "answered", "failed"]
_FIELDS = "request_id, fingerprint, mechanism, epsilon, delta, mu, reserve_time_ms, state, question, answer, signature"


@dataclass(frozen=True)
class Entry:
    """One request's line in the ledger."""

    request_id: bytes
    fingerprint: bytes
    mechanism: str
    price: Price
    reserve_time_ms: int
    state: EntryState
    question: bytes
    answer: bytes | None = None
    signature: bytes | None = None


def _entry(row: tuple[Any, ...]) -> Entry:
    request_id, fingerprint, mechanism, epsilon, delta, mu, *rest = row
    return Entry(request_id, fingerprint, mechanism, Price(epsilon, delta, mu), *rest)


def _entries(tx: Transaction, study_id: bytes) -> list[Entry]:
    rows = tx.rows(
        f"SELECT {_FIELDS} FROM release_answers WHERE study_id = ? ORDER BY sequence",  # noqa: S608 - constant
        (study_id,),
    )
    return [_entry(row) for row in rows]


def _find(tx: Transaction, study_id: bytes, request_id: bytes, fingerprint: bytes) -> Entry | None:
    row = tx.row(
        f"SELECT {_FIELDS} FROM release_answers WHERE study_id = ? AND request_id = ?",  # noqa: S608 - constant
        (study_id, request_id),
    )
    if row is None:
        return None
    entry = _entry(row)
    if entry.fingerprint != fingerprint:
        raise Refused(
            Reason.BAD_QUESTION,
            "that request id was used for another question; a new question needs a new id, and costs again",
        )
    return entry


def _find_question(tx: Transaction, study_id: bytes, question: bytes) -> Entry | None:
    row = tx.row(
        f"SELECT {_FIELDS} FROM release_answers WHERE study_id = ? AND question = ?",  # noqa: S608 - constant
        (study_id, question),
    )
    return None if row is None else _entry(row)


@dataclass(frozen=True)
class BudgetLedger:
    """Every study's entries, in the collector's database."""

    database: Store

    async def entries(self, study_id: bytes) -> list[Entry]:
        """All entries, oldest first."""
        return await self.database.read(lambda tx: _entries(tx, study_id))

    async def find(self, study_id: bytes, request_id: bytes, fingerprint: bytes) -> Entry | None:
        """The entry of a request, or None; refused if the id was used for another question."""
        return await self.database.read(lambda tx: _find(tx, study_id, request_id, fingerprint))

    async def find_question(self, study_id: bytes, question: bytes) -> Entry | None:
        """The entry of a question that was asked before, under whatever request id."""
        return await self.database.read(lambda tx: _find_question(tx, study_id, question))

    async def reserve(self, study_id: bytes, budget: Budget, wanted: Entry) -> Entry:
        """Record the cost and return `wanted`, or the entry that exists already; refused when the budget cannot pay."""

        def write(tx: Transaction) -> Entry:
            found = _find(tx, study_id, wanted.request_id, wanted.fingerprint)
            found = found or _find_question(tx, study_id, wanted.question)
            if found is not None:
                return found
            require_affordable(budget, [entry.price for entry in _entries(tx, study_id)], wanted.price)
            price = wanted.price
            tx.run(
                "INSERT INTO release_answers (study_id, request_id, fingerprint, mechanism, epsilon, delta, mu,"
                " reserve_time_ms, state, question) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'reserved', ?)",
                (study_id, wanted.request_id, wanted.fingerprint, wanted.mechanism, price.epsilon, price.delta,
                 price.mu, wanted.reserve_time_ms, wanted.question),
            )  # fmt: skip
            return wanted

        return await self.database.write(write)

    async def take_back(self, study_id: bytes, request_id: bytes) -> None:
        """Undo a reservation for which nothing was computed."""
        await self.database.write(
            lambda tx: tx.run(
                "DELETE FROM release_answers WHERE study_id = ? AND request_id = ? AND state = 'reserved'",
                (study_id, request_id),
            )
        )

    async def answer(
        self, study_id: bytes, budget: Budget, request_id: bytes, answer: bytes, signature: bytes
    ) -> bool:
        """Keep the answer; whether the budget is spent with it, in which case answers have ended."""
        return await self._settle(study_id, budget, request_id, "answered", answer, signature)

    async def fail(self, study_id: bytes, budget: Budget, request_id: bytes) -> bool:
        """Keep the entry as failed; whether the budget is spent with it."""
        return await self._settle(study_id, budget, request_id, "failed", None, None)

    async def _settle(
        self,
        study_id: bytes,
        budget: Budget,
        request_id: bytes,
        state: EntryState,
        answer: bytes | None,
        signature: bytes | None,
    ) -> bool:
        def write(tx: Transaction) -> bool:
            changed = tx.run(
                "UPDATE release_answers SET state = ?, answer = ?, signature = ?"
                " WHERE study_id = ? AND request_id = ? AND state = 'reserved'",
                (state, answer, signature, study_id, request_id),
            )
            if changed != 1:
                raise Refused(Reason.NOT_RESERVED, "an answer that was not reserved is not given")
            entries = _entries(tx, study_id)
            # An interrupted entry is paid for and can still be resumed, so answers have not ended.
            if any(entry.state == "reserved" for entry in entries):
                return False
            if not left_after(budget, [entry.price for entry in entries]).empty:
                return False
            return end_answers(tx, study_id)

        return await self.database.write(write)

    async def end(self, study_id: bytes) -> bool:
        """End answers before the budget is spent, because the owner asked for it; whether they had not ended before."""
        return await self.database.write(lambda tx: end_answers(tx, study_id))


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
