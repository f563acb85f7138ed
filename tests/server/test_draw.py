"""Which rows share a block follows from what every right provider has signed, and from nothing that somebody else wrote."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.study.definition import Study
from trimask_core.study.signed import sign_abandon, sign_close, verify_abandon, verify_close
from trimask_core.submit.release_files import split_ids
from trimask_proto.v1.common_pb2 import CloseOrder
from trimask_proto.v1.row_draw_pb2 import RowDraw
from trimask_server.suites.rows.draw import Draw, coin_of, freeze, sign_verdicts

N = 10


@pytest.fixture
def made(make_study: Any) -> Any:
    return make_study(block_rows=N)


def drawn(made: Any, rows: int, *, closing: bool = False, number: int = 1) -> RowDraw:
    """A draw of so many rows that all hold and have accepted."""
    study: Study = made.signed.study
    ids = [i.to_bytes(16, "big") for i in range(1, rows + 1)]
    said = RowDraw(study_id=study.id, number=number)
    keys = [made.identities[f"R{k}"] for k in (1, 2, 3)]
    for k, key in enumerate(keys, 1):
        marked = [(name, 1) for name in ids]
        said.lists.append(freeze(key, f"R{k}", study.id, number, marked, closing=closing))
    draw = Draw.verified(study, said)
    said.verdicts.extend(sign_verdicts(key, f"R{k}", draw, b"\1" * rows) for k, key in enumerate(keys, 1))
    said.coins.extend(coin_of(key, study.id, number, said.lists[k]) for k, key in enumerate(keys))
    return said


@pytest.mark.parametrize(
    ("rows", "open_blocks", "closing_blocks"),
    [
        (9, [], []),
        (10, [], [10]),
        (19, [], [19]),
        (20, [10], [10, 10]),
        (29, [10], [10, 19]),
        (30, [10, 10], [10, 10, 10]),
    ],
)
def test_each_block_is_drawn_out_of_twice_its_size(
    made: Any, rows: int, open_blocks: list[int], closing_blocks: list[int]
) -> None:
    study = made.signed.study
    for closing, sizes in ((False, open_blocks), (True, closing_blocks)):
        draw = Draw.verified(study, drawn(made, rows, closing=closing))
        assert [block.rows for block in draw.blocks()] == sizes
        assert draw.opens is bool(sizes)
        names = [name for block in draw.blocks() for name in split_ids(block.submission_ids)]
        assert len(set(names)) == len(names)
        assert len({block.block_id for block in draw.blocks()}) == len(sizes)


def test_every_row_is_drawn_as_often_as_every_other(made: Any) -> None:
    """Over 400 draws of 20 rows each is in the block 200 times, within five standard deviations of a fair coin."""
    study = made.signed.study
    found = Counter(
        name
        for number in range(1, 401)
        for block in Draw(study, drawn(made, 20, number=number)).blocks()
        for name in split_ids(block.submission_ids)
    )
    assert len(found) == 20
    assert all(abs(count - 200) < 50 for count in found.values())


def _list(said: RowDraw) -> None:
    said.lists[1].submission_ids = said.lists[1].submission_ids[16:]
    said.lists[1].checked = said.lists[1].checked[1:]


def _mark(said: RowDraw) -> None:
    said.lists[1].checked = b"\0" + said.lists[1].checked[1:]


def _closing(said: RowDraw) -> None:
    said.lists[1].closing = True


def _coin_hash(said: RowDraw) -> None:
    said.lists[1].coin_hash = bytes(32)


def _number(said: RowDraw) -> None:
    said.number = 2


def _another(said: RowDraw) -> None:
    said.lists[1].CopyFrom(said.lists[0])


def _verdict(said: RowDraw) -> None:
    said.verdicts[1].marks = b"\0" + said.verdicts[1].marks[1:]


def _others_verdict(said: RowDraw) -> None:
    said.verdicts[1].CopyFrom(said.verdicts[0])


def _coin(said: RowDraw) -> None:
    said.coins[1] = bytes(32)


@pytest.mark.parametrize(
    "change", [_list, _mark, _closing, _coin_hash, _number, _another, _verdict, _others_verdict, _coin]
)
def test_what_a_right_provider_has_not_signed_is_refused(
    made: Any, change: Callable[[RowDraw], None]
) -> None:
    said = drawn(made, 20)
    Draw.verified(made.signed.study, said)
    change(said)
    with pytest.raises(VerificationError):
        Draw.verified(made.signed.study, said)


def test_a_draw_that_lacks_somebodys_word_is_refused(made: Any) -> None:
    for field in ("lists", "verdicts", "coins"):
        said = drawn(made, 20)
        del getattr(said, field)[2:]
        with pytest.raises(Refused):
            Draw.verified(made.signed.study, said)
    said = drawn(made, 20)
    del said.verdicts[:]  # coins, and no verdicts
    with pytest.raises(Refused):
        Draw.verified(made.signed.study, said)


def test_the_order_depends_on_every_coin_and_every_verdict(made: Any) -> None:
    study, said = made.signed.study, drawn(made, 21)
    before = Draw.verified(study, said).blocks()[0].block_id
    other = RowDraw.FromString(said.SerializeToString())
    marks = b"\0" + b"\1" * 20
    other.verdicts[2].CopyFrom(sign_verdicts(made.identities["R3"], "R3", Draw(study, said), marks))
    assert Draw.verified(study, other).blocks()[0].block_id != before
    for k in range(3):
        other = RowDraw.FromString(said.SerializeToString())
        other.coins[k] = bytes(32)
        assert Draw(study, other).blocks()[0].block_id != before


def test_the_owner_alone_orders_a_study_closed_or_a_draw_abandoned(made: Any) -> None:
    study, owner = made.signed.study, made.identities["owner"]
    order = CloseOrder(study_id=study.id, close_time_ms=5, published_rows=8, erased_rows=1)
    order.signature = sign_close(owner, order)
    verify_close(study, order, 5)
    with pytest.raises(Refused, match="a later time"):
        verify_close(study, order, 4)
    for name in ("close_time_ms", "close_people", "published_rows", "erased_rows"):
        other = CloseOrder.FromString(order.SerializeToString())
        setattr(other, name, 3)
        with pytest.raises(VerificationError):
            verify_close(study, other, 5)
    order.signature = sign_close(made.identities["collector"], order)
    with pytest.raises(VerificationError):
        verify_close(study, order, 5)
    for time_ms, due in ((0, False), (5, True), (6, False)):  # with a number: by that, or by its time
        order = CloseOrder(study_id=study.id, close_time_ms=time_ms, close_people=50)
        order.signature = sign_close(owner, order)
        verify_close(study, order, 5, 50)
        with contextlib.nullcontext() if due else pytest.raises(Refused, match=r"50 people \(49 are here\)"):
            verify_close(study, order, 5, 49)
    elsewhere = CloseOrder(study_id=bytes(32))
    elsewhere.signature = sign_close(owner, elsewhere)
    with pytest.raises(Refused, match="another study"):
        verify_close(study, elsewhere, 5)
    verify_abandon(study, 3, sign_abandon(owner, study.id, 3))
    for signature in (sign_abandon(owner, study.id, 4), sign_abandon(made.identities["R1"], study.id, 3)):
        with pytest.raises(VerificationError):
            verify_abandon(study, 3, signature)
