"""The integer grid on which rows and components live.

A value is stood for by a whole number of steps of 2^exponent. Components have scale s, and float64 counts exactly
to 2^53, so the step is chosen to leave the widest component twelve standard deviations below 2^52
(docs/theory/collection.md#grid): exponent = ceil(log2(12 s sqrt(K1 - 1) 2^-52)). The last component is a row minus the
sum of K1 - 1 Gaussians, hence the square root.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimask_core.errors import ParameterError, VerificationError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["COARSEST_EXPONENT", "EXACT_INTEGERS", "Grid", "grid_exponent"]

EXACT_INTEGERS = 1 << 53
COARSEST_EXPONENT = -12
"""Answers are scaled to [-1, 1]; a grid coarser than 2^-12 would blur them more than a questionnaire does."""
_DEVIATIONS = 12


def grid_exponent(share_scale: float, right_providers: int) -> int:
    """The finest exponent with twelve standard deviations of headroom."""
    widest = _DEVIATIONS * share_scale * math.sqrt(max(1, right_providers - 1))
    # ceil(log2(widest)) by frexp, which no two machines evaluate differently: a phone repeats this.
    mantissa, exponent = math.frexp(widest)
    return exponent - (mantissa == 0.5) - 52


@dataclass(frozen=True, slots=True)
class Grid:
    """Multiples of 2^exponent."""

    exponent: int

    @property
    def step(self) -> float:
        """The distance between neighbouring values."""
        return 2.0**self.exponent

    def round(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The nearest grid points, as integers. Non-finite or too large values raise; nothing wraps."""
        import numpy as np  # imported here and below: a device does not need numpy

        steps = np.rint(np.ldexp(np.asarray(values, dtype=np.float64), -self.exponent))
        if not np.all(np.abs(steps) < EXACT_INTEGERS):  # also false for NaN
            raise VerificationError("a value does not fit the integer grid")
        return steps.astype(np.int64)

    def round_one(self, value: float) -> int:
        """The nearest grid point to one value."""
        return self._one(value, round)

    def truncate_one(self, value: float) -> int:
        """The next grid point from one value towards zero: no norm grows."""
        return self._one(value, math.trunc)

    def _one(self, value: float, whole: Callable[[float], int]) -> int:
        try:
            scaled = math.ldexp(value, -self.exponent)
        except OverflowError:
            scaled = math.inf
        if (
            not abs(scaled) < EXACT_INTEGERS
        ):  # also false for NaN; above 2^52 a float is whole, so rounding stays below
            raise VerificationError("a value does not fit the integer grid")
        return whole(scaled)

    def steps_up(self, value: float) -> int:
        """The least whole number of steps >= value."""
        if not value > 0:
            raise ParameterError("value", "> 0", value)
        return math.ceil(math.ldexp(value, -self.exponent))

    def to_float(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """The values the integers stand for; exact, since every |integer| < 2^53."""
        import numpy as np

        return np.ldexp(steps.astype(np.float64), self.exponent)
