"""What studies of the same people cost together.

A person is in one release of a study, since a row is published once; what a study with a budget may ever answer counts in
full. So a study is one mechanism, or one for each purse, and studies, waves and releases add up by `compose`.
Derivation: docs/theory/gaussian-pairs.md#adds-up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from trimask_core.basics.errors import ParameterError, StudyError
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Neighbours
from trimask_theory.accounting.composition import LossDistribution
from trimask_theory.accounting.families import MaskedRelease
from trimask_theory.accounting.mechanism import ApproximateDP, Composition, GaussianMechanism, Mechanism
from trimask_theory.checks import positive, probability
from trimask_theory.masking.masked_noise import Protection

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
        protect: Protection = "unit" if promise.neighbours.relation == "unit" else "record"
        return [
            MaskedRelease(
                protection.sigma,
                study.release_rows,
                study.attributes,
                protect,
                protection.row_norm,
                rounding(study),
            )
        ]
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
