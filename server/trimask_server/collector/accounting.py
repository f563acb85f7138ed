"""What answers cost together, and what a budget has left.

Two purses, each with the composition rule under which it may be spent in any order and adaptively, the next question
chosen after the last answer: (epsilon, delta) add up (basic composition; Rogers, Roth, Ullman, Vadhan 2016), and mu^2
add up (Gaussian differential privacy; Dong, Roth, Su 2022, Corollary 3.3; fully adaptive by Smith and Thakurta 2022).
They are kept apart on purpose: one purse that traded mu against epsilon as it went would not hold against questions
chosen by what earlier answers happened to be. A study with both purses is, in all, (epsilon + e, delta + d)-private for
every (e, d) that mu allows, however the questions to the two are interleaved (concurrent composition: Vadhan and Zhang
2023).

Amounts are added as the decimal numbers people write, so that three times 0.1 is 0.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal

from trimask_core.basics.errors import ParameterError, Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.guarantee import Budget

_EXACT = Context(prec=200)
_DUST = Decimal("1e-12")
"""A purse with less than this part of it left (of mu^2 for the Gaussian one) is empty."""


@dataclass(frozen=True)
class Price:
    """What one answer costs: epsilon and delta, or mu. Delta may be 0."""

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) != (self.delta is None) or (self.epsilon is None) == (self.mu is None):
            raise ParameterError("price", "epsilon and delta, or mu")
        for name, value in (("epsilon", self.epsilon), ("mu", self.mu)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ParameterError(name, "a finite number > 0", value)
        if self.delta is not None and not 0 <= self.delta < 1:
            raise ParameterError("delta", "a number in [0, 1)", self.delta)

    def __str__(self) -> str:
        if self.mu is not None:
            return f"mu = {self.mu!r}"
        return f"epsilon = {self.epsilon!r}, delta = {self.delta!r}"


@dataclass(frozen=True)
class Purses:
    """Amounts in both purses; None where a study has no such purse."""

    epsilon: float | None
    delta: float | None
    mu: float | None

    @property
    def empty(self) -> bool:
        """Whether no answer can be paid for any more; with epsilon there must be, delta may be 0."""
        return not self.epsilon and not self.mu

    def __str__(self) -> str:
        # Every digit: an amount rounded up for show could not be asked for.
        parts = []
        if self.epsilon is not None and self.delta is not None:
            parts.append(f"epsilon = {self.epsilon!r} with delta = {self.delta!r}")
        if self.mu is not None:
            parts.append(f"mu = {self.mu!r}")
        return " and ".join(parts)

    def fitting(self, price: Price) -> str:
        """What could be paid from the purse this price is for, in words."""
        if price.mu is not None:
            return f"at most mu = {self.mu!r} would fit" if self.mu else "nothing fits"
        if not self.epsilon:
            return "nothing fits"
        return f"at most epsilon = {self.epsilon!r} with delta = {self.delta!r} would fit"


def _decimal(value: float | None) -> Decimal:
    return Decimal(0) if value is None else Decimal(repr(float(value)))


def _sums(prices: Iterable[Price]) -> tuple[Decimal, Decimal, Decimal]:
    epsilon = delta = square = Decimal(0)
    for price in prices:
        epsilon = _EXACT.add(epsilon, _decimal(price.epsilon))
        delta = _EXACT.add(delta, _decimal(price.delta))
        mu = _decimal(price.mu)
        square = _EXACT.add(square, _EXACT.multiply(mu, mu))
    return epsilon, delta, square


def spent_by(budget: Budget, prices: Iterable[Price]) -> Purses:
    """What the answers cost together, purse by purse."""
    epsilon, delta, square = _sums(prices)
    return Purses(
        None if budget.epsilon is None else float(epsilon),
        None if budget.delta is None else float(delta),
        None if budget.mu is None else float(_EXACT.sqrt(square)),
    )


def _rest(total: float | None, spent: Decimal) -> float | None:
    """total - spent, rounded so that the rest can be asked for; a negligible rest is 0."""
    if total is None:
        return None
    whole = _decimal(total)
    rest = _EXACT.subtract(whole, spent)
    if rest <= whole * _DUST:
        return 0.0
    value = float(rest)
    return value if _decimal(value) <= rest else math.nextafter(value, 0.0)


def left_after(budget: Budget, prices: Iterable[Price]) -> Purses:
    """What is left of the budget: each amount can be asked for as it is shown."""
    epsilon, delta, square = _sums(prices)
    mu = None
    if budget.mu is not None:
        whole = _EXACT.multiply(_decimal(budget.mu), _decimal(budget.mu))
        rest = _EXACT.subtract(whole, square)
        mu = 0.0
        if rest > whole * _DUST:
            mu = float(_EXACT.sqrt(rest))
            while _EXACT.multiply(_decimal(mu), _decimal(mu)) > rest:
                mu = math.nextafter(mu, 0.0)
    return Purses(_rest(budget.epsilon, epsilon), _rest(budget.delta, delta), mu)


def require_affordable(budget: Budget, prices: Iterable[Price], price: Price) -> None:
    """Refuse a price the budget cannot pay, saying what is left."""
    earlier = list(prices)
    left = left_after(budget, earlier)
    epsilon, delta, square = _sums([*earlier, price])
    total_mu = _decimal(budget.mu)
    if price.mu is not None:
        if budget.mu is None:
            raise Refused(Reason.BAD_QUESTION, "this study's budget has no mu: pay with epsilon and delta")
        fits = square <= _EXACT.multiply(total_mu, total_mu)
    else:
        if budget.epsilon is None:
            raise Refused(Reason.BAD_QUESTION, "this study's budget has mu only: pay with mu")
        fits = epsilon <= _decimal(budget.epsilon) and delta <= _decimal(budget.delta)
    if not fits:
        raise Refused(
            Reason.BUDGET_SPENT,
            f"the budget cannot pay {price}; left: {left}. {left.fitting(price).capitalize()}; it is never refilled",
        )
