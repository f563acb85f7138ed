"""The combined privacy loss of all studies that one person answered, computed on the person's device.

A study states what it promises of one record. Two kinds of promise add up: pairs (epsilon, delta) by adding, and
Gaussian ones, mu with a slack, by mu^2 and slack (Dong, Roth and Su 2022, Corollary 3.3; how a study comes by its mu:
docs/theory/gaussian-pairs.md#adds-up). The answer is stated at the sum of the studies' deltas, and is
never more than the sum of their epsilons. A budget counts in full, spent or not.
Pure Python: it runs where there is no numpy. `trimask privacy total` finds a sharper answer from the same studies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Guarantee, best_guess

_LARGEST = 700.0
_ROUNDING = 1e-12  # by which less than this part of itself each term of the difference is wrong,
_FEWER_DIGITS = 1e-311  # down to here
_USUAL_DELTA = 1e-6


@dataclass(frozen=True)
class Spending:
    """(epsilon, delta) for a whole record, over `counted` studies; `uncounted` are the titles that promise none.

    `guess`: the best guess between two whole sets of answers (`best_guess`) by somebody who sees all of them.
    """

    epsilon: float
    delta: float
    counted: int
    uncounted: tuple[str, ...] = ()
    guess: float = 0.5


def spending(studies: Iterable[Study]) -> Spending:
    """What these studies, all answered by one person, promise together."""
    pairs: list[tuple[float, float]] = []
    gaussian: list[tuple[float, float, float, float]] = []  # mu, slack, epsilon alone, delta
    counted, uncounted = 0, []
    for study in studies:
        budget, promise = study.protection.budget, study.protection.public
        if budget is not None:
            counted += 1
            if budget.epsilon is not None and budget.delta is not None:
                pairs.append((budget.epsilon, budget.delta))
            if budget.mu is not None:
                gaussian.append((budget.mu, 0.0, math.inf, budget.delta or _USUAL_DELTA))
        elif promise is None or promise.neighbours.relation != "record":
            uncounted.append(study.title)
        else:
            counted += 1
            found = _gaussian(promise)
            if found is not None:
                gaussian.append(found)
            elif promise.epsilon is not None and promise.delta is not None:
                pairs.append((promise.epsilon, promise.delta))
    epsilon = math.fsum(pair[0] for pair in pairs)
    delta = math.fsum(pair[1] for pair in pairs)
    mu = math.hypot(*(each[0] for each in gaussian))
    slack = math.fsum(each[1] for each in gaussian)
    guess = min(1.0, best_guess(epsilon, delta, mu) + slack / 2)
    if gaussian:
        room = math.fsum(each[3] for each in gaussian)
        together = epsilon_of(mu, room - slack)
        epsilon += min(together, math.fsum(each[2] for each in gaussian))
        delta += room
    return Spending(epsilon, delta, counted, tuple(uncounted), min(guess, best_guess(epsilon, delta)))


def _gaussian(promise: Guarantee) -> tuple[float, float, float, float] | None:
    alone = math.inf if promise.epsilon is None else promise.epsilon
    delta = _USUAL_DELTA if promise.delta is None else promise.delta
    if promise.adds_up is not None and promise.adds_up[1] < delta:
        return (*promise.adds_up, alone, delta)
    return None if promise.mu is None else (promise.mu, 0.0, alone, delta)


def epsilon_of(mu: float, delta: float) -> float:
    """The epsilon that mu-Gaussian differential privacy gives with delta (Dong, Roth and Su 2022, Corollary 1), rounded up.

    Infinite where it is above 700, beyond which e^epsilon cannot be computed, and at delta = 0.
    """

    def tail(x: float) -> float:
        return math.erfc(x / math.sqrt(2)) / 2

    def reached(epsilon: float) -> float:
        far = tail(epsilon / mu + mu / 2)
        far = far if far > _FEWER_DIGITS else 0.0
        return (1 + _ROUNDING) * tail(epsilon / mu - mu / 2) - (1 - _ROUNDING) * math.exp(epsilon) * far

    if mu == 0:
        return 0.0
    if not delta > 0 or reached(_LARGEST) > delta:
        return math.inf
    low, high = 0.0, _LARGEST
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) > delta else (low, middle)
    return high
