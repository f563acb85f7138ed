"""A rule for the noise of a masked release that needs neither a search nor an integral: method "bound".

Statement. Write m = n - p, Z for a chi^2_m(R^2/sigma^2) variable and q for its upper delta-quantile. The release is
(epsilon, delta)-DP if
    sigma^2 epsilon >= D q/(2 m),                    D = R^2 for `record`,
                                                     D = R sqrt(2 R d - d^2) for neighbours within d < R;
or, for such neighbours, if
    sigma^2 epsilon >= D max(1, q/m - 1),            D = (d/2) sqrt(4 R^2 - d^2).
Proof. log 0F1(; b; y) is concave with slope at most 1/b, so the privacy loss is at most
(|x'|^2 - |x|^2)/(2 sigma^2) + lambda Z/(2 m sigma^2), lambda the largest eigenvalue of x x^T - x' x'^T. First rule: by
domination both norms are R at no larger an inner product, and lambda^2 = R^4 - <x, x'>^2. Second rule: with a = x + x'
and b = x - x', lambda = (a.b + |a||b|)/2 and the bound is linear in a.b, so that its ends rule.
Basis: proved, with no angle theorem. Derivation: docs/sharp-calibration.md#bound.
"""

from __future__ import annotations

import math

from trimask_theory._least_sigma import least_sigma
from trimask_theory._noncentral_chi import log_sf

__all__ = ["log_delta", "smallest_sigma"]


def log_delta(epsilon: float, sigma: float, m: int, row_norm: float, distance: float) -> float:
    """log of the delta the rules give at sigma > 0, m = rows - attributes; 0 where they promise nothing."""
    scaled = sigma * sigma * epsilon
    if distance >= row_norm:
        thresholds = [2 * m * scaled / row_norm**2]
    else:
        equal = row_norm * math.sqrt((2 * row_norm - distance) * distance)
        apart = 0.5 * distance * math.sqrt((2 * row_norm - distance) * (2 * row_norm + distance))
        thresholds = [2 * m * scaled / equal, m * (scaled / apart + 1) if scaled >= apart else 0.0]
    return log_sf(m, (row_norm / sigma) ** 2, max(thresholds))


def smallest_sigma(epsilon: float, delta: float, m: int, row_norm: float, distance: float) -> float:
    """The least sigma the rules allow, rounded up."""
    return least_sigma(
        lambda sigma: log_delta(epsilon, sigma, m, row_norm, distance),
        math.log(delta),
        math.sqrt(row_norm * min(distance, row_norm) / (2 * epsilon)),
    )
