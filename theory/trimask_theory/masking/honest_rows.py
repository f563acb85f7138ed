"""What a masked release promises if only some of its rows are honest: epsilon as a function of honest rows.

Statement. A person is hidden by the noise of the others. If all but h of the rows that one mask mixes are the adversary's,
with answers and noise it knows, it can subtract them from Y^T Y, and what is left is a release of h rows: the epsilon of
`masked_noise` at rows = h. For few h, where that says nothing, and always: Y^T Y depends on a person's noisy row up to
its sign alone, so it promises no less than the Gaussian mechanism at distance min(|x - x'|, |x + x'|) <= sqrt(2) R.
The smaller of the two epsilons is stated.
Assumptions and basis: those of `masked_noise`; the second bound is proved (`local_noise`).
Derivation: docs/theory/calibration.md#honest-rows.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from trimask_theory import checks
from trimask_theory.gaussian import local_noise
from trimask_theory.masking import masked_noise
from trimask_theory.masking.masked_noise import Method, Protection

_MARGIN = 1e-7


def table(
    release_rows: int,
    block_rows: int,
    delta: float,
    sigma: float,
    attributes: int,
    protect: Protection,
    row_norm: float,
    method: Method,
    rounding: float = 0.0,
) -> tuple[tuple[int, float], ...]:
    """(honest rows, epsilon), most honest first: all, half and one of a release and of a block."""
    sizes = {release_rows, release_rows // 2, block_rows, block_rows // 2, 1}
    return tuple(
        (rows, epsilon(delta, sigma, rows, attributes, protect, row_norm, method, rounding))
        for rows in sorted(sizes, reverse=True)
    )


def epsilon(
    delta: float,
    sigma: float,
    honest: int,
    attributes: int,
    protect: Protection,
    row_norm: float,
    method: Method = "sharp",
    rounding: float = 0.0,
) -> float:
    """The epsilon at `delta` that noise `sigma` gives a person among `honest` rows, rounded up."""
    honest = checks.whole("honest", honest, 1)
    bounds = [_alone(delta, sigma, protect, row_norm, rounding)]
    if honest > attributes:
        bounds.append(
            masked_noise.epsilon(
                delta, sigma, honest, attributes, protect, row_norm, method, rounding=rounding
            )
        )
    return min(bounds)


def _alone(delta: float, sigma: float, protect: Protection, row_norm: float, rounding: float) -> float:
    """One noisy row up to its sign."""
    furthest = math.sqrt(2) * (row_norm + rounding / 2)
    distance = furthest if protect == "record" else min(1.0 + rounding, furthest)
    goal, s = math.log(delta), sigma / distance
    high = 1.0
    while local_noise.log_delta(high, s) > goal:
        high *= 2
    root = brentq(lambda e: max(local_noise.log_delta(e, s), -1e4) - goal, 1e-12, high, xtol=1e-9)
    return float(root) * (1 + _MARGIN)
