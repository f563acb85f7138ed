"""A draw of blocks, step by step, on both databases: what is fixed stays, and what was said is said again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from trimask_core.basics.errors import Refused
from trimask_core.study.definition import Study
from trimask_core.submit.release_files import split_ids
from trimask_proto.v1.row_draw_pb2 import FrozenRows, PoolVerdicts, RowDraw
from trimask_server.right.row_intake import WithdrawalStore
from trimask_server.right.rows import RowStore
from trimask_server.store.database import PROVIDER
from trimask_server.store.interface import Transaction
from trimask_server.suites.rows.draw import Draw, coin_of, freeze, most_rows, sign_verdicts
from trimask_server.suites.rows.right_draw import DrawStore

T = TypeVar("T")
N = 10
IDS = [bytes([i]) * 16 for i in range(1, 24)]


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Provider:
    """R_k with 23 rows, all accepted but the last, whose check was never decided."""

    def __init__(self, store: Any, made: Any, k: int, ids: list[bytes] = IDS) -> None:
        self.study: Study = made.signed.study
        self.role, self.key, self.store = f"R{k}", made.identities[f"R{k}"], store
        self.draws = DrawStore(store)
        self.rows = RowStore(store, _Plain())  # type: ignore[arg-type]
        run(store.write(lambda tx: self._fill(tx, ids)))

    def _fill(self, tx: Transaction, ids: list[bytes]) -> None:
        tx.run(
            "INSERT INTO studies (study_id, signed_study, state, registered_ms) VALUES (?, '', 'open', 0)"
            " ON CONFLICT (study_id) DO NOTHING",
            (self.study.id,),
        )
        tx.run_many(
            "INSERT INTO submissions (study_id, submission_id, payload, check_id, verdict, payload_hash,"
            " receive_time_ms) VALUES (?, ?, ?, ?, ?, ?, 0)",
            [(self.study.id, name, b"p", b"c" * 16, None if name == IDS[-1] else 1, b"h") for name in ids],
        )

    def freeze(self, number: int, most: int = 100) -> FrozenRows:
        def sign(rows: list[tuple[bytes, int]], closing: bool) -> FrozenRows:
            return freeze(self.key, self.role, self.study.id, number, rows, closing=closing)

        return run(self.draws.freeze(self.study.id, number, most, sign))

    def own(self, said: RowDraw) -> FrozenRows:
        return said.lists[int(self.role[1:]) - 1]

    def judge(self, said: RowDraw) -> PoolVerdicts | None:
        draw = Draw.verified(self.study, said)
        return run(
            self.draws.judge(
                draw, self.own(said), lambda marks: sign_verdicts(self.key, self.role, draw, marks)
            )
        )

    def open(self, said: RowDraw) -> bytes:
        draw = Draw.verified(self.study, said)
        run(self.draws.open(draw, self.own(said), said.verdicts[int(self.role[1:]) - 1]))
        return coin_of(self.key, self.study.id, said.number, self.own(said)) if draw.opens else b""

    def settle(self, said: RowDraw) -> None:
        draw = Draw.verified(self.study, said)
        run(self.draws.settle(draw, self.own(said), said.verdicts[int(self.role[1:]) - 1]))

    def fixed(self) -> set[bytes]:
        sql = "SELECT submission_id FROM submissions WHERE study_id = ? AND draw_number IS NOT NULL"
        return {bytes(row[0]) for row in run(self.store.read(lambda tx: tx.rows(sql, (self.study.id,))))}

    def close(self) -> None:
        run(self.store.write(lambda tx: tx.run("UPDATE studies SET state = 'closing'")))


class _Plain:
    """Keys that change nothing: what rows are encrypted with is another test's matter."""

    def find(self, *_: object) -> _Plain:
        return self

    obtain = find

    def encrypt(self, payload: bytes, _: bytes) -> bytes:
        return payload

    decrypt = encrypt


@pytest.fixture
def made(make_study: Any) -> Any:
    return make_study(block_rows=N)


@pytest.fixture
def providers(make_store: Any, made: Any) -> list[Provider]:
    return [Provider(make_store(PROVIDER, f"trimask_r{k}"), made, k) for k in (1, 2, 3)]


def refused(reason: str, call: Callable[[], object]) -> None:
    with pytest.raises(Refused) as caught:
        call()
    assert caught.value.reason == reason


def begin(providers: list[Provider], number: int = 1) -> RowDraw:
    lists = [provider.freeze(number) for provider in providers]
    return RowDraw(study_id=providers[0].study.id, number=number, lists=lists)


def finish(providers: list[Provider], said: RowDraw) -> Draw:
    said.verdicts.extend(filter(None, [provider.judge(said) for provider in providers]))
    said.coins.extend(provider.open(said) for provider in providers)
    for provider in providers:
        provider.settle(said)
    return Draw.verified(providers[0].study, said)


def test_a_draw_from_its_beginning_to_its_end(providers: list[Provider]) -> None:
    first = providers[0]
    said = begin(providers)
    assert said.lists[0] == first.freeze(1)
    assert first.fixed() == set(IDS)
    withdrawals = WithdrawalStore(first.store)
    refused("study_paused", lambda: run(withdrawals.withdraw(first.study.id, IDS[0], 5)))
    refused("not_yet", lambda: first.freeze(2))
    draw = finish(providers, said)
    assert (draw.pool, draw.accepted) == (IDS, IDS[:-1])
    (block,) = draw.blocks()  # of 20 rows or more one is drawn, and ten or more stay
    assert (block.rows, len(first.fixed())) == (N, N)
    first.settle(said)
    refused("not_yet", lambda: first.freeze(2))
    for provider in providers:
        assert run(provider.rows.bind_drawn(provider.study.id, block.block_id)) == block.submission_ids
        assert run(provider.rows.bind_drawn(provider.study.id, block.block_id)) == block.submission_ids
    left = next(name for name in IDS if name not in block.submission_ids)
    run(withdrawals.withdraw(first.study.id, left, 5))  # it went back
    inside = block.submission_ids[:16]
    refused("already_in_block", lambda: run(withdrawals.withdraw(first.study.id, inside, 5)))
    assert len(first.freeze(2).checked) == len(IDS) - N - 1
    refused("draw_over", lambda: first.freeze(1))
    refused("draw_over", lambda: first.judge(said))


@pytest.mark.parametrize(
    ("rows", "closing", "opens"), [(19, False, False), (20, False, True), (9, True, False), (10, True, True)]
)
def test_nothing_opens_for_too_few_rows_and_they_go_back(
    make_store: Any, made: Any, rows: int, closing: bool, opens: bool
) -> None:
    providers = [Provider(make_store(PROVIDER, f"trimask_r{k}"), made, k, IDS[:rows]) for k in (1, 2, 3)]
    for provider in providers:
        if closing:
            provider.close()
    said = begin(providers)
    assert Draw(made.signed.study, said).closing is closing
    said.verdicts.extend(filter(None, [provider.judge(said) for provider in providers]))
    assert all(bool(provider.open(said)) is opens for provider in providers)
    assert providers[0].fixed() == (set(IDS[:rows]) if opens else set())
    if not opens:
        assert [*providers[0].freeze(2).checked] == [1] * rows  # their verdicts stay


def test_what_another_does_not_hold_is_left_out_and_can_be_withdrawn(make_store: Any, made: Any) -> None:
    providers = [
        Provider(make_store(PROVIDER, f"trimask_r{k}"), made, k, IDS[:-1] if k < 3 else IDS[1:-1])
        for k in (1, 2, 3)
    ]
    said = begin(providers)
    for provider in providers:
        provider.judge(said)
    assert providers[0].fixed() == set(IDS[1:-1])
    run(WithdrawalStore(providers[0].store).withdraw(made.signed.study.id, IDS[0], 5))


def test_verdicts_wait_for_the_checks_of_the_draw(providers: list[Provider]) -> None:
    fresh = b"f" * 16
    insert = (
        "INSERT INTO submissions (study_id, submission_id, payload, payload_hash, receive_time_ms)"
        " VALUES (?, ?, ?, ?, 0)"
    )
    for provider in providers:
        values = (provider.study.id, fresh, b"p", b"h")
        run(provider.store.write(lambda tx, v=values: tx.run(insert, v)))
    said, first = begin(providers), providers[0]
    ((check_id, ids),) = Draw(first.study, said).checks
    assert ids == [fresh]
    assert first.judge(said) is None
    decided = "UPDATE row_checks SET decided = 1 WHERE check_id = ?"
    run(first.store.write(lambda tx: tx.run(decided, (check_id,))))
    verdicts = first.judge(said)
    assert verdicts is not None
    assert verdicts == first.judge(said)
    assert list(verdicts.marks) == [1] * 22 + [0, 0]


def test_lists_and_verdicts_of_a_draw_are_taken_once(providers: list[Provider]) -> None:
    said, first = begin(providers), providers[0]
    other = RowDraw.FromString(said.SerializeToString())
    role, key = providers[1].role, providers[1].key
    rows = [(name, 1) for name in IDS[:-2]]  # R_2 has signed two lists
    other.lists[1].CopyFrom(freeze(key, role, first.study.id, 1, rows, closing=False))
    assert first.judge(said)
    refused("out_of_step", lambda: first.judge(other))
    said.verdicts.extend(filter(None, [provider.judge(said) for provider in providers]))
    assert first.open(said)
    draw = Draw(first.study, said)
    other = RowDraw.FromString(said.SerializeToString())
    other.verdicts[1].CopyFrom(sign_verdicts(key, role, draw, bytes(len(draw.pool))))  # and two vectors
    refused("out_of_step", lambda: first.open(other))


def test_a_restored_store_takes_from_the_draw_what_it_has_said(make_store: Any, made: Any) -> None:
    providers = [Provider(make_store(PROVIDER, f"trimask_r{k}"), made, k) for k in (1, 2, 3)]
    said = begin(providers)
    draw = finish(providers, said)
    (block,) = draw.blocks()
    restored = Provider(
        make_store(PROVIDER, "trimask_r9"), made, 1, IDS[1:]
    )  # from before the draw, and a row is lost
    restored.settle(said)
    assert len(restored.fixed()) in (N, N - 1)
    if IDS[0] in block.submission_ids:
        refused("unknown_row", lambda: run(restored.rows.bind_drawn(restored.study.id, block.block_id)))
    else:
        assert run(restored.rows.bind_drawn(restored.study.id, block.block_id)) == block.submission_ids
    run(restored.rows.erase_block(restored.study.id, block.block_id))  # given up, or pooled by now
    again = split_ids(restored.freeze(2).submission_ids)
    assert set(again) == set(IDS[1:]) - set(split_ids(block.submission_ids))


def test_an_abandoned_draw_erases_its_rows_and_no_others(providers: list[Provider]) -> None:
    first = providers[0]
    said = begin(providers)
    first.judge(said)
    later = b"l" * 16
    run(
        first.store.write(
            lambda tx: tx.run(
                "INSERT INTO submissions (study_id, submission_id, payload, payload_hash, receive_time_ms)"
                " VALUES (?, ?, ?, ?, 0)",
                (first.study.id, later, b"p", b"h"),
            )
        )
    )
    assert run(first.draws.abandon(first.study.id, 1)) == len(IDS)
    assert run(first.draws.abandon(first.study.id, 1)) == 0
    refused("draw_over", lambda: first.judge(said))
    refused("draw_over", lambda: first.freeze(1))
    assert first.freeze(2).submission_ids == later


def test_more_rows_than_a_message_holds_wait_for_the_next_draw(providers: list[Provider]) -> None:
    first = providers[0]
    first.close()
    rows = first.freeze(1, most=8)
    assert rows.submission_ids == b"".join(IDS[:8])  # the oldest
    assert not rows.closing  # others are left
    assert most_rows(first.study) > 50_000
