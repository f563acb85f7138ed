"""Counts of people by the declared bins of a number, whole or in a group: what histograms, quantiles and life tables are of.

Bins are a choice: column `b_k` is 1 on the members of interval k. With u_k that combination of columns, <one, u_k> counts
them and <y, u_k> those of them with y = 1. Within a level of a group the members are the declared product of group and bins;
of a yes-or-no group, (bin + product) / 2 and (bin - product) / 2 of the scaled product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trimask.errors import FormulaError, ParameterError
from trimask.fit.formula import nearest
from trimask.fit.groups import group_names, membership, plain_name, unit
from trimask.fit.transform import contents, product_lines, undeclared
from trimask.moments import Matrix, Moments
from trimask_core.schema import Derived, Schema

__all__ = ["Bins", "bins_of"]


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins, their edges (with the number's bounds at the ends), and the members of each, a row an interval.

    A whole number stands for the unit that begins with it: the last edge of an integer is 1 above its `highest`.
    """

    name: str
    of: str
    unit: str
    levels: tuple[str, ...]
    edges: Matrix
    highest: float
    members: dict[str, Matrix]

    @property
    def words(self) -> list[str]:
        """[18, 40), [40, 65), [65, 90]."""
        ends = [*(f"{edge:g}" for edge in self.edges[:-1]), f"{self.highest:g}"]
        last = len(ends) - 2
        return [f"[{ends[k]}, {ends[k + 1]}{']' if k == last else ')'}" for k in range(last + 1)]


def bins_of(moments: Moments, name: str, by: str | None = None) -> Bins:
    """The bins of this name, or the only ones of a number; with `by` the members of each interval in each level."""
    schema = moments.schema
    declared = _declared(schema, plain_name(name))
    attribute = next(item for item in schema.attributes if item.name == declared.of[0])
    low, high = attribute.bounds
    edges = np.array([low, *declared.cuts, high + (attribute.kind == "integer")])
    if edges[-1] <= edges[-2]:
        raise ParameterError("bins", f"with a last cut below {high:g}", declared.name)
    levels, whole = membership(declared.name, schema)
    members = {"": whole} if by is None else _within(schema, declared, plain_name(by), whole)
    return Bins(declared.name, attribute.name, attribute.unit, tuple(levels), edges, high, members)


def _declared(schema: Schema, name: str) -> Derived:
    bins = [item for item in schema.derived if item.kind == "bins"]
    for item in bins:
        if item.name == name:
            return item
    same = [item for item in bins if item.of[0] == name]
    if len(same) == 1:
        return same[0]
    if same:
        raise ParameterError("bins", f"one of {', '.join(item.name for item in same)}", name)
    if name in [item.name for item in schema.attributes if item.kind in ("continuous", "integer")]:
        low, high = next(item.bounds for item in schema.attributes if item.name == name)
        cuts = ", ".join(f"{low + (high - low) * k / 4:g}" for k in (1, 2, 3))
        toml = (
            f'[[derived]]\nname = "{name}_bins"\nkind = "bins"\nof = ["{name}"]\ncuts = [{cuts}]  # your own'
        )
        raise FormulaError(f"the study declares no bins of {name}; {undeclared('', None)}:\n\n{toml}\n")
    known = [item.name for item in bins]
    raise FormulaError(
        f"this study has no bins {name}; " + (nearest(name, known) if known else "it declares none")
    )


def _within(schema: Schema, bins: Derived, by: str, whole: Matrix) -> dict[str, Matrix]:
    if by not in group_names(schema):
        raise FormulaError(f"this study has no group {by}; {nearest(by, group_names(schema))}")
    known = contents(schema)
    keys = {name: key for key, name in known.items()}
    names = [f"{bins.name}_{level}" for level in bins.levels]

    def product(one: str, other: str) -> Matrix:
        found = known.get(tuple(sorted((*keys[one], *keys[other]))))
        if found is None:
            raise FormulaError(
                f"{bins.name} by {by} needs their product; {undeclared('', None)}:\n\n"
                f"{product_lines((by, bins.name), schema)}\n"
            )
        return unit(schema, found)

    if by in schema.groups:
        return {
            level: np.array([product(f"{by}_{level}", name) for name in names]) for level in schema.groups[by]
        }
    signed = np.array([product(by, name) for name in names])
    return {"no": (whole - signed) / 2, "yes": (whole + signed) / 2}
