"""From z back to the schema's own columns: each of them is a constant plus a linear combination of the z's.

With M the matrix of constants (for x_0 = 1) and coefficients, natural moments are M G M^T of the moments G of (1, z).
A product of values is such a combination because (a + b z_1)(c + d z_2) = ac + ad z_2 + bc z_1 + bd z_1 z_2, and the
reference level of a choice is 1 minus the other levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimask_core.moments.column import MomentsColumn
from trimask_core.schema import ONES, Schema

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
    found = [NaturalColumn(ONES, 1.0, ())]
    places = {column.name: j for j, column in enumerate(columns)}
    for attribute in schema.attributes:
        if attribute.kind == "categorical":
            levels = [places[f"{attribute.name}_{level}"] for level in attribute.levels[1:]]
            found.append(
                NaturalColumn(
                    f"{attribute.name}_{attribute.levels[0]}", 1.0, tuple((j, -1.0) for j in levels)
                )
            )
            found += [NaturalColumn(columns[j].name, 0.0, ((j, 1.0),)) for j in levels]
        else:
            found.append(_linear(places[attribute.name], columns))
    for j, column in enumerate(columns):
        if column.factors is not None:
            found.append(_product(j, column.factors, columns))
        elif column.kind in ("log", "clipped"):
            found.append(_linear(j, columns))
    return tuple(found)


def _linear(j: int, columns: Sequence[MomentsColumn]) -> NaturalColumn:
    return NaturalColumn(columns[j].name, columns[j].value(0), ((j, columns[j].step / 2),))


def _product(j: int, factors: tuple[int, int], columns: Sequence[MomentsColumn]) -> NaturalColumn:
    a, b = factors
    start_a, slope_a = columns[a].value(0), columns[a].step / 2
    start_b, slope_b = columns[b].value(0), columns[b].step / 2
    linear = ((a, 2 * start_a * slope_a),) if a == b else ((a, start_b * slope_a), (b, start_a * slope_b))
    return NaturalColumn(columns[j].name, start_a * start_b, (*linear, (j, slope_a * slope_b)))
