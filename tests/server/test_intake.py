"""Complete submissions: those every right provider holds, in order, of stores that were told of every block."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_proto.v1.right_batches_pb2 import ListPendingResponse
from trimask_server.collector.batches import Batches, Intake
from trimask_server.store.release_table import Block, BlockState

KNOWN = {"R1": b"g1", "R2": b"g2"}


def _id(number: int) -> bytes:
    return bytes([number]) * 16


class _Calls:
    """Two providers; each lists two ids a page. What is called is written down."""

    def __init__(self, *held: list[int]) -> None:
        self.held = held
        self.generations = list(KNOWN.values())
        self.called: list[tuple[str, int]] = []
        self.marks: dict[int, int] = {}

    async def before(self, party: int) -> None:
        """Before a page is there."""

    async def list_pending(self, party: int, token: str) -> ListPendingResponse:
        self.called.append(("list", party))
        start = int(token or "0")
        ids = self.held[party][start : start + 2]
        more = str(start + 2) if len(ids) == 2 else ""
        await self.before(party)
        marks = bytes(self.marks.get(number, 0) for number in ids)
        return ListPendingResponse(
            submission_ids=b"".join(map(_id, ids)), next_page_token=more, checked=marks,
            store_generation=self.generations[party],
        )  # fmt: skip

    async def stop_intake(self, party: int, _order: object) -> None:
        self.called.append(("stop", party))


class _Ledger:
    def __init__(self, *blocks: Block) -> None:
        self.found = list(blocks)

    async def blocks(self, *_: object) -> list[Block]:
        return self.found

    async def close_order(self, _: bytes) -> None:
        return None


def _intake(calls: _Calls, ledger: _Ledger) -> Intake:
    study: Any = SimpleNamespace(id=b"s" * 32, right=[0, 1])
    return Intake(study, ledger, calls)  # type: ignore[arg-type]


def _complete(intake: Intake, *, closing: bool = False) -> list[bytes] | None:
    found = asyncio.run(intake.complete(KNOWN, closing=closing))
    return None if found is None else list(found)


def test_only_what_every_provider_holds_and_later_pages_join() -> None:
    calls = _Calls([1, 2, 3], [3, 1])
    intake = _intake(calls, _Ledger())
    found = _complete(intake)
    assert found is not None
    assert set(found) == {_id(1), _id(3)}
    assert intake.usable == 2
    calls.held[1].append(2)
    assert _complete(intake) == [*found, _id(2)]
    assert intake.usable == 3
    assert not [name for name, _ in calls.called if name == "stop"]


def test_what_is_planned_does_not_come_again_until_it_is_counted_anew() -> None:
    calls = _Calls([1, 2], [1, 2])
    intake = _intake(calls, _Ledger())
    assert len(_complete(intake) or []) == 2
    intake.remove([_id(1)])
    assert _complete(intake) == [_id(2)]
    intake.count_anew()
    assert len(_complete(intake) or []) == 2


def test_a_store_that_was_not_told_of_every_block_is_not_believed() -> None:
    calls = _Calls([1], [1])
    intake = _intake(calls, _Ledger())
    calls.generations[1] = b"restored"
    assert _complete(intake) is None


def test_at_close_intake_stops_before_the_last_count_and_blocks_are_left_out() -> None:
    calls, block = _Calls([1, 2], [1, 2]), Block(b"b" * 16, _id(1), 1, BlockState.POOLED, 1)
    intake = _intake(calls, _Ledger(block))
    assert _complete(intake, closing=True) == [_id(2)]
    for party in (0, 1):
        mine = [name for name, whom in calls.called if whom == party]
        assert mine[0] == "stop"
        assert "list" in mine


def test_while_a_study_closes_everything_is_counted_once_and_again_at_the_end() -> None:
    """Once more for each block, a study that closes with N rows waiting would list N^2 / n of them."""
    calls = _Calls([1, 2, 3], [1, 2, 3])
    intake = _intake(calls, _Ledger())
    assert len(_complete(intake, closing=True) or []) == 3
    asked = len(calls.called)
    assert not intake.stale
    intake.remove([_id(1)])
    assert _complete(intake, closing=True) == [_id(2), _id(3)]
    assert len(calls.called) == asked
    assert intake.stale  # so it is not closed before the providers have said what is left
    calls.held[0].remove(3)  # withdrawn there
    intake.count_anew()
    assert _complete(intake, closing=True) == [_id(1), _id(2)]
    assert not intake.stale


def test_a_count_at_close_that_a_restored_store_was_in_is_made_again() -> None:
    calls = _Calls([1], [1])
    intake = _intake(calls, _Ledger())
    calls.generations[1] = b"restored"
    assert _complete(intake, closing=True) is None
    calls.generations[1] = KNOWN["R2"]
    assert _complete(intake, closing=True) == [_id(1)]


def test_repro_a_count_that_failed_does_not_go_on_behind_the_next() -> None:
    """R2 did not answer; R1's pages, still read for that count, moved the next one past rows that it then missed."""
    calls = _Calls([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])
    intake, slow, pages = _intake(calls, _Ledger()), asyncio.Event(), []

    async def before(party: int) -> None:
        pages.append(party)
        if party == 1 and pages.count(1) == 1:
            asyncio.get_running_loop().call_later(0.01, slow.set)
            raise Refused(Reason.UNREACHABLE, "away")
        if party == 0:
            await (slow.wait() if pages.count(0) == 1 else asyncio.sleep(0))

    calls.before = before  # type: ignore[method-assign]

    async def course() -> Collection[bytes] | None:
        with pytest.raises(Refused):
            await intake.complete(KNOWN, closing=True)
        return await intake.complete(KNOWN, closing=True)

    found = asyncio.run(course())
    assert found is not None
    assert list(found) == [_id(number) for number in range(1, 6)]


def test_repro_rows_whose_check_is_never_decided_are_not_promised() -> None:
    """They are erased when the study closes; the status counted them as waiting."""
    calls = _Calls([1, 2, 3], [1, 2, 3])
    calls.marks = {2: 2}
    intake = _intake(calls, _Ledger())
    assert len(_complete(intake) or []) == 3
    assert intake.usable == 2


def test_a_collector_that_was_restored_takes_a_turn_that_all_follow() -> None:
    """R2 was told turns since the backup: it follows no lower one, so the next is taken and told."""
    told: dict[int, int] = {0: 0, 1: 7}
    outnumbered: list[int] = []

    class Calls:
        async def pause_intake(self, party: int, turn: int) -> tuple[int, int]:
            told[party] = max(told[party], turn)
            return told[party], 0

    class Studies:
        async def outnumber(self, _: bytes, turn: int) -> None:
            outnumbered.append(turn)

    node, study = SimpleNamespace(studies=Studies()), SimpleNamespace(id=b"s" * 32, right=[0, 1])
    batches: Any = Batches(node, study, _Ledger(), Calls(), None)  # type: ignore[arg-type]
    assert not asyncio.run(batches.tell_intake("open", 2))
    assert outnumbered == [7]
    assert asyncio.run(batches.tell_intake("open", 8))
    assert (told, outnumbered) == ({0: 8, 1: 8}, [7])
