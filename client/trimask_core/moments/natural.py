"""From z back to the schema's own columns: each of them is a constant plus a linear combination of the z's.

With M the matrix of constants (for x_0 = 1) and coefficients, natural moments are M G M^T of the moments G of (1, z).
The reference level of a choice is 1 minus the other levels. A product of two such forms is one again, because
(a + b z_1)(c + d z_2) = ac + ad z_2 + bc z_1 + bd z_1 z_2 and the product z_1 z_2 has a column wherever it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimask_core.errors import ImpossibleStudy
from trimask_core.moments.column import MomentsColumn
from trimask_core.schema import ONES, Column, Derived, Schema

__all__ = ["NaturalColumn", "natural_columns"]


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
