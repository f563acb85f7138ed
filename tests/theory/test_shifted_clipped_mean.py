"""Huang, Liang and Yi's shifted clipped mean as a baseline: its budget, its noise, its search and its error."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from trimask_shifted_mean import Shape, compare, quantile_search, rotation, shifted_sum
from trimask_theory.gaussian import gdp

Array = NDArray[np.float64]
MU = gdp.mu(1.0, 1e-6)


class Fixed:
    """Zeros, but for the calls named: the noise that a mechanism adds shows as what changes."""

    def __init__(self, **values: float) -> None:
        self.values, self.sizes = values, list[int]()

    def standard_normal(self, size: tuple[int, ...], /) -> Array:
        self.sizes.append(int(np.prod(size)))
        return np.full(size, self.values.get(f"call_{len(self.sizes)}", self.values.get("all", 0.0)))


def _rows(n: int = 2000) -> Array:
    return np.random.default_rng(5).standard_normal((n, 10)) / np.arange(1, 11.0) + 3.0


def test_the_search_finds_the_exact_quantile_without_noise_and_the_shifted_one_with_it() -> None:
    values = np.random.default_rng(6).uniform(-5, 5, (999, 3))
    for rank in (10, 500, 990):
        exact = np.sort(values, axis=0)[rank]
        found = quantile_search(values, rank + 0.5, -8.0, 8.0, 40, 1e-6, np.random.default_rng(7))
        assert found == pytest.approx(exact, abs=1e-9)
    # A deviation of 30 and a normal of 1 in every count is 30 ranks.
    moved = quantile_search(values, 500.5, -8.0, 8.0, 40, 30.0, Fixed(all=1.0))
    assert moved == pytest.approx(np.sort(values, axis=0)[470], abs=1e-9)


def test_the_budget_adds_up_and_every_noise_is_in_it() -> None:
    x, steps = _rows(), 12
    plain = Fixed()
    release = shifted_sum(x, 20.0, mu=MU, source=plain, steps=steps)
    # Three rounds of public signs, a vector of counts a step for 16 medians, a count a step for the radius, the sum.
    assert plain.sizes == [16] * 3 + [16] * steps + [1] * steps + [16]
    assert len(release.spent) == sum(plain.sizes[3:-1]) + 1
    assert gdp.compose(*release.spent) == pytest.approx(MU, rel=1e-12)
    assert gdp.delta(1.0, gdp.compose(*release.spent)) == pytest.approx(1e-6, rel=1e-6)
    # The sum's noise is what its share of the budget asks of two rows of the ball.
    last = f"call_{len(plain.sizes)}"
    noisy = shifted_sum(x, 20.0, mu=MU, source=Fixed(**{last: 1.0}), steps=steps)
    added = rotation(16, Fixed()).T @ np.full(16, 2 * release.radius / release.spent[-1])
    assert noisy.value - release.value == pytest.approx(added[:10], rel=1e-6, abs=1e-6)
    # The counts' too: without noise the radius is the exact quantile, with a normal of 1 it is 1/mu ranks lower.
    counts = {f"call_{3 + steps + k}": 1.0 for k in range(1, steps + 1)}
    lower = shifted_sum(x, 20.0, mu=MU, source=Fixed(**counts), steps=steps)
    norms = np.sort(np.linalg.norm(np.pad(x, ((0, 0), (0, 6))) - release.centre, axis=1))
    rank = 2000 - 2 * np.sqrt(10) / release.spent[-1] - 1 / release.spent[-2]
    for found, at in ((release, rank), (lower, rank - 1 / release.spent[-2])):
        assert found.radius == pytest.approx(norms[int(np.floor(at))], abs=40 / 2**steps)
    medians = {f"call_{3 + k}": 1.0 for k in range(1, steps + 1)}
    shifted = shifted_sum(x, 20.0, mu=MU, source=Fixed(**medians), steps=steps)
    turn = rotation(16, Fixed())
    turned = np.sort(np.pad(x, ((0, 0), (0, 6))) @ turn.T, axis=0)
    for found, at in ((release, 1000.0), (shifted, 1000 - 1 / release.spent[0])):
        assert turn @ found.centre == pytest.approx(turned[int(np.floor(at))], abs=40 / 2**steps)


def test_one_row_of_any_size_moves_the_clipped_sum_by_the_diameter_of_the_ball_at_most() -> None:
    x = _rows()
    far = x.copy()
    far[0] = 1e9
    # The same answers to every count: the noise of the searches is made to decide alone.
    source = {f"call_{k}": 1e9 * (-1) ** k for k in range(4, 24)}
    one, other = (shifted_sum(rows, 20.0, mu=MU, source=Fixed(**source)) for rows in (x, far))
    assert one.radius == other.radius
    assert np.linalg.norm(one.value - other.value) <= 2 * one.radius * (1 + 1e-9)


def test_the_error_is_that_of_clipping_and_noise() -> None:
    """At most the rows' excess over the radius and 1.5 times the noise's root mean square; the seed is fixed."""
    x = _rows(20_000)
    release = shifted_sum(x, 20.0, mu=MU, source=np.random.default_rng(8), margin=4.0)
    norms = np.linalg.norm(np.pad(x, ((0, 0), (0, 6))) - release.centre, axis=1)
    excess = float(np.maximum(norms - release.radius, 0).sum())
    error = float(np.linalg.norm(release.value - x.sum(axis=0)))
    assert error <= excess + 1.5 * 4 * release.deviation
    # The shift found the centre and the radius is that of the rows, not that of the public bound.
    assert release.centre[:10] == pytest.approx(np.median(x, axis=0), abs=0.3)
    assert release.radius < 1.5 * norms.max() < 20.0


def test_who_wins_depends_on_what_is_known() -> None:
    """Five draws: known deviations make Algorithm 3 the better one, deviations ten times too large the worse one."""
    known = compare(Shape("", 1.0, n=3000), 5, 1)
    assert known[1] < known[4]
    wrong = compare(Shape("", 1.0, n=3000, stated=10.0), 5, 1)
    assert wrong[0] > 3 * wrong[4]
