"""How much noise a masked release needs: Y = A(X + C) or AX + C, A Haar on O(rows), C i.i.d. N(0, sigma^2).

Statement. Y^T Y is sufficient, and what one row adds to it is a rank-one noncentral Wishart law with at
least m = rows - attributes degrees of freedom. So delta(epsilon) is at most the largest delta between two
such laws over the allowed pairs of rows (x, x'): |x|, |x'| <= R and |x - x'| <= d. Method "sharp" computes
that (docs/sharp-calibration.md#setting); "bound" is a rule without an integral (`masked_bound`); "theorem" is Theorem 3.4
of the masked-noise paper (`masked_theorem`).
Protection "record" is d = 2R: a person's whole row may change, and rows are clipped to norm R on the
device. "unit" is the paper's d = 1, which for more than one attribute protects less than a record.
`rows` is how many rows one Haar mask mixes before anyone looks: the smallest block of a block-diagonal
mask (for what the collector sees), the release size for what is published.
Assumptions: continuous Gaussian noise, every row of norm at most R. Basis: proved. The worst pair of "record" is a
theorem (docs/sharp-calibration.md#angle-theorem), that of "unit" is covered by cells
(docs/sharp-calibration.md#cells); what "sharp" evaluates is one integral, by quadrature, or between two bounds that
ball arithmetic certifies (`certified=True`, docs/sharp-calibration.md#enclosure).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, get_args, overload

from scipy.optimize import brentq

from trimask_core.errors import ParameterError
from trimask_core.guarantee import Guarantee, Neighbours
from trimask_theory import _checks, masked_bound, masked_theorem
from trimask_theory._enclosure import enclose, require_flint
from trimask_theory._wishart_pair import log_delta
from trimask_theory._worst_pair import Family, Found, family, worst
from trimask_theory.calibration import Calibration
from trimask_theory.local_noise import analytic_scale
from trimask_theory.masked_theorem import corollary_sigma

__all__ = ["Method", "Protection", "calibrate", "corollary_sigma", "delta", "epsilon"]

Protection = Literal["record", "unit"]
Method = Literal["sharp", "bound", "theorem"]

MARGIN = 1e-7
"""A sharp sigma or epsilon is raised by this part of itself, more than quadrature and search can err."""

WIDTH = 1e-3
"""How wide an enclosure of delta may be, as a part of it."""

_BASIS = {
    "sharp": ("", "docs/sharp-calibration.md#setting; Ding, Wu, Miao, Chen, Lemma A.4"),
    "bound": ("sufficient condition from the concavity of log 0F1", "docs/sharp-calibration.md#bound"),
    "theorem": (
        "sufficient condition (13), with R and d carried through its proof",
        "Ding, Wu, Miao, Chen, Theorem 3.4",
    ),
}

_LARGEST_NONCENTRALITY = 1e10
"""Above it (R/sigma)^2 leaves double precision no room; delta is then reported as 1, which is always true."""


def _setting(
    rows: int, attributes: int, protect: str, row_norm: float | None, method: str
) -> tuple[int, int, float, float]:
    """(m, attributes, R, d) after the range checks."""
    attributes = _checks.whole("attributes", attributes, 1)
    rows = _checks.whole("rows", rows, attributes + 1)
    _checks.one_of("protect", protect, ("record", "unit"))
    _checks.one_of("method", method, get_args(Method))
    norm = math.sqrt(attributes) if row_norm is None else _checks.positive("row_norm", row_norm)
    return rows - attributes, attributes, norm, 2 * norm if protect == "record" else 1.0


def calibrate(
    epsilon: float,
    delta: float,
    rows: int,
    attributes: int,
    protect: Protection = "record",
    row_norm: float | None = None,
    method: Method = "sharp",
    *,
    certified: bool = False,
) -> Calibration:
    """The smallest sigma for (epsilon, delta), rounded up. `row_norm` is R, by default sqrt(attributes).

    `certified` raises a sharp sigma, by far less than a thousandth, until the upper end of the enclosed delta is at most
    `delta`; it needs the extra `certified`.
    """
    epsilon = _checks.positive("epsilon", epsilon)
    delta = _checks.probability("delta", delta)
    m, attributes, norm, distance = _setting(rows, attributes, protect, row_norm, method)
    _check_certified(certified, protect, method)
    if method == "theorem":
        sigma = masked_theorem.smallest_sigma(epsilon, delta, m, norm, distance)
    elif method == "bound":
        sigma = masked_bound.smallest_sigma(epsilon, delta, m, norm, distance)
    else:
        sigma = _sharp_sigma(epsilon, delta, m, family(norm, distance, attributes)) * (1 + MARGIN)
        if certified:
            sigma = _certified_sigma(epsilon, delta, sigma, rows, attributes, protect, norm)
    because, citation = _BASIS[method]
    if method == "sharp":
        pair = (
            "worst pair of rows is a theorem" if protect == "record" else "pairs of rows are covered by cells"
        )
        how = "enclosed in ball arithmetic" if certified else "found by quadrature"
        because = f"the {pair}; its delta is one integral, {how}"
    guarantee = Guarantee(
        neighbours=Neighbours(protect, row_norm=norm, distance=distance),
        basis="proved",
        because=because,
        citation=citation,
        epsilon=epsilon,
        delta=delta,
    )
    return Calibration(sigma, guarantee, method)


@overload
def delta(
    epsilon: float,
    sigma: float,
    rows: int,
    attributes: int,
    protect: Protection = "record",
    row_norm: float | None = None,
    method: Method = "sharp",
    *,
    certified: Literal[False] = False,
) -> float: ...


@overload
def delta(
    epsilon: float,
    sigma: float,
    rows: int,
    attributes: int,
    protect: Protection = "record",
    row_norm: float | None = None,
    method: Method = "sharp",
    *,
    certified: Literal[True],
    width: float = WIDTH,
) -> tuple[float, float]: ...


def delta(
    epsilon: float,
    sigma: float,
    rows: int,
    attributes: int,
    protect: Protection = "record",
    row_norm: float | None = None,
    method: Method = "sharp",
    *,
    certified: bool = False,
    width: float = WIDTH,
) -> float | tuple[float, float]:
    """The delta that noise `sigma` gives at `epsilon`; 1 at sigma = 0.

    With `certified` the pair (lower, upper) between which it lies, whatever was rounded on the way, no further apart
    than `width` of it where the grid allows; for `record` neighbours, with the extra `certified`.
    """
    epsilon = _checks.positive("epsilon", epsilon)
    sigma = _checks.non_negative("sigma", sigma)
    m, attributes, norm, distance = _setting(rows, attributes, protect, row_norm, method)
    _check_certified(certified, protect, method)
    if _hopeless(sigma, norm):
        return (0.0, 1.0) if certified else 1.0
    if method != "sharp":
        return math.exp(_rule(method)(epsilon, sigma, m, norm, distance))
    found = worst(epsilon, sigma, m, family(norm, distance, attributes)).log_delta
    if certified:
        return enclose(epsilon, m, norm / sigma, attributes == 1, found, _checks.probability("width", width))
    return math.exp(found)


def epsilon(
    delta: float,
    sigma: float,
    rows: int,
    attributes: int,
    protect: Protection = "record",
    row_norm: float | None = None,
    method: Method = "sharp",
) -> float:
    """The smallest epsilon >= 0 at which noise `sigma` gives `delta`, rounded up; inf at sigma = 0."""
    delta = _checks.probability("delta", delta)
    sigma = _checks.non_negative("sigma", sigma)
    m, attributes, norm, distance = _setting(rows, attributes, protect, row_norm, method)
    goal = math.log(delta)
    if _hopeless(sigma, norm):
        return math.inf
    if method != "sharp":
        by_rule = partial(_rule(method), sigma=sigma, m=m, row_norm=norm, distance=distance)
        return _crossing(by_rule, goal, 0.0) * (1 + MARGIN)
    among = family(norm, distance, attributes)
    root = 0.0
    found = worst(root, sigma, m, among)
    while found.log_delta > goal + 5e-8:
        root = _crossing(partial(log_delta, m=m, pair=found.pair.scaled(1 / sigma)), goal, root)
        found = worst(root, sigma, m, among)
    return root * (1 + MARGIN)


def _rule(method: Method) -> Callable[[float, float, int, float, float], float]:
    return masked_theorem.log_delta if method == "theorem" else masked_bound.log_delta


def _check_certified(certified: bool, protect: str, method: str) -> None:
    if not certified:
        return
    if method != "sharp":
        raise ParameterError("certified", f"used with method 'sharp': {method!r} has no integral to enclose")
    if protect != "record":
        raise ParameterError(
            "certified", "used with protect 'record': the integrals of 'unit' neighbours have two dimensions"
        )
    require_flint()


def _certified_sigma(
    epsilon: float, goal: float, sigma: float, rows: int, attributes: int, protect: Protection, norm: float
) -> float:
    """The sharp sigma, raised until the enclosure's upper end is within the goal."""
    step = 1e-5
    while delta(epsilon, sigma, rows, attributes, protect, norm, certified=True)[1] > goal:
        sigma *= 1 + step
        step *= 2
    return sigma


def _hopeless(sigma: float, norm: float) -> bool:
    return sigma == 0 or (norm / sigma) ** 2 > _LARGEST_NONCENTRALITY


def _crossing(log_curve: Callable[[float], float], goal: float, low: float) -> float:
    """The epsilon > low at which a curve that lies above the goal at `low` comes down to it."""
    step = 1.0
    while log_curve(low + step) > goal:
        low, step = low + step, 2 * step
    high = low + step
    return float(brentq(lambda e: max(log_curve(e), -1e4) - goal, low, high, xtol=1e-10, rtol=1e-10))


def _sharp_sigma(epsilon: float, delta: float, m: int, among: Family) -> float:
    """Solve at the pair that looks worst, look for a worse one at the sigma found, and solve again there."""
    goal = math.log(delta)
    # Large m: mu = |x x^T - x' x'^T|_F / (sqrt(2 m) sigma^2). Any m: Y^T Y is post-processing of x + N(0,
    # sigma^2 I), so the Gaussian mechanism at the largest separation suffices.
    scale = analytic_scale(epsilon, goal)
    sigma = min(among.separation * scale, math.sqrt(among.frobenius * scale / math.sqrt(2 * m)))
    found = worst(epsilon, sigma, m, among.only_ends())
    for _ in range(12):
        sigma = _solve(epsilon, scale, m, found, sigma)
        found = worst(epsilon, sigma, m, among)
        if found.log_delta <= goal + 5e-8:
            break
    return sigma


def _solve(epsilon: float, scale: float, m: int, found: Found, sigma: float) -> float:
    """The sigma at which one pair has the delta wanted, by the secant method from `found` at `sigma`.

    The unknown is the s at which the Gaussian mechanism would have the same delta: its logarithm is close
    to linear in log sigma, with slope 2 for many rows and 1 for few, where log delta itself bends strongly.
    """
    goal = math.log(scale)

    def height(log_delta_there: float) -> float:
        return math.log(analytic_scale(epsilon, min(max(log_delta_there, -1e5), -1e-12))) - goal

    before, at_before = math.log(sigma), height(found.log_delta)
    now = before - 0.5 * at_before
    for _ in range(30):
        if abs(now - before) < 1e-10:
            break
        at_now = height(log_delta(epsilon, m, found.pair.scaled(math.exp(-now))))
        slope = (at_now - at_before) / (now - before)
        before, at_before = now, at_now
        now -= at_now / min(max(slope, 0.3), 4.0)
    return math.exp(now)
