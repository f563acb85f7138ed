"""The budget ledger: reserve, then answer, once.

An entry is written with its cost before anything is computed and stays for ever. reserved -> answered is one transaction
with the answer in it, so that an answer anybody can have seen is always on disk and paid for; the same request later is
given the very same bytes. A crash in between leaves the entry reserved: its cost stays counted, and the same request
resumes it. An entry whose computation failed after it had touched the data is kept, paid, as failed: the failure itself
may reveal something about the data. Only an entry that failed before that is taken back.

A question has one answer, whoever asks, and so one entry, whatever request id it comes under.

How a suite answers private questions: what `service` asks of it between reserving a price and keeping an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget, Guarantee
from trimask_proto.v1 import release_pb2
from trimask_server.protocol.accounting import Price, left_after, require_affordable
from trimask_server.store.interface import Store, Transaction
from trimask_server.store.release_table import end_answers


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
