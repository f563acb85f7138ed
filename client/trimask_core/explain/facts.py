"""What a study promises and who could see what, as keys and values that app, page, terminal and console show alike.

Words: `catalogue`. Strength has one scale everywhere. It is an attacker's best guess between two whole sets of answers that
are equally likely, all else known: (1 + delta(0)) / 2, where delta(0) is the largest total variation between the two. It is
taken from the best statement that holds for the study (docs/app.md#scale), which a device works out from its noise:

- Moments suite, mu-Gaussian differential privacy: Phi(mu / 2) (Dong, Roth and Su 2022).
- Rows suite: delta(0) itself, at the pair of rows that is the worst for every epsilon
  (docs/theory/sharp-calibration.md#angle-theorem).
- (epsilon, delta) alone: (e^epsilon + delta) / (1 + e^epsilon) (Kairouz, Oh and Viswanath 2015, Theorem 2.1); with a
  purse of mu beside it p Phi(mu/2 + epsilon/mu) + (1 - p) Phi(mu/2 - epsilon/mu), p = e^epsilon / (1 + e^epsilon).

A coin is right half of the time. Three steps:

    strong   right in at most 6 of 10 cases    (mu up to 0.507)
    medium   right in at most 3 of 4 cases     (mu up to 1.349)
    weak     anything above, and what is not about a person's whole answers, or rests on too large a delta

and `none` where there is no such promise. One that holds only in the limit is medium at best.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from trimask_core.rows.collusion import CollusionReport
from trimask_core.rows.study import RowsSettings
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import STEPS, Guarantee, Step, best_guess, guess_of_100, phi, step_of
from trimask_core.study.signed import gaussian_delta, masked_delta, moments_noise
from trimask_core.suites import collusion_of

Viewer = Literal["public", "collector", "everybody"]
# Who sees: everybody, the collector, one party alone, one or several whose program was changed, a named group; and, of who
# took part: institutions that get a part, and whoever invited.
Who = Literal[
    "everybody", "collector", "one", "fewer", "one_changed", "collector_changed", "collector_and_changed", "more_changed",
    "group", "receivers", "inviter",
]  # fmt: skip
What = Literal[
    "sums_noise", "sums_exact", "totals_noise", "totals_exact", "blocks", "nothing", "as_collector",
    "as_published", "as_promised", "less_noise", "answers", "own_noise", "estimates", "blurred", "chosen",
    "subtracted", "unknown",
    "took_part", "answered", "who_answered",
]  # fmt: skip


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
    if_half: Step | None = None
    if_none: Step | None = None
    providers: int = 0
    of: int = 0
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """One line of who could see what. `parties` are roles, for a group; `number` counts people, parties, guesses of 100."""

    who: Who
    what: What
    parties: tuple[str, ...] = ()
    number: int = 0
    needs_device: bool = False


@dataclass(frozen=True)
class Said:
    """A sentence: its key in the catalogue, and values."""

    key: str
    values: dict[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Truth:
    """The promises, the weaker first; who could see what, those who see most first.

    And what the first screen says: `first`, and in a line `strength`.
    """

    promises: tuple[Promise, ...]
    seen: tuple[Seen, ...]
    larger_groups: int
    first: tuple[Said, ...]
    strength: tuple[Said, ...]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return asdict(self)


def whole_truth(study: Study) -> Truth:
    """The promises of a study of either suite, from the signed study and its collusion report."""
    seen, larger = _groups(study)
    promises = strengths(study)
    sight = (*seen, *_others(study), *_membership(study))
    return Truth(promises, sight, larger, _first(study), _strength_line(promises[0]))


def has_noise(study: Study) -> bool:
    """Whether what leaves has noise in it."""
    return bool(study.protection.sigma) or study.protection.budget is not None


def strengths(study: Study) -> tuple[Promise, ...]:
    """How well a person is hidden and from whom, the weaker first."""
    return tuple(sorted(_promises(study), key=lambda item: (STEPS.index(item.step), -(item.guess or 101))))


def _promises(study: Study) -> list[Promise]:
    rows = isinstance(study.suite, RowsSettings)
    protection, people = study.protection, study.release_rows
    viewer: Viewer = "public" if rows else "everybody"
    needed = (0, 0) if rows else (study.moments.honest_providers, len(study.right))
    if protection.budget is not None:  # both purses may be spent
        budget = protection.budget
        delta = budget.delta or 0.0
        guess = best_guess(budget.epsilon or 0.0, delta, budget.mu or 0.0)
        step: Step = step_of(guess)
        why: tuple[str, ...] = ()
        if delta > 1 / people:
            step, why = "weak", ("delta",)
        return [
            Promise(viewer, step, guess_of_100(guess), people, providers=needed[0], of=needed[1], why=why)
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
    record = promise.neighbours.relation != "unit"
    pair = 1.0 if promise.epsilon is None else _on_a_grid(promise, promise.epsilon, promise.delta or 0.0)
    curve = _curve(study, promise, people)
    guess = min(pair, curve)
    step, why = step_of(guess), []
    if pair < curve and (promise.delta or 0.0) > 1 / people:
        step, why = "weak", ["delta"]
    if not record:
        step, why = "weak", [*why, "record"]
    if promise.basis == "asymptotic" and step == "strong":
        step, why = "medium", [*why, "limit"]
    halves: dict[str, Step] = {}
    for name, honest in (("if_half", people // 2), ("if_none", 1)):
        left = study.protection.epsilon_at(honest) if study.protection.by_honest_rows else None
        if left is not None:
            stated = _on_a_grid(promise, left, promise.delta or 0.0)
            others = step_of(min(stated, _curve(study, promise, honest)))
            halves[name] = min(step, others, key=STEPS.index)
    return Promise(
        towards,
        step,
        guess_of_100(guess),
        people,
        halves.get("if_half"),
        halves.get("if_none"),
        needed[0],
        needed[1],
        tuple(why),
    )


def _on_a_grid(promise: Guarantee, epsilon: float, delta: float) -> float:
    """The guess that a pair allows. Noise on a grid adds to epsilon, and that part of itself to delta."""
    added = promise.discrete_epsilon or 0.0
    return best_guess(epsilon + added, min(1.0, delta * (1 + added)))


def _curve(study: Study, promise: Guarantee, rows: int) -> float:
    """By delta(0) of the study's own noise, which a device works out itself; 1 where it does not."""
    if promise.neighbours.relation == "unit":
        return 1.0
    if not isinstance(study.suite, RowsSettings):
        s = moments_noise(study)
        return _on_a_grid(promise, 0.0, gaussian_delta(0.0, s) if math.isfinite(s) else 0.0)
    if study.attributes < 2:
        return 1.0
    sigma, norm = study.protection.sigma, study.protection.row_norm
    variation = gaussian_delta(0.0, sigma / (math.sqrt(2) * norm))  # nobody else is honest
    if rows > study.attributes:
        variation = min(variation, masked_delta(0.0, sigma, rows, study.attributes, norm))
    return _on_a_grid(promise, 0.0, variation)


def reached(study: Study) -> tuple[What, int]:
    """What a group that reaches answers has, and guesses of 100 that are then right.

    In the rows suite it is a row with its device's noise in it, as all right providers together have it.
    """
    towards = study.protection.right_providers
    if towards is None or towards.mu is None:
        return "answers", 0
    return "own_noise", guess_of_100(phi(towards.mu / 2))


def _groups(study: Study) -> tuple[list[Seen], int]:
    """The smallest groups that reach the answers; how many larger ones there are; and those that see them blurred."""
    report = collusion_of(study)
    smallest = min(len(coalition.parties) for coalition in report.coalitions)
    shown = [coalition for coalition in report.coalitions if len(coalition.parties) == smallest]
    exact, number = reached(study)
    found = [
        Seen(
            "group",
            exact if coalition.exact else "estimates",
            tuple(coalition.parties),
            number if coalition.exact else 0,
            coalition.needs_device,
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
    people, noise = study.release_rows, has_noise(study)
    if isinstance(study.suite, RowsSettings):
        exact, number = reached(study)
        changed = (
            [Seen("more_changed", "unknown"), Seen("one_changed", "as_collector")]
            if study.rows.tag_holders
            else [Seen("collector_and_changed", exact, number=number), Seen("one_changed", "chosen")]
        )
        collector = Seen("collector", "blocks", number=study.rows.block_rows)
        alone = Seen("one", "nothing")
        public: What = "sums_noise" if noise else "sums_exact"
        return [*changed, collector, Seen("everybody", public, number=people), alone]
    right = len(study.right)
    if not noise:
        fewer = Seen("fewer", "as_published", number=right - 1)
        return [Seen("collector_changed", "subtracted"), Seen("everybody", "totals_exact"), fewer]
    # Who changes programs can leave its own noise out, and knows what it added.
    honest = study.moments.honest_providers
    less = [Seen("fewer", "less_noise", number=right - 1)] if honest > 1 else []
    enough = Seen("fewer", "as_promised", number=right - honest)
    return [*less, enough, Seen("everybody", "totals_noise")]


def _membership(study: Study) -> list[Seen]:
    """Who can tell that somebody took part. An invitation serves once: who has a copy of a link learns by trying."""
    invited = [Seen("inviter", "who_answered")] if study.admission == "invited" else []
    reminded = [Seen("inviter", "answered")] if study.reminders else invited
    return [Seen("receivers", "took_part"), *reminded]


def _institutions(study: Study, roles: Iterable[str]) -> int:
    """How many run these parties; parties of one name are one institution."""
    return len({study.party(role).organisation.strip().lower() or role for role in roles})


def _first(study: Study) -> tuple[Said, ...]:
    """The first screen: each sentence holds as it stands, whatever one institution does, or says what that one could do.

    docs/app.md#first-screen has the line of the threat model for each.
    """
    noise = "noise" if has_noise(study) else "exact"
    parts = _institutions(study, study.right_roles)
    size = min(_institutions(study, coalition.parties) for coalition in collusion_of(study).coalitions)
    if isinstance(study.suite, RowsSettings):
        read = "first.read.tagged" if study.rows.tag_holders else "first.read.untagged"
        way = [
            Said("first.way", {"parts": parts, "count": _institutions(study, study.parties)}),
            Said(read, {"size": size}),
            Said(
                f"first.sums.{noise}", {"people": study.rows.block_rows}
            ),  # the collector's; others see more
        ]
    else:
        given = "budget" if study.protection.budget is not None else noise
        shares = (
            "first.shares.exact"
            if given == "exact"
            else "first.shares.both"
            if parts == 2
            else "first.shares"
        )
        way = [Said(shares, {"parts": parts}), Said(f"first.totals.{given}")]
    return (*way, told(study), Said("first.back"))


def told(study: Study) -> Said:
    """Who can tell that somebody took part, as the first screen has it."""
    return Said("first.told.invited" if study.admission == "invited" else "first.told")


def _strength_line(weakest: Promise) -> tuple[Said, ...]:
    step = f"step.{weakest.step}"
    if weakest.guess is None:
        return (Said("first.strength.none", {"step": step}),)
    noise = "first.strength" if weakest.providers else "first.strength.others"  # institutions', or people's
    key = "first.strength.sure" if weakest.guess >= 100 else noise
    said = Said(key, {"step": step, "guess": weakest.guess})
    if not weakest.providers:
        return (said,)
    number = "one" if weakest.providers == 1 else "many"
    return (said, Said(f"first.providers.{number}", {"number": weakest.providers}))
