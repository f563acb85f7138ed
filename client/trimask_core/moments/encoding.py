"""From a person's answers to the bits and whole numbers z of a report (`layout` says where each of them stands)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trimask_core.logarithm import natural_log
from trimask_core.moments.ball import Ball
from trimask_core.moments.column import Comparison, MomentsColumn, bits_of
from trimask_core.schema import Schema
from trimask_core.weight import Weight

__all__ = ["Encoded", "RowEncoding"]


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
