"""The ledger's contract: reserve before, once, for ever; and what a crash at each step leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stored_rows import put_release
from trimask_core.errors import Refused
from trimask_core.study import Budget
from trimask_server.collector.releases.budget_ledger import BudgetLedger, Entry
from trimask_server.collector.releases.factors import Factors
from trimask_server.protocol.accounting import Price
from trimask_server.store.data_keys import Vault
from trimask_server.store.interface import Store, StoreError
from trimask_server.store.master_keys import KeyRing
from trimask_server.store.schema import COLLECTOR

STUDY = bytes(32)
BUDGET = Budget(1.0, 1e-6)
PRICE = Price(0.5, 5e-7)
FACTOR = np.triu(np.arange(1.0, 10.0).reshape(3, 3))
Run = Callable[[Coroutine[Any, Any, Any]], Any]


class Books:
    """The database with a factor to answer from; `reopen` is what a crash and a restart leave."""

    def __init__(self, make_store: Any) -> None:
        self.make_store = make_store
        self.vault = Vault(KeyRing.generate())
        self.database: Store = make_store(COLLECTOR)

    @property
    def ledger(self) -> BudgetLedger:
        return BudgetLedger(self.database)

    @property
    def factors(self) -> Factors:
        return Factors(self.database, self.vault)

    def reopen(self) -> None:
        self.database.close()
        self.database = self.make_store(COLLECTOR)

    async def put_factor(self, rows: int = 48, state: str = "full", number: int = 1) -> None:
        await self.database.write(
            lambda tx: put_release(tx, self.vault, STUDY, FACTOR * number, rows, state, number)
        )


@pytest.fixture
def books(make_store: Any) -> Books:
    """On each kind of store."""
    return Books(make_store)


def wanted(number: int, price: Price = PRICE, question: bytes = b"q") -> Entry:
    return Entry(number.to_bytes(16, "big"), question, "sum", price, 7, "reserved")


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_reserve_answer_replay_conflict_spent(books: Books) -> None:
    stored: list[bytes] = []

    def in_files(value: bytes) -> bool:
        return any(value in path.read_bytes() for path in Path(books.make_store.place).iterdir())

    async def story() -> None:
        ledger = books.ledger
        await books.put_factor()
        assert await books.factors.make_answerable(STUDY, 48) == 48
        assert (await ledger.reserve(STUDY, BUDGET, wanted(1))).state == "reserved"
        assert not await ledger.answer(STUDY, BUDGET, key(1), b"the answer", b"signed")
        # The same question again: the very same answer, and nothing more is paid.
        again = await ledger.reserve(STUDY, BUDGET, wanted(1))
        assert (again.state, again.answer, again.signature) == ("answered", b"the answer", b"signed")
        assert again == await ledger.find(STUDY, key(1), b"q")
        with pytest.raises(Refused) as caught:
            await ledger.reserve(STUDY, BUDGET, wanted(1, question=b"another"))
        assert caught.value.reason == "request_conflict"
        with pytest.raises(Refused) as caught:
            await ledger.find(STUDY, key(1), b"another")
        assert caught.value.reason == "request_conflict"
        assert [entry.price for entry in await ledger.entries(STUDY)] == [PRICE]
        # The last of the budget takes the factor with it.
        await ledger.reserve(STUDY, BUDGET, wanted(2))
        assert (await books.factors.load(STUDY)).shape == (3, 3)
        for statement in ("SELECT factor FROM releases", "SELECT wrapped FROM data_keys"):
            found = await books.database.read(lambda tx, statement=statement: tx.row(statement))
            stored.append(found[0])
        assert await ledger.answer(STUDY, BUDGET, key(2), b"last", b"signed")
        assert await books.factors.state(STUDY) == ("spent", 48)
        with pytest.raises(Refused):
            await books.factors.load(STUDY)
        with pytest.raises(Refused, match="never refilled") as caught:
            await ledger.reserve(STUDY, BUDGET, wanted(3, Price(1e-3, 0.0)))
        assert caught.value.reason == "budget_spent"
        # An answer once given can be had again after that.
        assert (await ledger.reserve(STUDY, BUDGET, wanted(1))).answer == b"the answer"

    asyncio.run(story())
    if books.make_store.kind == "sqlite":
        assert in_files(b"the answer"), "the search finds what is stored"
        assert not any(in_files(value) for value in stored), "neither the encrypted factor nor its key"


def test_a_crash_after_the_reservation_stays_paid_and_is_resumed(books: Books) -> None:
    async def before() -> None:
        await books.put_factor()
        await books.factors.make_answerable(STUDY, 48)
        await books.ledger.reserve(STUDY, BUDGET, wanted(1, Price(1.0, 1e-6)))

    async def after() -> None:
        ledger = books.ledger
        with pytest.raises(Refused) as caught:
            await ledger.reserve(STUDY, BUDGET, wanted(2))
        assert caught.value.reason == "budget_spent"
        # Nothing is erased while a paid answer is outstanding.
        assert (await books.factors.state(STUDY))[0] == "answerable"
        assert (await ledger.reserve(STUDY, BUDGET, wanted(1, Price(1.0, 1e-6)))).state == "reserved"
        assert await ledger.answer(STUDY, BUDGET, key(1), b"answer", b"signed")
        assert len(await ledger.entries(STUDY)) == 1

    asyncio.run(before())
    books.reopen()
    asyncio.run(after())
    books.reopen()
    found = asyncio.run(books.ledger.find(STUDY, key(1), b"q"))
    assert found is not None
    assert found.answer == b"answer"


def test_a_factor_waits_for_an_interrupted_answer(books: Books) -> None:
    async def story() -> None:
        ledger = books.ledger
        await books.put_factor()
        await books.factors.make_answerable(STUDY, 48)
        await ledger.reserve(STUDY, BUDGET, wanted(1))
        await ledger.reserve(STUDY, BUDGET, wanted(2))
        assert not await ledger.answer(STUDY, BUDGET, key(2), b"second", b"signed")
        assert (await books.factors.state(STUDY))[0] == "answerable"
        assert await ledger.fail(STUDY, BUDGET, key(1))
        assert (await books.factors.state(STUDY))[0] == "spent"

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


def test_all_pooled_rows_become_one_factor(books: Books) -> None:
    async def story() -> None:
        await books.put_factor(48, "full", 1)
        await books.put_factor(50, "full", 2)
        await books.put_factor(24, "open", 3)
        for _ in range(2):  # done again it changes nothing
            assert await books.factors.make_answerable(STUDY, 48) == 122
            assert await books.factors.state(STUDY) == ("answerable", 122)
            factor = await books.factors.load(STUDY)
            assert factor.T @ factor == pytest.approx(14 * FACTOR.T @ FACTOR)

    asyncio.run(story())


def test_too_few_rows_become_none(books: Books) -> None:
    async def story() -> None:
        await books.put_factor(47, "open")
        assert await books.factors.make_answerable(STUDY, 48) == 0
        assert await books.factors.state(STUDY) == ("none", 0)
        with pytest.raises(Refused):
            await books.factors.load(STUDY)

    asyncio.run(story())


def test_the_owner_can_end_it_early(books: Books) -> None:
    async def story() -> None:
        await books.put_factor()
        await books.factors.make_answerable(STUDY, 48)
        assert await books.ledger.end(STUDY)
        assert not await books.ledger.end(STUDY)
        assert await books.factors.state(STUDY) == ("spent", 48)
        assert await books.factors.make_answerable(STUDY, 48) == 48
        assert (await books.factors.state(STUDY))[0] == "spent"

    asyncio.run(story())
