"""Speed of the noise calibrations: (name, what to time, limit in milliseconds)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from trimask_theory.gaussian import local_noise
from trimask_theory.masking import masked_noise

__all__ = ["cases"]

_TARGETS = ((1e-3, 1e-12), (1.0, 1e-6), (20.0, 1e-2))
_SIZES = ((4, 2), (16, 6), (1_000, 5), (10**7, 20))


def cases() -> list[tuple[str, Callable[[], object], float]]:
    """Small and large, at the corners of the range of epsilon and delta."""
    found: list[tuple[str, Callable[[], object], float]] = []
    for epsilon, delta in _TARGETS:
        what = f"epsilon {epsilon:g}, delta {delta:g}"
        found.append((f"analytic Gaussian, {what}", partial(local_noise.calibrate, epsilon, delta), 1.0))
        for rows, attributes in _SIZES:
            asked = partial(masked_noise.calibrate, epsilon, delta, rows, attributes)
            size = f"{rows} x {attributes}, {what}"
            found.append((f"theorem 3.4, {size}", partial(asked, method="theorem"), 5.0))
            found.append((f"bound, {size}", partial(asked, method="bound"), 5.0))
            found.append((f"sharp record, {size}", partial(asked, protect="record"), 100.0))
            # A curve of pairs covered by cells: hundreds of integrals where a record has one.
            found.append((f"sharp unit, {size}", partial(asked, protect="unit"), 3000.0))
    return found
