"""The ledger's contract: reserve before, once, for ever; and what a crash at each step leaves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stored_rows import insert
from trimask_core.basics.errors import Refused
from trimask_core.study.guarantee import Budget
from trimask_server.collector.accounting import Price
from trimask_server.collector.releases import BudgetLedger, Entry
from trimask_server.store.database import COLLECTOR
from trimask_server.store.interface import Store, StoreError
from trimask_server.store.release_table import answers_state

STUDY = bytes(32)
BUDGET = Budget(1.0, 1e-6)
PRICE = Price(0.5, 5e-7)


class Books:
    """The database with a release to answer from; `reopen` is what a crash and a restart leave."""

    def __init__(self, make_store: Any) -> None:
        self.make_store = make_store
        self.database: Store = make_store(COLLECTOR)

    @property
    def ledger(self) -> BudgetLedger:
        return BudgetLedger(self.database)

    def reopen(self) -> None:
        self.database.close()
        self.database = self.make_store(COLLECTOR)

    async def make_answerable(self) -> None:
        row = {
            "study_id": STUDY,
            "release_number": 1,
            "row_count": 48,
            "block_count": 2,
            "state": "answerable",
        }
        await self.database.write(lambda tx: insert(tx, [("releases", row)]))

    async def state(self) -> tuple[str, int]:
        return await self.database.read(lambda tx: answers_state(tx, STUDY))


@pytest.fixture
def books(make_store: Any) -> Books:
    """On each kind of store."""
    return Books(make_store)


def wanted(number: int, price: Price = PRICE, fingerprint: bytes = b"f", question: bytes = b"") -> Entry:
    return Entry(key(number), fingerprint, "sum", price, 7, "reserved", question or key(number))


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_reserve_answer_replay_conflict_spent(books: Books) -> None:
    async def story() -> None:
        ledger = books.ledger
        assert await books.state() == ("none", 0)
        await books.make_answerable()
        assert (await ledger.reserve(STUDY, BUDGET, wanted(1))).state == "reserved"
        assert not await ledger.answer(STUDY, BUDGET, key(1), b"the answer", b"signed")
        # The same request again: the very same answer, and nothing more is paid.
        again = await ledger.reserve(STUDY, BUDGET, wanted(1))
        assert (again.state, again.answer, again.signature) == ("answered", b"the answer", b"signed")
        assert again == await ledger.find(STUDY, key(1), b"f")
        # The same question under another id, likewise.
        assert await ledger.reserve(STUDY, BUDGET, wanted(9, question=key(1))) == again
        assert await ledger.find_question(STUDY, key(1)) == again
        with pytest.raises(Refused) as caught:
            await ledger.reserve(STUDY, BUDGET, wanted(1, fingerprint=b"another"))
        assert caught.value.reason == "bad_question"
        with pytest.raises(Refused) as caught:
            await ledger.find(STUDY, key(1), b"another")
        assert caught.value.reason == "bad_question"
        assert [entry.price for entry in await ledger.entries(STUDY)] == [PRICE]
        # The last of the budget ends answers.
        await ledger.reserve(STUDY, BUDGET, wanted(2))
        assert await books.state() == ("answerable", 48)
        assert await ledger.answer(STUDY, BUDGET, key(2), b"last", b"signed")
        assert await books.state() == ("spent", 48)
        with pytest.raises(Refused, match="never refilled") as caught:
            await ledger.reserve(STUDY, BUDGET, wanted(3, Price(1e-3, 0.0)))
        assert caught.value.reason == "budget_spent"
        # An answer once given can be had again after that.
        assert (await ledger.reserve(STUDY, BUDGET, wanted(1))).answer == b"the answer"

    asyncio.run(story())


def test_a_crash_after_the_reservation_stays_paid_and_is_resumed(books: Books) -> None:
    async def before() -> None:
        await books.make_answerable()
        await books.ledger.reserve(STUDY, BUDGET, wanted(1, Price(1.0, 1e-6)))

    async def after() -> None:
        ledger = books.ledger
        with pytest.raises(Refused) as caught:
            await ledger.reserve(STUDY, BUDGET, wanted(2))
        assert caught.value.reason == "budget_spent"
        # Nothing ends while a paid answer is outstanding.
        assert (await books.state())[0] == "answerable"
        assert (await ledger.reserve(STUDY, BUDGET, wanted(1, Price(1.0, 1e-6)))).state == "reserved"
        assert await ledger.answer(STUDY, BUDGET, key(1), b"answer", b"signed")
        assert len(await ledger.entries(STUDY)) == 1

    asyncio.run(before())
    books.reopen()
    asyncio.run(after())
    books.reopen()
    found = asyncio.run(books.ledger.find(STUDY, key(1), b"f"))
    assert found is not None
    assert found.answer == b"answer"


def test_the_end_waits_for_an_interrupted_answer(books: Books) -> None:
    async def story() -> None:
        ledger = books.ledger
        await books.make_answerable()
        await ledger.reserve(STUDY, BUDGET, wanted(1))
        await ledger.reserve(STUDY, BUDGET, wanted(2))
        assert not await ledger.answer(STUDY, BUDGET, key(2), b"second", b"signed")
        assert (await books.state())[0] == "answerable"
        assert await ledger.fail(STUDY, BUDGET, key(1))
        assert (await books.state())[0] == "spent"

    asyncio.run(story())


def test_a_reservation_for_which_nothing_was_computed_is_taken_back(books: Books) -> None:
    async def story() -> None:
        ledger = books.ledger
        await ledger.reserve(STUDY, BUDGET, wanted(1, Price(1.0, 1e-6)))
        await ledger.take_back(STUDY, key(1))
        assert await ledger.entries(STUDY) == []
        await ledger.reserve(STUDY, BUDGET, wanted(1, Price(1.0, 1e-6), b"another question now"))

    asyncio.run(story())


def test_what_is_settled_stays(books: Books) -> None:
    async def story() -> None:
        ledger = books.ledger
        for number, settle in ((1, "answer"), (2, "fail")):
            await ledger.reserve(STUDY, BUDGET, wanted(number))
            if settle == "answer":
                await ledger.answer(STUDY, BUDGET, key(number), b"a", b"s")
            else:
                await ledger.fail(STUDY, BUDGET, key(number))
            await ledger.take_back(STUDY, key(number))
            with pytest.raises(Refused) as caught:
                await ledger.answer(STUDY, BUDGET, key(number), b"other", b"s")
            assert caught.value.reason == "not_reserved"
        assert [entry.state for entry in await ledger.entries(STUDY)] == ["answered", "failed"]
        # Not even a statement run by hand resets the ledger.
        for statement in (
            "DELETE FROM release_answers",
            "UPDATE release_answers SET epsilon = 0",
            "UPDATE release_answers SET state = 'reserved'",
        ):
            with pytest.raises(StoreError):
                await books.database.write(lambda tx, sql=statement: tx.run(sql))  # type: ignore[misc]
        assert [entry.answer for entry in await ledger.entries(STUDY)] == [b"a", None]

    asyncio.run(story())


def test_a_reservation_keeps_its_price(books: Books) -> None:
    async def story() -> None:
        await books.ledger.reserve(STUDY, BUDGET, wanted(1))
        with pytest.raises(StoreError, match="what was paid"):
            await books.database.write(lambda tx: tx.run("UPDATE release_answers SET epsilon = 0.1"))

    asyncio.run(story())


def test_of_many_at_once_only_what_can_be_paid_is_reserved(books: Books) -> None:
    async def story() -> list[Any]:
        asks = [books.ledger.reserve(STUDY, BUDGET, wanted(n, Price(0.1, 1e-8))) for n in range(40)]
        return await asyncio.gather(*asks, return_exceptions=True)

    found = asyncio.run(story())
    assert sum(isinstance(item, Entry) for item in found) == 10
    assert {item.reason for item in found if isinstance(item, Refused)} == {"budget_spent"}


def test_studies_do_not_share_a_budget(books: Books) -> None:
    async def story() -> None:
        await books.ledger.reserve(STUDY, BUDGET, wanted(1, Price(1.0, 1e-6)))
        await books.ledger.reserve(bytes([1]) * 32, BUDGET, wanted(1, Price(1.0, 1e-6)))

    asyncio.run(story())


def test_the_owner_can_end_it_early(books: Books) -> None:
    async def story() -> None:
        await books.make_answerable()
        assert await books.ledger.end(STUDY)
        assert not await books.ledger.end(STUDY)
        assert await books.state() == ("spent", 48)

    asyncio.run(story())
