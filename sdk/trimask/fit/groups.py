"""Groups as combinations of columns: one on the members of a level, zero on everybody else.

A group is a categorical attribute, bins, or a product of those, whose levels are columns; or a yes-or-no attribute or a
threshold b, scaled to -1 and 1, whose members are (one + b) / 2 and (one - b) / 2. Counts, group sums and
cross-tabulations are then entries of combinations of the Gram matrix; since moments agree with what the schema knows,
counts of levels add up to the number of people.
"""

from __future__ import annotations

import re

import numpy as np

from trimask.errors import FormulaError
from trimask.fit.formula import nearest
from trimask.moments import Matrix
from trimask_core.schema import ONES, Schema

__all__ = ["group_names", "membership", "plain_name", "unit"]

_CALL = re.compile(r"C\(\s*([A-Za-z]\w*)\s*\)")


def plain_name(name: str) -> str:
    """A group's name, also where it is written C(group)."""
    found = _CALL.fullmatch(name.strip())
    return name if found is None else found[1]


def group_names(schema: Schema) -> list[str]:
    """What can be a group."""
    return [
        *schema.groups,
        *(item.name for item in schema.attributes if item.kind == "binary"),
        *_thresholds(schema),
    ]


def _thresholds(schema: Schema) -> list[str]:
    return [item.name for item in schema.derived if item.kind == "threshold"]


def unit(schema: Schema, name: str) -> Matrix:
    """The combination that is one column alone."""
    names = [column.name for column in schema.columns]
    found: Matrix = np.eye(len(names))[names.index(name)]
    return found


def membership(group: str, schema: Schema) -> tuple[list[str], Matrix]:
    """The levels, and the combinations of columns (a row a level) that are one on their members."""
    if not schema.ones:
        raise FormulaError("this study has no ones column, so groups cannot be counted")
    group = plain_name(group)
    known = group_names(schema)
    if group not in known:
        hint = nearest(group, known) if known else "it has none"
        raise FormulaError(f"this study has no group {group}; {hint}")
    if group not in schema.groups:
        one, yes = unit(schema, ONES), unit(schema, group)
        return ["no", "yes"], np.array([one - yes, one + yes]) / 2
    levels = schema.groups[group]
    return list(levels), np.array([unit(schema, f"{group}_{level}") for level in levels])
