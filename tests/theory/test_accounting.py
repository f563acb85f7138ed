"""Mechanism objects: their curves are their families', compositions are exact where that is known and never below."""

from __future__ import annotations

import doctest
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Neighbours
from trimask_theory.accounting import (
    ApproximateDP,
    Composition,
    GaussianMechanism,
    MaskedRelease,
    Mechanism,
    Projection,
    mechanism,
    studies,
)
from trimask_theory.accounting.studies import loss_distributions
from trimask_theory.gaussian import gdp, local_noise
from trimask_theory.masking import masked_noise
from trimask_theory.mechanisms import noisy_gram, projection

RECORD = Neighbours("record")
SIGMA = masked_noise.calibrate(1.0, 1e-6, 256, 6).sigma


class OnLattice(GaussianMechanism):
    """A Gaussian mechanism that does not say so: composed through its loss distribution."""

    @property
    def mu(self) -> float | None:  # type: ignore[override]
        """Kept back."""
        return None


@pytest.mark.parametrize(("mu", "times"), [(1.0, 1), (0.5, 10), (0.1, 100), (0.02, 1000), (2.0, 3)])
def test_gaussian_losses_add_up_to_the_exact_gaussian_one(mu: float, times: int) -> None:
    together = OnLattice(mu, RECORD).repeated(times)
    total = mu * math.sqrt(times)
    for delta in (1e-2, 1e-6, 1e-12):
        exact = gdp.epsilon(delta, total)
        assert exact * (1 - 1e-12) <= together.epsilon(delta) <= exact * (1 + 2e-5)
    for epsilon in (0.0, total, 4 * total, 7 * total):
        exact = gdp.delta(epsilon, total)
        assert exact * (1 - 1e-9) <= together.delta(epsilon) <= exact * (1 + 1e-3)


def test_gaussian_families_compose_in_closed_form() -> None:
    gram = Mechanism.of(noisy_gram.calibrate_mu(math.sqrt(2) * 1.5**2 / 3, row_norm=1.5).guarantee)
    total = GaussianMechanism(math.hypot(0.5, 0.25), RECORD)
    together = gram.compose(total, gram)
    assert isinstance(together, GaussianMechanism)
    assert gram.mu is not None
    assert together.mu == pytest.approx(math.hypot(gram.mu, total.mu, gram.mu))
    assert gram.mu == pytest.approx(math.sqrt(2) * 1.5**2 / 3)


def test_families_agree_with_their_calibrations() -> None:
    local = local_noise.calibrate(1.0, 1e-6, 2.0)
    assert Mechanism.of(local.guarantee).delta(1.0) == pytest.approx(1e-6, rel=1e-9)
    gram = noisy_gram.calibrate(1.0, 1e-6, 1.3)
    assert Mechanism.of(gram.guarantee).epsilon(1e-6) == pytest.approx(1.0, rel=1e-9)
    sketch = projection.calibrate(1.0, 1e-6, 7, 1.3, "sharp")
    assert Projection(sketch.sigma, 7, 1.3).delta(1.0) == pytest.approx(1e-6, rel=1e-9)
    masked = MaskedRelease(SIGMA, 256, 6)
    assert masked.delta(1.0) == masked_noise.delta(1.0, SIGMA, 256, 6)
    assert masked.epsilon(1e-6) == masked_noise.epsilon(1e-6, SIGMA, 256, 6)
    assert Mechanism.of(replace(gram.guarantee, mu=0.5, basis="asymptotic")).basis == "asymptotic"
    known = Mechanism.of(projection.calibrate(1.0, 1e-6, 7).guarantee)
    assert isinstance(known, ApproximateDP)
    assert known.delta(1.0) == 1e-6


@pytest.mark.parametrize(
    ("mechanism", "slack"),
    [
        (MaskedRelease(SIGMA, 256, 6), 1.002),
        (MaskedRelease(0.4853, 60, 2), 1.002),
        (MaskedRelease(0.45, 256, 1), 1.01),
        (Projection(3.0, 1), 1.001),
        (Projection(10.0, 100), 1.001),
        (ApproximateDP(0.7, 1e-7, RECORD), 1.01),
    ],
    ids=["masked", "masked few rows", "masked one column", "sketch of one", "sketch", "approximate"],
)
def test_the_lattice_is_never_below_the_curve_and_close_to_it(mechanism: Mechanism, slack: float) -> None:
    lattice = Composition([mechanism])
    spread = mechanism.spread
    for epsilon in (0.0, 0.5 * spread, 2 * spread, 5 * spread):
        exact = mechanism.delta(epsilon)
        if exact > 1e-18:
            assert exact * (1 - 1e-9) <= lattice.delta(epsilon) <= exact * slack, epsilon


def test_two_masked_releases_against_simulated_losses() -> None:
    # 400,000 draws of the sum of two losses; at 5 standard errors a false failure in one seed of 10^6.
    sigma, rows, attributes = 0.9, 40, 3
    generator = np.random.default_rng(8)
    norm, m = math.sqrt(3) / sigma, rows - attributes
    from trimask_theory.masking.hypergeometric import log_0f1

    def losses() -> np.ndarray:
        seen = np.sqrt(generator.noncentral_chisquare(m, norm**2, 400_000))
        other = np.sqrt(generator.chisquare(m, 400_000))
        return log_0f1(m / 2, norm * seen) - log_0f1(m / 2, norm * other)

    total = losses() + losses()
    together = MaskedRelease(sigma, rows, attributes).repeated(2)
    for epsilon in (0.5, 2.0):
        gain = np.maximum(-np.expm1(epsilon - total), 0.0)
        error = 5 * float(gain.std()) / math.sqrt(gain.size)
        assert abs(together.delta(epsilon) - float(gain.mean())) <= error


@pytest.mark.slow
def test_unit_neighbours_compose_too() -> None:
    release = MaskedRelease(masked_noise.calibrate(1.0, 1e-3, 60, 2, "unit").sigma, 60, 2, "unit")
    alone = Composition([release])
    assert 1e-3 * (1 - 1e-4) <= alone.delta(1.0) <= 1e-3 * 1.03
    assert release.compose(release).epsilon(1e-3) < 2.0


def test_different_mechanisms_together_cost_more_than_each_and_less_than_their_sum() -> None:
    masked, gram = MaskedRelease(SIGMA, 256, 6), GaussianMechanism(math.sqrt(2) * 4 / 20, RECORD)
    purse = ApproximateDP(0.3, 1e-8, RECORD)
    together = masked.compose(gram, purse)
    epsilon = together.epsilon(1e-5)
    parts = [each.epsilon(3e-6) for each in (masked, gram)] + [0.3]
    assert max(parts) < epsilon < sum(parts)
    assert together.basis == "proved"
    assert together.delta(epsilon) <= 1e-5
    curve = together.curve([0.0, 0.5, 1.0, 2.0])
    assert all(later < earlier for earlier, later in pairwise(curve))


def test_an_endless_loss_is_never_paid_for_with_epsilon() -> None:
    together = ApproximateDP(0.1, 1e-4, RECORD).repeated(10)
    assert together.epsilon(9e-4) == math.inf
    assert 0 < together.epsilon(1.1e-3) <= 1.0


def test_pure_mechanisms_against_the_optimal_composition_theorem() -> None:
    # Kairouz, Oh, Viswanath 2015, Theorem 3.3: k pure mechanisms, delta at (k - 2 i) epsilon0 exactly.
    k, e0 = 12, 0.25
    together = ApproximateDP(e0, 0.0, RECORD).repeated(k)
    for i in (2, 4, 5):
        terms = [
            math.comb(k, j) * (math.exp((k - j) * e0) - math.exp((k - 2 * i + j) * e0)) for j in range(i)
        ]
        exact = math.fsum(terms) / (1 + math.exp(e0)) ** k
        found = together.delta((k - 2 * i) * e0)
        assert exact * (1 - 1e-9) <= found <= exact * 1.002


def test_trade_off_lies_below_the_gaussian_one_it_comes_from() -> None:
    levels = np.array([0.0, 0.01, 0.1, 0.4, 0.9, 1.0])
    exact = gdp.trade_off(levels, 0.8)
    found = OnLattice(0.8, RECORD).trade_off(levels)
    assert exact == pytest.approx(GaussianMechanism(0.8, RECORD).trade_off(levels))
    polygon = Mechanism.trade_off(OnLattice(0.8, RECORD), levels)
    assert np.all(polygon <= exact + 1e-9)
    assert polygon == pytest.approx(exact, abs=2e-3)
    assert found == pytest.approx(exact)


def test_neighbours_that_differ_do_not_add_up() -> None:
    with pytest.raises(ParameterError, match="same neighbours"):
        MaskedRelease(1.0, 50, 2).compose(Projection(3.0, 2))
    with pytest.raises(ParameterError, match="one or more"):
        Composition([])


def test_a_composition_holds_for_neighbours_of_every_part() -> None:
    near, far = (GaussianMechanism(d / 2, Neighbours("unit", distance=d)) for d in (0.5, 3.0))
    release = MaskedRelease(1.0, 40, 2, "unit")
    for parts in ((near, far), (far, near), (release, near), (near, release)):
        assert parts[0].compose(*parts[1:]).neighbours.distance == 0.5
    assert far.compose(release).neighbours.distance == 1.0
    with pytest.raises(ParameterError, match="mechanisms"):
        release.compose("a release")  # type: ignore[arg-type]


def test_a_mechanism_says_what_it_is() -> None:
    release = MaskedRelease(1.2713, 256, 6)
    assert "sigma = 1.271, 256 x 6, for one person's whole record" in repr(release)
    assert "3 parts" in repr(release.compose(release, GaussianMechanism(0.2, RECORD)))
    assert "mu = 0.25" in repr(GaussianMechanism(0.25, RECORD))
    for module in (masked_noise, mechanism, studies):
        assert doctest.testmod(module).failed == 0


def test_the_loss_distribution_of_each_direction() -> None:
    sketch = Projection(6.0, 4)
    forward, backward = loss_distributions(sketch, sketch.spread / 100)
    assert forward.delta(0.3) == pytest.approx(sketch.delta(0.3), rel=1e-3)
    assert backward.delta(0.3) < forward.delta(0.3)
    assert math.fsum(forward.mass) == pytest.approx(1.0)
    (only,) = loss_distributions(GaussianMechanism(0.3, RECORD), 0.003)
    assert only.mirrored().delta(0.5) == pytest.approx(gdp.delta(0.5, 0.3), rel=1e-3)
