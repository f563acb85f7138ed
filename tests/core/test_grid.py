"""The integer grid: rounding, exactness, and refusing what does not fit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.rows.study import EXACT_INTEGERS, Grid, grid_exponent


@given(st.floats(-1e6, 1e6), st.integers(-30, -8))
def test_rounds_to_the_nearest_multiple(value: float, exponent: int) -> None:
    grid = Grid(exponent)
    steps = grid.round_one(value)
    assert abs(Fraction(value) - steps * Fraction(grid.step)) <= Fraction(grid.step) / 2
    assert Fraction(float(grid.to_float(np.array([steps]))[0])) == steps * Fraction(grid.step)


def test_halves_go_to_the_even_neighbour() -> None:
    assert Grid(0).round(np.array([0.5, 1.5, 2.5, -0.5, -1.5])).tolist() == [0, 2, 2, 0, -2]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=6), st.integers(-30, -8))
def test_rounding_inward_lengthens_nothing(values: list[float], exponent: int) -> None:
    grid = Grid(exponent)
    for value in values:
        step = grid.truncate_one(value)
        moved = Fraction(value) - step * Fraction(grid.step)
        assert abs(step * Fraction(grid.step)) <= abs(Fraction(value))
        assert abs(moved) < Fraction(grid.step)


def test_every_integer_below_two_to_the_53_survives() -> None:
    grid = Grid(-24)
    steps = np.array([EXACT_INTEGERS - 1, 1 - EXACT_INTEGERS, 0, 1, -1], dtype=np.int64)
    assert np.array_equal(grid.round(grid.to_float(steps)), steps)


@pytest.mark.parametrize("value", [2.0**53, -(2.0**53), 1e300, math.inf, -math.inf, math.nan])
def test_what_does_not_fit_raises_and_never_wraps(value: float) -> None:
    with pytest.raises(VerificationError, match="does not fit"):
        Grid(0).round(np.array([0.0, value]))


def test_steps_up_is_the_least_whole_number_above() -> None:
    grid = Grid(-3)
    assert [grid.steps_up(value) for value in (0.125, 0.1250001, 1e-9, 1.0)] == [1, 2, 1, 8]
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(ParameterError):
            grid.steps_up(bad)


@pytest.mark.parametrize("providers", [2, 3, 5, 17])
@pytest.mark.parametrize("scale", [1.0, 5.1e6, 9.4e6, 2.0**40, 1e-3])
def test_the_exponent_leaves_twelve_deviations_and_is_the_finest_that_does(
    scale: float, providers: int
) -> None:
    widest = 12 * scale * math.sqrt(providers - 1)
    exponent = grid_exponent(scale, providers)
    assert widest <= math.ldexp(1.0, 52 + exponent)
    assert widest > math.ldexp(1.0, 51 + exponent)


def test_the_exponent_at_a_power_of_two_is_exact() -> None:
    scale = 1 / 12
    assert 12 * scale == 1.0
    assert grid_exponent(scale, 2) == -52
    assert grid_exponent(math.nextafter(scale, 1) * (1 + 1e-15), 2) == -51


def test_the_notes_example() -> None:
    # docs/theory/collection.md#grid: n = 256, p1 = 6, K1 = 2, mu = 2^-20 gives s = 5.1e6 and a grid of 1.5e-8.
    scale = 2 * math.sqrt(6) * 2**20
    assert scale == pytest.approx(5.1e6, rel=0.01)
    assert Grid(grid_exponent(scale, 2)).step == pytest.approx(1.5e-8, rel=0.01)
