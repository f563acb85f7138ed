"""The columns a question is about: their places, the norm of a row among them, and whether they can be told apart.

Everything here follows from the signed study, never from the data: a refusal on these grounds reveals nothing about
anybody and costs nothing.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_core.rows.rotation import Matrix
from trimask_core.schema import ONES, Column
from trimask_core.study import Study

__all__ = ["Selection", "refuse_collinear", "require_known", "select"]


@dataclass(frozen=True)
class Selection:
    """Columns of a study. `row_norm` bounds a row's norm among them, rounding to the grid included."""

    columns: tuple[Column, ...]
    places: tuple[int, ...]
    row_norm: float
    rounding: float

    @property
    def names(self) -> list[str]:
        """Their names, in the order asked for."""
        return [column.name for column in self.columns]

    def of(self, factor: Matrix) -> Matrix:
        """Their part of the factor."""
        return factor[:, list(self.places)]

    def gram(self, factor: Matrix) -> Matrix:
        """Their Gram matrix X^T X, in scaled units."""
        part = self.of(factor)
        return part.T @ part

    def ranges(self) -> Matrix:
        """The width of each column's range, in original units."""
        # An indicator is 0 or 1, everything else is scaled from its range to [-1, 1].
        widths = [1.0 if column.level is not None else 2 * column.half_range for column in self.columns]
        return np.array(widths) * (1 + 2 * self.rounding) ** 2


def _rounding(study: Study) -> float:
    """How far a row can be moved by the roundings on its way: the device's, and one a component when it is unmasked."""
    return (1 + len(study.right)) * math.sqrt(study.rows.columns) * study.rows.grid.step / 2


def select(study: Study, names: Sequence[str]) -> Selection:
    """The named columns; refused with what there is when a name is unknown or given twice."""
    columns = study.schema.columns
    places = {column.name: place for place, column in enumerate(columns)}
    require_known(names, list(places))
    chosen = tuple(columns[places[name]] for name in names)
    # As in Schema.row_norm: of a group's columns one at most is not 0, and no column is above 1.
    groups = {column.source for column in chosen if column.exclusive}
    free = sum(not column.exclusive for column in chosen)
    norm = min(study.protection.row_norm, math.sqrt(free + len(groups)))
    rounding = _rounding(study)
    return Selection(chosen, tuple(places[name] for name in names), norm + rounding, rounding)


def require_known(names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names a study does not have, none at all, and one given twice."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
            raise Refused(Reason.UNKNOWN_COLUMN, f"this study has no column {name!r}; {hint}")
    if len(set(names)) != len(names) or not names:
        raise Refused(Reason.COLLINEAR_COLUMNS, "name at least one column, and each only once")


def refuse_collinear(study: Study, chosen: Sequence[str]) -> None:
    """Refuse columns that are linear combinations of each other whatever is answered.

    The indicators of a categorical attribute add up to the ones column; so two whole groups, or one and the ones
    column, hold the same constant twice.
    """
    names = set(chosen)
    whole_groups = [
        group
        for group, levels in study.schema.groups.items()
        if names.issuperset(f"{group}_{level}" for level in levels)
    ]
    constants = ([ONES] if ONES in names else []) + whole_groups
    if len(constants) > 1:
        raise Refused(
            Reason.COLLINEAR_COLUMNS,
            f"{' and '.join(constants)} hold the same constant: leave one level of {constants[-1]} out",
        )
