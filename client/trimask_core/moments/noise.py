"""The noise of each right provider on each total, in whole numbers.

In the coordinates of the Frobenius norm the noise is isotropic: deviation sigma on the diagonal of the scaled moments and
sigma/sqrt(2) off it, where first moments are the row of x_0 = 1. A total of whole numbers z_j z_l is w_j w_l times the
scaled one. Any h honest providers together have the deviation sigma, so each adds sigma/sqrt(h).

A total is published on the grid of 2^-shift of a step, so that a deviation rounded up to whole numbers stays within 0.4 %
of what was asked for where a step is coarse (levels of a choice have w = 1): shares of the total are multiplied by
2^shift, a rounded Gaussian of whole deviation is added, and the reader of the sum divides. A study without noise has no
shift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["SMALLEST", "EntryNoise", "entry_noise", "release_noise"]

SMALLEST = 4
"""No provider's noise on an entry has a smaller deviation: the guarantee of several honest providers counts on it."""
_FINE = 256
"""Deviations of at least this many steps: rounding one up adds less than 0.4 %."""


@dataclass(frozen=True, slots=True)
class EntryNoise:
    """One provider's noise on one entry: a rounded Gaussian of whole `sigma`, in units of 2^-shift of a step."""

    sigma: int
    shift: int

    @property
    def deviation(self) -> float:
        """The standard deviation in whole steps of the total, without the rounding's 1/12."""
        return math.ldexp(self.sigma, -self.shift)

    def variance(self, providers: int) -> float:
        """The variance of the published entry, in squared steps: every provider's noise and its rounding.

        A rounded Gaussian has variance sigma^2 + 1/12, up to a term of exp(-2 pi^2 sigma^2).
        """
        if not self.sigma:
            return 0.0
        return math.ldexp(providers * (self.sigma**2 + 1 / 12), -2 * self.shift)


def entry_noise(sigma: float, width: int, other: int, honest: int, diagonal: bool) -> EntryNoise:
    """One provider's noise on the total of z_j z_l, rounded up, with the smallest shift at which it is 256 or more."""
    if sigma == 0:
        return EntryNoise(0, 0)
    # The last factor is above the roundings of this line.
    asked = sigma * width * other / math.sqrt(honest * (1 if diagonal else 2)) * (1 + 2.0**-48)
    shift = max(0, math.ceil(math.log2(_FINE / asked)))
    return EntryNoise(max(SMALLEST, math.ceil(math.ldexp(asked, shift))), shift)


def release_noise(widths: Sequence[int], sigma: float, honest: int) -> list[EntryNoise]:
    """The noise of a release's totals: z_1..z_q (the row of x_0, whose width is 1), then the products, row by row."""
    first = [entry_noise(sigma, width, 1, honest, diagonal=False) for width in widths]
    return first + [
        entry_noise(sigma, width, other, honest, diagonal=place == 0)
        for j, width in enumerate(widths)
        for place, other in enumerate(widths[j:])
    ]
