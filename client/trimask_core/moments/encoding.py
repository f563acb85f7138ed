"""From a person's answers to the bits and whole numbers z of a report (`layout` says where each of them stands).

With a ball, rows are shrunk to |x| <= R on the device, and whole numbers hold them to it in the proof. Noise goes with
R^2, and a box of bounded columns has far larger corners than people's rows
(docs/theory/verified-moments.md#ball-accuracy). In whole numbers, with c_j = ceil(2^t / w_j^2) and C = floor(2^t (R^2 -
1)), a row is inside when sum_j c_j z_j^2 <= C; then sum_j x_j^2 <= C / 2^t <= R^2 - 1, whatever was rounded. t =
bit_length(max w_j^2) + 6, so 2^t / w_j^2 > 2^6 and rounding it up makes no c_j larger by more than the 2^-6th part: the
ball people get is at most that much smaller than R's. The bits of what is left, C - sum_j c_j z_j^2, are shared too, so
that the providers can check the sum in shares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from trimask_core.basics.errors import ImpossibleStudy
from trimask_core.moments.columns import Comparison, MomentsColumn, bit_weights, bits_of
from trimask_core.moments.field import P
from trimask_core.study.derived import natural_log
from trimask_core.study.schema import Schema
from trimask_core.study.weight import Weight

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


@dataclass(frozen=True)
class Encoded:
    """One row: every bit, every z, whether it was shrunk to the ball, and the root s of its weight (1 without weights)."""

    bits: tuple[int, ...] = field(repr=False)
    z: tuple[int, ...] = field(repr=False)
    clipped: bool = field(repr=False)
    root: int = field(default=1, repr=False)
    proved: tuple[int, ...] = field(default=(), repr=False)
    """The columns whose products are shared and checked: z, or z, s and s z."""

    @property
    def counted(self) -> tuple[int, ...]:
        """(1, z) times s: the row whose products are added up."""
        return (self.root, *(self.root * value for value in self.z))


@dataclass(frozen=True)
class RowEncoding:
    """How a schema's answers become bits and z."""

    schema: Schema
    row_norm: float | None
    columns: tuple[MomentsColumn, ...]
    choices: tuple[tuple[int, ...], ...]  # the bits of each choice question, the reference first
    ball: Ball | None
    ball_bit: int  # the first bit of what is left of the ball: all bits before it are answers'
    comparisons: tuple[Comparison, ...] = ()  # of bins and thresholds
    weight: Weight | None = None
    root: MomentsColumn | None = None  # s of a weighted study

    def encode(self, answers: Mapping[str, object]) -> Encoded:
        """Bits and z of a person's answers, inside the ball; answers are refused as by `Schema.read`."""
        values = self.schema.read(answers)
        z: list[int] = []
        for column in self.columns:
            if column.factors is not None:
                z.append(z[column.factors[0]] * z[column.factors[1]])
            elif column.kind == "interval":
                z.append(column.holds(self.columns[column.number], z[column.number]))
            elif column.kind == "level":
                z.append(int(values[column.sources[0]] == column.level))
            elif column.kind == "clipped":
                z.append(0)
            else:
                value = float(values[column.sources[0]])
                answer = column.answer(natural_log(value) if column.kind == "log" else value)
                z.append(2 * answer - column.offset)
        if self.ball is not None:
            z = self.ball.clip(self.columns, z)
        clipped = self.ball is not None and z[-1] == 1
        bits = self._bits(z)
        if self.weight is None or self.root is None:
            return self._encoded(bits, z, clipped, 1)
        if self.weight.weights:
            # Of the level the report says: a number that was shrunk to the ball is in the interval it is shrunk to.
            held = zip(self.root.weights, bits[self.root.first_bit :], strict=False)
            return self._encoded(bits, z, clipped, sum(root * bit for root, bit in held))
        root = self.weight.whole_root(self.schema, float(values[self.weight.attribute]))
        own = bits_of(root + self.root.offset, self.root.weights)
        bits[self.root.first_bit : self.root.first_bit + len(own)] = own
        return self._encoded(bits, z, clipped, root)

    def _encoded(self, bits: Sequence[int], z: Sequence[int], clipped: bool, root: int) -> Encoded:
        proved = z if self.root is None else (*z, root, *(root * value for value in z))
        return Encoded(tuple(bits), tuple(z), clipped, root, tuple(proved))

    def _bits(self, z: Sequence[int]) -> list[int]:
        bits = [0] * self.ball_bit
        for column, value in zip(self.columns, z, strict=True):
            if column.shrinks:
                held = bits_of((value + column.offset) // 2, column.weights)
                bits[column.first_bit : column.first_bit + len(held)] = held
            elif column.factors is None:
                bits[column.first_bit] = value
        for reference, *others in self.choices:
            bits[reference] = 1 - sum(bits[other] for other in others)
        for comparison in self.comparisons:
            number = self.columns[comparison.number]
            above, below = comparison.rests((z[comparison.number] + number.offset) // 2)
            for first, rest in ((comparison.above, above), (comparison.below, below)):
                held = bits_of(rest, comparison.weights)
                bits[first : first + len(held)] = held
        return bits if self.ball is None else bits + bits_of(self.ball.left(z), self.ball.weights)
