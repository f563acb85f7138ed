"""The integer grid on which rows and components live, and how near noise on it comes to Gaussian noise.

A value is stood for by a whole number of steps of 2^exponent. Components have scale s, and float64 counts exactly
to 2^53, so the step is chosen to leave the widest component twelve standard deviations below 2^52
(docs/theory/collection.md#grid): exponent = ceil(log2(12 s sqrt(K1 - 1) 2^-52)). The last component is a row minus the
sum of K1 - 1 Gaussians, hence the square root.

The noise of publishing. Devices add a discrete Gaussian, on multiples of the grid step h. What a mask adds to its privacy
is proved for noise that no rotation changes, so each party that passes masked rows on (unmasking nodes to the collector,
the collector to the public) adds N(0, (2h)^2): A (X + C) + G has the law of A (X + C + G).

Statement. For s = sigma/h >= 2 let q = exp(-2 pi^2 v), v = 4 s^2/(s^2 + 4), and eta = 8 q. A discrete Gaussian plus
N(0, 4h^2) has a density within e^(+-eta) of N(0, sigma^2 + 4h^2); and a discrete Gaussian is, within e^(+-eta) too, what a
random rounding makes of N(0, sigma^2 - 4h^2). So k entries change epsilon by at most 2 k eta, and delta by e^(k eta).
A masked row is rounded a second time. Devices leave N(0, (8h)^2) of their noise columns in the answers, so that with
q' = exp(-2 pi^2 256/68) every masked entry, rounded and with N(0, 4h^2) on it, has a density within e^(+-2.5 q') of one
whose rounding error is independent of everything; k' such entries change epsilon by at most 5 k' q'.
Basis: proved (docs/theory/calibration.md#discrete-noise, #second-rounding); float64 is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimask_core.basics.errors import ParameterError, VerificationError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


PUBLISHING_STEPS = 2
"""The noise of publishing, in grid steps."""

DITHER_STEPS = 8
"""What devices leave of their noise columns in the answers before the second rounding, in grid steps."""

RELEASE_ENTRIES = 4
"""A release has fewer than this many times the rows a study asks for: what is left over joins the last one."""


def discrete_epsilon(sigma_steps: float, entries: int, masked_entries: int = 0) -> float:
    """By how much epsilon of Gaussian noise on so many entries grows, noise of `sigma_steps` being discrete; rounded up.

    `masked_entries` are rounded a second time. delta grows by less than this part of itself.
    """
    if not sigma_steps >= PUBLISHING_STEPS:
        return math.inf
    square = sigma_steps * sigma_steps
    v = PUBLISHING_STEPS**2 * square / (square + PUBLISHING_STEPS**2)
    again = PUBLISHING_STEPS**2 * DITHER_STEPS**2 / (PUBLISHING_STEPS**2 + DITHER_STEPS**2)
    twice = 5 * masked_entries * math.exp(-2 * math.pi**2 * again)
    return (2 * entries * 8 * math.exp(-2 * math.pi**2 * v) + twice) * (1 + 1e-9)


def frame_share(sigma: float, step: float, tau: float) -> float:
    """Which part of its noise along the answers a device leaves in a masked row: `DITHER_STEPS` steps, none if exact."""
    return min(1.0, DITHER_STEPS * step / tau) if sigma else 0.0


def right_providers_mu(distance: float, sigma: float, step: float) -> float:
    """mu of two rows at this distance for a party that sees a row as its device sent it and knows B_0; rounded up."""
    square = sigma * sigma - (PUBLISHING_STEPS * step) ** 2
    return distance / math.sqrt(square) * (1 + 1e-12) if square > 0 else math.inf


def published_sigma(sigma: float, step: float, deliveries: int) -> float:
    """The noise that is in a release: the devices', and that of every unmasking node and of the collector."""
    little = math.sqrt(PUBLISHING_STEPS**2 * (deliveries + 1) + DITHER_STEPS**2)
    return math.hypot(sigma, step * little) if sigma else 0.0
