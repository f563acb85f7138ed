"""Coefficients from scaled to original units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimask_core.schema import ONES, Column

__all__ = ["original_units"]

Array = NDArray[np.float64]


def original_units(scaled: Array, features: Sequence[Column], response: Column) -> tuple[Array, str]:
    """Coefficients for values as answered, and the units they are in.

    y = c + h y', x_j = c_j + h_j x_j': slopes are h b_j / h_j and the intercept takes the centres in. Without an
    intercept centres that are not 0 have no place to go, and the coefficients stay scaled.
    """
    names = [column.name for column in features]
    if ONES not in names and (response.center or any(column.center for column in features)):
        return scaled, "scaled"
    slopes = np.array(
        [response.half_range * b / column.half_range for b, column in zip(scaled, features, strict=True)]
    )
    if ONES in names:
        moved = sum(slope * column.center for slope, column in zip(slopes, features, strict=True))
        slopes[names.index(ONES)] += response.center - moved
    return slopes, "original"
