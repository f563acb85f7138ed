"""The columns of the moments suite: how a schema's attributes become whole numbers z, and which bits hold them.

kind      z                                          w (x = z / w)                    bits
bounded   2 answer - offset, answer in 0..steps      steps, or round(2 scale / step)  of the answer
level     1 if it is the chosen one, else 0          1                                one
product   z_a z_b (a square: a = b)                  w_a w_b                          none: it is the shared product T_ab
interval  1 if the number is in it, else 0           1                                one (and those of `Comparison`)
log       2 answer - 1000, thousandths of its range  1000                             of the answer
clipped   1 if the row was shrunk, else 0            4                                one
root      s, by which the others are multiplied      S                                see below

The offset is `steps` (the middle of the range) or round(2 (centre - minimum) / step). An integer attribute has steps of
1, a continuous one of `step` (a thousandth of its range unless given), a binary one has the answers 0 and 1. Halves
are rounded up: floor(x + 1/2) in double precision.

A choice question has one bit a level, and so have bins and a threshold (below its cut, and from it on); the first level is
the reference, which has a bit and no column. A product with a choice has a column for every column of the choice. Where
that is not enough to find the reference's from (a product of a product; the product of a reference level alone) the
reference has a column like the others.

Back from z: each of the schema's own columns is a constant plus a linear combination of the z's. With M the matrix of
constants (for x_0 = 1) and coefficients, natural moments are M G M^T of the moments G of (1, z). The reference level of a
choice is 1 minus the other levels. A product of two such forms is one again, because (a + b z_1)(c + d z_2) = ac + ad z_2
+ bc z_1 + bd z_1 z_2 and the product z_1 z_2 has a column wherever it is needed.

Weights: further columns prove that every column of a report was multiplied by one root s. Beside the columns z_1..z_q a
report of a weighted study has s and s z_1..s z_q. s is linear in bits: for a table of weights it is the sum of s_k beta_k
over the choice's own bits beta_k, of which one is 1, so it is the root the study gives that level; for a weight that is
answered, bits of its own reach s_min..S and no other number. s z_j is the product T of two columns, and products of those
are s^2 z_j z_l: the check of products proves both. What is published is the sum of s^2 and its products
(docs/theory/verified-moments.md#weights).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trimask_core.basics.errors import ImpossibleStudy
from trimask_core.study.derived import ONES, Column, Derived
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.weight import Weight

ColumnKind = Literal["bounded", "level", "interval", "product", "log", "clipped", "root"]
CLIPPED = "clipped"
# One bit that costs 1/16 of |x|^2: a shrunk row has to make room for it. The noise on its sum is then 4 times a level's.
_CLIPPED_WIDTH = 4
_DEFAULT_STEPS = 1000
_DIVIDES = 1e-9


@dataclass(frozen=True, slots=True)
class MomentsColumn:
    """One column. `minimum + step (z + offset) / 2` is the value (for a product: z_a z_b, see `natural`)."""

    name: str
    kind: ColumnKind
    sources: tuple[str, ...]
    offset: int = 0
    width: int = 1
    largest: int = 1  # |z| <= largest for every answer
    minimum: float = 0.0
    step: float = 2.0
    steps: int = 1
    level: str | None = None
    first_bit: int = -1  # -1: a product has no bits
    weights: tuple[int, ...] = ()
    factors: tuple[int, int] | None = None  # columns a <= b of a product
    group: str = ""  # of the columns of one group at most one is not 0
    number: int = -1  # an interval's: the column of the number
    first: int = 0  # an interval's: its least answer in whole steps
    last: int = 0  # and its greatest

    @property
    def shrinks(self) -> bool:
        """Whether clipping moves it towards 0; products follow their factors."""
        return self.kind in ("bounded", "log")

    @property
    def least(self) -> int:
        """The least |z| a clipped row can have here: z keeps the parity of the offset. A chosen level stays."""
        return self.offset & 1 if self.shrinks else 1

    def holds(self, number: MomentsColumn, z: int) -> int:
        """Of an interval: 1 if the number's z is in it."""
        return int(self.first <= (z + number.offset) // 2 <= self.last)

    def answer(self, value: float) -> int:
        """The value in whole steps 0..steps, to the nearest."""
        return min(self.steps, max(0, _nearest((value - self.minimum) / self.step)))

    def value(self, z: float) -> float:
        """What a z stands for."""
        return self.minimum + self.step * (z + self.offset) / 2


def bit_weights(largest: int) -> tuple[int, ...]:
    """1, 2, 4, ... and a last one such that bits give exactly 0..largest, whatever it is."""
    if largest < 1:
        return ()
    powers = [1 << i for i in range(largest.bit_length() - 1)]
    return (*powers, largest - sum(powers))


def bits_of(number: int, weights: tuple[int, ...]) -> list[int]:
    """Bits that give the number; the last one is set only where the others are not enough."""
    if not weights:
        return []
    powers = len(weights) - 1
    last = int(number >= 1 << powers)
    rest = number - last * weights[-1]
    return [*(rest >> i & 1 for i in range(powers)), last]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What proves that a number is in the interval it says: bits of `above` and `below`.

    Why it does: docs/theory/verified-moments.md#intervals. With answer the number in whole steps, first_k and last_k
    those of interval k, and one bit beta_k an interval,
        answer - sum_k first_k beta_k = above >= 0,   sum_k last_k beta_k - answer = below >= 0.
    """

    number: int  # the column
    bits: tuple[int, ...]  # beta_k
    first: tuple[int, ...]
    last: tuple[int, ...]
    above: int  # the first bit
    below: int
    weights: tuple[int, ...]  # of either

    def rests(self, answer: int) -> tuple[int, int]:
        """`above` and `below` of an answer."""
        k = max(k for k, first in enumerate(self.first) if first <= answer)
        return answer - self.first[k], self.last[k] - answer


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of attributes and derived ones, the bits of each choice (reference first), comparisons, and all bits."""

    columns: tuple[MomentsColumn, ...]
    choices: tuple[tuple[int, ...], ...]
    comparisons: tuple[Comparison, ...]
    bits: int


def columns_of(schema: Schema) -> Columns:
    """What the attributes and derived columns of a schema become."""
    columns: list[MomentsColumn] = []
    choices: list[tuple[int, ...]] = []
    comparisons: list[Comparison] = []
    whole = _with_reference(schema)
    used = 0
    for attribute in schema.attributes:
        if attribute.kind == "categorical":
            choices.append(tuple(range(used, used + len(attribute.levels))))
            columns += [
                MomentsColumn(
                    f"{attribute.name}_{level}", "level", (attribute.name,),
                    level=level, first_bit=used + place, weights=(1,), group=attribute.name,
                )
                for place, level in enumerate(attribute.levels) if place or attribute.name in whole
            ]  # fmt: skip
            used += len(attribute.levels)
        else:
            columns.append(_bounded(attribute, used))
            used += len(columns[-1].weights)
    for derived in schema.derived:
        if derived.kind == "log":
            columns.append(_log(schema, derived, used))
            used += len(columns[-1].weights)
        elif derived.cuts:
            number = next(j for j, column in enumerate(columns) if column.name == derived.of[0])
            made = _intervals(derived, number, columns[number], used)
            names = [column.name for column in schema.parts[derived.name].columns]
            if derived.kind == "threshold":
                names = ["", *names]  # below the cut is the reference
            columns += [
                MomentsColumn(
                    name, "interval", (derived.name,), first_bit=made.bits[place], weights=(1,),
                    group=derived.name, number=number, first=made.first[place], last=made.last[place],
                )
                for place, name in enumerate(names) if place or derived.name in whole
            ]  # fmt: skip
            choices.append(made.bits)
            comparisons.append(made)
            used = made.below + len(made.weights)
        else:
            columns += _products(schema, derived, columns)
    return Columns(tuple(columns), tuple(choices), tuple(comparisons), used)


def _with_reference(schema: Schema) -> set[str]:
    """The choices whose reference level is a column too."""
    made = {derived.name: derived for derived in schema.derived}
    groups = {f"{name}_{levels[0]}": name for name, levels in schema.groups.items()}
    found: set[str] = set()
    # From the last on: what a product is formed of stands before it.
    for derived in reversed(schema.derived):
        for name in derived.of:
            if name in groups:
                found.add(groups[name])
            source = made.get(name)
            choice = schema.parts[name].kind == "choice"
            if choice and (derived.name in found or (source is not None and source.kind == "product")):
                found.add(name)
    return found


def _intervals(derived: Derived, number: int, column: MomentsColumn, bit: int) -> Comparison:
    """The intervals between the cuts, in the steps of the number's grid; a cut between steps counts from the next on."""
    cuts = [math.ceil((cut - column.minimum) / column.step - _DIVIDES) for cut in derived.cuts]
    first, last = (0, *cuts), (*(cut - 1 for cut in cuts), column.steps)
    if any(a > b for a, b in zip(first, last, strict=True)):
        raise ImpossibleStudy(
            "bad_grid",
            f"{derived.name}: an interval has no step of {derived.of[0]}'s grid in it; give wider ones or smaller steps",
        )
    bits = tuple(range(bit, bit + len(first)))
    weights = bit_weights(max(b - a for a, b in zip(first, last, strict=True)))
    above = bit + len(first)
    return Comparison(number, bits, first, last, above, above + len(weights), weights)


def _products(schema: Schema, derived: Derived, columns: list[MomentsColumn]) -> list[MomentsColumn]:
    """One number's, or one for every column of its choices: those of references are found from the others' (`natural`)."""
    places = {column.name: place for place, column in enumerate(columns)}
    parts = [schema.parts[name] for name in (derived.of[0], derived.of[-1])]
    if parts[0].kind == "number" and parts[1].kind == "choice":
        parts.reverse()  # as `Derived.part` has them: the choice's levels name the columns
    names = iter(schema.parts[derived.name].columns)
    found = []
    for one in parts[0].columns:
        for other in parts[1].columns:
            name = next(names).name
            if one.name not in places or other.name not in places:
                continue
            a, b = sorted((places[one.name], places[other.name]))
            found.append(
                MomentsColumn(
                    name, "product", derived.of, factors=(a, b),
                    width=columns[a].width * columns[b].width, largest=columns[a].largest * columns[b].largest,
                    group="" if schema.parts[derived.name].kind == "number" else derived.name,
                )
            )  # fmt: skip
    return found


def clipped_column(bit: int) -> MomentsColumn:
    """The column that says whether the device shrank the row to the ball."""
    return MomentsColumn(CLIPPED, "clipped", (), width=_CLIPPED_WIDTH, first_bit=bit, weights=(1,))


def _bounded(attribute: Attribute, bit: int) -> MomentsColumn:
    minimum, step, steps = _grid(attribute)
    offset = steps
    if attribute.centre is not None:
        offset = min(2 * steps, max(0, _nearest(2 * (attribute.centre - minimum) / step)))
    width = steps if attribute.scale is None else max(1, _nearest(2 * attribute.scale / step))
    return MomentsColumn(
        attribute.name, "bounded", (attribute.name,),
        offset=offset, width=width, largest=max(offset, 2 * steps - offset),
        minimum=minimum, step=step, steps=steps, first_bit=bit, weights=bit_weights(steps),
    )  # fmt: skip


def _grid(attribute: Attribute) -> tuple[float, float, int]:
    """The least answer, the step, and how many steps there are."""
    low, high = attribute.bounds
    if attribute.kind == "binary":
        return 0.0, 1.0, 1
    if attribute.kind == "integer":
        least, most = math.ceil(low), math.floor(high)
        if most <= least:
            raise ImpossibleStudy(
                "bad_grid", f"{attribute.name}: give minimum and maximum with at least two whole numbers"
            )
        return float(least), 1.0, most - least
    if attribute.step is None:
        return low, (high - low) / _DEFAULT_STEPS, _DEFAULT_STEPS
    ratio = (high - low) / attribute.step
    if not math.isfinite(ratio):
        raise ImpossibleStudy("bad_grid", f"{attribute.name}: step is too small for its range")
    steps = max(1, _nearest(ratio))
    if abs(ratio - steps) > _DIVIDES * steps:
        raise ImpossibleStudy(
            "bad_grid",
            f"{attribute.name}: step {attribute.step:.12g} does not divide the range from {low:g} to {high:g}; "
            f"the nearest step that does is {(high - low) / steps:.12g}",
        )
    return low, (high - low) / steps, steps


def _log(schema: Schema, derived: Derived, bit: int) -> MomentsColumn:
    source = next(attribute for attribute in schema.attributes if attribute.name == derived.of[0])
    low, high = derived.bounds([source.bounds])
    steps = _DEFAULT_STEPS
    return MomentsColumn(
        derived.name, "log", derived.of, offset=steps, width=steps, largest=steps,
        minimum=low, step=(high - low) / steps, steps=steps, first_bit=bit, weights=bit_weights(steps),
    )  # fmt: skip


def _nearest(value: float) -> int:
    return math.floor(value + 0.5)


@dataclass(frozen=True, slots=True)
class NaturalColumn:
    """value = constant + sum of coefficient * z_j over `terms` (j, coefficient)."""

    name: str
    constant: float
    terms: tuple[tuple[int, float], ...]

    def value(self, z: Sequence[float]) -> float:
        """Of one row, or of a mean of rows."""
        return self.constant + sum(coefficient * z[j] for j, coefficient in self.terms)


def natural_columns(schema: Schema, columns: Sequence[MomentsColumn]) -> tuple[NaturalColumn, ...]:
    """`one`, then the columns in the schema's order with every level, then `clipped` where there is one."""
    places = {column.name: j for j, column in enumerate(columns)}
    derived = {item.name: item for item in schema.derived}
    found = {ONES: NaturalColumn(ONES, 1.0, ())}
    for column in schema.columns:
        if column.source == ONES:
            continue
        made = derived.get(column.source)
        if made is not None and made.kind in ("product", "square"):
            found[column.name] = _product(column, made, schema, columns, found)
        elif column.name in places:
            found[column.name] = _linear(places[column.name], columns)
        else:
            others = [places[f"{column.source}_{level}"] for level in schema.groups[column.source][1:]]
            found[column.name] = NaturalColumn(column.name, 1.0, tuple((j, -1.0) for j in others))
    extra = [_linear(j, columns) for j, column in enumerate(columns) if column.kind == "clipped"]
    return (*found.values(), *extra)


def _linear(j: int, columns: Sequence[MomentsColumn]) -> NaturalColumn:
    return NaturalColumn(columns[j].name, columns[j].value(0), ((j, columns[j].step / 2),))


def _product(
    column: Column,
    derived: Derived,
    schema: Schema,
    columns: Sequence[MomentsColumn],
    found: dict[str, NaturalColumn],
) -> NaturalColumn:
    """The product of two forms; of a number within a level: of the level and (number - middle)."""
    parts = [schema.parts[derived.of[0]], schema.parts[derived.of[-1]]]
    if parts[0].kind == "number" and parts[1].kind == "choice":
        parts.reverse()
    at = schema.parts[derived.name].columns.index(column)
    first, second = (
        found[parts[0].columns[at // len(parts[1].columns)].name],
        found[parts[1].columns[at % len(parts[1].columns)].name],
    )
    pairs = {held.factors: j for j, held in enumerate(columns) if held.factors is not None}
    a, b = first.constant, second.constant - column.middle
    terms: dict[int, float] = {}
    for j, coefficient in first.terms:
        terms[j] = terms.get(j, 0.0) + coefficient * b
    for j, coefficient in second.terms:
        terms[j] = terms.get(j, 0.0) + coefficient * a
    for j, one in first.terms:
        for k, other in second.terms:
            if (min(j, k), max(j, k)) not in pairs:
                # z is measured from a centre: (z_1 + a)(z_2 + b) z_3 has z_1 z_3 and z_2 z_3 in it.
                missing = " and ".join(columns[at].group or columns[at].name for at in (j, k))
                raise ImpossibleStudy(
                    "bad_derived",
                    f"{derived.name}: declare the product of {missing} too; its values come from both",
                )
            place = pairs[min(j, k), max(j, k)]
            terms[place] = terms.get(place, 0.0) + one * other
    return NaturalColumn(column.name, a * b, tuple((j, part) for j, part in terms.items() if part))


ROOT = "weight"
"""What the column of s is called where a total does not fit."""


def choice_bits(schema: Schema, choices: Sequence[tuple[int, ...]]) -> Mapping[str, tuple[int, ...]]:
    """The bits of each choice and of each number's intervals, by its name."""
    names = [item.name for item in schema.attributes if item.kind == "categorical"]
    names += [item.name for item in schema.derived if item.cuts]
    return dict(zip(names, choices, strict=True))


def root_column(
    schema: Schema, weight: Weight, choices: Sequence[tuple[int, ...]], bit: int
) -> MomentsColumn:
    """s: from the bits of the table's choice, or from bits of its own, from `bit` on."""
    if weight.weights:
        bits = choice_bits(schema, choices)[weight.attribute]
        roots = tuple(weight.whole_root(schema, value) for value in weight.weights)
        return MomentsColumn(
            ROOT, "root", (weight.attribute,),
            width=weight.steps, largest=max(roots), first_bit=bits[0], weights=roots,
        )  # fmt: skip
    least = weight.whole_root(schema, weight.bounds(schema)[0])
    return MomentsColumn(
        ROOT, "root", (weight.attribute,), offset=-least,
        width=weight.steps, largest=weight.steps, first_bit=bit, weights=bit_weights(weight.steps - least),
    )  # fmt: skip


def weighted_columns(
    columns: Sequence[MomentsColumn], bounds: Sequence[int], root: MomentsColumn
) -> tuple[MomentsColumn, ...]:
    """s and s z_1..s z_q, which stand after z_1..z_q."""
    at = len(columns)
    products = [
        MomentsColumn(
            column.name, "product", (ROOT, column.name), factors=(j, at),
            width=column.width * root.width, largest=bound * root.largest,
        )
        for j, (column, bound) in enumerate(zip(columns, bounds, strict=True))
    ]  # fmt: skip
    return (root, *products)
