"""The ball: rows inside are untouched, rows outside go inward, and which radii are refused."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moments_cases import SMALL, SMALL_NORM, random_answers, random_layout, random_schema
from trimask_core.basics.errors import ImpossibleStudy
from trimask_core.moments.layout import SHRINK_BITS, MomentsLayout, _shrunk
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema

PLANE = Schema((Attribute("x", "continuous", -1, 1), Attribute("y", "continuous", -1, 1)))


def norm(layout: MomentsLayout, z: Any) -> Fraction:
    return 1 + sum(
        (Fraction(value, column.width) ** 2 for value, column in zip(z, layout.columns, strict=True)),
        Fraction(),
    )


@given(st.integers(0, 10**6))
def test_inside_untouched_outside_inward(seed: int) -> None:
    random = Random(seed)
    schema = random_schema(random)
    layout = random_layout(random, schema, ball=True)
    if layout is None or layout.ball is None:
        return
    plain = MomentsLayout.of(schema)
    for _ in range(5):
        answers = random_answers(random, schema)
        whole, kept = (*plain.encode(answers).z, 0), layout.encode(answers)
        assert kept == layout.encode(answers)
        assert layout.ball.left(kept.z) >= 0
        assert norm(layout, kept.z) <= layout.radius_squared
        assert kept.clipped == (layout.ball.left(whole) < 0) == bool(kept.z[-1])
        if not kept.clipped:
            assert kept.z == whole
            continue
        for column, before, after in zip(layout.columns[:-1], whole, kept.z, strict=False):
            assert abs(after) <= abs(before)
            assert after * before >= 0
            assert (after - before) % 2 == 0 or column.kind == "product"
            if column.kind == "level":
                assert after == before
            elif column.factors is not None:
                assert after == kept.z[column.factors[0]] * kept.z[column.factors[1]]


def test_the_largest_factor_that_fits() -> None:
    """Every k by exhaustion at a few places: the chosen one fits, and no larger one gives a row that fits."""
    layout = MomentsLayout.of(PLANE, 1.5)
    assert layout.ball is not None
    whole = (*MomentsLayout.of(PLANE).encode({"x": 1, "y": -0.7}).z, 0)
    kept = list(layout.encode({"x": 1, "y": -0.7}).z)
    rows = {k: _shrunk(layout.columns, whole, k) for k in range(0, (1 << SHRINK_BITS) + 1, 64)}
    fitting = [k for k, row in rows.items() if layout.ball.left(row) >= 0]
    assert fitting == list(rows)[: len(fitting)], "fitting is monotone in k"
    assert sum(v * v for v in rows[fitting[-1]][:2]) <= sum(v * v for v in kept[:2])
    assert layout.ball.left(kept) >= 0
    beyond = next(row for k, row in rows.items() if k > fitting[-1])
    assert layout.ball.left(beyond) < 0
    # Little is given away: the row is within the 2^-6 of c_j and one step of the ball.
    assert norm(layout, kept) >= 1 + (layout.radius_squared - 1) * Fraction(63, 64) - Fraction(8, 1000)


@given(st.integers(0, 10**6))
def test_shrinking_is_monotone(seed: int) -> None:
    random = Random(seed)
    schema = random_schema(random)
    layout = random_layout(random, schema, ball=True)
    if layout is None or layout.ball is None:
        return
    z = (*MomentsLayout.of(schema).encode(random_answers(random, schema)).z, 0)
    factors = sorted(random.randint(0, 1 << SHRINK_BITS) for _ in range(10))
    rows = [_shrunk(layout.columns, z, k) for k in factors]
    for smaller, larger in pairwise(rows):
        assert all(abs(a) <= abs(b) for a, b in zip(smaller, larger, strict=True))
    assert _shrunk(layout.columns, z, 1 << SHRINK_BITS)[:-1] == list(z[:-1])
    assert layout.ball.left(_shrunk(layout.columns, z, 0)) >= 0, "the least row fits whatever the answers are"


def test_a_row_at_the_edge() -> None:
    """The last step inside is kept as it is; the next one is clipped and leaves room for the clipped bit."""
    schema = Schema((Attribute("x", "integer", -100, 100),))
    layout = MomentsLayout.of(schema, 1.25)  # |x| <= 0.75 where c is exact
    assert layout.ball is not None
    flags = [layout.encode({"x": x}).clipped for x in range(101)]
    edge = flags.index(True)
    assert flags == [False] * edge + [True] * (101 - edge)
    assert Fraction(edge, 100) > Fraction(3, 4) * Fraction(63, 64)
    assert edge <= 76
    shrunk = {layout.encode({"x": x}).z for x in range(edge, 101)}
    assert {z[1] for z in shrunk} == {1}
    assert all(Fraction(z[0], 200) ** 2 + Fraction(1, 16) <= Fraction(9, 16) for z in shrunk)
    assert [layout.encode({"x": -x}).z[0] for x in range(101)] == [
        -layout.encode({"x": x}).z[0] for x in range(101)
    ]


def test_the_range_of_row_norm() -> None:
    for wrong in (0.0, 0.5, -2.0, 3.4, 100, math.nan, math.inf, True, "2"):
        with pytest.raises(ImpossibleStudy, match=r"^row_norm") as caught:
            MomentsLayout.of(SMALL, wrong)  # type: ignore[arg-type]
        assert caught.value.reason == "row_norm"
    with pytest.raises(ImpossibleStudy) as caught:
        MomentsLayout.of(SMALL, 1.0)
    _, low, _, high = str(caught.value).partition(", got")[0].rsplit(" ", 3)
    # smoker is always +-1, a question may cost 1, hours go to 0 and their product with them, clipped costs 1/16
    assert float(low) == pytest.approx(math.sqrt(1 + 1 + 1 + 1 / 16), abs=3e-6)
    assert float(high) == pytest.approx(math.sqrt(11), abs=3e-6)
    for right in (float(low), float(high), SMALL_NORM):
        assert MomentsLayout.of(SMALL, right).ball is not None
    for wrong in (float(low) - 3e-6, float(high) + 3e-6):
        with pytest.raises(ImpossibleStudy, match="row_norm must be between"):
            MomentsLayout.of(SMALL, wrong)


def test_no_ball_for_answers_that_cannot_shrink() -> None:
    schema = Schema((Attribute("a", "binary"), Attribute("b", "binary")))
    with pytest.raises(ImpossibleStudy, match="leave row_norm out"):
        MomentsLayout.of(schema, 1.5)


def test_the_least_row_at_the_least_norm() -> None:
    """Odd offsets leave |z| = 1, even ones 0; at the least row_norm the worst answers still fit."""
    schema = Schema(
        (Attribute("x", "integer", 0, 9), Attribute("y", "integer", 0, 8), Attribute("z", "integer", 0, 9)),
        (Derived("xz", "product", ("x", "z")), Derived("xy", "product", ("x", "y"))),
    )
    with pytest.raises(ImpossibleStudy) as caught:
        MomentsLayout.of(schema, 1.0)
    low = float(str(caught.value).split()[4])
    assert low == pytest.approx(math.sqrt(1 + 2 / 81 + 1 / 81**2 + 1 / 16), rel=2**-6)
    layout = MomentsLayout.of(schema, low)
    kept = layout.encode({"x": 0, "y": 8, "z": 9})
    assert kept.z[:5] == (-1, 0, 1, -1, 0)
    assert kept.clipped


def test_a_ball_that_does_not_fit_the_field() -> None:
    schema = Schema((Attribute("x", "continuous", 0, 1, step=2**-14),), (Derived("x2", "square", ("x",)),))
    assert MomentsLayout.of(schema).bits == 15
    with pytest.raises(ImpossibleStudy, match=r"row_norm: .* coarser steps, first for x2"):
        MomentsLayout.of(schema, 1.6)


def test_no_wrap_in_the_check() -> None:
    """The check of the ball is an equation modulo P: both sides stay below P for every bits there are."""
    for row_norm in (2.0, 2.25, 3.0):
        layout = MomentsLayout.of(SMALL, row_norm)
        assert layout.ball is not None
        worst = sum(
            c * column.largest**2 for c, column in zip(layout.ball.coefficients, layout.columns, strict=True)
        )
        assert worst + sum(layout.ball.weights) < 2**61 - 1
        assert sum(layout.ball.weights) == layout.ball.capacity
        for c, column in zip(layout.ball.coefficients, layout.columns, strict=True):
            exact = Fraction(1 << layout.ball.exponent, column.width**2)
            assert exact <= c < exact * (1 + Fraction(1, 64))
