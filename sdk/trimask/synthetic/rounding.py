"""Shares of cells as whole numbers of records whose two-way tables are the shares' own, as nearly as whole numbers can be.

A systematic draw has every cell of the whole table right to within one record, and a two-way table, which adds cells up,
to within several: by that chance alone records were now and then farther from the people than the release they are made of.
So records are moved between cells, one at a time, as long as the squared distance of all two-way tables shrinks; a cell
keeps the expected number to within one (controlled rounding, Cox 1987, by local search: no optimum is claimed). Where as
many records are made as there are people, rounding is no loss: the people's own counts are whole, too.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from trimask.moments import Matrix

__all__ = ["whole_counts"]

_UNLIKELY = 0.02  # a cell that expects fewer records is given none by a move: its combination may not exist
_TRIED = 64  # cells on either side of a move


def whole_counts(shares: Matrix, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Counts of the shape of `shares`, `rows` in all."""
    expected = shares.ravel() / shares.sum() * rows
    counts = _systematic(expected, rows, rng)
    floor = np.floor(expected).astype(np.int64)
    may_gain = expected - floor > _UNLIKELY
    may_lose = expected - floor < 1 - _UNLIKELY
    tables = [
        np.ravel_multi_index(
            [np.indices(shares.shape).reshape(shares.ndim, -1)[axis] for axis in pair],
            [shares.shape[axis] for axis in pair],
        )
        for pair in itertools.combinations(range(shares.ndim), 2)
    ]
    off = [np.asarray(np.bincount(table, weights=counts - expected), dtype=float) for table in tables]
    for _ in range(4 * len(expected)):
        move = _best_move(tables, off, (counts == floor) & may_gain, (counts > floor) & may_lose)
        if move is None:
            break
        gains, loses = move
        counts[gains] += 1
        counts[loses] -= 1
        for table, error in zip(tables, off, strict=True):
            error[table[gains]] += 1
            error[table[loses]] -= 1
    return counts.reshape(shares.shape)


def _systematic(expected: Matrix, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """In equal steps along the cells, from a random start."""
    steps = np.arange(rows) + rng.random()
    place = np.searchsorted(np.cumsum(expected), steps, side="right")
    return np.bincount(np.minimum(place, len(expected) - 1), minlength=len(expected)).astype(np.int64)


def _best_move(
    tables: list[NDArray[np.int64]], off: list[Matrix], gains: NDArray[np.bool_], loses: NDArray[np.bool_]
) -> tuple[int, int] | None:
    """(the cell that gains a record, the one that loses it): the largest decrease among likely pairs, None without one."""
    slope = np.sum([error[table] for table, error in zip(tables, off, strict=True)], axis=0)
    up, down = np.flatnonzero(gains), np.flatnonzero(loses)
    up = up[np.argsort(slope[up], kind="stable")[:_TRIED]]
    down = down[np.argsort(-slope[down], kind="stable")[:_TRIED]]
    if not len(up) or not len(down):
        return None
    # One record into cell j and out of cell i of a table: (e_j + 1)^2 - e_j^2 + (e_i - 1)^2 - e_i^2, and nothing if i = j.
    change = 2 * (slope[up][:, None] - slope[down][None, :])
    change = change + 2 * np.sum([table[up][:, None] != table[down][None, :] for table in tables], axis=0)
    best = int(np.argmin(change))
    if change.flat[best] > -1e-9:
        return None
    return int(up[best // len(down)]), int(down[best % len(down)])
