"""The noise of verified moments: what each right provider adds, and the guarantee it gives against whom.

Statement. A record is x = (1, x_1 .. x_q) with |x|^2 <= R^2, published are the sums over people of x_j x_l, without the
number of people, which is public. For records x, y that differ in everything but x_0 = 1,
    |x x^T - y y^T|_F <= D = sqrt(2) R^2                  for R^2 >= 2,
                             2 sqrt(2) sqrt(R^2 - 1)      below,
and both are attained. Each of K1 providers adds independent noise to its share of the totals in whole steps
z_j z_l = w_j w_l x_j x_l: a rounded Gaussian of deviation sigma w_j w_l / sqrt(h) on the diagonal and that over sqrt(2) off
it, rounded up to whole steps. In the coordinates of the Frobenius norm that is noise of at least sigma / sqrt(h) in every
direction, so with `left` honest providers whoever sees the rest faces sigma sqrt(left / h): mu-GDP with
mu = (D / sigma) sqrt(h / left).

Proof. With a, b the parts of x, y behind x_0, A = |a|^2, B = |b|^2, c = a . b and r^2 = R^2 - 1, the squared distance is
(1 + A)^2 + (1 + B)^2 - 2 (1 + c)^2 <= 2 R^4, attained at c = -1, which needs r >= 1. Below, c >= -sqrt(A B) > -1 leaves
(sqrt A + sqrt B)^2 (2 + (sqrt A - sqrt B)^2), which grows in both up to 8 r^2. One honest provider (left = 1): a rounded
Gaussian on whole totals is a rounding of the Gaussian mechanism's answer, so the guarantee holds to the letter, and what
the others add is post-processing. More: a sum of rounded Gaussians, by `grid_gaussian` the same up to a slack in delta,
which is below 1e-28 for deviations of at least 4 steps, 2^20 entries, 16 providers and epsilon up to 50.

Assumptions. Records of norm at most R, x_0 in it; neighbours replace one person's record. Proved.
Derivation: docs/theory/verified-moments.md#noise and docs/theory/verified-moments.md#sensitivity.

Room in the field (`trimask_core.moments.totals` has the noise itself). Numbers are decoded in (-P/2, P/2), P = 2^61 - 1.
|2^shift total + noise| stays below 2^59 unless the noise of all providers together is beyond 12 of its deviations:
probability below 4e-33 an entry (a normal tail; the roundings add at most half a step a provider, which is counted).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trimask_core.basics.errors import ImpossibleStudy, ParameterError
from trimask_core.moments.totals import SMALLEST, EntryNoise, entry_noise
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory import checks
from trimask_theory.checks import Calibration
from trimask_theory.gaussian import gdp, grid_gaussian, local_noise

ENTRIES = 2**20
"""The slack is stated for at most this many published entries (1,447 columns)."""

_CITATION = "Dwork, Talwar, Thakurta, Zhang 2014; Balle and Wang 2018, Theorem 8; Dong, Roth, Su 2022"


@dataclass(frozen=True, slots=True)
class MomentsCalibration(Calibration):
    """`sigma` of the noise that `honest` of the `providers` together add, in scaled units on the diagonal."""

    providers: int
    honest: int

    @property
    def total_sigma(self) -> float:
        """The noise in the release, where every provider added its share: sigma sqrt(K1 / h)."""
        return self.sigma * math.sqrt(self.providers / self.honest)


def sensitivity(radius_squared: float) -> float:
    """D: the largest |x x^T - y y^T|_F of two records with x_0 = y_0 = 1 and |x|^2, |y|^2 <= R^2, rounded up."""
    square = _radius(radius_squared)
    largest = math.sqrt(2) * (square if square >= 2 else 2 * math.sqrt(square - 1))
    return largest * (1 + 2.0**-50)


def calibrate(
    epsilon: float, delta: float, radius_squared: float, providers: int, honest: int = 1
) -> MomentsCalibration:
    """The noise for (epsilon, delta) towards everybody who leaves `honest` of the `providers` honest."""
    epsilon, delta = checks.positive("epsilon", epsilon), checks.probability("delta", delta)
    providers, honest = _parties(providers, honest)
    lost = slack(epsilon, honest)
    if lost > delta / 2:
        raise ParameterError(
            "epsilon",
            f"smaller: with {honest} honest providers rounding alone costs a delta of {lost:.1e}",
            epsilon,
        )
    scale = local_noise.calibrate(epsilon, _without(delta, lost)).sigma
    sigma = math.nextafter(sensitivity(radius_squared) * scale, math.inf)
    guarantee = Guarantee(
        Neighbours("record", row_norm=math.sqrt(radius_squared)), "proved", _because(providers, honest),
        _CITATION, epsilon, delta, mu(sigma, radius_squared),
    )  # fmt: skip
    return MomentsCalibration(sigma, guarantee, "analytic", providers, honest)


def answer_guarantee(
    providers: int, honest: int, epsilon: float | None, delta: float | None, mu: float
) -> Guarantee:
    """What noise for `mu` promises of an answer, whose sensitivity was found from the study."""
    return Guarantee(
        Neighbours("record"), "proved", _because(*_parties(providers, honest)), _CITATION, epsilon, delta, mu
    )


def _because(providers: int, left: int) -> str:
    who = f"towards everybody, except coalitions that leave fewer than {left} of the {providers} right providers honest"
    if left == 1:
        return (
            f"{who}: one provider's rounded Gaussian on whole totals is a rounding of the Gaussian mechanism"
        )
    bound = math.log(ENTRIES) + grid_gaussian.log_total_variation(SMALLEST, left)
    return (
        f"{who}: a sum of {left} rounded Gaussians is a rounding of the Gaussian mechanism up to a total variation "
        f"of 1e{math.ceil(bound / math.log(10))}, counted in delta"
    )


def mu(sigma: float, radius_squared: float, honest: int = 1, left: int | None = None) -> float:
    """mu of noise `sigma` calibrated for `honest` providers towards whoever leaves `left` honest (default: `honest`)."""
    honest = checks.whole("honest", honest, 1)
    left = honest if left is None else checks.whole("left", left, 1)
    return sensitivity(radius_squared) / checks.positive("sigma", sigma) * math.sqrt(honest / left)


def slack(epsilon: float, summands: int) -> float:
    """What rounding the noises of `summands` honest providers one by one adds to delta; nothing for one."""
    return math.exp(min(0.0, grid_gaussian.log_slack(epsilon, SMALLEST, summands, ENTRIES)))


def delta(
    epsilon: float, sigma: float, radius_squared: float, honest: int = 1, left: int | None = None
) -> float:
    """delta at `epsilon` towards whoever leaves `left` providers honest, the slack of rounding included."""
    left = honest if left is None else left
    return min(1.0, gdp.delta(epsilon, mu(sigma, radius_squared, honest, left)) + slack(epsilon, left))


def epsilon(
    delta: float, sigma: float, radius_squared: float, honest: int = 1, left: int | None = None
) -> float:
    """epsilon at `delta` towards whoever leaves `left` providers honest, the slack of rounding included."""
    delta = checks.probability("delta", delta)
    left = honest if left is None else left
    each = mu(sigma, radius_squared, honest, left)
    # The slack grows with epsilon: counted at this one, which is too large if it is no more than half of delta.
    lost = slack(gdp.epsilon(delta / 2, each), left)
    if lost > delta / 2:
        raise ParameterError("delta", f"above {2 * lost:.1e}, twice what rounding {left} noises costs", delta)
    return gdp.epsilon(_without(delta, lost), each)


def _without(delta: float, lost: float) -> float:
    return math.nextafter(delta - lost, 0.0) if lost else delta


def _radius(radius_squared: float) -> float:
    square = checks.positive("radius_squared", radius_squared)
    if square <= 1:
        raise ParameterError("radius_squared", "above 1, which the constant x_0 = 1 takes", radius_squared)
    return square


def _parties(providers: int, honest: int) -> tuple[int, int]:
    providers, honest = checks.whole("providers", providers, 2), checks.whole("honest", honest, 1)
    if honest >= providers:
        raise ParameterError("honest", f"at most {providers - 1}, one fewer than the right providers", honest)
    return providers, honest


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
    rows, providers = checks.whole("rows", rows, 1), checks.whole("providers", providers, 1)
    most = (1, *(checks.whole("largest", z, 0) for z in largest))
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
