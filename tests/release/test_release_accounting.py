"""Purses: decimal sums, what is left can be asked for, nothing beyond it can."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimask_core.basics.errors import ImpossibleStudy, ParameterError, Refused, StudyError
from trimask_core.study.guarantee import Budget
from trimask_server.collector.accounting import Price, left_after, require_affordable, spent_by

amount = st.floats(min_value=1e-6, max_value=10, allow_nan=False)


def test_three_times_a_tenth_is_three_tenths() -> None:
    budget = Budget(0.3, 3e-7)
    paid: list[Price] = []
    for _ in range(3):
        require_affordable(budget, paid, Price(0.1, 1e-7))
        paid.append(Price(0.1, 1e-7))
    left = left_after(budget, paid)
    assert (left.epsilon, left.delta, left.mu, left.empty) == (0.0, 0.0, None, True)
    with pytest.raises(Refused, match=r"left: epsilon = 0\.0 with delta = 0\.0\. Nothing fits"):
        require_affordable(budget, paid, Price(1e-9, 0.0))


def test_mu_adds_up_in_squares() -> None:
    budget = Budget(mu=0.5)
    require_affordable(budget, [Price(mu=0.3)], Price(mu=0.4))
    assert left_after(budget, [Price(mu=0.3)]).mu == pytest.approx(0.4, rel=1e-15)
    assert left_after(budget, [Price(mu=0.3), Price(mu=0.4)]).empty
    assert spent_by(budget, [Price(mu=0.3), Price(mu=0.4)]).mu == 0.5
    with pytest.raises(Refused, match=r"left: mu = 0\.4"):
        require_affordable(budget, [Price(mu=0.3)], Price(mu=math.nextafter(0.4, 1)))


def test_epsilon_and_delta_are_both_limits() -> None:
    budget = Budget(1.0, 1e-6)
    for price in (Price(1.1, 1e-7), Price(0.1, 2e-6)):
        with pytest.raises(Refused) as caught:
            require_affordable(budget, [], price)
        assert caught.value.reason == "budget_spent"
    # Without delta left, what costs none can still be bought.
    assert not left_after(budget, [Price(0.5, 1e-6)]).empty
    require_affordable(budget, [Price(0.5, 1e-6)], Price(0.5, 0.0))


def test_purses_are_apart() -> None:
    both = Budget(1.0, 1e-6, 1.0)
    paid = [Price(1.0, 1e-6)]
    require_affordable(both, paid, Price(mu=1.0))
    assert not left_after(both, paid).empty
    assert left_after(both, [*paid, Price(mu=1.0)]).empty
    for budget, price in ((Budget(1.0, 1e-6), Price(mu=0.1)), (Budget(mu=1.0), Price(0.1, 1e-7))):
        with pytest.raises(Refused) as caught:
            require_affordable(budget, [], price)
        assert caught.value.reason == "bad_question"


@given(st.lists(amount, max_size=8), amount)
def test_what_is_shown_as_left_can_be_asked_for_and_no_more(costs: list[float], total: float) -> None:
    budget = Budget(total, 0.5, total)
    paid: list[Price] = []
    for cost in costs:
        for price in (Price(cost, 0.0), Price(mu=cost)):
            try:
                require_affordable(budget, paid, price)
            except Refused:
                continue
            paid.append(price)
    left = left_after(budget, paid)
    assert left.epsilon is not None
    assert left.mu is not None
    if left.epsilon:
        require_affordable(budget, paid, Price(left.epsilon, 0.0))
    if left.mu:
        require_affordable(budget, paid, Price(mu=left.mu))
    for more in (Price(left.epsilon + total * 1e-9, 0.0), Price(mu=math.hypot(left.mu, total * 1e-4))):
        with pytest.raises(Refused):
            require_affordable(budget, paid, more)


@pytest.mark.parametrize(
    "price",
    [{}, {"epsilon": 1.0}, {"delta": 0.1}, {"epsilon": 1.0, "delta": 0.1, "mu": 1.0}, {"epsilon": 0.0, "delta": 0.1},
     {"epsilon": math.inf, "delta": 0.1}, {"epsilon": 1.0, "delta": 1.0}, {"epsilon": 1.0, "delta": -0.1},
     {"epsilon": math.nan, "delta": 0.1}, {"epsilon": 1.0, "delta": math.nan}, {"mu": 0.0}, {"mu": math.nan}],
)  # fmt: skip
def test_prices_that_are_none(price: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        Price(**price)


@pytest.mark.parametrize(
    "values",
    [{}, {"epsilon": 1.0}, {"delta": 0.1}, {"epsilon": -1.0, "delta": 0.1}, {"epsilon": 1.0, "delta": 0.0}, {"mu": 0.0},
     {"epsilon": 1.0, "delta": 1.0}, {"mu": math.inf}],
)  # fmt: skip
def test_budgets_that_are_none(values: dict[str, float]) -> None:
    with pytest.raises(ImpossibleStudy):
        Budget(**values)
    with pytest.raises(StudyError):
        Budget(mu=True)
