"""Clipping to an ellipsoid on the device, as Algorithm 3 of the private-sum paper needs it (docs/theory/mechanisms.md#sums).

A study may declare columns that are about normal, with a public centre and public standard deviations. Before a row is
rounded and masked, the device looks at z_j = b_j (x_j - centre_j), b_j = 1/sqrt(sigma_j sum sigma), over those columns;
if |z| > C the values are moved towards the centre, in a straight line, until |z| = C. One person can then move a sum by
2 C in those units, however wide the declared ranges are. The values stay inside their ranges, because the centre is
inside; the declaration is part of the signed study, so a device clips by what every party agreed to and by nothing else.

No numpy: a phone does this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimask_core.errors import ImpossibleStudy, StudyError
from trimask_core.schema import ONES, Column, Schema

__all__ = ["Clipping"]


@dataclass(frozen=True)
class Clipping:
    """Columns with their public `centre` and `deviations` in original units, and the `radius` C of the ball."""

    columns: tuple[str, ...]
    centre: tuple[float, ...]
    deviations: tuple[float, ...]
    radius: float

    def __post_init__(self) -> None:
        numbers = (*self.centre, *self.deviations, self.radius)
        if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in numbers):
            raise StudyError("clipping: centre, deviations and radius must be numbers")
        if not (len(self.columns) == len(self.centre) == len(self.deviations) > 0):
            raise StudyError("clipping: give each column one centre and one deviation")
        if len(set(self.columns)) != len(self.columns):
            raise ImpossibleStudy("clipping", "clipping names a column twice")
        if not all(map(math.isfinite, numbers)) or not all(
            value > 0 for value in (*self.deviations, self.radius)
        ):
            raise ImpossibleStudy("clipping", "clipping needs finite numbers, deviations and radius above 0")

    @property
    def scaling(self) -> tuple[float, ...]:
        """b_j = 1/sqrt(sigma_j sum sigma), Lemma 4.1's."""
        total = math.fsum(self.deviations)
        return tuple(1 / math.sqrt(deviation * total) for deviation in self.deviations)

    def check(self, schema: Schema) -> None:
        """Refuse columns that are not there or are no numbers, and a centre outside a column's range."""
        known = {column.name: column for column in schema.columns}
        for name, centre in zip(self.columns, self.centre, strict=True):
            column = known.get(name)
            if column is None or name == ONES or column.level is not None:
                raise ImpossibleStudy("clipping", f"clipping: {name!r} is not a numeric column of this study")
            if abs(centre - column.center) > column.half_range:
                low, high = column.center - column.half_range, column.center + column.half_range
                raise ImpossibleStudy(
                    "clipping", f"clipping: the centre of {name} must be between {low:g} and {high:g}"
                )

    def apply(self, columns: Sequence[Column], row: Sequence[float]) -> list[float]:
        """The scaled row with its declared columns inside the ball."""
        places = {column.name: place for place, column in enumerate(columns)}
        chosen = [(places[name], columns[places[name]]) for name in self.columns]
        # Scaled values have x = center + half_range x'; the ball in them has its own centre and weights.
        middle = [
            (c - column.center) / column.half_range
            for c, (_, column) in zip(self.centre, chosen, strict=True)
        ]
        weights = [b * column.half_range for b, (_, column) in zip(self.scaling, chosen, strict=True)]
        away = [row[place] - m for m, (place, _) in zip(middle, chosen, strict=True)]
        norm = math.sqrt(math.fsum((w * a) * (w * a) for w, a in zip(weights, away, strict=True)))
        clipped = list(row)
        if norm > self.radius:
            keep = self.radius / norm
            for (place, _), m, a in zip(chosen, middle, away, strict=True):
                clipped[place] = m + keep * a
        return clipped

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "columns": list(self.columns),
            "centre": list(self.centre),
            "deviations": list(self.deviations),
            "radius": self.radius,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Clipping:
        """Read what `to_dict` wrote."""
        lists = {name: tuple(data[name]) for name in ("columns", "centre", "deviations")}
        return cls(**{**data, **lists})
