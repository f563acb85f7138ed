"""A right provider's tables, on both databases: what is withdrawn stays away, and a row is masked in one block only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from trimask_core.basics.errors import Refused
from trimask_server.right.row_intake import WithdrawalStore
from trimask_server.right.rows import RowStore
from trimask_server.store.data_keys import KeyRing, Vault, block_scope
from trimask_server.store.database import PROVIDER

STUDY, BLOCK, OTHER = bytes(32), b"b" * 16, b"c" * 16
IDS = [bytes([number]) * 16 for number in range(1, 5)]
MARK = b"a sealed component, as long as it takes to be found again"


@pytest.fixture
def with_rows(make_store: Any) -> Callable[[Callable[[RowStore, WithdrawalStore], Awaitable[None]]], None]:
    """Runs a test on a fresh store with four rows."""

    def run(test: Callable[[RowStore, WithdrawalStore], Awaitable[None]]) -> None:
        async def body() -> None:
            database = make_store(PROVIDER)
            await database.write(
                lambda tx: tx.run(
                    "INSERT INTO studies (study_id, signed_study, state, registered_ms) VALUES (?, '', 'open', 0)",
                    (STUDY,),
                )
            )
            rows = RowStore(database, Vault(KeyRing.generate()))
            for submission_id in IDS:
                await rows.insert(STUDY, submission_id, MARK + submission_id, 1)
            await test(rows, WithdrawalStore(database))

        asyncio.run(body())

    return run


async def _refused(reason: str, work: Awaitable[Any]) -> None:
    with pytest.raises(Refused) as caught:
        await work
    assert caught.value.reason == reason


async def _pending(rows: RowStore) -> list[bytes]:
    return [submission_id for _, submission_id, mark in await rows.pending(STUDY, 0, 100) if mark != 3]


def test_who_lists_what_came_learns_what_went_away(with_rows: Any) -> None:
    async def test(rows: RowStore, withdrawals: WithdrawalStore) -> None:
        listed = await rows.pending(STUDY, 0, 100)
        last = listed[-1][0]
        assert await rows.pending(STUDY, last, 100) == []
        await withdrawals.withdraw(STUDY, IDS[1], 7)
        ((token, *went),) = await rows.pending(STUDY, last, 100)
        assert went == [IDS[1], 3]
        await withdrawals.withdraw(STUDY, IDS[1], 8)  # again: nothing new
        assert await rows.pending(STUDY, token, 100) == []
        await rows.insert(STUDY, b"n" * 16, MARK, 9)
        assert [name for _, name, *_ in await rows.pending(STUDY, token, 100)] == [b"n" * 16]

    with_rows(test)


@pytest.mark.parametrize(("state", "turn"), [("paused", 1), ("closing", 0), ("refused", 1)])
def test_while_a_study_closes_nothing_that_was_counted_is_withdrawn(
    with_rows: Any, state: str, turn: int
) -> None:
    """Nor where the provider's operator has refused the study meanwhile."""

    async def test(rows: RowStore, withdrawals: WithdrawalStore) -> None:
        await withdrawals.withdraw(STUDY, IDS[0], 7)
        await rows.assign(STUDY, BLOCK, IDS[1:2])
        await rows.database.write(lambda tx: tx.run("UPDATE studies SET state = ?, turn = ?", (state, turn)))
        await _refused("study_paused", withdrawals.withdraw(STUDY, IDS[2], 8))
        assert await withdrawals.withdraw(STUDY, IDS[0], 8) == 7
        await _refused("already_in_block", withdrawals.withdraw(STUDY, IDS[1], 8))
        await rows.erase_pending(STUDY)
        assert await withdrawals.withdraw(STUDY, IDS[2], 9) == 9  # it was left over

    with_rows(test)


def test_a_withdrawn_row_is_erased_and_cannot_come_again(with_rows: Any) -> None:
    async def test(rows: RowStore, withdrawals: WithdrawalStore) -> None:
        assert await withdrawals.withdraw(STUDY, IDS[0], 7) == 7
        assert await withdrawals.withdraw(STUDY, IDS[0], 9) == 7  # asking again changes nothing
        assert await _pending(rows) == IDS[1:]
        kept = await rows.database.read(
            lambda tx: tx.rows(
                "SELECT submission_id FROM submissions WHERE payload IS NOT NULL ORDER BY sequence"
            )
        )
        assert [row[0] for row in kept] == IDS[1:]
        await _refused("submission_withdrawn", rows.insert(STUDY, IDS[0], MARK + IDS[0], 8))

    with_rows(test)


def test_what_never_arrived_can_be_withdrawn_before_it_does(with_rows: Any) -> None:
    async def test(rows: RowStore, withdrawals: WithdrawalStore) -> None:
        late = b"z" * 16
        await withdrawals.withdraw(STUDY, late, 7)
        await _refused("submission_withdrawn", rows.insert(STUDY, late, MARK, 8))
        assert await _pending(rows) == IDS

    with_rows(test)


def test_a_plan_with_a_withdrawn_row_binds_nothing(with_rows: Any) -> None:
    async def test(rows: RowStore, withdrawals: WithdrawalStore) -> None:
        await withdrawals.withdraw(STUDY, IDS[1], 7)
        assert await rows.assign(STUDY, BLOCK, IDS[:3]) == [IDS[1]]
        assert await _pending(rows) == [IDS[0], *IDS[2:]]
        await _refused("unknown_block", rows.start(STUDY, BLOCK))
        assert await rows.assign(STUDY, OTHER, [IDS[0], IDS[2]]) == []

    with_rows(test)


def test_a_row_in_a_block_is_past_withdrawing_until_the_plan_is_cancelled(with_rows: Any) -> None:
    async def test(rows: RowStore, withdrawals: WithdrawalStore) -> None:
        assert await rows.assign(STUDY, BLOCK, IDS[:3]) == []
        await _refused("already_in_block", withdrawals.withdraw(STUDY, IDS[0], 7))
        await rows.cancel(STUDY, BLOCK)
        await rows.cancel(STUDY, BLOCK)
        assert await _pending(rows) == IDS
        assert await withdrawals.withdraw(STUDY, IDS[0], 8) == 8
        await _refused("out_of_step", rows.assign(STUDY, BLOCK, IDS[1:3]))
        await _refused("out_of_step", rows.start(STUDY, BLOCK))
        assert await rows.assign(STUDY, OTHER, IDS[1:3]) == []
        # Bound, freed and bound again, each row is still what was taken in.
        assert await rows.start(STUDY, OTHER) == [(name, MARK + name) for name in IDS[1:3]]
        scopes = await rows.database.read(lambda tx: tx.rows("SELECT scope FROM data_keys ORDER BY scope"))
        assert [scope for (scope,) in scopes] == [
            block_scope(OTHER),
            "intake",
        ]  # the cancelled block's key is gone

    with_rows(test)


def test_no_row_is_ever_masked_in_two_blocks(with_rows: Any) -> None:
    async def test(rows: RowStore, withdrawals: WithdrawalStore) -> None:
        await rows.assign(STUDY, BLOCK, IDS[:3])
        await rows.start(STUDY, BLOCK)
        await _refused("out_of_step", rows.cancel(STUDY, BLOCK))
        await _refused("out_of_step", rows.assign(STUDY, OTHER, IDS[2:]))
        await _refused("already_in_block", withdrawals.withdraw(STUDY, IDS[0], 7))
        await rows.erase_block(STUDY, BLOCK)
        await _refused("out_of_step", rows.cancel(STUDY, BLOCK))
        await _refused("already_in_block", withdrawals.withdraw(STUDY, IDS[0], 7))
        await _refused("unknown_block", rows.cancel(b"x" * 32, BLOCK))

    with_rows(test)


def test_a_plan_that_was_cancelled_before_it_arrived_is_refused(with_rows: Any) -> None:
    async def test(rows: RowStore, withdrawals: WithdrawalStore) -> None:
        await rows.cancel(STUDY, BLOCK)
        await _refused("out_of_step", rows.assign(STUDY, BLOCK, IDS[:3]))
        assert await _pending(rows) == IDS

    with_rows(test)
