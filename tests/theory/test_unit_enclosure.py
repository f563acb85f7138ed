"""delta of neighbours within a distance, in ball arithmetic: functions, pairs, cells, and the whole."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import pytest

from bench.theory_certified import Setting, settings_of
from trimask_core.basics.errors import ParameterError
from trimask_theory.masking import masked_noise
from trimask_theory.masking.enclosure import enclose_parallel
from trimask_theory.masking.oblique_enclosure import LogBessel, ObliquePair, enclose_oblique
from trimask_theory.masking.unit_enclosure import UnitSetting, _Curve
from trimask_theory.masking.wishart_pair import Pair, log_delta

flint = pytest.importorskip("flint")
arb = flint.arb


@pytest.mark.parametrize("m", [2, 3, 60, 251])
def test_the_bessel_functions_hold_what_mpmath_finds(m: int) -> None:
    with mpmath.workdps(50), flint.ctx.workprec(192):
        balls = LogBessel(flint, m, 110)
        for t in (0.0, 0.3, 1.99 * math.sqrt(m), 2.01 * math.sqrt(m), 3.0001 * math.sqrt(m), 900.0):
            at, b = mpmath.mpf(t), mpmath.mpf(m) / 2
            value = mpmath.hyp0f1(b, at * at / 4)
            slope = at / m * mpmath.hyp0f1(b + 1, at * at / 4) / value
            for ball, exact in ((balls.log_y(arb(t)), mpmath.log(value)), (balls.slope(arb(t)), slope)):
                assert ball.overlaps(arb(mpmath.nstr(exact, 45)))
                assert float(ball.rad()) < 1e-16


PAIRS = (
    (1.0, 50, 3.0, 2.4, 0.3),
    (1.0, 250, 2.72, 1.61, 0.99),
    (0.5, 250, 1.6, 2.7, 0.97),
    (2.0, 6, 1.9, 2.2, 0.6),
    (1.0, 40, 2.0, 1.5, 0.0),
)


@pytest.mark.parametrize(("epsilon", "m", "a", "b", "cosine"), PAIRS)
def test_a_pair_at_an_angle_holds_quadrature_and_no_more(
    epsilon: float, m: int, a: float, b: float, cosine: float
) -> None:
    about = log_delta(epsilon, m, Pair(a, b, cosine))
    with flint.ctx.workprec(192):
        balls = LogBessel(flint, m, 110)
        pair = ObliquePair(arb(a), arb(b), arb(a) * arb(b) * arb(cosine))
        longer = ObliquePair(arb(a) * 1.02, arb(b) * 1.02, pair.inner)
    lower, upper = enclose_oblique(flint, balls, m, epsilon, pair, about, 0.02)
    assert lower <= 1 <= upper
    assert upper - lower <= 0.02
    # Rows that are a little longer leave the interval: it is no wider than it says.
    assert enclose_oblique(flint, balls, m, epsilon, longer, about, 0.02)[0] > upper


def test_the_interval_does_not_depend_on_where_the_rectangles_lie() -> None:
    epsilon, m, a, b, cosine = PAIRS[1]
    about = log_delta(epsilon, m, Pair(a, b, cosine))
    pair = ObliquePair(arb(a), arb(b), arb(a) * arb(b) * arb(cosine))
    balls = LogBessel(flint, m, 110)
    fine = enclose_oblique(flint, balls, m, epsilon, pair, about, 0.002)
    coarse = enclose_oblique(flint, balls, m, epsilon, pair, about, 0.3)
    assert coarse[0] <= fine[0] <= fine[1] <= coarse[1]


@pytest.mark.parametrize(("a", "b"), [(2.7, 1.6), (1.6, 2.7), (2.0, 0.0), (0.0, 2.0)])
def test_rows_on_one_line(a: float, b: float) -> None:
    about = log_delta(0.5, 80, Pair(a, b, 1.0))
    lower, upper = enclose_parallel(flint, 80, 0.5, arb(a), arb(b), about)
    assert lower * (1 - 1e-9) <= math.exp(about) <= upper * (1 + 1e-9)
    assert upper - lower < 1e-6 * upper


def test_a_loss_that_never_reaches_epsilon_adds_nothing() -> None:
    assert enclose_parallel(flint, 80, 3.0, arb(1.0), arb(2.0), -10.0) == (0.0, 0.0)
    assert enclose_parallel(flint, 80, 3.0, arb(1.0), arb(1.0), -10.0)[1] == pytest.approx(
        math.exp(-50.0), rel=1e-5
    )


@pytest.mark.parametrize("one_attribute", [False, True])
def test_cells_cover_the_curve_in_both_directions(one_attribute: bool) -> None:
    curve = _Curve(flint, UnitSetting(1.0, 60, 2.0, 1.0, 1.1, one_attribute))
    _, _, seen = curve.best()
    cells = [cell for cell, _ in curve.chosen(seen + 0.02)]
    for mirrored in (False, True):
        ends = sorted(
            (Fraction(cell.number, 2**cell.depth), Fraction(cell.number + 1, 2**cell.depth))
            for cell in cells
            if cell.mirrored == mirrored
        )
        assert (ends[0][0], ends[-1][1]) == (0, 1)
        assert all(left[1] == right[0] for left, right in pairwise(ends))
    # Every pair of a cell lies below the cell's.
    for cell in cells[::5]:
        low, high = cell.ends
        top = log_delta(1.0, 60, curve.pair(low, high, cell.mirrored))
        for part in (0.0, 0.4, 1.0):
            at = low + part * (high - low)
            assert log_delta(1.0, 60, curve.pair(at, at, cell.mirrored)) <= top + 1e-7


@pytest.mark.parametrize("one_attribute", [False, True])
def test_a_cells_pair_in_balls_is_its_pair_in_doubles_or_a_little_worse(one_attribute: bool) -> None:
    curve = _Curve(flint, UnitSetting(1.0, 60, 2.0, 1.0, 1.1, one_attribute))
    for low, high, mirrored in ((0.0, 0.125, False), (0.5, 0.75, True), (0.25, 0.25, False)):
        plain, balls = curve.pair(low, high, mirrored), curve.balls(low, high, mirrored)
        assert float(balls.a) == pytest.approx(plain.norm, rel=1e-13)
        assert float(balls.b) == pytest.approx(plain.other_norm, rel=1e-13)
        if balls.inner is not None:
            inner = plain.norm * plain.other_norm * plain.cosine
            assert float(balls.inner) == pytest.approx(inner, rel=1e-13)
            # The inner product of the cell's shortest pair with the norm of its longest: no allowed pair.
            assert low == high or float(balls.inner) < float(curve.balls(high, high, mirrored).inner)


def check(epsilon: float, sigma: float, rows: int, attributes: int, row_norm: float, width: float) -> None:
    lower, upper = masked_noise.enclosed_delta(
        epsilon, sigma, rows, attributes, "unit", row_norm, width=width
    )
    assert 0 < lower <= masked_noise.delta(epsilon, sigma, rows, attributes, "unit", row_norm) <= upper
    assert upper - lower <= width * upper


@pytest.mark.parametrize(
    ("rows", "attributes", "row_norm"), [(40, 1, 3.0), (40, 1, 0.9), (40, 2, 0.8), (40, 2, 0.6)]
)
def test_the_interval_holds_the_value(rows: int, attributes: int, row_norm: float) -> None:
    # Longer than the distance, shorter, and so short that every pair of rows is allowed.
    check(1.0, 0.6, rows, attributes, row_norm, 0.1)


def test_noise_for_unit_neighbours_is_raised_until_the_upper_end_is_within_delta() -> None:
    plain = masked_noise.calibrate(1.0, 1e-3, 40, 1, "unit", 2.0).sigma
    found = masked_noise.calibrate(1.0, 1e-3, 40, 1, "unit", 2.0, certified=True)
    assert plain <= found.sigma < 1.01 * plain
    assert masked_noise.enclosed_delta(1.0, found.sigma, 40, 1, "unit", 2.0)[1] <= 1e-3
    assert "cells" in found.guarantee.because
    assert "ball arithmetic" in found.guarantee.because


def test_noise_is_not_raised_for_an_enclosure_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimask_theory.masking.masked_noise.enclosed", lambda *_: (0.0, 1.0))
    with pytest.raises(ParameterError, match="certified"):
        masked_noise.calibrate(1.0, 1e-3, 40, 1, "unit", 2.0, certified=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("setting", settings_of("unit"), ids=str)
def test_the_interval_holds_the_value_in_every_published_setting(setting: Setting) -> None:
    epsilon, delta, rows, attributes = setting
    sigma = masked_noise.calibrate(epsilon, delta, rows, attributes, "unit").sigma
    check(epsilon, sigma, rows, attributes, math.sqrt(attributes), 0.01)
