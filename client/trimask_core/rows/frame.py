"""The frame F of `trimask_core.rows.rotation` for one row at a time, by its reflections, without numpy.

F = E_k^T D H_k ... H_1 for the reflections H_i = I - v_i v_i^T / h_i with h_i = |v_i|^2 / 2: O(k p) a row, and no matrix.
Sums are added up from left to right: whether the builtin `sum` compensates its rounding depends on the version of Python.
Standard normals from random words are those of `trimask_core.rows.rotation`: its operations in their order, so the same
bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import reduce
from operator import add, mul

from trimask_core.basics.errors import ParameterError
from trimask_core.basics.randomness import RandomSource, Stream

_LN2 = float.fromhex("0x1.62e42fefa39efp-1")
_SQRT_HALF = math.sqrt(0.5)
_QUARTER_TURN = math.pi / 2
_FRACTION_BITS = (1 << 62) - 1
# Coefficients as in trimask_core.rows.rotation: 1/(2k+1), and (-1)^k/(2k+1)!, (-1)^k/(2k)!. One name each, for Horner's rule
# written out: a loop over them would take three times as long, and a phone draws 25,000 normals for a row.
A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11 = (1.0 / (2 * k + 1) for k in range(12))
S0, S1, S2, S3, S4, S5, S6, S7, S8, S9 = ((-1.0) ** k / math.factorial(2 * k + 1) for k in range(10))
C0, C1, C2, C3, C4, C5, C6, C7, C8, C9 = ((-1.0) ** k / math.factorial(2 * k) for k in range(10))


def _pair(radius_word: int, angle_word: int) -> tuple[float, float]:
    """Two normals from two words by Box-Muller; see `trimask_core.rows.rotation` for why nothing here may be rearranged."""
    mantissa, exponent = math.frexp((float(radius_word) + 1.0) * 2.0**-64)
    if mantissa < _SQRT_HALF:
        mantissa *= 2.0
        exponent -= 1
    f = (mantissa - 1.0) / (mantissa + 1.0)
    x = f * f
    t = A11 * x + A10
    t = ((((t * x + A9) * x + A8) * x + A7) * x + A6) * x + A5
    t = ((((t * x + A4) * x + A3) * x + A2) * x + A1) * x + A0
    log_uniform = exponent * _LN2 + 2.0 * f * t
    radius = math.sqrt(max(-2.0 * log_uniform, 0.0))

    quadrant = angle_word >> 62
    angle = ((angle_word & _FRACTION_BITS) * 2.0**-62 - 0.5) * _QUARTER_TURN
    x = angle * angle
    t = (((S9 * x + S8) * x + S7) * x + S6) * x + S5
    sine = angle * (((((t * x + S4) * x + S3) * x + S2) * x + S1) * x + S0)
    t = (((C9 * x + C8) * x + C7) * x + C6) * x + C5
    cosine = ((((t * x + C4) * x + C3) * x + C2) * x + C1) * x + C0
    if quadrant & 2:
        radius = -radius
    if quadrant & 1:
        return radius * -sine, radius * cosine
    return radius * cosine, radius * sine


def normals_from_words(words: Sequence[int]) -> list[float]:
    """One standard normal for each word of an even number of words."""
    normals: list[float] = []
    for radius_word, angle_word in zip(words[::2], words[1::2], strict=True):
        normals += _pair(radius_word, angle_word)
    return normals


class PureNormals:
    """Standard normals expanded from a 32-byte seed."""

    __slots__ = ("_stream",)

    def __init__(self, seed: bytes, label: bytes) -> None:
        self._stream = Stream(seed, label)

    def __repr__(self) -> str:
        return "PureNormals(<secret>)"

    def standard_normal(self, count: int) -> list[float]:
        """The next normals. An odd count discards the last of its pair."""
        even = count + (count & 1)
        return normals_from_words(struct.unpack(f"<{even}Q", self._stream.read(8 * even)))[:count]


def secure_normals(source: RandomSource) -> PureNormals:
    """Standard normals under a fresh seed nobody keeps."""
    return PureNormals(source.seed(), b"secure normals")


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
