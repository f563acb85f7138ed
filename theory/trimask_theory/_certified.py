"""Which enclosure a masked release asks for: one dominating pair, or cells that cover the pairs that can be worst.

Basis: proved, given that ball arithmetic encloses what it says. Derivation: docs/sharp-calibration.md#enclosure.
"""

from __future__ import annotations

import math

from trimask_core.errors import ParameterError
from trimask_theory._enclosure import LARGEST_DEGREES, enclose, require_flint
from trimask_theory._unit_enclosure import UnitSetting, enclose_unit

__all__ = ["LARGEST_OF_CELLS", "WIDTHS", "enclosed"]

WIDTHS = {"record": 1e-3, "unit": 1e-2}
"""How wide an enclosure of delta may be, as a part of it, if nothing else is asked for."""

LARGEST_OF_CELLS = 100_000
"""Beyond it nearly parallel rows ask for continued fractions of millions of steps, or their delta is not told from one."""


def enclosed(
    epsilon: float, m: int, row_norm: float, distance: float, sigma: float,
    one_attribute: bool, about: float, width: float,
) -> tuple[float, float]:  # fmt: skip
    """(lower, upper) of delta for rows of norm at most `row_norm` within `distance`; `about` is log delta, about."""
    flint = require_flint()
    # Every pair of rows is then allowed, as in `_worst_pair.family`.
    if distance >= (1.0 if one_attribute else math.sqrt(2)) * row_norm:
        return enclose(epsilon, m, row_norm, sigma, one_attribute, about, width)
    largest = LARGEST_DEGREES if one_attribute else LARGEST_OF_CELLS
    if m > largest:
        raise ParameterError(
            "rows", f"at most about {largest:,} with certified=True and 'unit' neighbours", m
        )
    setting = UnitSetting(epsilon, m, row_norm, distance, sigma, one_attribute)
    return enclose_unit(flint, setting, width)
