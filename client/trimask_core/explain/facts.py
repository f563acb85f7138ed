"""What a study promises and who could see what, as data that an app and a page show alike. Words: `sentences`.

Strength is stated as an attacker's best guess. Under (epsilon, delta)-differential privacy, one who knows all but which
of two answers a person gave, and holds both for equally likely, guesses right with probability at most
(e^epsilon + delta) / (1 + e^epsilon) (the tradeoff of Kairouz, Oh and Viswanath 2015, Theorem 2.1, where both errors are
alike; docs/app.md#scale). A coin is right half of the time. Three steps:

    strong   right in at most 3 of 4 cases     (epsilon up to ln 3 = 1.10)
    medium   right in at most 9 of 10 cases    (epsilon up to ln 9 = 2.20)
    weak     anything above, and what is not about a person's whole answers, or has too large a delta

and `none` where there is no such promise. One that holds only in the limit is medium at best.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from trimask_core.collusion import collusion_of
from trimask_core.rows.collusion import CollusionReport
from trimask_core.rows.study import RowsSettings
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Guarantee
from trimask_core.submit.personal_budget import epsilon_of

Step = Literal["none", "weak", "medium", "strong"]
STEPS: tuple[Step, ...] = ("none", "weak", "medium", "strong")
Viewer = Literal["public", "collector", "everybody"]
# Who sees: everybody, the collector, one party alone, one or several whose program was changed, a named group.
Who = Literal[
    "everybody", "collector", "one", "fewer", "one_changed", "collector_changed", "collector_and_changed", "more_changed",
    "group",
]  # fmt: skip
What = Literal[
    "sums_noise", "sums_exact", "totals_noise", "totals_exact", "blocks", "nothing", "as_collector",
    "as_published", "answers", "estimates", "blurred", "chosen", "subtracted", "unknown",
]  # fmt: skip
_STRONG, _MEDIUM = 3 / 4, 9 / 10


def best_guess(epsilon: float, delta: float = 0.0) -> float:
    """The largest probability of telling two equally likely answers apart."""
    if epsilon > 700:
        return 1.0
    return min(1.0, (math.exp(epsilon) + delta) / (1 + math.exp(epsilon)))


def step_of(epsilon: float, delta: float, people: int) -> Step:
    """The step of a promise about a whole record; a delta above one in the people is weak whatever epsilon is."""
    guess = best_guess(epsilon, delta)
    if delta > 1 / people or guess > _MEDIUM + 1e-9:
        return "weak"
    return "medium" if guess > _STRONG + 1e-9 else "strong"


@dataclass(frozen=True)
class Promise:
    """Towards whom, how strong, and an attacker's best guess out of 100, rounded up (None without a promise).

    `people` are in what is looked at. `if_half`, `if_none`: the step if only half of the others keep their noise to
    themselves, or none (rows suite). `providers` of `of` must add their noise (moments suite). `why` says what lowered it:
    `delta`, `record`, `limit`.
    """

    towards: Viewer
    step: Step
    guess: int | None
    people: int
    epsilon: float | None = None
    delta: float | None = None
    if_half: Step | None = None
    if_none: Step | None = None
    providers: int = 0
    of: int = 0
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """One line of who could see what. `parties` are roles, for a group; `number` counts people, parties or groups."""

    who: Who
    what: What
    parties: tuple[str, ...] = ()
    number: int = 0
    needs_device: bool = False


@dataclass(frozen=True)
class Truth:
    """The promises, the weaker first; and who could see what, those who see most first."""

    promises: tuple[Promise, ...]
    seen: tuple[Seen, ...]
    larger_groups: int

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return asdict(self)


def whole_truth(study: Study) -> Truth:
    """The promises of a study of either suite, from the signed study and its collusion report."""
    seen, larger = _groups(study)
    promises = sorted(_promises(study), key=lambda item: (STEPS.index(item.step), -(item.guess or 101)))
    return Truth(tuple(promises), (*seen, *_others(study)), larger)


def _promises(study: Study) -> list[Promise]:
    rows = isinstance(study.suite, RowsSettings)
    protection, people = study.protection, study.release_rows
    viewer: Viewer = "public" if rows else "everybody"
    needed = (0, 0) if rows else (study.moments.honest_providers, len(study.right))
    if protection.budget is not None:
        budget = protection.budget
        epsilon, delta = budget.epsilon or 0.0, budget.delta or 0.0
        if (
            budget.mu is not None
        ):  # both purses may be spent; what mu is worth is taken at the delta that is left
            left = 1 / people - delta
            epsilon += epsilon_of(budget.mu, left) if left > 0 else math.inf
            delta = max(delta, 1 / people)
        step = step_of(epsilon, delta, people)
        return [
            Promise(
                viewer,
                step,
                guess_of_100(epsilon, delta),
                people,
                epsilon,
                delta,
                providers=needed[0],
                of=needed[1],
            )
        ]
    if not protection.sigma or protection.public is None:
        nothing = Promise(viewer, "none", None, people)
        return [nothing, Promise("collector", "none", None, study.rows.block_rows)] if rows else [nothing]
    found = [_stated(study, viewer, protection.public, people, needed)]
    if rows:
        block = study.rows.block_rows
        collector = protection.collector
        missing = Promise("collector", "none", None, block)
        found.append(missing if collector is None else _stated(study, "collector", collector, block, needed))
    return found


def _stated(
    study: Study, towards: Viewer, promise: Guarantee, people: int, needed: tuple[int, int]
) -> Promise:
    delta = promise.delta if promise.delta is not None else 1 / people
    epsilon = promise.epsilon if promise.epsilon is not None else epsilon_of(promise.mu or 0.0, delta)
    step, why = step_of(epsilon, delta, people), []
    if delta > 1 / people:
        why.append("delta")
    if promise.neighbours.relation == "unit":
        step, why = "weak", [*why, "record"]
    if promise.basis == "asymptotic" and step == "strong":
        step, why = "medium", [*why, "limit"]
    halves: dict[str, Step] = {}
    for name, honest in (("if_half", people // 2), ("if_none", 1)):
        left = study.protection.epsilon_at(honest) if study.protection.by_honest_rows else None
        if left is not None:
            halves[name] = min(step, step_of(left, delta, people), key=STEPS.index)
    return Promise(
        towards,
        step,
        guess_of_100(epsilon, delta),
        people,
        epsilon,
        delta,
        halves.get("if_half"),
        halves.get("if_none"),
        needed[0],
        needed[1],
        tuple(why),
    )


def guess_of_100(epsilon: float, delta: float) -> int:
    """`best_guess` in hundredths, rounded up."""
    return min(100, math.ceil(100 * best_guess(epsilon, delta) - 1e-9))


def _groups(study: Study) -> tuple[list[Seen], int]:
    """The smallest groups that reach the answers; how many larger ones there are; and those that see them blurred."""
    report = collusion_of(study)
    smallest = min(len(coalition.parties) for coalition in report.coalitions)
    shown = [coalition for coalition in report.coalitions if len(coalition.parties) == smallest]
    found = [
        Seen(
            "group",
            "answers" if coalition.exact else "estimates",
            tuple(coalition.parties),
            needs_device=coalition.needs_device,
        )
        for coalition in shown
    ]
    if isinstance(report, CollusionReport):
        least = min((len(group) for group in report.through_noise), default=0)
        found += [
            Seen("group", "blurred", tuple(group)) for group in report.through_noise if len(group) == least
        ]
    return found, len(report.coalitions) - len(shown)


def _others(study: Study) -> list[Seen]:
    """Changed programs, the collector, everybody, and one institution alone."""
    people, noise = study.release_rows, bool(study.protection.sigma) or study.protection.budget is not None
    if isinstance(study.suite, RowsSettings):
        changed = (
            [Seen("more_changed", "unknown"), Seen("one_changed", "as_collector")]
            if study.rows.tag_holders
            else [Seen("collector_and_changed", "answers"), Seen("one_changed", "chosen")]
        )
        collector = Seen("collector", "blocks", number=study.rows.block_rows)
        alone = Seen("one", "nothing")
        public: What = "sums_noise" if noise else "sums_exact"
        return [*changed, collector, Seen("everybody", public, number=people), alone]
    fewer = Seen("fewer", "as_published", number=len(study.right) - 1)
    bringing = [] if noise else [Seen("collector_changed", "subtracted")]
    return [*bringing, Seen("everybody", "totals_noise" if noise else "totals_exact"), fewer]
