"""What a study's noise buys, and what its private answers may cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimask_core.errors import ImpossibleStudy, StudyError
from trimask_core.guarantee import Guarantee

__all__ = ["Budget", "Protection"]


@dataclass(frozen=True)
class Budget:
    """All that private answers about a study may ever cost, towards anybody: two purses, never refilled.

    `epsilon` and `delta` are spent by adding up, `mu` by adding up squares (Gaussian differential privacy). A study
    has one purse or both; who asks says from which an answer is paid.
    """

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None

    def __post_init__(self) -> None:
        given = [value for value in (self.epsilon, self.delta, self.mu) if value is not None]
        if (self.epsilon is None) != (self.delta is None) or not given:
            raise ImpossibleStudy("budget", "a budget is epsilon and delta, or mu, or all three")
        if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in given):
            raise StudyError("a budget's epsilon, delta and mu must be numbers")
        if not all(math.isfinite(value) and value > 0 for value in given) or (self.delta or 0) >= 1:
            raise ImpossibleStudy("budget", "a budget's epsilon and mu must be above 0, its delta in (0, 1)")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {"epsilon": self.epsilon, "delta": self.delta, "mu": self.mu}


@dataclass(frozen=True)
class Protection:
    """What the noise buys. `sigma` = 0 is exact mode: masked or shared, but without differential privacy.

    With a `budget` nothing is published as it is: only private answers leave, until the budget is spent.
    """

    row_norm: float
    sigma: float
    method: str
    public: Guarantee | None = None
    collector: Guarantee | None = None
    budget: Budget | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "row_norm": self.row_norm,
            "sigma": self.sigma,
            "method": self.method,
            "public": None if self.public is None else self.public.to_dict(),
            "collector": None if self.collector is None else self.collector.to_dict(),
            "budget": None if self.budget is None else self.budget.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Protection:
        """Read what `to_dict` wrote."""
        read = {
            name: None if data[name] is None else Guarantee.from_dict(data[name])
            for name in ("public", "collector")
        }
        budget = None if data["budget"] is None else Budget(**data["budget"])
        return cls(data["row_norm"], data["sigma"], data["method"], read["public"], read["collector"], budget)
