"""How much noise a masked release needs: Y = A(X + C) or AX + C, A Haar on O(rows), C i.i.d. N(0, sigma^2).

Statement. Y^T Y is sufficient, and what one row adds to it is a rank-one noncentral Wishart law with at
least m = rows - attributes degrees of freedom. So delta(epsilon) is at most the largest delta between two
such laws over the allowed pairs of rows (x, x'): |x|, |x'| <= R and |x - x'| <= d. Method "sharp" computes
that (docs/theory/sharp-calibration.md#setting); "bound" is a rule without an integral, "theorem" is Theorem 3.4 of the
masked-noise paper (both in `simple_rules`).
Protection "record" is d = 2R: a person's whole row may change, and rows are clipped to norm R on the
device. "unit" is the paper's d = 1, which for more than one attribute protects less than a record.
`rows` is how many rows one Haar mask mixes before anyone looks: the smallest block of a block-diagonal
mask (for what the collector sees), the release size for what is published.
Assumptions: continuous Gaussian noise, every row of norm at most R. Basis: proved. The worst pair of "record" is a
theorem (docs/theory/sharp-calibration.md#angle-theorem), that of "unit" is covered by cells
(docs/theory/sharp-calibration.md#cells); what "sharp" evaluates is one integral, by quadrature, or between two bounds that
ball arithmetic certifies (`enclosed_delta`, docs/theory/sharp-calibration.md#enclosure).

Statement (only some rows are honest: epsilon as a function of honest rows). A person is hidden by the noise of the others.
If all but h of the rows that one mask mixes are the adversary's, with answers and noise it knows, it can subtract them from
Y^T Y, and what is left is a release of h rows: the epsilon above at rows = h. For few h, where that says nothing, and
always: Y^T Y depends on a person's noisy row up to its sign alone, so it promises no less than the Gaussian mechanism at
distance min(|x - x'|, |x + x'|) <= sqrt(2) R. The smaller of the two epsilons is stated.
Assumptions and basis: the same; the second bound is proved (`local_noise`). Derivation:
docs/theory/calibration.md#honest-rows.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Literal, get_args

from scipy.optimize import brentq

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory import checks
from trimask_theory.checks import Calibration
from trimask_theory.gaussian import local_noise
from trimask_theory.masking import simple_rules
from trimask_theory.masking.enclosure import LARGEST_DEGREES, require_flint
from trimask_theory.masking.sharp import crossing, family, sharp_epsilon, sharp_sigma, worst
from trimask_theory.masking.simple_rules import corollary_sigma
from trimask_theory.masking.unit_enclosure import LARGEST_OF_CELLS, WIDTHS, enclosed

__all__ = [
    "METHODS",
    "Method",
    "Protection",
    "calibrate",
    "can_certify",
    "corollary_sigma",
    "delta",
    "enclosed_delta",
    "epsilon",
]

Protection = Literal["record", "unit"]
Method = Literal["sharp", "bound", "theorem"]
METHODS: tuple[Method, ...] = get_args(Method)

MARGIN = 1e-7
"""A sharp sigma or epsilon is raised by this part of itself, more than quadrature and search can err."""

_BASIS = {
    "sharp": ("", "docs/theory/sharp-calibration.md#setting; Ding, Wu, Miao, Chen, Lemma A.4"),
    "bound": ("sufficient condition from the concavity of log 0F1", "docs/theory/sharp-calibration.md#bound"),
    "theorem": (
        "sufficient condition (13), with R and d carried through its proof",
        "Ding, Wu, Miao, Chen, Theorem 3.4",
    ),
}

_NORMS = (1e-30, 1e30)
_MOST_UNITS = 1e5
_MOST_ROWS = 10**12
"""Beyond these a square, or a difference of two nearby numbers, leaves double precision."""

_LOG_UNDERFLOW = -700.0
"""Below it no double holds delta to its digits; an enclosure is then from 0."""

_LARGEST_NONCENTRALITY = 1e10
"""Above it (R/sigma)^2 leaves double precision no room; delta is then reported as 1, which is always true."""


def _setting(
    rows: int, attributes: int, protect: str, row_norm: float | None, method: str, rounding: float
) -> tuple[int, int, float, float]:
    """(m, attributes, R, d) after the range checks, with R and d as rounding leaves them."""
    attributes = checks.whole("attributes", attributes, 1)
    rows = checks.whole("rows", rows, attributes + 1)
    checks.one_of("protect", protect, ("record", "unit"))
    checks.one_of("method", method, METHODS)
    norm = math.sqrt(attributes) if row_norm is None else checks.positive("row_norm", row_norm)
    checks.within("row_norm", norm, _NORMS[0], _NORMS[1] if protect == "record" else _MOST_UNITS)
    checks.within("rows", rows, 2, _MOST_ROWS)
    moved = checks.non_negative("rounding", rounding)
    norm += moved / 2
    return rows - attributes, attributes, norm, 2 * norm if protect == "record" else 1.0 + moved


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
    rounding: float = 0.0,
) -> Calibration:
    """The smallest sigma for (epsilon, delta), rounded up. `row_norm` is R, by default sqrt(attributes).

    `certified` raises a sharp sigma, by far less than a thousandth, until the upper end of the enclosed delta is at most
    `delta`; it needs the extra `certified`. `rounding` is how far apart rounding may move two rows: it is added to d, and
    half of it to R; on a grid of step h with p columns, h sqrt(p).

    Examples
    --------
    >>> round(calibrate(1.0, 1e-6, rows=256, attributes=6).sigma, 4)
    1.2712
    """
    epsilon = checks.positive("epsilon", epsilon)
    delta = checks.probability("delta", delta)
    m, attributes, norm, distance = _setting(rows, attributes, protect, row_norm, method, rounding)
    _check_certified(certified, method)
    if method == "theorem":
        sigma = simple_rules.theorem_sigma(epsilon, delta, m, norm, distance)
    elif method == "bound":
        sigma = simple_rules.bound_sigma(epsilon, delta, m, norm, distance)
    else:
        sigma = sharp_sigma(epsilon, delta, m, family(norm, distance, attributes)) * (1 + MARGIN)
        if certified:
            goal, width = math.log(delta), WIDTHS[protect]
            sigma = _raised(
                sigma,
                lambda s: enclosed(epsilon, m, norm, distance, s, attributes == 1, goal, width)[1],
                delta,
            )
    because, citation = _BASIS[method]
    if method == "sharp":
        pair = (
            "worst pair of rows is a theorem" if protect == "record" else "pairs of rows are covered by cells"
        )
        how = "enclosed in ball arithmetic" if certified else "found by quadrature"
        because = f"the {pair}; its delta is one integral, {how}"
    guarantee = Guarantee(
        neighbours=_neighbours(protect, attributes, row_norm),
        basis="proved",
        because=because,
        citation=citation,
        epsilon=epsilon,
        delta=delta,
    )
    return Calibration(sigma, guarantee, method)


def delta(
    epsilon: float,
    sigma: float,
    rows: int,
    attributes: int,
    protect: Protection = "record",
    row_norm: float | None = None,
    method: Method = "sharp",
    *,
    rounding: float = 0.0,
) -> float:
    """The delta that noise `sigma` gives at `epsilon`; 1 at sigma = 0.

    Examples
    --------
    >>> f"{delta(1.0, 1.2712, rows=256, attributes=6):.3g}"
    '1e-06'
    """
    epsilon = checks.positive("epsilon", epsilon)
    sigma = checks.non_negative("sigma", sigma)
    m, attributes, norm, distance = _setting(rows, attributes, protect, row_norm, method, rounding)
    if _hopeless(sigma, norm):
        return 1.0
    if method != "sharp":
        return math.exp(_rule(method)(epsilon, sigma, m, norm, distance))
    return math.exp(worst(epsilon, sigma, m, family(norm, distance, attributes)).log_delta)


def enclosed_delta(
    epsilon: float,
    sigma: float,
    rows: int,
    attributes: int,
    protect: Protection = "record",
    row_norm: float | None = None,
    *,
    width: float | None = None,
    rounding: float = 0.0,
) -> tuple[float, float]:
    """(lower, upper) between which the sharp `delta` lies, whatever was rounded on the way; with the extra `certified`.

    They are no further apart than `width` of it where the grid allows (0.001 for `record` neighbours, 0.01 for `unit`).
    Towards 100,000 rows it takes minutes. From 0 if no double holds it.
    """
    epsilon = checks.positive("epsilon", epsilon)
    sigma = checks.non_negative("sigma", sigma)
    m, attributes, norm, distance = _setting(rows, attributes, protect, row_norm, "sharp", rounding)
    require_flint()
    if _hopeless(sigma, norm):
        return 0.0, 1.0
    ceiling = _ceiling(epsilon, distance / sigma)
    if ceiling < sys.float_info.min:
        return 0.0, ceiling
    found = worst(epsilon, sigma, m, family(norm, distance, attributes)).log_delta
    largest = LARGEST_DEGREES if protect == "record" else LARGEST_OF_CELLS
    if found < _LOG_UNDERFLOW and m <= largest:  # beyond that it is an error, which `enclosed` raises
        return 0.0, ceiling
    wide = WIDTHS[protect] if width is None else checks.probability("width", width)
    lower, upper = enclosed(epsilon, m, norm, distance, sigma, attributes == 1, found, wide)
    # Coarser cells than the library's can still end below its value, which is above every pair's as well.
    return lower, max(upper, min(math.nextafter(math.exp(found), 1.0), 1.0))


def epsilon(
    delta: float,
    sigma: float,
    rows: int,
    attributes: int,
    protect: Protection = "record",
    row_norm: float | None = None,
    method: Method = "sharp",
    *,
    certified: bool = False,
    rounding: float = 0.0,
) -> float:
    """The smallest epsilon >= 0 at which noise `sigma` gives `delta`, rounded up; inf at sigma = 0.

    `certified` raises it until the upper end of the enclosed delta is at most `delta`.
    """
    delta = checks.probability("delta", delta)
    sigma = checks.non_negative("sigma", sigma)
    m, attributes, norm, distance = _setting(rows, attributes, protect, row_norm, method, rounding)
    _check_certified(certified, method)
    goal = math.log(delta)
    if _hopeless(sigma, norm):
        return math.inf
    # Step 5's ceiling: at epsilon 0 the Gaussian mechanism of mu = sqrt(2) R/sigma has a delta below mu/sqrt(2 pi).
    if norm / sigma <= math.sqrt(math.pi) * delta:
        return 0.0
    if method != "sharp":
        rule = _rule(method)
        return crossing(lambda e: rule(e, sigma, m, norm, distance), goal, 0.0) * (1 + MARGIN)
    root = sharp_epsilon(goal, sigma, m, family(norm, distance, attributes)) * (1 + MARGIN)
    if certified:
        width = WIDTHS[protect]
        return _raised(
            root, lambda e: enclosed(e, m, norm, distance, sigma, attributes == 1, goal, width)[1], delta
        )
    return root


def _neighbours(protect: Protection, attributes: int, row_norm: float | None) -> Neighbours:
    """Of answers as they are given, before anything is rounded."""
    norm = math.sqrt(attributes) if row_norm is None else float(row_norm)
    return Neighbours(protect, row_norm=norm, distance=2 * norm if protect == "record" else 1.0)


def _rule(method: Method) -> Callable[[float, float, int, float, float], float]:
    return simple_rules.theorem_log_delta if method == "theorem" else simple_rules.bound_log_delta


def _check_certified(certified: bool, method: str) -> None:
    if not certified:
        return
    if method != "sharp":
        raise ParameterError("certified", f"used with method 'sharp': {method!r} has no integral to enclose")
    require_flint()


def _raised(value: float, upper: Callable[[float], float], goal: float) -> float:
    """A sigma or epsilon, raised until the enclosure's upper end is within the goal."""
    step = 1e-5
    while (found := upper(value)) > goal:
        if found > 2 * goal:  # the value is sharp, so this is not its delta but what could not be told
            raise ParameterError(
                "certified", f"left out here: delta could be enclosed from above by {found:.3g} only"
            )
        # log delta falls by several times what log sigma rises by, so that one step is mostly enough.
        value *= 1 + max(step, 0.1 * math.log(found / goal))
        step *= 2
    return value


def can_certify() -> bool:
    """Whether `certified=True` works here: the extra `certified` is installed."""
    try:
        require_flint()
    except ParameterError:
        return False
    return True


def _ceiling(epsilon: float, mu: float) -> float:
    """Above delta, and above 0: a masked release is post-processing of the rows with their noise, which is mu-GDP, and
    Phi(-t) <= e^(-t^2/2) for t = epsilon/mu - mu/2 >= 0."""
    t = max(epsilon / mu - mu / 2, 0.0) * (1 - 1e-12) if mu else math.inf
    return max(math.exp(-0.5 * t * t), math.ulp(0.0))


def _hopeless(sigma: float, norm: float) -> bool:
    return sigma == 0 or norm / sigma > math.sqrt(_LARGEST_NONCENTRALITY)


def honest_table(
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
        (rows, honest_epsilon(delta, sigma, rows, attributes, protect, row_norm, method, rounding))
        for rows in sorted(sizes, reverse=True)
    )


def honest_epsilon(
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
        bounds.append(epsilon(delta, sigma, honest, attributes, protect, row_norm, method, rounding=rounding))
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
    return float(root) * (1 + MARGIN)
