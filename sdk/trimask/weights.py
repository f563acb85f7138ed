"""Moments of rows that devices weighted: how many people they are worth, and on which scale fits read them.

Statement (docs/theory/collection.md#weights). A weighted release has G = sum of u x x^T over people, u = w / w_max. Fits
read it scaled to Kish's effective number of people, n_eff = (sum u)^2 / sum u^2, as `fit.weighted` does: estimates are
weighted least squares', whatever the scale, and sampling errors are taken at n_eff. **Approximate**: right where weights
have nothing to do with the residuals' spread; a design-based (sandwich) error needs fourth moments, which nobody
published. The noise of the two sums is left out of the scale (second order), and n_eff is held between N and the least
that the study's bounds allow.

sum u^2 is a combination of G's own entries: sum_l u_l <l, l> for a table by levels, and <one, w> / w_max where the weight
is an attribute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trimask_core.schema import ONES

if TYPE_CHECKING:
    from trimask_core.schema import Schema
    from trimask_core.weight import Weight
    from trimask_theory.noise_law import Matrix

__all__ = ["effective", "weighted_label"]


def effective(weight: Weight, schema: Schema, gram: Matrix, people: int) -> tuple[int, float]:
    """n_eff of a weighted Gram matrix in scaled units, and the factor that brings the matrix to it."""
    names = [column.name for column in schema.columns]
    one = names.index(ONES)
    low, high = weight.bounds(schema)
    total = float(np.clip(gram[one, one], people * low / high, people))
    if weight.weights:
        places = {
            names.index(f"{weight.attribute}_{level}"): used / high
            for level, used in weight.table(schema).items()
        }
        squares = sum(share * float(gram[at, at]) for at, share in places.items())
    else:
        at = names.index(weight.attribute)
        column = schema.columns[at]
        squares = float(column.center * gram[one, one] + column.half_range * gram[one, at]) / high
    least = people / weight.design_effect(schema)
    found = float(np.clip(total**2 / squares if squares > 0 else people, least, people))
    rows = max(1, round(found))
    return rows, rows / total


def weighted_label(label: str, weight: Weight, rows: int, people: int) -> str:
    """What results say they are of, and what their errors are not: every summary has it."""
    worth = f"{rows:,} of {people:,} people in effect; errors are at that number, and not design-based"
    return f"{label}, weighted by {weight.attribute} ({worth})".lstrip(", ")
