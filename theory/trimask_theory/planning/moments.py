"""Studies of the moments suite: the ball, and the noise of right providers on the totals.

Statement. R^2 is what the proof lets pass: the box of the schema, or the ball of `row_norm`. sigma is the least noise that
any h = `honest_providers` right providers together must add so that a release of the totals gives (epsilon, delta), by
`moments_noise`. The collector sees the release and nothing else, so there is no second guarantee towards it.
Assumptions and basis: those of `moments_noise`; that totals and noise fit the field, by `moments_noise` too.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from trimask_core.basics.errors import ImpossibleStudy, StudyError
from trimask_core.basics.randomness import RandomSource
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.study import MomentsSettings
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Protection
from trimask_core.study.weight import MOST_STEPS, Weight
from trimask_theory.moments import moments_noise
from trimask_theory.planning.definition import Draft

_NO_ROOM = ("overflow", "moments_overflow")
"""Why a study is impossible whose totals do not fit."""
_FEWEST_STEPS = 16
"""S of a weighted study is halved down to here where totals would not fit; a coarser weight would be none."""


def radius(radius_squared: Fraction) -> float:
    """R: the least number whose square, computed, is not below R^2."""
    found = math.sqrt(radius_squared)
    while Fraction(found * found) < radius_squared:
        found = math.nextafter(found, math.inf)
    return found


def create(draft: Draft, _: RandomSource) -> Study:
    """The study, with its noise calibrated. Nothing in it is drawn: its secrets are the right providers' own."""
    privacy, providers = draft.definition.privacy, len(draft.right)
    if providers < 2 or draft.left:
        raise ImpossibleStudy(
            "too_few_providers",
            "a study of the moments suite has two right providers at least, and no left ones",
        )
    honest = 1 if privacy.honest_providers is None else privacy.honest_providers
    if not 1 <= honest <= providers - 1:
        raise ImpossibleStudy(
            "honest_providers",
            f"honest_providers must be between 1 and {providers - 1}, one fewer than the right providers",
        )
    weight = draft.definition.weight
    if weight is None:
        return _create(draft, honest, None)
    # The finest roots of weights whose products have room: docs/theory/verified-moments.md#weights.
    steps = MOST_STEPS
    while True:
        try:
            return _create(draft, honest, replace(weight, steps=steps))
        except ImpossibleStudy as error:
            if error.reason not in _NO_ROOM or steps <= _FEWEST_STEPS:
                raise
        steps //= 2


def _create(draft: Draft, honest: int, weight: Weight | None) -> Study:
    privacy, providers = draft.definition.privacy, len(draft.right)
    layout = MomentsLayout.of(draft.definition.schema, privacy.row_norm, weight)
    norm = radius(layout.radius_squared)
    settings = MomentsSettings(
        honest_providers=honest,
        ball_norm=privacy.row_norm,
        several_releases=draft.definition.collection.several_releases,
    )
    # Without noise first: errors in sizes or parties are reported before sigma is computed.
    exact = draft.study(settings, Protection(norm, 0.0, "exact", budget=privacy.budget), weight=weight)
    if privacy.exact or privacy.budget is not None:
        return exact
    if privacy.epsilon is None or privacy.delta is None:
        raise StudyError("give epsilon and delta, or exact = true for a release without noise")
    found = moments_noise.calibrate(privacy.epsilon, privacy.delta, norm * norm, providers, honest)
    moments_noise.check_overflow(
        [column.width for column in layout.published],
        layout.published_bounds,
        exact.moments.planned_rows,
        found.sigma,
        providers,
        honest,
        [column.name for column in layout.published],
    )
    return replace(exact, protection=Protection(norm, found.sigma, found.method, found.guarantee))


def verify(study: Study) -> None:
    """Recompute the guarantee of the providers' noise; `StudyError` if the study claims more."""
    protection, moments = study.protection, study.moments
    guarantee = protection.public
    if protection.collector is not None:
        raise StudyError("the study claims a guarantee of its own towards the collector: do not approve it")
    if guarantee is None or guarantee.epsilon is None or guarantee.delta is None:
        raise StudyError("the study states no (epsilon, delta) towards the public: do not approve it")
    near = guarantee.neighbours
    if (near.relation, near.row_norm, near.distance) != ("record", protection.row_norm, None):
        raise StudyError("the guarantee towards the public is not about records of this study's norm")
    norm = radius(moments.layout.radius_squared)
    if protection.row_norm < norm:
        raise StudyError(
            f"the guarantee is about records of norm {protection.row_norm:.6g}, but the proof lets {norm:.6g} pass: do not "
            "approve it"
        )
    square, honest = norm * norm, moments.honest_providers
    got = moments_noise.delta(guarantee.epsilon, protection.sigma, square, honest)
    # Two machines' special functions differ in their last digits, far less than this.
    if not got <= guarantee.delta * (1 + 1e-4):
        raise StudyError(
            f"towards the public the study claims delta = {guarantee.delta:g} at epsilon = {guarantee.epsilon:g}, but its "
            f"noise gives {got:.3g}: do not approve it"
        )
    mu = moments_noise.mu(protection.sigma, square, honest)
    if guarantee.mu is not None and not mu <= guarantee.mu * (1 + 1e-9):
        raise StudyError(
            f"towards the public the study claims mu = {guarantee.mu:g}, but its noise gives {mu:.6g}: do not approve it"
        )
