"""The ball: rows shrunk to |x| <= R on the device, and the whole numbers by which the proof holds them to it.

Noise goes with R^2, and a box of bounded columns has far larger corners than people's rows
(docs/theory/verified-moments.md#ball-accuracy). In whole numbers,
with c_j = ceil(2^t / w_j^2) and C = floor(2^t (R^2 - 1)), a row is inside when sum_j c_j z_j^2 <= C; then
sum_j x_j^2 <= C / 2^t <= R^2 - 1, whatever was rounded. t = bit_length(max w_j^2) + 6, so 2^t / w_j^2 > 2^6 and rounding
it up makes no c_j larger by more than the 2^-6th part: the ball people get is at most that much smaller than R's.
The bits of what is left, C - sum_j c_j z_j^2, are shared too, so that the providers can check the sum in shares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from trimask_core.errors import ImpossibleStudy
from trimask_core.moments.column import MomentsColumn, bit_weights
from trimask_core.moments.field import P

__all__ = ["SHRINK_BITS", "Ball", "box_radius_squared"]

SHRINK_BITS = 20  # rows are shrunk by k / 2^20
_SPARE_BITS = 6


@dataclass(frozen=True)
class Ball:
    """t, each column's c_j, and C."""

    exponent: int
    coefficients: tuple[int, ...]
    capacity: int

    @classmethod
    def of(cls, columns: Sequence[MomentsColumn], row_norm: float) -> Ball:
        """The ball of radius `row_norm` (x_0 = 1 counted) for these columns, `clipped` among them."""
        exponent = max(column.width**2 for column in columns).bit_length() + _SPARE_BITS
        coefficients = tuple(-(-(1 << exponent) // column.width**2) for column in columns)
        # The least every row can be shrunk to: a level that is not the reference in every group, odd columns at 1.
        smallest: list[int] = []
        for column in columns:
            factors = column.factors
            smallest.append(column.least if factors is None else smallest[factors[0]] * smallest[factors[1]])
        least = _one_a_group(
            columns,
            [Fraction(c * size, 1 << exponent) for c, size in zip(coefficients, smallest, strict=True)],
        )
        _check_row_norm(row_norm, 1 + least, box_radius_squared(columns))
        capacity = math.floor((Fraction(row_norm) ** 2 - 1) * (1 << exponent))
        if (
            sum(c * column.largest**2 for column, c in zip(columns, coefficients, strict=True)) + capacity
            >= P
        ):
            widest = max(columns, key=lambda column: column.width)
            raise ImpossibleStudy(
                "row_norm",
                f"row_norm: the check of the ball does not fit into 61 bits; give coarser steps, first for {widest.name}",
            )
        return cls(exponent, coefficients, capacity)

    @property
    def weights(self) -> tuple[int, ...]:
        """Of the bits of what is left."""
        return bit_weights(self.capacity)

    def left(self, z: Sequence[int]) -> int:
        """C - sum_j c_j z_j^2; below 0 outside the ball."""
        return self.capacity - sum(c * value * value for c, value in zip(self.coefficients, z, strict=True))

    def clip(self, columns: Sequence[MomentsColumn], z: Sequence[int]) -> list[int]:
        """The row itself where it is inside; else shrunk by a k / 2^20 that fits while the next does not, and `clipped`.

        Without intervals that is the largest k that fits. A number that is shrunk is in the interval it is shrunk to.
        """
        if self.left(z) >= 0:
            return list(z)
        low, high = 0, 1 << SHRINK_BITS  # k = low fits (`of` has seen to that), k = high does not
        while high - low > 1:
            middle = (low + high) // 2
            if self.left(_shrunk(columns, z, middle)) >= 0:
                low = middle
            else:
                high = middle
        return _shrunk(columns, z, low)


def box_radius_squared(columns: Sequence[MomentsColumn]) -> Fraction:
    """R^2 of every row the bits allow: 1 for x_0, (largest / w)^2 for a column, the largest of those for a group."""
    held = [column for column in columns if column.kind != "clipped"]
    return 1 + _one_a_group(held, [Fraction(column.largest, column.width) ** 2 for column in held])


def _one_a_group(columns: Sequence[MomentsColumn], sizes: Sequence[Fraction]) -> Fraction:
    """The sum of the columns' sizes, of a group the largest alone: its other columns are 0 then."""
    groups: dict[str, Fraction] = {}
    total = Fraction()
    for column, size in zip(columns, sizes, strict=True):
        if column.group:
            groups[column.group] = max(size, groups.get(column.group, Fraction()))
        else:
            total += size
    return total + sum(groups.values(), Fraction())


def _shrunk(columns: Sequence[MomentsColumn], z: Sequence[int], k: int) -> list[int]:
    """Bounded columns times k / 2^20, towards 0 and to the parity z must have; |z| never grows with a smaller k."""
    row: list[int] = []
    for column, value in zip(columns, z, strict=True):
        if column.factors is not None:
            row.append(row[column.factors[0]] * row[column.factors[1]])
        elif column.kind == "interval":
            row.append(column.holds(columns[column.number], row[column.number]))
        elif column.shrinks:
            size = abs(value) * k >> SHRINK_BITS
            size = max(value & 1, size - ((size ^ value) & 1))
            row.append(size if value > 0 else -size)
        else:
            row.append(1 if column.kind == "clipped" else value)
    return row


def _check_row_norm(row_norm: float, least: Fraction, box: Fraction) -> None:
    if isinstance(row_norm, bool) or not isinstance(row_norm, (int, float)) or not math.isfinite(row_norm):
        raise ImpossibleStudy("row_norm", "row_norm must be a finite number")
    low, high = math.ceil(math.sqrt(least) * 1e6 + 1) / 1e6, math.floor(math.sqrt(box) * 1e6 - 1) / 1e6
    if low > high:
        raise ImpossibleStudy(
            "row_norm", "row_norm: no ball below the box holds a row of these questions; leave row_norm out"
        )
    if row_norm <= 0 or not least <= Fraction(row_norm) ** 2 < box:
        raise ImpossibleStudy(
            "row_norm", f"row_norm must be between {low:.6f} and {high:.6f}, got {row_norm:g}"
        )
