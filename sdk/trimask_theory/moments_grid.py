"""The noise of verified moments in whole steps: each provider's deviation an entry, its room in the field, its variance.

A total of z_j z_l is a whole number. It is published on the grid of 2^-shift of a step, so that a deviation rounded up to
whole numbers stays within 0.4 % of what was asked for where a step is coarse (levels of a choice have w = 1): shares of the
total are multiplied by 2^shift, a rounded Gaussian of whole deviation is added, and the collector divides. First moments
are the row of x_0 = 1, whose width is 1.

Room. Numbers are decoded in (-P/2, P/2), P = 2^61 - 1. |2^shift total + noise| stays below 2^59 unless the noise of all
providers together is beyond 12 of its deviations: probability below 4e-33 an entry (a normal tail; the roundings add at
most half a step a provider, which is counted).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trimask_core.errors import ImpossibleStudy, ParameterError
from trimask_theory import _checks
from trimask_theory.moments_noise import SMALLEST

__all__ = ["EntryNoise", "check_overflow", "entries", "entry_noise", "entry_sigma"]

_FINE = 256
"""Deviations of at least this many steps: rounding one up adds less than 0.4 %."""
_DEVIATIONS = 12
_ROOM = 2**59


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
        return math.ldexp(
            _checks.whole("providers", providers, 1) * (self.sigma**2 + 1 / 12), -2 * self.shift
        )


def _asked(sigma: float, w_j: int, w_l: int, honest: int, diagonal: bool) -> float:
    widths = _checks.whole("w_j", w_j, 1) * _checks.whole("w_l", w_l, 1)
    share = _checks.whole("honest", honest, 1) * (1 if diagonal else 2)
    # The last factor is above the roundings of this line.
    return _checks.positive("sigma", sigma) * widths / math.sqrt(share) * (1 + 2.0**-48)


def entry_sigma(sigma: float, w_j: int, w_l: int, honest: int, diagonal: bool, shift: int = 0) -> int:
    """A provider's whole deviation, in 2^-shift steps: sigma w_j w_l / sqrt(h), off the diagonal over sqrt(2), rounded up.

    Never below 4, which the guarantee of several honest providers counts on (`rounded_sum`).
    """
    whole = math.ceil(math.ldexp(_asked(sigma, w_j, w_l, honest, diagonal), _checks.whole("shift", shift, 0)))
    return max(SMALLEST, whole)


def entry_noise(sigma: float, w_j: int, w_l: int, honest: int, diagonal: bool) -> EntryNoise:
    """A provider's noise with the smallest shift at which its deviation is 256 or more."""
    asked = _asked(sigma, w_j, w_l, honest, diagonal)
    shift = max(0, math.ceil(math.log2(_FINE / asked)))
    return EntryNoise(entry_sigma(sigma, w_j, w_l, honest, diagonal, shift), shift)


def entries(sigma: float, widths: Sequence[int], honest: int) -> Iterator[tuple[int, int, EntryNoise]]:
    """(j, l, noise) for j <= l <= q; column 0 is the constant, whose own entry, the number of people, has none."""
    given = (1, *widths)
    for j, w_j in enumerate(given):
        for index in range(max(j, 1), len(given)):
            yield j, index, entry_noise(sigma, w_j, given[index], honest, j == index)


def check_overflow(
    widths: Sequence[int], largest: Sequence[int], rows: int, sigma: float, providers: int, honest: int = 1,
    names: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Refuse a study whose totals or noise may not fit the field; `largest` are the largest |z_j| of a record."""
    if len(widths) != len(largest) or (names is not None and len(names) != len(widths)):
        raise ParameterError("largest", f"one number a column, {len(widths)} of them", len(largest))
    rows, providers = _checks.whole("rows", rows, 1), _checks.whole("providers", providers, 1)
    most = (1, *(_checks.whole("largest", z, 0) for z in largest))
    called = ("1", *(names or (f"column {j}" for j in range(1, len(most)))))
    for j, index, noise in entries(sigma, widths, honest):
        total = rows * most[j] * most[index] << noise.shift
        far = math.ceil(_DEVIATIONS * math.sqrt(providers) * noise.sigma) + providers
        if total + far >= _ROOM:
            what = f"{called[index]}" if j == 0 else f"{called[j]} times {called[index]}"
            fix = (
                "make their steps coarser, leave out derived products, or ask fewer people"
                if total > far
                else "make their steps coarser or the ball (row_norm) smaller, or raise epsilon"
            )
            raise ImpossibleStudy(
                "overflow",
                f"the sum of {what} over {rows:,} people with its noise can reach {float(total + far):.2g}, beyond the "
                f"2^59 that the field has room for: {fix}",
            )
