"""What a release promises, to whom, and how far the promise is proved; what a study's noise gives, and its budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from trimask_core.basics.errors import ImpossibleStudy, ParameterError, StudyError

Relation = Literal["record", "unit", "add-remove"]
Basis = Literal["proved", "asymptotic", "numerical"]
Step = Literal["none", "weak", "medium", "strong"]
STEPS: tuple[Step, ...] = ("none", "weak", "medium", "strong")
STRONG, MEDIUM = 3 / 5, 3 / 4
"""The largest guess of each step. Dong, Roth and Su call 0.5-Gaussian differential privacy reasonable and 1 borderline."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Which two data sets are to be indistinguishable.

    `record`: one person's row is replaced by any other row of norm at most `row_norm`.
    `unit`: one row is replaced by a row at distance at most `distance` (the masked-noise paper's).
    `add-remove`: one row of norm at most `row_norm` is added or removed.
    """

    relation: Relation
    row_norm: float | None = None
    distance: float | None = None

    def __post_init__(self) -> None:
        if self.relation not in get_args(Relation):
            raise ParameterError("relation", f"one of {', '.join(get_args(Relation))}", self.relation)

    def __str__(self) -> str:
        norm = "" if self.row_norm is None else f" of norm at most {self.row_norm:.4g}"
        if self.relation == "record":
            return f"one person's whole record{norm} replaced by any other"
        if self.relation == "unit":
            step = "1" if self.distance is None else f"{self.distance:.4g}"
            return f"one row{norm} moved by at most {step}"
        return f"one row{norm} added or removed"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A privacy guarantee: (epsilon, delta)-DP, or mu-Gaussian DP, with what it rests on.

    Give epsilon and delta, or mu, or both when the pair was derived from mu. `because` is one sentence
    saying what is proved, what holds only in the limit, or what was maximised numerically. `enclosed` are two numbers
    between which delta at epsilon is certified to lie, found in ball arithmetic, the upper one at most `delta`. `adds_up`
    is (mu, slack): at every epsilon, delta is at most that of mu-Gaussian differential privacy and the slack, so that
    several such guarantees about one person add up as mu^2 and slack. `discrete_epsilon`: the numbers are those of Gaussian
    noise, and noise that is drawn on a grid adds at most this to epsilon (and this part of itself to delta).
    """

    neighbours: Neighbours
    basis: Basis
    because: str
    citation: str
    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    enclosed: tuple[float, float] | None = None
    adds_up: tuple[float, float] | None = None
    discrete_epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.basis not in get_args(Basis):
            raise ParameterError("basis", f"one of {', '.join(get_args(Basis))}", self.basis)
        if (self.epsilon is None) != (self.delta is None):
            raise ParameterError("epsilon and delta", "given together")
        if self.epsilon is None and self.mu is None:
            raise ParameterError("guarantee", "stated by epsilon and delta, or by mu")
        for name in ("epsilon", "delta", "mu", "discrete_epsilon"):
            value = getattr(self, name)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf
            ):
                raise ParameterError(name, "a finite number, not below 0")
        if self.enclosed is not None:
            lower, upper = self.enclosed
            if self.delta is None or not 0 <= lower <= upper <= self.delta:
                raise ParameterError(
                    "enclosed", "two numbers, lower and upper, within 0 and delta", self.enclosed
                )
        if self.adds_up is not None and not all(0 < part < math.inf for part in self.adds_up):
            raise ParameterError("adds_up", "mu and a slack, both above 0", self.adds_up)

    def __str__(self) -> str:
        parts = []
        if self.epsilon is not None and self.delta is not None:
            within = (
                ""
                if self.enclosed is None
                else " (delta certified to lie in [{:.5g}, {:.5g}])".format(*self.enclosed)
            )
            parts.append(f"({self.epsilon:.4g}, {self.delta:.3g})-differential privacy{within}")
        if self.mu is not None:
            parts.append(f"{self.mu:.4g}-Gaussian differential privacy")
        if self.discrete_epsilon is not None:
            parts[-1] += f" (noise on a grid adds at most {self.discrete_epsilon:.1e} to epsilon)"
        return f"{' and '.join(parts)}; neighbours: {self.neighbours}; {self.basis}: {self.because} [{self.citation}]"

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form; `from_dict` reads it back."""
        optional = {"enclosed": self.enclosed, "adds_up": self.adds_up}
        given: dict[str, Any] = {name: list(both) for name, both in optional.items() if both is not None}
        if self.discrete_epsilon is not None:
            given["discrete_epsilon"] = self.discrete_epsilon
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "mu": self.mu,
            "neighbours": {
                "relation": self.neighbours.relation,
                "row_norm": self.neighbours.row_norm,
                "distance": self.neighbours.distance,
            },
            "basis": self.basis,
            "because": self.because,
            "citation": self.citation,
            **given,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Guarantee:
        """Read what `to_dict` wrote."""
        pairs = {name: _two_numbers(name, data[name]) for name in ("enclosed", "adds_up") if name in data}
        return cls(**{**data, "neighbours": Neighbours(**data["neighbours"]), **pairs})


def _two_numbers(name: str, value: object) -> tuple[float, float]:
    if not (isinstance(value, list) and [type(end) for end in value] == [float, float]):
        raise ParameterError(name, "a list of two numbers")
    return value[0], value[1]


def factor_words(epsilon: float) -> str:
    """e^epsilon, by which a conclusion may become more likely, as a number people can read."""
    if epsilon == math.inf:
        return "infinity"
    if epsilon > math.log(1e9):
        return f"10^{math.ceil(epsilon / math.log(10))}"
    factor = math.exp(epsilon)
    return f"{factor:.3g}" if factor < 100 else f"{factor:,.0f}"


def best_guess(epsilon: float, delta: float = 0.0, mu: float = 0.0) -> float:
    """The largest probability of telling two equally likely sets of answers apart.

    `mu`: something mu-Gaussian private is seen as well. What is (epsilon, delta)-private shows no more than a leak with
    probability delta and else a coin that is right with e^epsilon to 1; its log-likelihood ratio is then +-epsilon, to which
    the Gaussian's, N(mu^2 / 2, mu^2), is added; a guess is right where the sum is above 0.
    """
    coin = 1 / (1 + math.exp(-epsilon))
    if mu > 0:
        coin = coin * phi(mu / 2 + epsilon / mu) + (1 - coin) * phi(mu / 2 - epsilon / mu)
    return min(1.0, coin + delta * (1 - coin))


def phi(x: float) -> float:
    """The normal distribution function."""
    return math.erfc(-x / math.sqrt(2)) / 2


def guess_of_100(guess: float) -> int:
    """In hundredths, rounded up."""
    return min(100, math.ceil(100 * guess - 1e-9))


def step_of(guess: float) -> Step:
    """The step of a promise about a whole record."""
    if guess > MEDIUM + 1e-9:
        return "weak"
    return "medium" if guess > STRONG + 1e-9 else "strong"


class Towards(NamedTuple):
    """`who` follows the word "towards"."""

    who: str
    guarantee: Guarantee


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
