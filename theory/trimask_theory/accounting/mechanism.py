"""What a mechanism costs in privacy, as one object: its curve, its inverse, its trade-off, and what several cost together.

A `Mechanism` says for which neighbours and on what basis its numbers hold. `compose` adds mechanisms up: Gaussian ones
exactly (mu^2 add up), others through the loss distributions of their dominating pairs (`composition`).
Derivation: docs/theory/gaussian-pairs.md#loss-distributions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Basis, Guarantee, Neighbours
from trimask_theory.accounting.composition import Factor, LossDistribution, LossSum, from_density, from_points
from trimask_theory.checks import non_negative, positive, probability
from trimask_theory.gaussian import gdp

Array = NDArray[np.float64]

_PER_DEVIATION = 100
"""Lattice places in a standard deviation of one mechanism's loss: mu is then overstated by about 1e-5 of itself."""


class Mechanism(ABC):
    """A mechanism and what it tells about one person. Symmetric: the curve holds in both directions.

    Examples
    --------
    >>> from trimask_theory.accounting import MaskedRelease
    >>> from trimask_theory.mechanisms import noisy_gram
    >>> release = MaskedRelease(sigma=1.2713, rows=256, attributes=6)
    >>> round(release.epsilon(1e-6), 3)
    1.0
    >>> gram = Mechanism.of(noisy_gram.calibrate_mu(0.2122, row_norm=2.45).guarantee)
    >>> round(release.compose(release, gram).epsilon(1e-6), 3)
    1.735
    """

    family: ClassVar[str]
    neighbours: Neighbours
    basis: Basis

    @staticmethod
    def of(guarantee: Guarantee) -> Mechanism:
        """What a calibration or a release promises, by its mu, or else by its epsilon and delta alone."""
        if guarantee.mu is not None:
            return GaussianMechanism(guarantee.mu, guarantee.neighbours, guarantee.basis)
        assert guarantee.epsilon is not None and guarantee.delta is not None  # noqa: S101, PT018 - it states one of the two
        return ApproximateDP(guarantee.epsilon, guarantee.delta, guarantee.neighbours, guarantee.basis)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} ({self.family}), {self._numbers()}for {self.neighbours}; {self.basis}>"
        )

    def _numbers(self) -> str:
        """What `repr` says of it."""
        return "" if self.mu is None else f"mu = {self.mu:.4g}, "

    @property
    def mu(self) -> float | None:
        """mu where the mechanism is exactly mu-GDP (in the limit, where its basis says so), else None."""
        return None

    @property
    @abstractmethod
    def spread(self) -> float:
        """About the standard deviation of the privacy loss; it chooses lattices and bounds nothing."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """The smallest delta at which the mechanism is (epsilon, delta)-DP, epsilon >= 0."""

    @abstractmethod
    def factors(self, step: float) -> list[tuple[LossDistribution, ...]]:
        """Directions (one, or forward and backward), each the independent losses whose sum dominates, on one lattice."""

    def curve(self, epsilons: ArrayLike) -> Array:
        """delta at every epsilon."""
        return np.array([self.delta(float(e)) for e in np.ravel(epsilons)]).reshape(np.shape(epsilons))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 at which the mechanism is (epsilon, delta)-DP, rounded up."""
        goal, low, high = probability("delta", delta), 0.0, max(1.0, self.spread)
        if self.delta(low) <= goal:
            return low
        while self.delta(high) > goal:
            low, high = high, 2 * high
            if high > 1e6:
                return math.inf
        while high - low > 1e-10 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.delta(middle) > goal else (low, middle)
        return high

    def trade_off(self, alpha: ArrayLike) -> Array:
        """The least type II error of a level-alpha test: every (epsilon, delta) of the curve is a line below it."""
        levels = np.asarray(alpha, dtype=np.float64)
        # Beyond the epsilon of a delta of 1e-12 the lines no longer rise above the axis by anything.
        best = np.zeros_like(levels)
        for epsilon in np.linspace(0.0, max(min(self.epsilon(1e-12), 60.0), 1e-6), 129):
            best = np.maximum(best, gdp.dp_trade_off(levels, float(epsilon), self.delta(float(epsilon))))
        return best

    def compose(self, *others: Mechanism) -> Mechanism:
        """This one and the others, of the same people, one after another.

        Parameters
        ----------
        others : Mechanism
            For the same relation of neighbours. Of `unit` ones within different distances the shortest holds for all.

        Returns
        -------
        Mechanism
            One Gaussian mechanism where all parts are, else a `Composition`.
        """
        return Composition([self, *others]).simplified()

    def repeated(self, times: int) -> Mechanism:
        """This one several times over."""
        return Composition([self] * times).simplified()


class GaussianMechanism(Mechanism):
    """mu-GDP, exactly (or in the limit, where `basis` says so)."""

    family = "gaussian"

    def __init__(self, mu: float, neighbours: Neighbours, basis: Basis = "proved") -> None:
        self._mu, self.neighbours, self.basis = positive("mu", mu), neighbours, basis

    @property
    def mu(self) -> float:
        """Its mu."""
        return self._mu

    @property
    def spread(self) -> float:
        """The loss is normal with standard deviation mu."""
        return self._mu

    def delta(self, epsilon: float) -> float:
        """Dong, Roth, Su 2022, Corollary 2.13."""
        return gdp.delta(epsilon, self._mu)

    def epsilon(self, delta: float) -> float:
        """The inverse, rounded up."""
        return gdp.epsilon(delta, self._mu)

    def trade_off(self, alpha: ArrayLike) -> Array:
        """Phi(Phi^{-1}(1 - alpha) - mu)."""
        return gdp.trade_off(alpha, self._mu)

    def factors(self, step: float) -> list[tuple[LossDistribution, ...]]:
        """N(mu^2/2, mu^2) on the lattice."""
        mu, centre = self._mu, self._mu**2 / 2
        low, high = (math.floor((centre + side * 9.5 * mu) / step) for side in (-1, 1))

        def density(loss: Array) -> Array:
            return np.exp(-0.5 * ((loss - centre) / mu) ** 2) / (mu * math.sqrt(2 * math.pi))

        ends = (low * step, (high + 1) * step)
        found = from_density(step, low, high + 1, lambda loss: loss, lambda loss: loss, density, ends)
        # Below the lattice losses are raised to its lowest place, which is where the rest of the mass belongs.
        below = float(ndtr((ends[0] - centre) / mu))
        mass = found.mass.copy()
        mass[0] += below
        beyond = float(ndtr(-(ends[1] - centre) / mu))
        return [(LossDistribution(step, found.first, mass, beyond),)]


class ApproximateDP(Mechanism):
    """Whatever is (epsilon, delta)-DP and nothing more is known of: randomised response with a failure (Kairouz et al.)."""

    family = "approximate"

    def __init__(self, epsilon: float, delta: float, neighbours: Neighbours, basis: Basis = "proved") -> None:
        self._epsilon, self._delta = positive("epsilon", epsilon), non_negative("delta", delta)
        if self._delta >= 1:
            raise ParameterError("delta", "a number in [0, 1)", delta)
        self.neighbours, self.basis = neighbours, basis

    def _numbers(self) -> str:
        return f"epsilon = {self._epsilon:.4g}, delta = {self._delta:.4g}, "

    @property
    def spread(self) -> float:
        """The loss is epsilon or -epsilon."""
        return self._epsilon

    def delta(self, epsilon: float) -> float:
        """The curve of the worst such mechanism."""
        left = non_negative("epsilon", epsilon) - self._epsilon
        if left >= 0:
            return self._delta
        share = 1 / (1 + math.exp(-self._epsilon))
        return self._delta + (1 - self._delta) * share * -math.expm1(left)

    def factors(self, step: float) -> list[tuple[LossDistribution, ...]]:
        """Two losses and an infinite one."""
        share = (1 - self._delta) / (1 + math.exp(-self._epsilon))
        losses = np.array([-self._epsilon, self._epsilon])
        masses = np.array([1 - self._delta - share, share])
        return [(from_points(step, losses, masses, self._delta),)]


class Composition(Mechanism):
    """Several mechanisms of the same people together, for the same neighbours."""

    family = "composition"
    parts: tuple[Mechanism, ...]

    def __init__(self, parts: Iterable[Mechanism], per_deviation: int = _PER_DEVIATION) -> None:
        flat: list[Mechanism] = []
        for part in parts:
            if not isinstance(part, Mechanism):
                raise ParameterError("mechanisms", "mechanisms, such as MaskedRelease(...)", part)
            flat.extend(part.parts if isinstance(part, Composition) else [part])
        if not flat:
            raise ParameterError("mechanisms", "one or more")
        relations = {part.neighbours.relation for part in flat}
        if len(relations) > 1:
            raise ParameterError(
                "mechanisms",
                "for the same neighbours: record, unit or add-remove costs do not add up",
                sorted(relations),
            )
        self.neighbours = _common(flat)
        self.basis = min((part.basis for part in flat), key=("asymptotic", "numerical", "proved").index)
        self.parts = tuple(flat)
        self._per_deviation = per_deviation
        self._sums: list[LossSum] | None = None

    def _numbers(self) -> str:
        return f"{len(self.parts)} parts, "

    def simplified(self) -> Mechanism:
        """One Gaussian mechanism where all parts are."""
        mus = [part.mu for part in self.parts]
        known = [mu for mu in mus if mu is not None]
        if len(known) < len(mus):
            return self
        return GaussianMechanism(gdp.compose(*known), self.neighbours, self.basis)

    @property
    def spread(self) -> float:
        """Squares add up."""
        return math.hypot(*(part.spread for part in self.parts))

    def factors(self, step: float) -> list[tuple[LossDistribution, ...]]:
        """Those of the parts."""
        return [
            tuple(loss for loss, count in direction for _ in range(count))
            for direction in self._directions(step)
        ]

    def _directions(self, step: float) -> list[list[Factor]]:
        """Forward and backward, equal parts (the same object) counted and Gaussian ones taken together."""
        mus = [part.mu for part in self.parts if part.mu is not None]
        rest = [part for part in self.parts if part.mu is None]
        counted = {id(part): part for part in rest}
        uses = [(part, sum(other is part for other in rest)) for part in counted.values()]
        if mus:
            uses.append((GaussianMechanism(gdp.compose(*mus), self.neighbours), 1))
        made = [(part.factors(step), count) for part, count in uses]
        return [
            [
                (loss, count)
                for directions, count in made
                for loss in directions[min(side, len(directions) - 1)]
            ]
            for side in range(max(len(directions) for directions, _ in made))
        ]

    def _loss_sums(self) -> list[LossSum]:
        if self._sums is None:
            step = self.spread / math.sqrt(len(self.parts)) / self._per_deviation
            self._sums = [LossSum(direction) for direction in self._directions(step)]
        return self._sums

    def delta(self, epsilon: float) -> float:
        """The larger direction's."""
        epsilon = non_negative("epsilon", epsilon)
        return max(each.delta(epsilon) for each in self._loss_sums())

    def epsilon(self, delta: float) -> float:
        """The larger direction's."""
        goal = probability("delta", delta)
        return max(each.epsilon(goal) for each in self._loss_sums())


def _common(parts: list[Mechanism]) -> Neighbours:
    """The neighbours for which every part's numbers hold: within the shortest distance, of one norm if they share it."""
    relation = parts[0].neighbours.relation
    norms = {part.neighbours.row_norm for part in parts}
    norm = norms.pop() if len(norms) == 1 else None
    if relation == "unit":
        distances = [part.neighbours.distance for part in parts]
        return Neighbours(relation, norm, min(1.0 if d is None else d for d in distances))
    return parts[0].neighbours if norm is not None else Neighbours(relation)
