"""The guarantee a study's noise gives, and the budget of its private answers."""

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
    """The guarantee the noise gives. `sigma` = 0 is exact mode: masked or shared, but without differential privacy.

    With a `budget` nothing is published as it is: only private answers leave, until the budget is spent.
    `by_honest_rows`: (honest rows, epsilon), most first, in the rows suite with noise: a person is hidden by the noise of
    the others, and this is what is left if only that many keep theirs secret. Computed when the study is made.
    `right_providers`, in the same studies: towards all right providers together, who see a row with its own noise alone.
    """

    row_norm: float
    sigma: float
    method: str
    public: Guarantee | None = None
    collector: Guarantee | None = None
    budget: Budget | None = None
    by_honest_rows: tuple[tuple[int, float], ...] = ()
    right_providers: Guarantee | None = None

    def __post_init__(self) -> None:
        rows = [count for count, _ in self.by_honest_rows]
        if rows != sorted(set(rows), reverse=True) or any(
            isinstance(count, bool) or not isinstance(count, int) or count < 1 for count in rows
        ):
            raise StudyError("by_honest_rows must have each number of rows once, the largest first")
        if not all(isinstance(found, float) and found > 0 for _, found in self.by_honest_rows):
            raise StudyError("by_honest_rows must have an epsilon above 0 for each number of rows")

    def epsilon_at(self, honest: int) -> float | None:
        """The epsilon stated for so many honest rows; that of fewer where it is not in the table."""
        return next((found for rows, found in self.by_honest_rows if rows <= honest), None)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "row_norm": self.row_norm,
            "sigma": self.sigma,
            "method": self.method,
            "public": None if self.public is None else self.public.to_dict(),
            "collector": None if self.collector is None else self.collector.to_dict(),
            "budget": None if self.budget is None else self.budget.to_dict(),
            "by_honest_rows": [list(line) for line in self.by_honest_rows],
            "right_providers": None if self.right_providers is None else self.right_providers.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Protection:
        """Read what `to_dict` wrote."""
        read = {
            name: None if data[name] is None else Guarantee.from_dict(data[name])
            for name in ("public", "collector", "right_providers")
        }
        budget = None if data["budget"] is None else Budget(**data["budget"])
        honest = tuple((rows, float(found)) for rows, found in data["by_honest_rows"])
        return cls(
            data["row_norm"],
            data["sigma"],
            data["method"],
            read["public"],
            read["collector"],
            budget,
            honest,
            read["right_providers"],
        )
