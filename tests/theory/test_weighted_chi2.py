"""weighted_chi2 against closed forms and quadrature in mpmath, none of which uses the contour under test."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from trimask_core.basics.errors import ParameterError
from trimask_theory.gaussian import weighted_chi2

TOLERANCE = 1e-10
LEVELS = (0.4, 1e-5, 1e-14)


def relative_errors(x, weights, dofs, noncentralities, normal_scale, upper):
    """Errors of sf and cdf against the upper tail probability `upper`, a high-precision number."""
    arguments = (x, weights, dofs, noncentralities, normal_scale)
    return (
        abs(float(weighted_chi2.sf(*arguments) / upper - 1)),
        abs(float(weighted_chi2.cdf(*arguments) / (1 - upper) - 1)),
    )


def abscissas(weights, dofs, noncentralities, normal_scale):
    """Points whose upper or lower tail is about each of the levels."""
    for level in LEVELS:
        for probability in (level, 1 - level):
            yield weighted_chi2.isf(probability, weights, dofs, noncentralities, normal_scale)


def partial_fractions(weights):
    """The shares of distinct exponentials in their sum: each w_j chi2_2 is exponential of rate 1/(2 w_j)."""
    weights = [mp.mpf(float(w)) for w in weights]
    shares = [mp.fprod([w - v for v in weights if v is not w]) for w in weights]
    return [(w, w ** (len(weights) - 1) / share) for w, share in zip(weights, shares, strict=True)]


def exponentials_sf(x, fractions, normal_scale):
    """P[sum w_j chi2_2 + tau Z > x] in closed form."""
    x, tau = mp.mpf(float(x)), mp.mpf(float(normal_scale))

    def one(rate, y):
        """P[E + tau Z > y], E exponential."""
        if tau == 0:
            return mp.exp(-rate * y) if y > 0 else mp.mpf(1)
        tilted = mp.exp(-rate * y + (rate * tau) ** 2 / 2)
        return mp.ncdf(-y / tau) + tilted * mp.ncdf(y / tau - rate * tau)

    def signed(w):
        return one(1 / (2 * w), x) if w > 0 else 1 - one(-1 / (2 * w), -x)

    return mp.fsum(share * signed(w) for w, share in fractions)


@pytest.mark.parametrize("terms", [1, 2, 5, 20])
@pytest.mark.parametrize("signs", ["positive", "mixed"])
@pytest.mark.parametrize("normal_scale", [0.0, 0.3, 5.0])
def test_two_degrees_of_freedom_by_partial_fractions(terms, signs, normal_scale):
    weights = 0.2 + np.linspace(0, 3, terms) ** 1.5
    if signs == "mixed":
        weights *= np.where(np.arange(terms) % 3 == 1, -0.8, 1)
    with mp.workdps(60 + 8 * terms):
        fractions = partial_fractions(weights)
        for x in abscissas(weights, 2, 0, normal_scale):
            upper = exponentials_sf(x, fractions, normal_scale)
            assert max(relative_errors(x, weights, 2, 0, normal_scale, upper)) < TOLERANCE


def test_a_thousand_terms_by_partial_fractions():
    # 1,000 chi-squares of one degree of freedom in 500 pairs of equal weight, each pair an exponential.
    distinct = np.geomspace(0.001, 1, 500) * np.where(np.arange(500) % 2, -1, 1)
    weights = np.repeat(distinct, 2)
    with mp.workdps(500):
        fractions = partial_fractions(distinct)
        for probability in (1e-14, 0.3, 1 - 1e-14):
            x = weighted_chi2.isf(probability, weights)
            upper = exponentials_sf(x, fractions, 0.0)
            assert max(relative_errors(x, weights, 1, 0, 0.0, upper)) < TOLERANCE


def one_sf(y, mu):
    """P[(Z + mu)^2 > y]."""
    if y <= 0:
        return mp.mpf(1)
    root = mp.sqrt(y)
    return mp.ncdf(mu - root) + mp.ncdf(-mu - root)


def density(z):
    return mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)


@pytest.mark.parametrize("noncentrality", [0.0, 0.7, 40.0])
@pytest.mark.parametrize("weight", [1.0, -2.5, 1e-9, 1e200])
def test_one_term(weight, noncentrality):
    with mp.workdps(40):
        for x in abscissas(weight, 1, noncentrality, 0):
            y = mp.mpf(float(x)) / mp.mpf(float(weight))
            upper = one_sf(y, mp.sqrt(mp.mpf(noncentrality)))
            assert (
                max(relative_errors(x, weight, 1, noncentrality, 0, upper if weight > 0 else 1 - upper))
                < TOLERANCE
            )


@pytest.mark.parametrize("weights", [(1.0, 0.3), (1.0, -0.7), (-1.0, 0.01)])
@pytest.mark.parametrize("noncentralities", [(0.0, 0.0), (2.0, 0.5), (0.3, 30.0)])
def test_two_noncentral_terms_by_quadrature(weights, noncentralities):
    with mp.workdps(25):
        (w1, w2), (mu1, mu2) = map(mp.mpf, weights), (mp.sqrt(mp.mpf(v)) for v in noncentralities)

        def second_exceeds(y):
            """P[w2 (Z + mu2)^2 > y], in the form that keeps its digits for either sign of w2."""
            if w2 > 0:
                return one_sf(y / w2, mu2)
            root = mp.sqrt(y / w2) if y < 0 else mp.mpf(0)
            return mp.ncdf(root - mu2) - mp.ncdf(-root - mu2)

        for probability in (1e-9, 1 - 1e-9):
            x = weighted_chi2.isf(probability, weights, 1, noncentralities)
            exact = mp.mpf(float(x))

            def integrand(z, exact=exact):
                return density(z) * second_exceeds(exact - w1 * (z + mu1) ** 2)

            # The integrand has a kink where the second term would have to exceed 0.
            kinks = [] if exact / w1 <= 0 else [sign * mp.sqrt(exact / w1) - mu1 for sign in (-1, 1)]
            points = sorted([*map(mp.mpf, (-13, -4, 0, 4, 13)), *(kink for kink in kinks if abs(kink) < 13)])
            upper = mp.quad(integrand, points, maxdegree=8)
            assert max(relative_errors(x, weights, 1, noncentralities, 0, upper)) < TOLERANCE


@pytest.mark.parametrize(
    ("weight", "noncentrality", "normal_scale"), [(1, 0.5, 0.5), (-2, 3, 1), (0.01, 100, 2)]
)
def test_a_term_and_a_normal_by_quadrature(weight, noncentrality, normal_scale):
    with mp.workdps(25):
        mu, step = mp.sqrt(mp.mpf(noncentrality)), mp.mpf(1) / 40
        for x in abscissas(weight, 1, noncentrality, normal_scale):
            exact = mp.mpf(float(x))

            def integrand(z, exact=exact):
                beyond = mp.mpf(float(weight)) * (z + mu) ** 2 - exact
                return density(z) * mp.ncdf(beyond / mp.mpf(float(normal_scale)))

            upper = step * mp.fsum(integrand(step * j) for j in range(-480, 481))
            assert max(relative_errors(x, weight, 1, noncentrality, normal_scale, upper)) < TOLERANCE


def line_tail(x, weights, dofs, noncentralities, normal_scale, crossing):
    """The upper tail (crossing > 0) or the lower one, by the trapezoidal rule on a vertical line at 30 digits."""
    x, tau = mp.mpf(float(x)), mp.mpf(float(normal_scale))
    rows = [
        tuple(map(mp.mpf, row))
        for row in zip(*(v.tolist() for v in (weights, dofs, noncentralities)), strict=True)
    ]
    line = mp.mpf(crossing)

    def integrand(y):
        s = mp.mpc(line, y)
        exponent = tau**2 * s**2 / 2 - s * x
        for w, k, lam in rows:
            z = 1 - 2 * w * s
            exponent += -k / 2 * mp.log(z) + lam * w * s / z
        return (mp.exp(exponent) / s).real

    spread = math.sqrt(float(np.sum(2 * weights**2 * (dofs + 2 * noncentralities))) + normal_scale**2)
    step = mp.mpf(0.15) / mp.mpf(spread)
    values = [integrand(mp.mpf(0)) / 2]
    # The line stays above 1e-20 of its peak for less than 10 / spread here, so 20 values below it are the end.
    while len(values) < 20 or max(map(abs, values[-20:])) > 1e-20 * abs(values[0]):
        values.append(integrand(len(values) * step))
    return abs(mp.fsum(values)) * step / mp.pi


@pytest.mark.parametrize("probability", [1e-14, 0.2, 1 - 1e-14])
@pytest.mark.parametrize("terms", [30, 100, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_noncentral_terms_of_mixed_sign_with_a_normal(terms, probability):
    rng = np.random.default_rng(terms)
    weights, dofs = rng.normal(size=terms), rng.integers(1, 4, size=terms).astype(float)
    noncentralities = rng.exponential(size=terms)
    x = weighted_chi2.isf(probability, weights, dofs, noncentralities, 2.0)
    spread = math.sqrt(float(np.sum(2 * weights**2 * (dofs + 2 * noncentralities))) + 4)
    low, high = 1 / (2 * weights.min()), 1 / (2 * weights.max())
    with mp.workdps(30):
        if probability < 0.5:
            crossing = min(0.7 * high, 6 / spread if probability < 1e-3 else 1 / spread)
            expected = line_tail(x, weights, dofs, noncentralities, 2.0, crossing)
            found = weighted_chi2.sf(x, weights, dofs, noncentralities, 2.0)
        else:
            expected = line_tail(x, weights, dofs, noncentralities, 2.0, max(0.7 * low, -6 / spread))
            found = weighted_chi2.cdf(x, weights, dofs, noncentralities, 2.0)
        assert abs(float(found / expected - 1)) < TOLERANCE


@pytest.mark.parametrize("dof", [1.5, 7, 1e3, 1e6])
def test_equal_weights_are_one_chi_square(dof):
    with mp.workdps(40):
        for x in abscissas([2.0, 2.0], [0.4 * dof, 0.6 * dof], 0, 0):
            upper = mp.gammainc(mp.mpf(0.4 * dof + 0.6 * dof) / 2, mp.mpf(float(x)) / 4, regularized=True)
            assert max(relative_errors(x, [2.0, 2.0], [0.4 * dof, 0.6 * dof], 0, 0, upper)) < TOLERANCE


def test_tails_far_below_the_floor_of_imhof():
    assert weighted_chi2.sf(1200.0, 1, 1) == pytest.approx(stats.chi2.sf(1200.0, 1), rel=1e-10)
    assert weighted_chi2.cdf(1e-100, 1, 2) == pytest.approx(5e-101, rel=1e-10)


def test_negligible_terms_change_nothing():
    plain = weighted_chi2.sf(20.0, [1.0, -0.5], 1, [1.0, 0.0], 0.0)
    assert weighted_chi2.sf(20.0, [1.0, -0.5, 1e-40, 0.0], 1, [1.0, 0.0, 3.0, 9.0], 1e-30) == pytest.approx(
        plain, rel=1e-12
    )


def test_small_weights_of_large_noncentrality_become_a_normal():
    # w (Z + m)^2 - w m^2 -> 2 w m Z as w -> 0 with w m fixed.
    found = weighted_chi2.sf(1e5 + 3.0, [1e-5], 1, [1e10])
    assert found == pytest.approx(stats.norm.sf(1.5), rel=1e-4)


def test_outside_the_support_is_exact():
    assert weighted_chi2.cdf(0.0, [1.0, 2.0]) == 0.0
    assert weighted_chi2.cdf(-1.0, [1.0, 2.0]) == 0.0
    assert weighted_chi2.sf(-1.0, [1.0, 2.0]) == 1.0
    assert weighted_chi2.sf(0.0, [-1.0, -2.0]) == 0.0
    assert weighted_chi2.cdf(0.5, [-1.0, -2.0]) == 1.0
    assert weighted_chi2.cdf(math.inf, [1.0, -2.0]) == 1.0
    assert weighted_chi2.sf(math.inf, [1.0, -2.0], normal_scale=1) == 0.0


def test_no_weights_leave_a_normal_or_a_point():
    assert weighted_chi2.sf(6.0, [0.0], normal_scale=2.0) == pytest.approx(stats.norm.sf(3.0), rel=1e-14)
    assert weighted_chi2.isf(0.025, [], normal_scale=2.0) == pytest.approx(
        2 * stats.norm.isf(0.025), rel=1e-14
    )
    assert (weighted_chi2.cdf(0.0, [0.0]), weighted_chi2.sf(0.0, [0.0])) == (1.0, 0.0)
    assert (weighted_chi2.cdf(-1e-9, [0.0]), weighted_chi2.sf(-1e-9, [0.0])) == (0.0, 1.0)
    assert weighted_chi2.isf(0.3, [0.0]) == 0.0


def test_isf_at_the_ends():
    assert (weighted_chi2.isf(1, [1.0, 2.0]), weighted_chi2.isf(0, [1.0, 2.0])) == (0.0, math.inf)
    assert (weighted_chi2.isf(1, [-1.0, 2.0]), weighted_chi2.isf(0, [-1.0, -2.0])) == (-math.inf, 0.0)


@pytest.mark.parametrize("probability", [1e-300, 1e-14, 0.1, 0.9, 1 - 1e-12])
def test_isf_inverts_sf(probability):
    arguments = ([1.0, -0.4, 0.2], [1, 3, 2.5], [0.0, 2.0, 0.1], 0.5)
    x = weighted_chi2.isf(probability, *arguments)
    tail = weighted_chi2.sf(x, *arguments) if probability < 0.5 else weighted_chi2.cdf(x, *arguments)
    assert tail == pytest.approx(min(probability, 1 - probability), rel=1e-10)


@pytest.mark.parametrize(
    ("parameter", "arguments"),
    [
        ("x", (math.nan, [1.0])),
        ("weights", (1.0, [1.0, math.inf])),
        ("weights", (1.0, [[1.0]])),
        ("dofs", (1.0, [1.0, 2.0], [1, 0])),
        ("dofs", (1.0, [1.0, 2.0], [1, 2, 3])),
        ("noncentralities", (1.0, [1.0], 1, -0.1)),
        ("normal_scale", (1.0, [1.0], 1, 0, -1.0)),
    ],
)
@pytest.mark.parametrize("function", [weighted_chi2.cdf, weighted_chi2.sf])
def test_refuses(function, parameter, arguments):
    with pytest.raises(ParameterError) as refusal:
        function(*arguments)
    assert refusal.value.parameter == parameter


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan])
def test_isf_refuses_what_is_no_probability(probability):
    with pytest.raises(ParameterError, match="probability must be"):
        weighted_chi2.isf(probability, [1.0])
