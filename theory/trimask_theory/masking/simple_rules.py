"""Two rules for the noise of a masked release that need no integral: Theorem 3.4 of the masked-noise paper, and "bound".

Statement (Theorem 3.4, for rows of norm at most R and neighbours at distance at most d). Y = A(X + C), A Haar on O(n), C
i.i.d. N(0, sigma^2). With q(delta; df, nc) the upper delta-quantile of the noncentral chi-square law, the release is
(epsilon, delta)-DP if
    (2 R d + d^2)/(2 (n - p)) q(delta; 2 (n - p), R^2/sigma^2) + R d <= sigma^2 epsilon.
The paper has R = sqrt(p) and d = 1. Its proof uses only lambda_max <= 2 R d + d^2, noncentrality <=
R^2/sigma^2 and ||x|^2 - |x'|^2| <= 2 R d, which hold for every R and d (note: (26) of the paper prints the
exponent (q-2)/2 for (q-3)/2; Lemma 5.2 holds for the right one, because I_{q/2}(t)/I_{q/2-1}(t) < t/q).
Solved for delta the condition reads
    delta >= P[chi^2_{2(n-p)}(R^2/sigma^2) > 2 (n-p) (sigma^2 epsilon - R d)/(2 R d + d^2)],
which falls in sigma: g has one root. Basis: proved.
Derivation: docs/theory/calibration.md#theorem-3-4 and docs/theory/errata.md#masked-noise.

Statement (method "bound", which needs no search either). Write m = n - p, Z for a chi^2_m(R^2/sigma^2) variable and q for
its upper delta-quantile. The release is (epsilon, delta)-DP if
    sigma^2 epsilon >= D q/(2 m),                    D = R^2 for `record`,
                                                     D = R sqrt(2 R d - d^2) for neighbours within d < R;
or, for such neighbours, if
    sigma^2 epsilon >= D max(1, q/m - 1),            D = (d/2) sqrt(4 R^2 - d^2).
Proof. log 0F1(; b; y) is concave with slope at most 1/b, so the privacy loss is at most
(|x'|^2 - |x|^2)/(2 sigma^2) + lambda Z/(2 m sigma^2), lambda the largest eigenvalue of x x^T - x' x'^T. First rule: by
domination both norms are R at no larger an inner product, and lambda^2 = R^4 - <x, x'>^2. Second rule: with a = x + x'
and b = x - x', lambda = (a.b + |a||b|)/2 and the bound is linear in a.b, so that its ends rule.
Basis: proved, with no angle theorem. Derivation: docs/theory/sharp-calibration.md#bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq
from scipy.special import ndtri_exp

from trimask_core.basics.errors import ParameterError
from trimask_theory import checks
from trimask_theory.masking.hypergeometric import log_sf


def least_sigma(curve: Callable[[float], float], goal: float, start: float) -> float:
    """The root in sigma of a log delta that falls in sigma, moved up to where it is at most `goal`."""
    wanted = -float(ndtri_exp(goal))

    def short(variance: float) -> float:
        # In normal deviates the tail is close to linear in sigma^2, so that the root takes few steps.
        return wanted + max(float(ndtri_exp(min(curve(math.sqrt(variance)), -1e-12))), -1e3)

    low = high = start * start
    while short(low) <= 0:
        low /= 2
    while short(high) > 0:
        low, high = high, 2 * high
    root = float(brentq(short, low, high, xtol=1e-13 * high, rtol=1e-13))
    step = 1e-14
    while short(root) > 0:
        root *= 1 + step
        step *= 2
    return math.sqrt(root) * (1 + 1e-13)


def theorem_log_delta(epsilon: float, sigma: float, m: int, row_norm: float, distance: float) -> float:
    """log of the delta Theorem 3.4 gives at sigma > 0, m = rows - attributes; 0 where it promises nothing."""
    slack = sigma * sigma * epsilon - row_norm * distance
    if slack <= 0:
        return 0.0
    threshold = 2 * m * slack / ((2 * row_norm + distance) * distance)
    return log_sf(2 * m, (row_norm / sigma) ** 2, threshold)


def theorem_sigma(epsilon: float, delta: float, m: int, row_norm: float, distance: float) -> float:
    """The root of g, rounded up."""
    return least_sigma(
        lambda sigma: theorem_log_delta(epsilon, sigma, m, row_norm, distance),
        math.log(delta),
        # Where the quantile is about its degrees of freedom.
        math.sqrt((3 * row_norm + distance) * distance / epsilon),
    )


def corollary_sigma(epsilon: float, delta: float, rows: int, attributes: int) -> float:
    """Corollary 3.5, (14): an explicit sigma for the paper's neighbours (R = sqrt(p), d = 1), epsilon < 1."""
    epsilon = checks.positive("epsilon", epsilon)
    if epsilon >= 1:
        raise ParameterError("epsilon", "in (0, 1) for Corollary 3.5", epsilon)
    delta = checks.probability("delta", delta)
    attributes = checks.whole("attributes", attributes, 1)
    rows = checks.whole("rows", rows, attributes + 1)
    spread = (2 * rows - attributes + math.log(1 / delta)) / (2 * (rows - attributes))
    return math.nextafter(math.sqrt(spread) * 3 * attributes**0.25 / math.sqrt(epsilon), math.inf)


def bound_log_delta(epsilon: float, sigma: float, m: int, row_norm: float, distance: float) -> float:
    """log of the delta the rules give at sigma > 0, m = rows - attributes; 0 where they promise nothing."""
    scaled = sigma * sigma * epsilon
    if distance >= row_norm:
        thresholds = [2 * m * scaled / row_norm**2]
    else:
        equal = row_norm * math.sqrt((2 * row_norm - distance) * distance)
        apart = 0.5 * distance * math.sqrt((2 * row_norm - distance) * (2 * row_norm + distance))
        thresholds = [2 * m * scaled / equal, m * (scaled / apart + 1) if scaled >= apart else 0.0]
    return log_sf(m, (row_norm / sigma) ** 2, max(thresholds))


def bound_sigma(epsilon: float, delta: float, m: int, row_norm: float, distance: float) -> float:
    """The least sigma the rules allow, rounded up."""
    return least_sigma(
        lambda sigma: bound_log_delta(epsilon, sigma, m, row_norm, distance),
        math.log(delta),
        math.sqrt(row_norm * min(distance, row_norm) / (2 * epsilon)),
    )
