"""What a release costs, and what studies of the same people cost together.

*Releases*: a masked release and a projection give the curve that `masked_noise` and `projection` prove; what other
calibrations promise is `Mechanism.of` their guarantee. Derivation: docs/theory/gaussian-pairs.md#loss-distributions.

*Studies*: a person is in one release of a study, since a row is published once; what a study with a budget may ever answer
counts in full. So a study is one mechanism, or one for each purse, and studies, waves and releases add up by `compose`.
Derivation: docs/theory/gaussian-pairs.md#adds-up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr

from trimask_core.basics.errors import ParameterError, StudyError
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Basis, Neighbours
from trimask_theory import checks
from trimask_theory.accounting.composition import LossDistribution, from_density, from_points
from trimask_theory.accounting.mechanism import ApproximateDP, Composition, GaussianMechanism, Mechanism
from trimask_theory.checks import positive, probability
from trimask_theory.masking import masked_noise
from trimask_theory.masking.hypergeometric import inverse_log_0f1, log_0f1, log_density
from trimask_theory.mechanisms import projection

Array = NDArray[np.float64]

_REACH = 11.0
"""How far from its bulk a chi variable (standard deviation at most 1) is followed: the rest is below 1e-26."""

_DOTS, _MANY_DOTS = 12, 60
"""Places of a curve of deltas in a standard deviation of the loss, where a delta is slow and where it is quick."""


class MaskedRelease(Mechanism):
    """Y = A(X + C): noise `sigma`, `rows` rows mixed by one mask, `attributes` columns.

    For `record` the pair of orthogonal rows dominates every other one at all epsilon at once, and its loss is a difference
    of two independent ones (docs/theory/sharp-calibration.md#enclosure). For `unit`, and with one attribute, the largest
    delta over all pairs and directions is a curve, and the dots of the curve are connected.

    Parameters
    ----------
    sigma : float
        Deviation of the noise on each entry.
    rows, attributes : int
        Rows that one mask mixes before anyone looks, and columns.
    protect : {"record", "unit"}
        Whether a whole row may change, or a row moves by at most 1.
    row_norm : float, optional
        R, the longest a row may be; sqrt(attributes) if left out.
    rounding : float
        How far apart rounding may move two rows.

    Examples
    --------
    >>> release = MaskedRelease(sigma=1.2713, rows=256, attributes=6)
    >>> release  # doctest: +ELLIPSIS
    <MaskedRelease (masked release), sigma = 1.271, 256 x 6, for one person's whole record of norm at most 2.449 ...>
    >>> round(release.epsilon(1e-6), 3)
    1.0
    """

    family = "masked release"
    basis: Basis = "proved"

    def __init__(
        self,
        sigma: float,
        rows: int,
        attributes: int,
        protect: masked_noise.Protection = "record",
        row_norm: float | None = None,
        rounding: float = 0.0,
    ) -> None:
        self.sigma = checks.positive("sigma", sigma)
        self.rounding = checks.non_negative("rounding", rounding)
        self.attributes = checks.whole("attributes", attributes, 1)
        self.rows = checks.whole("rows", rows, self.attributes + 1)
        checks.one_of("protect", protect, ("record", "unit"))
        self.protect = protect
        norm = math.sqrt(attributes) if row_norm is None else checks.positive("row_norm", row_norm)
        self.neighbours = Neighbours(
            protect, row_norm=norm, distance=2 * norm if protect == "record" else 1.0
        )
        self._norm = (norm + self.rounding / 2) / self.sigma

    def _numbers(self) -> str:
        return f"sigma = {self.sigma:.4g}, {self.rows} x {self.attributes}, "

    @property
    def spread(self) -> float:
        """|x x^T - x' x'^T|_F / (sqrt(2 m) sigma^2), mu in the limit of many rows."""
        m, norm = self.rows - self.attributes, self._norm
        apart = (
            norm if self.protect == "record" else min(norm, math.sqrt(2) * (1 + self.rounding) / self.sigma)
        )
        return min(norm * apart / math.sqrt(m), math.sqrt(2) * apart)

    def delta(self, epsilon: float) -> float:
        """The sharp delta."""
        floor = max(
            checks.non_negative("epsilon", epsilon), 1e-12
        )  # where masked_noise begins; delta is continuous
        norm = self.neighbours.row_norm
        return masked_noise.delta(
            floor, self.sigma, self.rows, self.attributes, self.protect, norm, rounding=self.rounding
        )

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon, rounded up."""
        norm = self.neighbours.row_norm
        return masked_noise.epsilon(
            delta, self.sigma, self.rows, self.attributes, self.protect, norm, rounding=self.rounding
        )

    def factors(self, step: float) -> list[tuple[LossDistribution, ...]]:
        """chi_m(R^2) against chi_m and its mirror image; for `unit`, the curve's dots connected."""
        if self.protect == "unit" or self.attributes == 1:
            return [(_connected(self, step, _DOTS if self.attributes > 1 else _MANY_DOTS),)]
        m, norm = self.rows - self.attributes, self._norm
        shift, b = norm * norm / 2, m / 2

        def loss(rho: Array) -> Array:
            return log_0f1(b, norm * rho) - shift

        def place_of(losses: Array) -> Array:
            return inverse_log_0f1(b, np.maximum(losses + shift, 0.0)) / norm

        centre = math.sqrt(m)
        ends = (max(0.0, centre - _REACH), math.hypot(centre, norm) + _REACH)
        lowest, highest = (float(loss(np.array([end]))[0]) for end in ends)
        low, high = math.floor(lowest / step), math.ceil(highest / step)
        forward = from_density(
            step, low, high, place_of, loss, lambda rho: np.exp(log_density(m, norm * norm, rho)), ends
        )
        backward = from_density(
            step,
            -high,
            -low,
            lambda losses: place_of(-losses),
            lambda rho: -loss(rho),
            lambda rho: np.exp(log_density(m, 0.0, rho)),
            ends,
        )
        return [(_cleaned(forward), _cleaned(backward))]


class Projection(Mechanism):
    """D'G + N to `reduced_dim` columns with noise `sigma`, rows of norm at most `row_norm`, one added or removed."""

    family = "projection"
    basis: Basis = "proved"

    def __init__(self, sigma: float, reduced_dim: int, row_norm: float = 1.0) -> None:
        self.sigma = checks.positive("sigma", sigma)
        self.reduced_dim = checks.whole("reduced_dim", reduced_dim, 1)
        norm = checks.positive("row_norm", row_norm)
        self.neighbours = Neighbours("add-remove", row_norm=norm)
        self.leverage = norm**2 / (norm**2 + self.sigma**2)

    def _numbers(self) -> str:
        return f"sigma = {self.sigma:.4g}, to {self.reduced_dim} columns, "

    @property
    def spread(self) -> float:
        """The loss is p/(2 (1 - p)) chi^2_r and a constant."""
        odds = self.leverage / (1 - self.leverage)
        return odds * math.sqrt(self.reduced_dim / 2)

    def delta(self, epsilon: float) -> float:
        """NDIS, Theorem 2, at the largest leverage."""
        return projection.delta(epsilon, self.leverage, self.reduced_dim)

    def factors(self, step: float) -> list[tuple[LossDistribution, ...]]:
        """With the row (loss under N1) and without it."""
        r, p = self.reduced_dim, self.leverage
        shift = 0.5 * r * math.log1p(-p)
        rate = 0.5 * p / (1 - p)
        top = (math.sqrt(r) + 1.5 * _REACH) ** 2

        def density(v: Array) -> Array:
            with np.errstate(divide="ignore"):
                log_v = np.log(v)
            # In w = sqrt(v), so that r = 1 has no pole at zero.
            return np.exp((r - 1) * log_v - v * v / 2 + (1 - r / 2) * math.log(2) - float(gammaln(r / 2)))

        ends = (0.0, math.sqrt(top))
        forward_top = math.ceil((shift + rate * top) / step)
        forward = from_density(
            step,
            math.floor(shift / step),
            forward_top,
            lambda losses: np.sqrt(np.maximum((losses - shift) / rate, 0.0)),
            lambda w: shift + rate * w * w,
            density,
            ends,
        )
        # Without the row the same variable is (1 - p) v of the other law: the loss falls in it.
        slow = 0.5 * p
        backward = from_density(
            step,
            math.floor((-shift - slow * top) / step),
            math.ceil(-shift / step),
            lambda losses: np.sqrt(np.maximum((-shift - losses) / slow, 0.0)),
            lambda w: -shift - slow * w * w,
            density,
            ends,
        )
        return [(_cleaned(forward),), (_cleaned(backward),)]


def _cleaned(found: LossDistribution) -> LossDistribution:
    """What quadrature leaves over or short of one, below 1e-12, belongs to no tail: it goes to the largest mass."""
    if found.infinity_mass > 1e-12:
        return found
    mass = found.mass.copy()
    mass[int(np.argmax(mass))] += 1.0 - float(mass.sum()) - 1e-24
    return LossDistribution(found.step, found.first, mass, 1e-24)


def _connected(mechanism: Mechanism, step: float, dots: int) -> LossDistribution:
    """The pair whose curve is the polygon through delta(k h) as a function of e^epsilon, for a symmetric mechanism."""
    stride = max(1, math.floor(mechanism.spread / dots / step))
    wide = stride * step
    top = math.ceil(mechanism.epsilon(1e-14) / wide)
    upper = mechanism.curve(wide * np.arange(top + 1))
    # Symmetry: delta(-e) = 1 - e^-e + e^-e delta(e).
    places: Array = wide * np.arange(-top, top + 1.0)
    fall = np.exp(-places[top + 1 :])
    deltas = np.concatenate([((1 - fall) + fall * upper[1:])[::-1], upper])
    slopes = np.diff(deltas) / np.diff(np.exp(places))
    # Q-mass at a place is the change of slope; left of the first the polygon has slope -1, right of the last 0.
    q = np.maximum(np.diff(np.concatenate([[-1.0], slopes, [0.0]])), 0.0)
    return from_points(step, places, q * np.exp(places), float(deltas[-1]))


_LARGEST_MU = 1000.0
_LARGEST_LOSS = 700.0
_LARGEST_SPREAD = 40.0


@dataclass(frozen=True)
class Total:
    """(epsilon, delta) of several studies together, of each alone at the same delta, and by adding stated pairs up."""

    epsilon: float
    delta: float
    alone: tuple[tuple[str, float], ...]
    basic: tuple[float, float] | None
    basis: str
    neighbours: str

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form; infinity is null."""
        return {
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "alone": [
                {"study": title, "epsilon": e if math.isfinite(e) else None} for title, e in self.alone
            ],
            "basic": None if self.basic is None else {"epsilon": self.basic[0], "delta": self.basic[1]},
            "basis": self.basis,
            "neighbours": self.neighbours,
        }


def rounding(study: Study) -> float:
    """How far apart rounding may move two rows: answers to the grid, and masked rows again (h sqrt(p) covers both).

    docs/theory/calibration.md#discrete-noise.
    """
    return study.rows.grid.step * math.sqrt(study.rows.columns)


def release_of(study: Study, sigma: float | None = None) -> MaskedRelease:
    """A release of a study of the rows suite, with its noise, or with other noise."""
    protection = study.protection
    unit = protection.public is not None and protection.public.neighbours.relation == "unit"
    return MaskedRelease(
        protection.sigma if sigma is None else sigma, study.release_rows, study.attributes, "unit" if unit else "record",
        protection.row_norm, rounding(study),
    )  # fmt: skip


def mechanisms_of(study: Study) -> list[Mechanism]:
    """The mechanisms a person's record goes through in a study, towards whoever reads what it publishes."""
    protection = study.protection
    record = Neighbours("record", row_norm=protection.row_norm)
    if protection.budget is not None:
        budget, found = protection.budget, list[Mechanism]()
        if budget.epsilon is not None and budget.delta is not None:
            found.append(ApproximateDP(budget.epsilon, budget.delta, record))
        if budget.mu is not None:
            found.append(GaussianMechanism(budget.mu, record))
        return found
    promise = protection.public
    if promise is None or not protection.sigma:
        raise StudyError(
            f"{study.title}: publishes without noise, so that there is no differential privacy to add up: leave it out"
        )
    if study.suite.name == "rows":
        return [release_of(study)]
    if promise.mu is None:
        raise StudyError(f"{study.title}: states no mu")
    return [GaussianMechanism(promise.mu, record, promise.basis)]


def total(studies: Sequence[Study], delta: float | None = None) -> Total:
    """What all of them cost a person who is in every one; `delta` is the sum of the studies' own if it is left out."""
    if not studies:
        raise ParameterError("studies", "one or more")
    of_each = [mechanisms_of(study) for study in studies]
    pairs = [_stated(study) for study in studies]
    known = [pair for pair in pairs if pair is not None]
    basic = None
    if len(known) == len(pairs):
        basic = (math.fsum(pair[0] for pair in known), math.fsum(pair[1] for pair in known))
    if delta is None:
        delta = basic[1] if basic is not None else 1e-6 * len(studies)
    delta = probability("delta", delta)
    # Studies with the same numbers are the same mechanism, and are transformed once.
    seen: dict[tuple[object, ...], Mechanism] = {}
    parts = [seen.setdefault(_key(part), part) for found in of_each for part in found]
    together = Composition(parts).simplified() if len(parts) > 1 else parts[0]
    alone = tuple(
        (study.title, (found[0] if len(found) == 1 else Composition(found)).epsilon(delta))
        for study, found in zip(studies, of_each, strict=True)
    )
    epsilon = together.epsilon(delta)
    if basic is not None and basic[1] <= delta:
        epsilon = min(epsilon, basic[0])
    return Total(epsilon, delta, alone, basic, together.basis, str(together.neighbours))


def _stated(study: Study) -> tuple[float, float] | None:
    budget, promise = study.protection.budget, study.protection.public
    if budget is not None:
        if budget.mu is None and budget.epsilon is not None and budget.delta is not None:
            return budget.epsilon, budget.delta
        return None
    if promise is None or promise.epsilon is None or promise.delta is None:
        return None
    return promise.epsilon, promise.delta


def _key(part: Mechanism) -> tuple[object, ...]:
    if isinstance(part, MaskedRelease):
        return part.family, part.sigma, part.rows, part.attributes, part.neighbours, part.rounding
    if isinstance(part, GaussianMechanism):
        return part.family, part.mu, part.neighbours, part.basis
    return part.family, id(part)


def loss_distributions(mechanism: Mechanism, step: float) -> list[LossDistribution]:
    """The loss of the dominating pair on a lattice, a distribution for each direction (one where they are equal)."""
    return [_summed(direction) for direction in mechanism.factors(positive("step", step))]


def _summed(factors: tuple[LossDistribution, ...]) -> LossDistribution:
    """Direct convolution: sums of positive terms keep the digits of the tails."""
    total, *others = factors
    for other in others:
        total = LossDistribution(
            total.step,
            total.first + other.first,
            np.convolve(total.mass, other.mass),
            total.infinity_mass + other.infinity_mass - total.infinity_mass * other.infinity_mass,
        )
    return total


def gaussian_cover(mechanism: Mechanism, slack: float) -> float:
    """The least mu (to a thousandth, rounded up) with delta(e) <= (1 - slack) delta_mu(e) + slack at every e >= 0.

    Infinite where none up to 1,000 will do, or losses are spread too far to look: next to no noise.

    Both curves fall, so between two places it is enough to compare the mechanism's at the lower with the other's at the
    upper one. The mechanism's curve is that of its lattice, which lies above its own.
    """
    slack = probability("slack", slack)
    if mechanism.spread > _LARGEST_SPREAD:  # nor would anybody wait for its lattice
        return math.inf
    step = mechanism.spread / 100
    worst = 0.0
    for loss in loss_distributions(mechanism, step):
        mass, losses = loss.mass, loss.losses
        # delta(e) at e = losses[k] is the sum over j > k of m_j (1 - e^(e - l_j)), from sums over the tails.
        heavy = np.cumsum(mass[::-1])[::-1] - mass
        weighted = mass * np.exp(-np.maximum(losses, 0.0))  # those below 0 are in no tail that is looked at
        light = np.cumsum(weighted[::-1])[::-1] - weighted
        with np.errstate(over="ignore", invalid="ignore"):
            exact = np.maximum(heavy - np.exp(losses) * light, 0.0)
        # Beyond what e^l can be computed for, the tail's mass is above delta.
        deltas = np.where(losses < _LARGEST_LOSS, exact, heavy) * (1 + 1e-9) + 1e-18 + loss.infinity_mass
        held = (losses >= 0) & (deltas > slack)
        if held.any():
            worst = max(
                worst, _least_mu(losses[held] + step, (deltas[held] - slack) / (1 - slack), mechanism.spread)
            )
    return worst


def _least_mu(epsilons: Any, deltas: Any, start: float) -> float:
    def enough(mu: float) -> bool:
        a, b = mu / 2 - epsilons / mu, -mu / 2 - epsilons / mu
        reached = np.exp(log_ndtr(a)) - np.exp(epsilons + log_ndtr(b))
        return bool(np.all(reached * (1 - 1e-6) >= deltas))

    low, high = 0.0, max(start, 1e-6)
    while not enough(high):
        if high > _LARGEST_MU:
            return math.inf
        low, high = high, 1.5 * high
    while high - low > 5e-4 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
