"""Is a plan the drawn one? Asked on both databases, and of no more rows than the plan has."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from trimask_server.protocol.draw import place
from trimask_server.right import drawing
from trimask_server.right.drawing import Draw, NotDrawn
from trimask_server.store.interface import Transaction
from trimask_server.store.schema import PROVIDER

STUDY = b"s" * 32
SEEDS = {b"c" * 16: b"1" * 32, b"d" * 16: b"2" * 32}
CHECKS = list(SEEDS)
IDS = [bytes([i]) * 16 for i in range(40)]


def place_of(name: bytes) -> bytes:
    return place(SEEDS[CHECKS[name[0] % 2]], name)


ORDER = sorted(IDS, key=place_of)


def held(tx: Transaction) -> None:
    """Forty accepted rows of two checks; and rows of no account: not accepted, of another study, in a block, withdrawn."""
    for check_id, seed in SEEDS.items():
        tx.run(
            "INSERT INTO row_checks (study_id, check_id, submission_ids, held, seed) VALUES (?, ?, ?, ?, ?)",
            (STUDY, check_id, b"", b"", seed),
        )
    rows = [(STUDY, name, b"p", CHECKS[name[0] % 2], 1, None) for name in IDS]
    rows += [(STUDY, bytes([50 + i]) * 16, b"p", CHECKS[0], None, None) for i in range(30)]
    rows += [(b"t" * 32, name, b"p", CHECKS[0], 1, None) for name in IDS]
    rows += [(STUDY, bytes([100 + i]) * 16, b"p", CHECKS[0], 1, b"b" * 16) for i in range(30)]
    rows += [(STUDY, bytes([150 + i]) * 16, None, CHECKS[0], 1, None) for i in range(30)]
    tx.run_many(
        "INSERT INTO submissions (study_id, submission_id, payload, check_id, verdict, block_id, payload_hash,"
        " receive_time_ms) VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
        [(*row, b"h") for row in rows],
    )


def skipped(store: Any, draw: Draw, ids: list[bytes]) -> list[bytes] | None:
    """What should have been in a plan; None if it is the drawn one."""
    try:
        asyncio.run(store.write(lambda tx: draw.require(tx, STUDY, ids)))
    except NotDrawn as error:
        return [name for name, at in error.skipped if at == place_of(name)]
    return None


def test_a_plan_has_the_lowest_places_of_what_waits(make_store: Any) -> None:
    store = make_store(PROVIDER)
    asyncio.run(store.write(held))
    assert skipped(store, Draw(pool=16), sorted(ORDER[:8])) is None
    assert skipped(store, Draw(pool=0), ORDER) is None
    left_out = sorted(ORDER[2:4])
    plan = [name for name in ORDER[:10] if name not in left_out]
    assert skipped(store, Draw(pool=16), plan) == left_out
    gone = [(name, place_of(name)) for name in left_out]
    assert skipped(store, Draw(pool=16, absent=frozenset(gone)), plan) is None
    assert skipped(store, Draw(pool=16, absent=frozenset(gone[:1])), plan) == left_out[1:]
    guessed = frozenset((name, bytes(32)) for name in left_out)  # said before the rows had their places
    assert skipped(store, Draw(pool=16, absent=guessed), plan) == left_out
    # Out of twice what a block needs: one row fewer and nothing may be planned.
    assert skipped(store, Draw(pool=40), sorted(ORDER[:8])) is None
    assert skipped(store, Draw(pool=41), sorted(ORDER[:8])) == []


def test_a_row_accepted_later_has_a_place_like_the_others(make_store: Any) -> None:
    store = make_store(PROVIDER)
    asyncio.run(store.write(held))
    first, rest = ORDER[0], ORDER[1:]
    verdict = "UPDATE submissions SET verdict = ? WHERE study_id = ? AND submission_id = ?"
    asyncio.run(store.write(lambda tx: tx.run(verdict, (None, STUDY, first))))
    assert skipped(store, Draw(pool=16), rest[:8]) is None
    asyncio.run(store.write(lambda tx: tx.run(verdict, (1, STUDY, first))))
    assert skipped(store, Draw(pool=16), rest[:8]) == [first]


@pytest.mark.parametrize("make_store", ["sqlite"], indirect=True)
def test_the_question_reads_an_index_of_places(make_store: Any) -> None:
    """A study that closes with many rows waiting makes a plan for each few of them: no plan may read them all."""
    store = make_store(PROVIDER)
    for question, values in ((drawing._BEFORE, (STUDY, b"x")), (drawing._PLACELESS, (STUDY,))):
        plan = asyncio.run(store.read(lambda tx, q=question, v=values: tx.rows(f"EXPLAIN QUERY PLAN {q}", v)))
        assert "submissions_order" in str(plan), plan
