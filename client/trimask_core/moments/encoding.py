"""From a person's answers to the bits and whole numbers z of a report (`layout` says where each of them stands)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trimask_core.logarithm import natural_log
from trimask_core.moments.column import bits_of

if TYPE_CHECKING:
    from trimask_core.moments.layout import MomentsLayout

__all__ = ["Encoded", "encode_answers"]


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


def encode_answers(layout: MomentsLayout, answers: Mapping[str, object]) -> Encoded:
    """Bits and z of a person's answers, inside the ball; answers are refused as by `Schema.read`."""
    values = layout.schema.read(answers)
    z: list[int] = []
    for column in layout.columns:
        if column.factors is not None:
            z.append(z[column.factors[0]] * z[column.factors[1]])
        elif column.kind == "interval":
            z.append(column.holds(layout.columns[column.number], z[column.number]))
        elif column.kind == "level":
            z.append(int(values[column.sources[0]] == column.level))
        elif column.kind == "clipped":
            z.append(0)
        else:
            value = float(values[column.sources[0]])
            answer = column.answer(natural_log(value) if column.kind == "log" else value)
            z.append(2 * answer - column.offset)
    if layout.ball is not None:
        z = layout.ball.clip(layout.columns, z)
    clipped = layout.ball is not None and z[-1] == 1
    bits = _bits(layout, z)
    if layout.weight is None or layout.root is None:
        return _encoded(layout, bits, z, clipped, 1)
    if layout.weight.weights:
        # Of the level the report says: a number that was shrunk to the ball is in the interval it is shrunk to.
        held = zip(layout.root.weights, bits[layout.root.first_bit :], strict=False)
        return _encoded(layout, bits, z, clipped, sum(root * bit for root, bit in held))
    root = layout.weight.whole_root(layout.schema, float(values[layout.weight.attribute]))
    own = bits_of(root + layout.root.offset, layout.root.weights)
    bits[layout.root.first_bit : layout.root.first_bit + len(own)] = own
    return _encoded(layout, bits, z, clipped, root)


def _encoded(
    layout: MomentsLayout, bits: Sequence[int], z: Sequence[int], clipped: bool, root: int
) -> Encoded:
    proved = z if layout.root is None else (*z, root, *(root * value for value in z))
    return Encoded(tuple(bits), tuple(z), clipped, root, tuple(proved))


def _bits(layout: MomentsLayout, z: Sequence[int]) -> list[int]:
    bits = [0] * layout.ball_bit
    for column, value in zip(layout.columns, z, strict=True):
        if column.shrinks:
            held = bits_of((value + column.offset) // 2, column.weights)
            bits[column.first_bit : column.first_bit + len(held)] = held
        elif column.factors is None:
            bits[column.first_bit] = value
    for reference, *others in layout.choices:
        bits[reference] = 1 - sum(bits[other] for other in others)
    for comparison in layout.comparisons:
        number = layout.columns[comparison.number]
        above, below = comparison.rests((z[comparison.number] + number.offset) // 2)
        for first, rest in ((comparison.above, above), (comparison.below, below)):
            held = bits_of(rest, comparison.weights)
            bits[first : first + len(held)] = held
    return bits if layout.ball is None else bits + bits_of(layout.ball.left(z), layout.ball.weights)
