"""The frame F of `trimask_core.rows.rotation` for one row at a time, by its reflections, without numpy.

F = E_k^T D H_k ... H_1 for the reflections H_i = I - v_i v_i^T / h_i with h_i = |v_i|^2 / 2: O(k p) a row, and no matrix.
Sums are added up from left to right: whether the builtin `sum` compensates its rounding depends on the version of Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import add, mul

from trimask_core.errors import ParameterError
from trimask_core.rows.device.normal import PureNormals

__all__ = ["RowFrame"]

_PANEL = 64  # trimask_core.rows.rotation draws its normals a panel at a time; the same seed must give the same frame
_LABEL = b"haar frame"


class RowFrame:
    """F: k orthonormal rows in R^p, uniformly distributed."""

    __slots__ = ("columns", "reflections", "rows", "signs")

    def __init__(self, seed: bytes, rows: int, columns: int) -> None:
        if not 1 <= rows <= columns:
            raise ParameterError("rows", f"between 1 and columns = {columns}", rows)
        self.rows = rows
        self.columns = columns
        self.signs: list[float] = []  # the diagonal of D
        # The first coordinate, h and v of each H_i, whose v is zero before that coordinate.
        self.reflections: list[tuple[int, float, list[float]]] = []
        normals = PureNormals(seed, _LABEL)
        for start in range(0, rows, _PANEL):
            width, length = min(_PANEL, rows - start), columns - start
            drawn = normals.standard_normal(width * length)
            for i in range(width):
                # What lies before the reflection's first coordinate is drawn and not part of it.
                v = drawn[i * length + i : (i + 1) * length]
                first, norm = v[0], math.sqrt(_dot(v, v))
                sign = -1.0 if first < 0 else 1.0
                v[0] = first + sign * norm
                self.signs.append(-sign)
                self.reflections.append((start + i, norm * (norm + abs(first)), v))

    def __repr__(self) -> str:
        return f"RowFrame(<secret>, rows={self.rows}, columns={self.columns})"

    def apply(self, row: Sequence[float]) -> list[float]:
        """x F, for x with `rows` entries."""
        out = [*map(mul, row, self.signs), *[0.0] * (self.columns - self.rows)]
        for reflection in reversed(self.reflections):
            _reflect(out, *reflection)
        return out

    def unapply(self, row: Sequence[float]) -> list[float]:
        """x F^T, for x with `columns` entries."""
        work = list(row)
        for reflection in self.reflections:
            _reflect(work, *reflection)
        return list(map(mul, work, self.signs))


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    total: float = reduce(add, map(mul, one, other))
    return total


def _reflect(row: list[float], start: int, half_square: float, v: list[float]) -> None:
    part = row[start:]
    share = _dot(part, v) / half_square
    row[start:] = [value - share * entry for value, entry in zip(part, v, strict=True)]
