"""Weights in the moments suite: the columns that prove that every column of a report was multiplied by one root s.

Beside the columns z_1..z_q a report of a weighted study has s and s z_1..s z_q. s is linear in bits: for a table of
weights it is the sum of s_k beta_k over the choice's own bits beta_k, of which one is 1, so it is the root the study
gives that level; for a weight that is answered, bits of its own reach s_min..S and no other number. s z_j is the product
T of two columns, and products of those are s^2 z_j z_l: the check of products proves both. What is published is the sum
of s^2 and its products (docs/theory/verified-moments.md#weights).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trimask_core.moments.column import MomentsColumn, bit_weights
from trimask_core.schema import Schema
from trimask_core.weight import Weight

__all__ = ["ROOT", "choice_bits", "root_column", "weighted_columns"]

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
