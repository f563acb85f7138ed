"""Slices: any order, any number of times, nothing above the limit."""

from __future__ import annotations

import random

import numpy as np
import pytest

from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import Refused
from trimask_proto.v1 import common_pb2
from trimask_server.suites.rows.attempt_shares import AttemptTable
from trimask_server.suites.rows.math import Assembler, slices


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 3), (300, 2048), (40, 300_000)])
def test_slices_come_back_in_any_order_and_twice(rows: int, columns: int) -> None:
    matrix = np.random.default_rng(0).normal(size=(rows, columns))
    pieces = list(slices(matrix))
    assert max(piece.ByteSize() for piece in pieces) < 4 << 20
    doubled = pieces * 2
    random.Random(0).shuffle(doubled)
    assembler = Assembler()
    for piece in doubled:
        assembler.add(piece, range(rows, rows + 1), columns)
    assert assembler.complete
    assert (assembler.take() == matrix).all()


def test_incomplete_matrix_cannot_be_taken() -> None:
    assembler = Assembler()
    assembler.add(common_pb2.MatrixSlice(rows=2, columns=1, first_row=0, values=bytes(8)), range(2, 3), 1)
    assert not assembler.complete
    with pytest.raises(Refused, match="not complete"):
        assembler.take()


def test_rows_may_not_change_between_slices() -> None:
    assembler = Assembler()
    assembler.add(common_pb2.MatrixSlice(rows=2, columns=1, first_row=0, values=bytes(8)), range(2, 9), 1)
    with pytest.raises(Refused, match="changed between slices"):
        assembler.add(common_pb2.MatrixSlice(rows=3, columns=1, first_row=1, values=bytes(8)), range(2, 9), 1)


def test_unsigned_integers_travel_whole() -> None:
    matrix = np.array([[0, 2**64 - 1], [2**63, 5]], dtype=np.uint64)
    assembler = Assembler(np.uint64)
    for piece in slices(matrix):
        assembler.add(piece, range(2, 3), 2)
    assert (assembler.take() == matrix).all()


def _attempt(number: int, study: bytes = b"s") -> common_pb2.Attempt:
    return common_pb2.Attempt(study_id=study, block_id=b"b", number=number)


def test_newer_try_forgets_the_older_and_refuses_it() -> None:
    table: AttemptTable[list[int]] = AttemptTable(ManualClock(), list)
    table.get(_attempt(1)).append(1)
    assert table.get(_attempt(1)) == [1]
    assert table.get(_attempt(2)) == []
    with pytest.raises(Refused, match="replaced by attempt 2"):
        table.get(_attempt(1))


def test_all_of_a_try_name_one_plan() -> None:
    table: AttemptTable[list[int]] = AttemptTable(ManualClock(), list)
    one, other = (
        common_pb2.Attempt(study_id=b"s", block_id=b"b", number=1, plan_hash=bytes([byte]) * 32)
        for byte in (1, 2)
    )
    table.get(one).append(1)
    with pytest.raises(Refused, match="another plan"):
        table.get(other)
    assert table.get(one) == [1]
    assert table.attempts() == [one]


def test_tries_of_other_studies_do_not_meet() -> None:
    table: AttemptTable[list[int]] = AttemptTable(ManualClock(), list)
    table.get(_attempt(5)).append(1)
    assert table.get(_attempt(1, b"other")) == []


def test_old_tries_expire() -> None:
    clock = ManualClock()
    table: AttemptTable[list[int]] = AttemptTable(clock, list)
    table.get(_attempt(3)).append(1)
    clock.advance(16 * 60)
    assert table.get(_attempt(1)) == []
