"""Theorem 3.4 of the masked-noise paper, for rows of norm at most R and neighbours at distance at most d.

Statement. Y = A(X + C), A Haar on O(n), C i.i.d. N(0, sigma^2). With q(delta; df, nc) the upper
delta-quantile of the noncentral chi-square law, the release is (epsilon, delta)-DP if
    (2 R d + d^2)/(2 (n - p)) q(delta; 2 (n - p), R^2/sigma^2) + R d <= sigma^2 epsilon.
The paper has R = sqrt(p) and d = 1. Its proof uses only lambda_max <= 2 R d + d^2, noncentrality <=
R^2/sigma^2 and ||x|^2 - |x'|^2| <= 2 R d, which hold for every R and d (note: (26) of the paper prints the
exponent (q-2)/2 for (q-3)/2; Lemma 5.2 holds for the right one, because I_{q/2}(t)/I_{q/2-1}(t) < t/q).
Solved for delta the condition reads
    delta >= P[chi^2_{2(n-p)}(R^2/sigma^2) > 2 (n-p) (sigma^2 epsilon - R d)/(2 R d + d^2)],
which falls in sigma: g has one root. Basis: proved.
Derivation: docs/theory/calibration.md#theorem-3-4 and docs/theory/errata.md#masked-noise.
"""

from __future__ import annotations

import math

from trimask_core.errors import ParameterError
from trimask_theory import _checks
from trimask_theory._least_sigma import least_sigma
from trimask_theory._noncentral_chi import log_sf

__all__ = ["corollary_sigma", "log_delta", "smallest_sigma"]


def log_delta(epsilon: float, sigma: float, m: int, row_norm: float, distance: float) -> float:
    """log of the delta Theorem 3.4 gives at sigma > 0, m = rows - attributes; 0 where it promises nothing."""
    slack = sigma * sigma * epsilon - row_norm * distance
    if slack <= 0:
        return 0.0
    threshold = 2 * m * slack / ((2 * row_norm + distance) * distance)
    return log_sf(2 * m, (row_norm / sigma) ** 2, threshold)


def smallest_sigma(epsilon: float, delta: float, m: int, row_norm: float, distance: float) -> float:
    """The root of g, rounded up."""
    return least_sigma(
        lambda sigma: log_delta(epsilon, sigma, m, row_norm, distance),
        math.log(delta),
        # Where the quantile is about its degrees of freedom.
        math.sqrt((3 * row_norm + distance) * distance / epsilon),
    )


def corollary_sigma(epsilon: float, delta: float, rows: int, attributes: int) -> float:
    """Corollary 3.5, (14): an explicit sigma for the paper's neighbours (R = sqrt(p), d = 1), epsilon < 1."""
    epsilon = _checks.positive("epsilon", epsilon)
    if epsilon >= 1:
        raise ParameterError("epsilon", "in (0, 1) for Corollary 3.5", epsilon)
    delta = _checks.probability("delta", delta)
    attributes = _checks.whole("attributes", attributes, 1)
    rows = _checks.whole("rows", rows, attributes + 1)
    spread = (2 * rows - attributes + math.log(1 / delta)) / (2 * (rows - attributes))
    return math.nextafter(math.sqrt(spread) * 3 * attributes**0.25 / math.sqrt(epsilon), math.inf)
