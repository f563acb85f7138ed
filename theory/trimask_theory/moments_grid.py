"""The room that totals and their noise have in the field (`trimask_core.moments.noise` has the noise itself).

Room. Numbers are decoded in (-P/2, P/2), P = 2^61 - 1. |2^shift total + noise| stays below 2^59 unless the noise of all
providers together is beyond 12 of its deviations: probability below 4e-33 an entry (a normal tail; the roundings add at
most half a step a provider, which is counted).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from trimask_core.errors import ImpossibleStudy, ParameterError
from trimask_core.moments.noise import EntryNoise, entry_noise
from trimask_theory import _checks

__all__ = ["check_overflow", "entries"]

_DEVIATIONS = 12
_ROOM = 2**59


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
