"""What one person's studies promise together, by the device's own arithmetic."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget, Guarantee, Neighbours, Protection
from trimask_core.submit.personal_budget import epsilon_of, spending
from trimask_theory.accounting import MaskedRelease
from trimask_theory.accounting.studies import gaussian_cover, total
from trimask_theory.gaussian import gdp
from trimask_theory.masking import masked_noise

RECORD = Neighbours("record", row_norm=2.0, distance=4.0)


def promise(**numbers: Any) -> Guarantee:
    return Guarantee(RECORD, "proved", "because", "citation", **numbers)


@pytest.fixture
def having(study: Study) -> Callable[..., Study]:
    """A study with this promise or budget; the rest of it does not matter here."""

    def make(public: Guarantee | None, budget: Budget | None = None) -> Study:
        changed = object.__new__(Study)
        for name in study.__dataclass_fields__:
            object.__setattr__(changed, name, getattr(study, name))
        object.__setattr__(changed, "protection", Protection(2.0, 1.0, "sharp", public, None, budget))
        return changed

    return make


@pytest.mark.parametrize(("mu", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (3.0, 1e-3), (0.5, 1e-12)])
def test_the_gaussian_inverse_is_the_exact_one(mu: float, delta: float) -> None:
    exact = gdp.epsilon(delta, mu)
    assert exact - 1e-9 <= epsilon_of(mu, delta) <= exact + 2e-6


@pytest.mark.parametrize(("mu", "truth"), [(36.0, 818.2), (50.0, 1486.7)])
def test_repro_what_is_too_large_to_compute_is_not_stated_too_small(
    having: Callable[..., Study], mu: float, truth: float
) -> None:
    """Before, 700 was given as a bound."""
    assert gdp.epsilon(1e-6, mu) == pytest.approx(truth, abs=0.05)
    assert epsilon_of(mu, 1e-6) >= truth
    assert spending([having(None, Budget(mu=mu))]).epsilon >= truth


def test_the_gaussian_inverse_is_never_below_the_exact_one() -> None:
    """Seeded, over all there is room for; before, it fell below by rounding, and where a tail underflows."""
    numbers = random.Random(25)
    cases = [(10 ** numbers.uniform(-8, 1.7), 10 ** numbers.uniform(-30, -0.001)) for _ in range(3000)]
    cases += [(26.93140597391469, 1.2053212745678825e-30), (29.74347021881963, 1.3688653021007737e-17)]
    found = [(epsilon_of(mu, delta), gdp.epsilon(delta, mu)) for mu, delta in cases]
    assert all(device >= exact for device, exact in found)
    assert all(device <= exact + 1.0 for device, exact in found if exact < 695)
    assert epsilon_of(1.0, 0.0) == math.inf
    assert epsilon_of(0.0, 1e-6) == 0.0


def test_pairs_add_up(having: Callable[..., Study]) -> None:
    found = spending([having(promise(epsilon=0.5, delta=1e-6)), having(promise(epsilon=1.0, delta=2e-6))])
    assert (found.epsilon, found.delta) == pytest.approx((1.5, 3e-6))
    assert (found.counted, found.uncounted) == (2, ())


def test_gaussian_promises_add_up_in_squares(having: Callable[..., Study]) -> None:
    each = promise(epsilon=gdp.epsilon(1e-6, 0.3), delta=1e-6, mu=0.3)
    found = spending([having(each)] * 9)
    assert found.epsilon == pytest.approx(gdp.epsilon(9e-6, 0.9), rel=1e-5)
    assert found.epsilon < 9 * (each.epsilon or 0) / 2


def test_budgets_count_in_full_and_what_promises_nothing_is_named(having: Callable[..., Study]) -> None:
    both = having(None, Budget(0.5, 1e-6, 0.4))
    unit = having(replace(promise(epsilon=1.0, delta=1e-6), neighbours=Neighbours("unit", distance=1.0)))
    found = spending([both, unit, having(None)])
    assert found.counted == 1
    assert len(found.uncounted) == 2
    assert found.epsilon == pytest.approx(0.5 + gdp.epsilon(1e-6, 0.4), rel=1e-5)


def test_the_device_is_never_below_the_exact_total_and_not_far_above() -> None:
    sigma = masked_noise.calibrate(1.0, 1e-6, 256, 6).sigma
    release = MaskedRelease(sigma, 256, 6)
    mu = gaussian_cover(release, 1e-9)
    for times in (1, 4, 25):
        room = times * 1e-6
        exact = release.repeated(times).epsilon(room)
        device = epsilon_of(mu * math.sqrt(times), room - times * 1e-9)
        assert exact <= device <= 1.06 * exact


@pytest.mark.parametrize("slack", [1e-4, 1e-8])
def test_a_cover_lies_above_the_curve(slack: float) -> None:
    release = MaskedRelease(1.0, 60, 3)
    mu = gaussian_cover(release, slack)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0):
        assert release.delta(epsilon) <= (1 - slack) * gdp.delta(epsilon, mu) + slack


@pytest.mark.parametrize("sigma", [0.11, 0.1, 1e-4])
def test_next_to_no_noise_is_covered_by_nothing(sigma: float) -> None:
    """Before, this never ended: one proposal of such a study and an institution would have worked out for ever what it adds
    up to."""
    assert gaussian_cover(MaskedRelease(sigma, 64, 9, row_norm=3.0), 1e-9) == math.inf


def test_studies_of_nobody_are_refused() -> None:
    with pytest.raises(ValueError, match="one or more"):
        total([])
