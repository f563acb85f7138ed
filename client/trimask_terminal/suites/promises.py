"""Guarantees and budgets in words, the same for every suite."""

from __future__ import annotations

from trimask_core.study.guarantee import Budget, Guarantee


def budget_words(budget: Budget) -> str:
    """What may be spent."""
    parts = [] if budget.epsilon is None else [f"epsilon {budget.epsilon:g} with delta {budget.delta:g}"]
    return " and ".join(parts if budget.mu is None else [*parts, f"mu {budget.mu:g}"])


def pair_words(guarantee: Guarantee | None) -> str:
    """(epsilon, delta), for which neighbours, and on what basis."""
    if guarantee is None or guarantee.epsilon is None:
        return "nothing"
    certified = (
        ""
        if guarantee.enclosed is None
        else "; delta certified in [{:.5g}, {:.5g}]".format(*guarantee.enclosed)
    )
    return (
        f"({guarantee.epsilon:.3g}, {guarantee.delta:.0e})-differential privacy "
        f"for {guarantee.neighbours} ({guarantee.basis}{certified})"
    )
