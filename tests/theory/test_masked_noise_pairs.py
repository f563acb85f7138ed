"""delta of a pair of rows, against Monte Carlo and other integrations; the search for the worst pair."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ive
from scipy.stats import chi2, ncx2

from trimask_theory.masking import masked_noise
from trimask_theory.masking.hypergeometric import (
    inverse_log_0f1,
    log_0f1,
    log_0f1_and_ratio,
    log_0f1_scaled,
    log_sf,
)
from trimask_theory.masking.sharp import family, worst
from trimask_theory.masking.wishart_pair import FINE, Pair, Resolution, log_delta, log_deltas

Array = NDArray[np.float64]


def bessel_log_0f1(b: float, t: Array) -> Array:
    """log 0F1(; b; t^2/4) by scipy's Bessel function, without any of the package's code."""
    value: Array = math.lgamma(b) - (b - 1) * np.log(t / 2) + np.log(ive(b - 1, t)) + t
    return value


# --- the special function ---------------------------------------------------------------------------


@pytest.mark.parametrize("b", [0.5, 1.0, 1.5, 5.0, 24.5, 25.0, 25.5, 40.0, 500.0, 5e4, 5e6])
def test_log_0f1_against_mpmath(b: float) -> None:
    t = np.array([1e-6, 1e-3, 0.1, 1.0, 7.0, 40.0, 300.0, 3000.0])
    with mpmath.workdps(50):
        exact = [mpmath.log(mpmath.hyp0f1(b, mpmath.mpf(x) ** 2 / 4)) for x in t]
        ratio = np.array(
            [
                float(mpmath.hyp0f1(b + 1, mpmath.mpf(x) ** 2 / 4) * mpmath.exp(-e))
                for x, e in zip(t, exact, strict=True)
            ]
        )
        scaled = np.array([float(e - mpmath.mpf(x)) for x, e in zip(t, exact, strict=True)])
    value = np.array([float(e) for e in exact])
    tolerance = 1e-17 + 1e-14 * value + (5e-14 + 2e-13 * np.minimum(1.0, value) if b < 25 else 0.0)
    many = np.tile(t, 64)  # long arrays of low order take another way
    for argument in (t, many):
        repeat = argument.size // t.size
        error = np.abs(log_0f1(b, argument) - np.tile(value, repeat))
        assert np.all(error <= np.tile(tolerance, repeat))
        assert log_0f1_scaled(b, argument) == pytest.approx(
            np.tile(scaled, repeat), rel=1e-13, abs=2e-13 + 3e-16 * b
        )
        assert log_0f1_and_ratio(b, argument)[1] == pytest.approx(np.tile(ratio, repeat), rel=1e-11)
    assert inverse_log_0f1(b, value[3:]) == pytest.approx(t[3:], rel=1e-10)


def test_the_ways_meet_where_they_are_exchanged() -> None:
    t = np.geomspace(1e-3, 5000.0, 3000)
    for b in (0.5, 1.0, 3.5, 11.0, 24.999, 25.001, 30.0):
        many = log_0f1(b, t)
        few = np.concatenate([log_0f1(b, part) for part in np.split(t, 30)])
        assert many == pytest.approx(few, rel=1e-13, abs=3e-13)
        where = t > 1.0
        assert many[where] == pytest.approx(bessel_log_0f1(b, t[where]), rel=1e-12, abs=3e-13)


@pytest.mark.parametrize(("df", "nc"), [(2, 0.5), (7, 30.0), (60, 3.0), (400, 100.0)])
def test_noncentral_tail_against_scipy(df: int, nc: float) -> None:
    for level in (0.9, 0.3, 1e-3, 1e-8):
        x = float(ncx2.isf(level, df, nc))
        assert math.exp(log_sf(df, nc, x)) == pytest.approx(float(ncx2.sf(x, df, nc)), rel=1e-8)


def test_noncentral_tail_with_ten_million_degrees() -> None:
    # The central tail is an incomplete gamma function, known to mpmath.
    df = 10**7
    x = df + 7 * math.sqrt(2 * df)
    with mpmath.workdps(40):
        exact = mpmath.gammainc(mpmath.mpf(df) / 2, mpmath.mpf(x) / 2, mpmath.inf, regularized=True)
    assert math.exp(log_sf(df, 0.0, x)) == pytest.approx(float(exact), rel=1e-7)


# --- delta of one pair ------------------------------------------------------------------------------

COARSE = Resolution(scan=48, outer=10, inner=14)
PAIRS = [
    (m, Pair(norm * scale, other * scale, cosine), epsilon)
    for m, scale in ((2, 1.0), (3, 1.2), (11, 1.3), (50, 2.0), (3000, 5.0))
    for norm, other, cosine in (
        (2.0, 2.0, 0.0),
        (2.0, 2.0, 0.7),
        (2.0, 1.2, 0.0),
        (2.0, 1.0, 0.9),
        (2.0, 1.0, 0.998),
        (2.0, 1.0, 1.0),
    )
    for epsilon in (0.2, 1.0)
]


def monte_carlo(
    epsilon: float, m: int, pair: Pair, size: int, generator: np.random.Generator
) -> tuple[float, float]:
    """Mean and standard error of (1 - e^(epsilon - L))_+ over Gram matrices drawn as Bartlett does."""
    x = np.array([pair.norm, 0.0])
    y = pair.other_norm * np.array([pair.cosine, pair.sine])
    corner = np.sqrt(generator.chisquare(m - 1, size))
    below = generator.standard_normal(size)
    last = generator.chisquare(m - 2, size) if m > 2 else np.zeros(size)
    single = generator.standard_normal((size, 2)) + x
    w11 = corner**2 + single[:, 0] ** 2
    w12 = corner * below + single[:, 0] * single[:, 1]
    w22 = below**2 + last + single[:, 1] ** 2

    def form(v: Array) -> Array:
        square: Array = v[0] ** 2 * w11 + 2 * v[0] * v[1] * w12 + v[1] ** 2 * w22
        return np.sqrt(np.maximum(square, 1e-12))

    log_0f1_of = bessel_log_0f1 if m < 200 else log_0f1
    loss = (y @ y - x @ x) / 2 + log_0f1_of(m / 2, form(x)) - log_0f1_of(m / 2, form(y))
    gain = np.maximum(-np.expm1(epsilon - loss), 0.0)
    return float(gain.mean()), float(gain.std() / math.sqrt(size))


def check_against_monte_carlo(size: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    for m, pair, epsilon in PAIRS:
        for direction in (pair, pair.mirrored()):
            mean, error = monte_carlo(epsilon, m, direction, size, generator)
            # 120 comparisons at 5 standard errors: a false failure in about one seed of 15,000. The 1e-5 is for
            # pairs whose delta is so small that no draw may have shown it.
            assert abs(math.exp(log_delta(epsilon, m, direction)) - mean) <= 5 * error + 1e-5, (
                m,
                direction,
                epsilon,
            )


def test_delta_by_quadrature_is_what_monte_carlo_finds() -> None:
    check_against_monte_carlo(size=20_000, seed=20240501)


@pytest.mark.slow
def test_delta_by_quadrature_is_what_a_long_monte_carlo_finds() -> None:
    check_against_monte_carlo(size=250_000, seed=20240502)


@pytest.mark.parametrize("m", [2, 9, 80])
@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_parallel_pair_is_a_difference_of_two_tails(m: int, epsilon: float) -> None:
    norm, other = 2.5, 1.5

    def loss(w: float) -> float:
        rho = np.array([math.sqrt(w)])
        at = bessel_log_0f1(m / 2, norm * rho) - bessel_log_0f1(m / 2, other * rho)
        return float(at[0]) + (other**2 - norm**2) / 2

    edge = float(brentq(lambda w: loss(w) - epsilon, 1e-6, 1e4))
    up = ncx2.sf(edge, m, norm**2) - math.exp(epsilon) * ncx2.sf(edge, m, other**2)
    assert math.exp(log_delta(epsilon, m, Pair(norm, other, 1.0))) == pytest.approx(float(up), rel=1e-8)
    edge = float(brentq(lambda w: loss(w) + epsilon, 1e-6, 1e4))
    down = ncx2.cdf(edge, m, other**2) - math.exp(epsilon) * ncx2.cdf(edge, m, norm**2)
    assert math.exp(log_delta(epsilon, m, Pair(other, norm, 1.0))) == pytest.approx(float(down), rel=1e-8)


@pytest.mark.parametrize(("m", "norm", "epsilon"), [(2, 0.9, 4.6), (6, 1.1, 4.2), (300, 1.6, 0.9)])
def test_orthogonal_pair_deep_in_the_tail(m: int, norm: float, epsilon: float) -> None:
    # The two quadratic forms are independent: a plain sum over a fine grid, to compare in relative terms.
    reach = 14.0
    centre = math.sqrt(m)
    rho = np.linspace(max(centre - reach, 0), centre + reach, 6001)[1:]
    step = rho[1] - rho[0]
    density = np.exp(chi2.logpdf(rho**2, m) + np.log(2 * rho * step))
    ratio = np.exp(bessel_log_0f1(m / 2, norm * rho) - norm**2 / 2)
    total = sum(
        float(np.sum(density * np.maximum(r - math.exp(epsilon) * ratio, 0.0))) * d
        for r, d in zip(ratio, density, strict=True)
    )
    assert 1e-15 < total < 1e-7
    assert math.exp(log_delta(epsilon, m, Pair(norm, norm, 0.0))) == pytest.approx(total, rel=2e-5)


@pytest.mark.parametrize("m", [2, 24, 60, 10**7])
def test_quadrature_has_converged_at_the_smallest_delta(m: int) -> None:
    much_finer = Resolution(scan=300, outer=48, inner=64)
    for norm, other, cosine in (
        (1.0, 1.0, 0.0),
        (1.0, 1.0, 0.6),
        (1.0, 0.5, 0.9),
        (1.0, 0.5, 0.9995),
        (1.0, 0.9, 0.996),
    ):
        for epsilon in (1e-3, 1.0, 20.0):
            # The scale at which the first pair has delta of about 1e-12.
            sigma = masked_noise.calibrate(epsilon, 1e-12, m + 2, 2, row_norm=1.0).sigma
            for pair in (Pair(norm, other, cosine), Pair(other, norm, cosine)):
                fine, coarse, exact = (
                    log_deltas(epsilon, m, [pair.scaled(1 / sigma)], resolution)[0]
                    for resolution in (FINE, COARSE, much_finer)
                )
                if exact > -60:
                    assert fine == pytest.approx(exact, abs=2e-7)
                    assert coarse == pytest.approx(exact, abs=2e-2)


def test_quadrature_has_converged_for_pairs_of_every_shape() -> None:
    # Long beside short rows, near parallel and near orthogonal, few and many degrees of freedom.
    generator = np.random.default_rng(1)
    for _ in range(40):
        m = int(10 ** generator.uniform(0, 5))
        epsilon = float(10 ** generator.uniform(-3, 1))
        cosine = math.cos(10 ** generator.uniform(-3, 0) * math.pi / 2)
        shape = Pair(1.0, float(10 ** generator.uniform(-2.5, 0)), cosine)
        if generator.uniform() < 0.3:
            shape = shape.mirrored()
        # Rows about as long as a delta between 1e-12 and 1 needs.
        sigma = masked_noise.calibrate(epsilon, 1e-6, m + 2, 2, row_norm=1.0).sigma * generator.uniform(
            0.5, 1.1
        )
        pair = shape.scaled(1 / sigma)
        fine, coarse, exact = (
            log_deltas(epsilon, m, [pair], resolution)[0]
            for resolution in (FINE, COARSE, Resolution(scan=350, outer=50, inner=64))
        )
        if exact > -60:
            assert fine == pytest.approx(exact, abs=5e-8), (m, epsilon, pair)
            assert coarse == pytest.approx(exact, abs=2e-2), (m, epsilon, pair)


def test_several_pairs_at_once_are_the_same_as_one_by_one() -> None:
    pairs = [
        Pair(2.0, 2.0, 0.0),
        Pair(2.0, 1.0, 1.0),
        Pair(1.0, 2.0, 0.9),
        Pair(2.0, 0.0, 1.0),
        Pair(2.0, 1.0, 0.999),
    ]
    for m in (5, 500):
        together = log_deltas(0.3, m, pairs, FINE)
        assert together == pytest.approx([log_delta(0.3, m, pair) for pair in pairs], abs=1e-9)


# --- the worst pair, by search ----------------------------------------------------------------------


def allowed_pairs(row_norm: float, distance: float, size: int, generator: np.random.Generator) -> list[Pair]:
    """Random pairs of rows of norm at most R at distance at most d, many of them on the boundary."""
    pairs: list[Pair] = []
    while len(pairs) < size:
        norm = row_norm * min(1.0, generator.uniform(0.3, 1.6))
        other = row_norm * min(1.0, generator.uniform(0.0, 1.6))
        cosine = 1.0 if generator.uniform() < 0.1 else float(np.cos(generator.uniform(0, np.pi / 2)))
        if generator.uniform() < 0.4 and other > 0:  # on the sphere of radius d around x
            cosine = (norm**2 + other**2 - distance**2) / (2 * norm * other)
        if 0 <= cosine <= 1 and norm**2 + other**2 - 2 * norm * other * cosine <= distance**2 * (1 + 1e-12):
            pairs.append(Pair(norm, other, cosine))
    return pairs


@pytest.mark.parametrize("protect", ["record", "unit"])
@pytest.mark.parametrize("m", [2, 15, 60, 5000])
@pytest.mark.parametrize("attributes", [2, 3, 9])
def test_no_allowed_pair_is_worse_than_the_one_calibrated_for(protect: str, m: int, attributes: int) -> None:
    generator = np.random.default_rng(m * attributes)
    norm = math.sqrt(attributes)
    distance = 2 * norm if protect == "record" else 1.0
    pairs = allowed_pairs(norm, distance, 40, generator)
    for epsilon, delta in ((0.01, 1e-2), (1.0, 1e-6), (8.0, 1e-11)):
        sigma = masked_noise.calibrate(
            epsilon, delta, m + attributes, attributes, protect="record" if protect == "record" else "unit"
        ).sigma
        for group in (pairs, [pair.mirrored() for pair in pairs]):
            worst = max(log_deltas(epsilon, m, [pair.scaled(1 / sigma) for pair in group], COARSE))
            assert worst <= math.log(delta) + 1e-2
        close = [
            pair
            for pair in pairs
            if log_deltas(epsilon, m, [pair.scaled(1 / sigma)], COARSE)[0] > math.log(delta) - 0.1
        ]
        assert all(log_delta(epsilon, m, pair.scaled(1 / sigma)) <= math.log(delta) for pair in close)


@pytest.mark.parametrize("row_norm", [0.72, 0.8, 0.9, 0.99, 1.0, 1.2, 1.45])
def test_no_place_on_a_curve_is_worse_where_the_maximum_may_lie_inside_it(row_norm: float) -> None:
    # With rows shorter than d the worst pair is inside the curve for few rows and delta of 1e-6.
    curves = family(row_norm, 1.0, 2).curves
    for m in (2, 10, 60):
        sigma = masked_noise.calibrate(1.0, 1e-6, m + 2, 2, protect="unit", row_norm=row_norm).sigma
        for curve in curves:
            pairs = [curve.pair(at).scaled(1 / sigma) for at in np.linspace(0, 1, 31)]
            assert max(log_deltas(1.0, m, pairs, FINE)) <= math.log(1e-6)


@pytest.mark.parametrize(("row_norm", "attributes"), [(0.8, 2), (1.4, 2), (2.4, 6), (1.7, 1)])
def test_a_cell_is_as_bad_as_every_pair_in_it(row_norm: float, attributes: int) -> None:
    generator = np.random.default_rng(3)
    for curve in family(row_norm, 1.0, attributes).curves:
        for _ in range(6):
            low = float(generator.uniform(0.0, 0.95))
            high = low + float(generator.uniform(0.0, 1 - low)) ** 3
            m, epsilon = int(10 ** generator.uniform(0.3, 4)), float(10 ** generator.uniform(-1, 0.5))
            sigma = masked_noise.calibrate(
                epsilon, 1e-4, m + 1, 1, "unit", row_norm, "theorem"
            ).sigma * generator.uniform(0.1, 0.3)
            inside = [curve.pair(at).scaled(1 / sigma) for at in np.linspace(low, high, 5)]
            cover = log_delta(epsilon, m, curve.cover(low, high).scaled(1 / sigma))
            assert max(log_deltas(epsilon, m, inside, FINE)) <= cover + 1e-7


@pytest.mark.parametrize(("epsilon", "m", "attributes"), [(1.0, 998, 5), (0.05, 60, 2), (1.0, 20_000, 2)])
def test_cells_are_close_to_the_curve(epsilon: float, m: int, attributes: int) -> None:
    norm = math.sqrt(attributes)
    sigma = masked_noise.calibrate(epsilon, 1e-5, m + attributes, attributes, "unit").sigma
    among = family(norm, 1.0, attributes)
    pairs = [curve.pair(at).scaled(1 / sigma) for curve in among.curves for at in np.linspace(0, 1, 41)]
    gap = worst(epsilon, sigma, m, among).log_delta - max(log_deltas(epsilon, m, pairs, FINE))
    assert -1e-7 <= gap < 1e-3


def test_delta_falls_with_the_inner_product() -> None:
    # The angle theorem, on random norms: 40 curves of nine angles each.
    generator = np.random.default_rng(11)
    for _ in range(40):
        m, epsilon = int(10 ** generator.uniform(0, 4)), float(10 ** generator.uniform(-2, 1))
        scale = m**0.25 * float(10 ** generator.uniform(-0.2, 0.4))
        norm, other = scale, scale * float(generator.uniform(0.2, 1.0))
        pairs = [Pair(norm, other, cosine) for cosine in np.linspace(0.0, 0.98, 9)]
        values = log_deltas(epsilon, m, pairs, FINE)
        assert all(later <= earlier + 1e-7 for earlier, later in pairwise(values)), (m, epsilon, norm, other)


@pytest.mark.parametrize("m", [2, 30, 4000])
def test_record_is_worst_at_a_right_angle(m: int) -> None:
    angles = np.linspace(0.05, np.pi / 2, 31)
    for epsilon, delta in ((0.01, 1e-2), (1.0, 1e-6), (15.0, 1e-12)):
        sigma = masked_noise.calibrate(epsilon, delta, m + 2, 2, row_norm=1.0).sigma
        values = log_deltas(epsilon, m, [Pair(1 / sigma, 1 / sigma, math.cos(a)) for a in angles], FINE)
        assert all(later > earlier for earlier, later in pairwise(values) if earlier > -300)
        assert values[-1] == pytest.approx(math.log(delta), abs=1e-4)


def test_unit_at_two_attributes_is_not_always_worst_at_a_parallel_pair() -> None:
    # docs/theory/sharp-calibration.md#cells: at p = 2 the pair (R, R) at distance d can be worse for large m.
    m, norm = 10**4, math.sqrt(2)
    sigma = masked_noise.calibrate(0.1, 1e-2, m + 2, 2, protect="unit").sigma
    parallel = max(
        log_delta(0.1, m, Pair(a / sigma, b / sigma, 1.0)) for a, b in ((norm, norm - 1), (norm - 1, norm))
    )
    equal = log_delta(0.1, m, Pair(norm / sigma, norm / sigma, 0.75))
    assert parallel < equal <= math.log(1e-2)


@pytest.mark.parametrize("m", [3, 200])
def test_delta_grows_with_the_gram_matrix(m: int) -> None:
    # The domination lemma, on random pairs of Gram matrices in Loewner order.
    generator = np.random.default_rng(7)
    for _ in range(25):
        rows = generator.normal(size=(2, 2)) * 1.5
        extra = generator.normal(size=(2, 2)) * 0.7
        small = rows @ rows.T
        large = small + extra @ extra.T

        def of(gram: Array) -> Pair:
            norms = np.sqrt(np.diag(gram))
            return Pair(float(norms[0]), float(norms[1]), float(abs(gram[0, 1]) / norms.prod()))

        for epsilon in (0.05, 1.0):
            assert log_delta(epsilon, m, of(small)) <= log_delta(epsilon, m, of(large)) + 1e-9
