"""Noise without a mask: published values, the exact curve in its tails, and the paper's bounds around it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mpmath
import pytest
from scipy import stats

from trimask_core.basics.errors import ParameterError
from trimask_theory.gaussian import local_noise

PUBLISHED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "published-values.json").read_text()
)


def exact_delta(epsilon: float, sigma: float) -> float:
    with mpmath.workdps(80):
        s, e = mpmath.mpf(sigma), mpmath.mpf(epsilon)
        return float(mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s))


def test_published_analytic_values() -> None:
    for row in PUBLISHED["analytic_gaussian"]["rows"]:
        found = local_noise.calibrate(row["epsilon"], row["delta"]).sigma
        assert found == pytest.approx(row["sigma"], rel=2e-12)


@pytest.mark.parametrize("epsilon", [1e-3, 0.03, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-5, 1e-12])
def test_calibrated_sigma_reaches_delta_and_no_more(epsilon: float, delta: float) -> None:
    sigma = local_noise.calibrate(epsilon, delta).sigma
    assert exact_delta(epsilon, sigma) <= delta
    assert exact_delta(epsilon, sigma * (1 - 1e-8)) > delta
    assert local_noise.delta(epsilon, sigma) <= delta
    assert local_noise.calibrate(epsilon, delta, sensitivity=3.5).sigma == pytest.approx(
        3.5 * sigma, rel=1e-14
    )


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 20.0])
@pytest.mark.parametrize("factor", [0.02, 0.4, 1.0, 1.7, 4.0])
def test_delta_against_mpmath(epsilon: float, factor: float) -> None:
    sigma = factor * local_noise.calibrate(epsilon, 1e-6).sigma
    exact = exact_delta(epsilon, sigma)
    assert local_noise.delta(epsilon, sigma) == pytest.approx(exact, rel=1e-10, abs=1e-300)
    assert local_noise.delta(epsilon, 2 * sigma, sensitivity=2.0) == pytest.approx(
        exact, rel=1e-10, abs=1e-300
    )


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.9])
@pytest.mark.parametrize("delta", [0.04, 1e-3, 1e-9])
def test_the_bounds_of_the_paper_in_their_order(epsilon: float, delta: float) -> None:
    analytic, necessary, sufficient, corollary = (
        local_noise.calibrate(epsilon, delta, method=method)
        for method in ("analytic", "necessary", "sufficient", "corollary")
    )
    # "necessary" is for P[loss > epsilon] <= delta, which is more than (epsilon, delta)-DP asks.
    assert analytic.sigma < necessary.sigma < sufficient.sigma < corollary.sigma
    assert exact_delta(epsilon, sufficient.sigma) <= delta
    # Condition (5) itself: P[N(mu/2, 1) mu > epsilon] with mu = 1/sigma, on either side of it.
    with mpmath.workdps(40):
        tails = [float(mpmath.ncdf(0.5 / c.sigma - epsilon * c.sigma)) for c in (necessary, sufficient)]
    assert tails[0] >= delta >= tails[1]
    # And as printed: (11), (12), and Corollary 3.3.
    z = -float(stats.norm.ppf(delta))
    assert necessary.sigma == pytest.approx(z / epsilon)
    assert sufficient.sigma == pytest.approx((z + 1 / (2 * z)) / epsilon)
    assert corollary.sigma == pytest.approx(1.7 * math.sqrt(math.log(1 / delta)) / epsilon)


def test_necessary_states_the_delta_it_really_gives() -> None:
    found = local_noise.calibrate(0.5, 1e-3, method="necessary")
    assert found.guarantee.delta == pytest.approx(exact_delta(0.5, found.sigma), rel=1e-10)


def test_guarantee() -> None:
    guarantee = local_noise.calibrate(1.0, 1e-6, sensitivity=2.0).guarantee
    assert (guarantee.basis, guarantee.epsilon, guarantee.delta) == ("proved", 1.0, 1e-6)
    assert guarantee.neighbours.distance == 2.0
    assert guarantee.mu == pytest.approx(2.0 / local_noise.calibrate(1.0, 1e-6, sensitivity=2.0).sigma)


def test_extremes() -> None:
    assert local_noise.delta(1.0, 0.0) == 1.0
    assert local_noise.delta(1.0, 1e-320) == 1.0
    assert local_noise.delta(1.0, 1e6) == 0.0
    assert local_noise.delta(700.0, 1e-3) == pytest.approx(1.0)


BAD: list[tuple[str, dict[str, Any]]] = [
    ("epsilon", {"epsilon": 0.0}),
    ("epsilon", {"epsilon": math.inf}),
    ("delta", {"delta": 1.0}),
    ("delta", {"delta": -0.1}),
    ("sensitivity", {"sensitivity": 0.0}),
    ("method", {"method": "laplace"}),
    ("epsilon", {"epsilon": 1.0, "method": "sufficient"}),
    ("delta", {"delta": 0.5, "method": "necessary"}),
    ("delta", {"delta": 0.05, "method": "corollary"}),
]


@pytest.mark.parametrize(("name", "change"), BAD)
def test_refusals_name_the_parameter(name: str, change: dict[str, Any]) -> None:
    asked = {"epsilon": 0.5, "delta": 1e-6} | change
    with pytest.raises(ParameterError) as refusal:
        local_noise.calibrate(**asked)
    assert refusal.value.parameter == name


def test_delta_refuses_a_bad_sigma() -> None:
    for sigma in (-1.0, math.nan):
        with pytest.raises(ParameterError, match="sigma"):
            local_noise.delta(1.0, sigma)


def test_the_classic_gaussian_mechanism_by_corollary_5_of_ndis() -> None:
    """Figure 7: what it gives is two orders below what it claims, and a fifth of its noise or more is not needed."""
    for epsilon in (0.05, 0.3, 0.6, 0.95):
        for delta in (1e-10, 1e-5, 1e-3, 0.3, 0.9):
            classic = local_noise.calibrate(epsilon, delta, method="classic").sigma
            assert local_noise.delta(epsilon, classic) < delta
            assert classic > local_noise.calibrate(epsilon, delta).sigma
    sigma = local_noise.calibrate(0.5, 1e-5, method="classic").sigma
    assert sigma == pytest.approx(math.sqrt(2 * math.log(1.25e5)) / 0.5)
    t = 1 / sigma  # Corollary 5 as printed, its exp(eps) where the proof has it
    printed = (1 - math.exp(0.5)) / 2 + 0.5 * (
        math.erf(-0.5 / (math.sqrt(2) * t) + t / math.sqrt(8))
        - math.exp(0.5) * math.erf(-0.5 / (math.sqrt(2) * t) - t / math.sqrt(8))
    )
    assert local_noise.delta(0.5, sigma) == pytest.approx(printed, rel=1e-6)
    assert local_noise.delta(0.5, sigma) < 1e-7


def test_the_necessary_half_of_corollary_3_3_and_where_its_lemma_fails() -> None:
    """sqrt(ln 1/delta) < z up to delta = 0.0314; Lemma A.1 claims it up to 0.05, where it is false."""
    for delta in (1e-9, 1e-3, 0.03, 0.0313):
        explicit = local_noise.calibrate(0.5, delta, method="explicit")
        assert explicit.sigma == pytest.approx(math.sqrt(math.log(1 / delta)) / 0.5)
        assert explicit.sigma <= local_noise.calibrate(0.5, delta, method="necessary").sigma
        # It is no calibration: the guarantee states a delta of its own.
        assert explicit.guarantee.delta == pytest.approx(local_noise.delta(0.5, explicit.sigma), rel=1e-9)
    for delta in (0.0315, 0.04, 0.0499):
        assert math.sqrt(math.log(1 / delta)) > -float(stats.norm.ppf(delta))
        with pytest.raises(ParameterError, match="explicit"):
            local_noise.calibrate(0.5, delta, method="explicit")
