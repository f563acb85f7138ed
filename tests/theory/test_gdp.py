"""gdp against mpmath: conversions in both directions, in the tails, and the laws of trade-off curves."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from trimask_core.basics.errors import ParameterError
from trimask_theory.gaussian import gdp


def exact_delta(epsilon: float, mu: float) -> mpmath.mpf:
    """The defining difference by erfc, whose two terms share at most a dozen digits here."""
    with mpmath.workdps(60):
        e, m, root = mpmath.mpf(epsilon), mpmath.mpf(mu), mpmath.sqrt(2)
        first, second = mpmath.erfc((e / m - m / 2) / root), mpmath.erfc((e / m + m / 2) / root)
        return (first - mpmath.exp(e) * second) / 2


@pytest.mark.parametrize("mu", [1e-4, 1e-2, 0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 20.0])
@pytest.mark.parametrize("position", [0.0, 0.3, 1.0, 3.0, 5.0, 8.0])
def test_delta_matches_mpmath_to_the_tails(mu: float, position: float) -> None:
    # position counts standard deviations of the privacy loss: at 8 delta is near 1e-16.
    epsilon = mu * mu / 2 + position * mu
    assert gdp.delta(epsilon, mu) == pytest.approx(float(exact_delta(epsilon, mu)), rel=1e-12, abs=0)


@pytest.mark.parametrize(("epsilon", "mu"), [(0.0, 1e-6), (0.0, 1.0), (0.0, 8.0), (1e-3, 0.5), (1e-3, 6.0)])
def test_delta_at_and_near_total_variation(epsilon: float, mu: float) -> None:
    assert gdp.delta(epsilon, mu) == pytest.approx(float(exact_delta(epsilon, mu)), rel=1e-12, abs=0)


@pytest.mark.parametrize(("epsilon", "mu"), [(60.0, 1.0), (2.0, 0.03), (600.0, 5.0)])
def test_log_delta_goes_on_where_delta_underflows(epsilon: float, mu: float) -> None:
    exact = mpmath.log(exact_delta(epsilon, mu))
    assert exact < -745
    assert gdp.log_delta(epsilon, mu) == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10, 1e-15])
def test_epsilon_inverts_delta_and_is_rounded_up(mu: float, delta: float) -> None:
    epsilon = gdp.epsilon(delta, mu)
    assert exact_delta(epsilon * (1 - 1e-12), mu) > delta > exact_delta(epsilon * (1 + 1e-12), mu)
    assert gdp.log_delta(epsilon, mu) <= math.log(delta)


@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-6, 1e-10, 1e-15])
def test_mu_inverts_delta_and_is_rounded_down(epsilon: float, delta: float) -> None:
    mu = gdp.mu(epsilon, delta)
    assert exact_delta(epsilon, mu * (1 - 1e-12)) < delta < exact_delta(epsilon, mu * (1 + 1e-12))
    assert gdp.log_delta(epsilon, mu) <= math.log(delta)


@pytest.mark.parametrize("epsilon", [1e-12, 9.6e-9, 8e-4, 0.024, 1.9, 146.0, 872.0, 1e5])
@pytest.mark.parametrize("delta", [0.9, 0.048, 4.1e-6, 2.3e-78, 1.2e-187, 1.7e-271, 5.2e-299])
def test_roundings_are_safe_to_what_is_stated(epsilon: float, delta: float) -> None:
    """Where an exact delta is above the one asked for, it is by the error of log_delta: less than 1e-12 of it."""
    found = gdp.mu(epsilon, delta)
    assert delta * (1 - 1e-11) < exact_delta(epsilon, found) < delta * (1 + 1e-12)
    again = gdp.epsilon(delta, found)
    assert exact_delta(again, found) < delta * (1 + 1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [(1, 1e-5, 3.73063163481594), (1, 1e-10, 5.86777774963053), (0.1, 1e-6, 36.30469042619578)],
)
def test_mu_is_one_over_the_published_analytic_sigma(epsilon: float, delta: float, sigma: float) -> None:
    assert 1 / gdp.mu(epsilon, delta) == pytest.approx(sigma, rel=1e-13)


def test_epsilon_is_zero_when_delta_covers_total_variation() -> None:
    assert gdp.epsilon(0.5, 1.0) == 0.0
    assert gdp.epsilon(1e-9, 0.0) == 0.0
    assert gdp.delta(0.0, 0.0) == 0.0


def test_trade_off_matches_mpmath() -> None:
    for alpha in (1e-15, 1e-6, 0.05, 0.5, 0.99):
        with mpmath.workdps(40):
            z = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(alpha))
            exact = float(mpmath.ncdf(z - mpmath.mpf("1.5")))
        assert float(gdp.trade_off(alpha, 1.5)) == pytest.approx(exact, rel=1e-12)


def test_trade_off_is_its_own_inverse_and_convex() -> None:
    alpha = np.linspace(0, 1, 201)
    curve = gdp.trade_off(alpha, 1.2)
    assert gdp.trade_off(curve, 1.2) == pytest.approx(alpha, abs=1e-12)
    assert np.all(np.diff(curve, 2) > -1e-12)
    assert (curve[0], curve[-1]) == (1.0, 0.0)
    assert gdp.trade_off(alpha, 0.0) == pytest.approx(1 - alpha, abs=1e-15)


def test_each_pair_of_a_mu_supports_its_trade_off_curve_and_touches_it() -> None:
    # Corollary 2.13 is a duality: every (epsilon, delta(epsilon)) curve lies below T, and each touches it.
    alpha = np.linspace(0, 1, 20001)
    curve = gdp.trade_off(alpha, 0.8)
    for epsilon in (0.0, 0.2, 1.0, 2.5):
        delta = gdp.delta(epsilon, 0.8)
        assert (curve - gdp.dp_trade_off(alpha, epsilon, delta)).min() > -1e-12
        # Where T has the slope -e^epsilon, and at the mirrored point (all curves meet at the ends, which shows nothing).
        touching = float(ndtr(-epsilon / 0.8 - 0.4))
        there = float(gdp.trade_off(touching, 0.8))
        found = gdp.dp_trade_off([touching, there], epsilon, delta)
        assert found == pytest.approx([there, touching], rel=1e-9)


def test_dp_trade_off_survives_a_huge_epsilon() -> None:
    assert gdp.dp_trade_off([0.0, 1e-3, 1.0], 5000.0) == pytest.approx([1.0, 0.0, 0.0])


def test_composition_and_groups() -> None:
    assert gdp.compose(0.3, 0.4) == pytest.approx(0.5)
    assert gdp.compose() == 0.0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: gdp.delta(-1, 1), "epsilon"),
        (lambda: gdp.delta(math.nan, 1), "epsilon"),
        (lambda: gdp.delta(1, -1), "mu"),
        (lambda: gdp.epsilon(0, 1), "delta"),
        (lambda: gdp.epsilon(1, 1), "delta"),
        (lambda: gdp.epsilon(0.1, math.inf), "mu"),
        (lambda: gdp.mu(-0.1, 0.1), "epsilon"),
        (lambda: gdp.mu(1, 0), "delta"),
        (lambda: gdp.trade_off([0.5, 1.5], 1), "alpha"),
        (lambda: gdp.dp_trade_off(0.5, 1, 2), "delta"),
        (lambda: gdp.compose(1, -1), "mu"),
    ],
)
def test_invalid_parameters_are_named(call, name: str) -> None:
    with pytest.raises(ParameterError, match=name) as caught:
        call()
    assert caught.value.parameter == name
