"""Matrices on the wire: little-endian, in slices of whole rows, well below the message limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_proto.v1 import common_pb2

__all__ = ["Assembler", "slices"]

_SLICE_BYTES = 2 << 20


def slices(matrix: NDArray[Any]) -> Iterator[common_pb2.MatrixSlice]:
    """The matrix as slices. 8-byte values; columns of a wider array may be passed as a view."""
    rows, columns = matrix.shape
    step = max(1, _SLICE_BYTES // (8 * columns))
    little = matrix.dtype.newbyteorder("<")
    for first in range(0, rows, step):
        part = np.ascontiguousarray(matrix[first : first + step]).astype(little, copy=False)
        yield common_pb2.MatrixSlice(rows=rows, columns=columns, first_row=first, values=part.tobytes())


class Assembler:
    """Puts slices back together. Slices may come twice or in any order; the shape may not change."""

    __slots__ = ("_dtype", "_matrix", "_missing")

    def __init__(self, dtype: type[np.float64] | type[np.uint64] = np.float64) -> None:
        self._dtype = dtype
        self._matrix: NDArray[Any] | None = None
        self._missing: set[int] = set()

    def into(self, target: NDArray[Any]) -> None:
        """Assemble into an existing array (a view of a wider one)."""
        self._matrix = target
        self._missing = set(range(target.shape[0]))

    def add(self, piece: common_pb2.MatrixSlice, rows_allowed: range, columns: int) -> None:
        """Take one slice in, or refuse it with the reason."""
        width = 8 * columns
        count, rest = divmod(len(piece.values), width)
        if piece.rows not in rows_allowed or piece.columns != columns:
            raise Refused(
                Reason.WRONG_SHAPE,
                f"a matrix of {rows_allowed.start} to {rows_allowed.stop - 1} rows and {columns} columns was expected, "
                f"not {piece.rows} x {piece.columns}",
            )
        if rest or count == 0 or piece.first_row + count > piece.rows:
            raise Refused(Reason.WRONG_SHAPE, "a slice must hold whole rows inside the matrix")
        if self._matrix is None:
            self.into(np.empty((piece.rows, columns), dtype=self._dtype))
        matrix = self._matrix
        assert matrix is not None  # noqa: S101 - for the type checker
        if matrix.shape[0] != piece.rows:
            raise Refused(Reason.WRONG_SHAPE, "the number of rows changed between slices")
        values = np.frombuffer(piece.values, dtype=np.dtype(self._dtype).newbyteorder("<")).reshape(
            count, columns
        )
        if self._dtype is np.float64 and not bool(np.isfinite(values).all()):
            raise Refused(Reason.WRONG_SHAPE, "a matrix may not contain NaN or infinity")
        matrix[piece.first_row : piece.first_row + count] = values
        self._missing.difference_update(range(piece.first_row, piece.first_row + count))

    @property
    def complete(self) -> bool:
        """Whether every row has come."""
        return self._matrix is not None and not self._missing

    def take(self) -> NDArray[Any]:
        """The matrix; it is forgotten here."""
        matrix, self._matrix = self._matrix, None
        if matrix is None or self._missing:
            raise Refused(Reason.WRONG_SHAPE, "the matrix is not complete")
        return matrix
