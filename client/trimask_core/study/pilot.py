"""What shrinking rows to `row_norm` takes from the second moments, by pilot rows: an average and its covariance, no rows.

Fixed when a study is made and signed with it, before the first answer, so that nobody can choose it by what was collected.
Devices do not need it. What it is and why intervals hold with it: docs/theory/verified-moments.md#pilot.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimask_core.basics.errors import ImpossibleStudy, StudyError

MOST_NUMBERS = 20_000
"""In `factors`: a study goes to every device."""

_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class PilotCorrection:
    """`mean` of d = x x^T - c c^T over `people` pilot rows x, shrunk to c, in the schema's scaled columns.

    Matrices are their entries j <= l, row by row. The covariance of `mean` is at most (sum of f f^T over `factors`)
    + `rest` I. Without pilot rows, `release` is the SHA-256 of the manifest of an earlier release of others, by
    whose moments people were drawn; they count as a pilot of `people`.
    """

    people: int
    mean: tuple[float, ...]
    factors: tuple[tuple[float, ...], ...]
    rest: float
    release: str = ""

    def check(self, columns: int, clipped: bool) -> None:
        """Refuse what is no correction of moments of so many columns, or is of a study that shrinks no row."""
        entries = columns * (columns + 1) // 2
        rows = (self.mean, *self.factors)
        numbers = [*(value for row in rows for value in row), self.rest]
        if any(isinstance(value, bool) or not isinstance(value, int | float) for value in numbers):
            raise StudyError("pilot: mean, factors and rest must be numbers")
        if isinstance(self.people, bool) or not isinstance(self.people, int) or self.people < 2:
            raise StudyError("pilot: people must be a whole number, 2 at least")
        if not clipped:
            raise ImpossibleStudy(
                "pilot", "pilot: no row is shrunk in this study; give a row_norm, or no pilot"
            )
        if any(len(row) != entries for row in rows) or len(numbers) > MOST_NUMBERS + entries + 1:
            raise ImpossibleStudy("pilot", f"pilot: mean and factors must have {entries} entries each")
        if self.release and not (isinstance(self.release, str) and _SHA256.fullmatch(self.release)):
            raise StudyError(
                "pilot: release must be the SHA-256 of a release's manifest, in hexadecimal digits"
            )
        if not all(map(math.isfinite, numbers)) or self.rest < 0:
            raise ImpossibleStudy("pilot", "pilot: numbers must be finite, and rest not negative")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "people": self.people,
            "mean": list(self.mean),
            "factors": [list(row) for row in self.factors],
            "rest": self.rest,
            **({"release": self.release} if self.release else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PilotCorrection:
        """Read what `to_dict` wrote."""
        factors = tuple(tuple(row) for row in data["factors"])
        return cls(data["people"], tuple(data["mean"]), factors, data["rest"], data.get("release", ""))
