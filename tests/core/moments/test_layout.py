"""From a schema to columns, bits and elements: by hand, at random, and what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moments_cases import SMALL, SMALL_ANSWERS, SMALL_NORM, random_answers, random_layout, random_schema
from trimask_core.basics.errors import AnswerError, ImpossibleStudy, ParameterError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.moments.columns import bit_weights, bits_of
from trimask_core.moments.field import P, signed
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import build_report
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema

AGE = Attribute("age", "integer", 18, 90)
SLEEP = Attribute("sleep", "continuous", 3, 12)


def column(attribute: Attribute) -> Any:
    return MomentsLayout.of(Schema((attribute,))).columns[0]


@pytest.mark.parametrize("largest", [*range(1, 70), 1000, 1023, 1024])
def test_bits_give_exactly_every_answer(largest: int) -> None:
    weights = bit_weights(largest)
    assert len(weights) == largest.bit_length()
    assert sum(weights) == largest
    assert all(weight > 0 for weight in weights)
    for number in range(largest + 1):
        bits = bits_of(number, weights)
        assert set(bits) <= {0, 1}
        assert sum(bit * weight for bit, weight in zip(bits, weights, strict=True)) == number


def test_columns_by_hand() -> None:
    layout = MomentsLayout.of(SMALL, SMALL_NORM)
    assert [c.name for c in layout.columns] == [
        "hours", "smoker", "region_south", "region_west", "hours_smoker", "clipped",
    ]  # fmt: skip
    assert [c.kind for c in layout.columns] == ["bounded", "bounded", "level", "level", "product", "clipped"]
    assert [c.offset for c in layout.columns] == [8, 1, 0, 0, 0, 0]
    assert [c.width for c in layout.columns] == [8, 1, 1, 1, 8, 4]
    assert [c.largest for c in layout.columns] == [16, 1, 1, 1, 16, 1]
    assert layout.columns[0].weights == (1, 2, 4, 5)
    assert layout.choices == ((5, 6, 7),)
    assert [c.first_bit for c in layout.columns] == [0, 4, 6, 7, -1, 8]
    assert layout.columns[4].factors == (0, 1)
    assert layout.ball is not None
    # max w^2 = 64 has 7 bits, and 6 more; c = 2^13 / w^2; C = floor(2^13 (2.25^2 - 1)) has 16 bits
    assert layout.ball.exponent == 13
    assert layout.ball.coefficients == (128, 8192, 8192, 8192, 128, 512)
    assert layout.ball.capacity == math.floor(8192 * 4.0625)
    assert (layout.ball_bit, layout.bits, layout.q) == (9, 9 + 16, 6)
    assert layout.elements == 2 * 25 + 21 + 6 + 4


def test_a_row_by_hand() -> None:
    encoded = MomentsLayout.of(SMALL).encode(SMALL_ANSWERS)
    # 2.5 hours are 5 half hours, z = 10 - 8; bits 1 + 4; smoker z = 1; west is the last of three levels
    assert encoded.z == (2, 1, 0, 1, 2)
    assert encoded.bits == (1, 0, 1, 0, 1, 0, 0, 1)
    assert not encoded.clipped


def test_places_do_not_overlap_and_leave_nothing_out() -> None:
    for row_norm in (None, SMALL_NORM):
        layout = MomentsLayout.of(SMALL, row_norm)
        places = [
            *range(layout.bits), *layout.products, layout.rho, *layout.rho_products,
            layout.rho_squared, layout.f_zero, *layout.h_values,
        ]  # fmt: skip
        assert places == list(range(layout.elements))
        assert len(layout.h_values) == layout.bits + 1
        pairs = [(j, k) for j in range(layout.q) for k in range(j, layout.q)]
        assert [layout.product(j, k) for j, k in pairs] == list(layout.products)
        assert [layout.product(k, j) for j, k in pairs] == list(layout.products)
        for outside in (-1, layout.q):
            with pytest.raises(ParameterError):
                layout.product(0, outside)


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [  # offset, width, largest, steps
        (AGE, (72, 72, 72, 72)),
        (SLEEP, (1000, 1000, 1000, 1000)),
        (Attribute("x", "continuous", 3, 12, step=0.1), (90, 90, 90, 90)),
        (Attribute("x", "continuous", 0, 1, step=1), (1, 1, 1, 1)),
        (Attribute("x", "binary"), (1, 1, 1, 1)),
        (Attribute("x", "integer", 18, 90, centre=40, scale=15), (44, 30, 100, 72)),
        (Attribute("x", "integer", 18, 90, centre=40), (44, 72, 100, 72)),
        (Attribute("x", "integer", 18, 90, scale=15), (72, 30, 72, 72)),
        (Attribute("x", "integer", 18, 90, centre=18), (0, 72, 144, 72)),
        (Attribute("x", "integer", 18, 90, centre=90), (144, 72, 144, 72)),
        (Attribute("x", "integer", 0, 9, centre=4.25), (9, 9, 9, 9)),  # 8.5 is rounded up
        (Attribute("x", "integer", 0, 9, scale=0.1), (9, 1, 9, 9)),
        (Attribute("x", "integer", 0.5, 9.5, centre=0.5), (0, 8, 16, 8)),  # whole numbers 1..9
        (Attribute("x", "continuous", 0, 100, step=1, scale=300), (100, 600, 100, 100)),
    ],
)
def test_offset_width_and_largest(attribute: Attribute, expected: tuple[int, ...]) -> None:
    made = column(attribute)
    assert (made.offset, made.width, made.largest, made.steps) == expected
    values = [made.value(2 * answer - made.offset) for answer in range(made.steps + 1)]
    assert values[0] == pytest.approx(
        math.ceil(attribute.bounds[0]) if attribute.kind == "integer" else values[0]
    )
    assert [made.answer(value) for value in values] == list(range(made.steps + 1))
    assert max(abs(2 * answer - made.offset) for answer in range(made.steps + 1)) == made.largest


def test_answers_go_to_the_nearest_step() -> None:
    made = column(Attribute("x", "continuous", 0, 10, step=2.5))
    assert [made.answer(v) for v in (0, 1.24, 1.25, 1.26, 3.7, 3.75, 8.7, 8.8, 10)] == [
        0,
        0,
        1,
        1,
        1,
        2,
        3,
        4,
        4,
    ]


@pytest.mark.parametrize(
    ("step", "nearest"),
    [(0.7, "0.714285714286"), (3, "3.33333333333"), (11, "10"), (25, "10"), (9.999, "10")],
)
def test_a_step_must_divide_the_range(step: float, nearest: str) -> None:
    with pytest.raises(ImpossibleStudy, match=r"^x: step") as caught:
        column(Attribute("x", "continuous", 0, 10, step=step))
    assert caught.value.reason == "bad_grid"
    assert str(caught.value).endswith(f"the nearest step that does is {nearest}")


@pytest.mark.parametrize(
    ("attributes", "derived", "words"),
    [
        ((Attribute("x", "integer", 0.2, 1.8),), (), "x: give minimum and maximum"),
        ((Attribute("x", "continuous", 0, 1e300, step=1e-300),), (), "x: step is too small"),
        ((Attribute("x", "continuous", 0, 1, step=2**-30),), (), "x: its squares do not fit"),
        (
            (Attribute("x", "continuous", 0, 1, step=1e-5),),
            (Derived("x2", "square", ("x",)),),
            "x2: its squares do not fit",
        ),
    ],
)
def test_grids_that_cannot_be(attributes: Any, derived: Any, words: str) -> None:
    with pytest.raises(ImpossibleStudy, match=words):
        MomentsLayout.of(Schema(attributes, derived))


def test_a_column_named_clipped() -> None:
    schema = Schema((Attribute("clipped", "binary"), AGE))
    assert MomentsLayout.of(schema).q == 2
    with pytest.raises(ImpossibleStudy, match="clipped is a column of its own"):
        MomentsLayout.of(schema, 1.5)


def test_logarithms_have_bits_of_their_own() -> None:
    layout = MomentsLayout.of(Schema((SLEEP,), (Derived("log_sleep", "log", ("sleep",)),)))
    made = layout.columns[1]
    assert (made.kind, made.sources, made.offset, made.width) == ("log", ("sleep",), 1000, 1000)
    assert (layout.bits, made.first_bit, len(made.weights)) == (20, 10, 10)
    for hours in (3, 5.25, 12):
        z = layout.encode({"sleep": hours}).z[1]
        assert made.value(z) == pytest.approx(math.log(hours), abs=made.step / 2 * (1 + 1e-9))


def test_radius_of_the_box() -> None:
    layout = MomentsLayout.of(SMALL)
    # 1 + hours (16/8)^2 + smoker 1 + one question 1 + product (16/8)^2
    assert layout.radius_squared == 11
    assert MomentsLayout.of(SMALL, SMALL_NORM).radius_squared == Fraction(81, 16)
    assert isinstance(layout.radius_squared, Fraction)


@given(st.integers(0, 10**6))
def test_no_row_is_longer_than_the_radius(seed: int) -> None:
    random = Random(seed)
    schema = random_schema(random)
    layout = random_layout(random, schema, ball=random.random() < 0.5)
    if layout is None:
        return
    for _ in range(5):
        z = layout.encode(random_answers(random, schema)).z
        norm = 1 + sum(Fraction(value, c.width) ** 2 for value, c in zip(z, layout.columns, strict=True))
        assert norm <= layout.radius_squared
        for j, value in enumerate(z):
            assert abs(value) <= layout.bound(j) <= layout.columns[j].largest
            assert all(abs(value * z[k]) <= layout.largest(j, k) for k in range(layout.q))


def test_the_radius_is_attained_in_the_box() -> None:
    layout = MomentsLayout.of(SMALL)
    norms = [
        1
        + sum(
            Fraction(v, c.width) ** 2 for v, c in zip(layout.encode(answers).z, layout.columns, strict=True)
        )
        for hours, smoker, region in itertools.product((0, 2, 6), (0, 1), ("north", "south"))
        for answers in [{"hours": hours, "smoker": smoker, "region": region}]
    ]
    assert max(norms) == layout.radius_squared


@given(st.integers(0, 10**6))
def test_plain_totals(seed: int) -> None:
    """Sums over reports are the sums of the rows and of their products, whatever is shared beside them."""
    random = Random(seed)
    schema = random_schema(random)
    layout = random_layout(random, schema, ball=random.random() < 0.5)
    if layout is None:
        return
    source = DeterministicRandom(str(seed))
    everybody = [random_answers(random, schema) for _ in range(4)]
    rows = [layout.encode(answers).z for answers in everybody]
    reports = [build_report(layout, answers, source) for answers in everybody]
    total = [sum(values) % P for values in zip(*reports, strict=True)]
    first, products = layout.totals_of(total, reports=len(reports))
    assert [signed(value) for value in first] == [sum(values) for values in zip(*rows, strict=True)]
    assert [signed(value) for value in products] == [
        sum(z[j] * z[k] for z in rows) for j in range(layout.q) for k in range(j, layout.q)
    ]
    without, _ = layout.totals_of(total)
    assert [signed(a - b) for a, b in zip(first, without, strict=True)] == [
        -len(reports) * c.offset for c in layout.columns
    ]


def test_totals_need_every_element() -> None:
    layout = MomentsLayout.of(SMALL)
    with pytest.raises(ParameterError, match=f"{layout.elements} field elements"):
        layout.totals_of([0] * (layout.elements - 1))


def test_natural_columns_are_the_schemas() -> None:
    """One, every attribute, every level, every derived column in the answers' own units (log: the log)."""
    schema = Schema(
        (*SMALL.attributes, AGE, SLEEP),
        (
            *SMALL.derived,
            Derived("age2", "square", ("age",)),
            Derived("ls", "log", ("sleep",)),
            Derived("same", "product", ("hours", "hours")),
        ),
    )
    layout = MomentsLayout.of(schema)
    answers = {**SMALL_ANSWERS, "age": 37, "sleep": 7.5}
    z = layout.encode(answers).z
    found = {natural.name: natural.value(z) for natural in layout.natural}
    expected = {
        "one": 1.0, "hours": 2.5, "smoker": 1.0, "region_north": 0.0, "region_south": 0.0, "region_west": 1.0,
        "age": 37.0, "sleep": 7.5, "hours_smoker": 2.5, "age2": 37.0**2, "ls": math.log(7.5), "same": 6.25,
    }  # fmt: skip
    assert [natural.name for natural in layout.natural] == [c.name for c in schema.columns]
    assert found == pytest.approx(expected, abs=1e-3)
    assert [natural.name for natural in MomentsLayout.of(SMALL, SMALL_NORM).natural][-1] == "clipped"


@given(st.integers(0, 10**6))
def test_natural_values_of_random_rows(seed: int) -> None:
    """Within half a step of the answer; products are those of the natural values; levels add up to 1."""
    random = Random(seed)
    schema = random_schema(random)
    layout, answers = MomentsLayout.of(schema), random_answers(random, schema)
    z = layout.encode(answers).z
    found = {natural.name: natural.value(z) for natural in layout.natural}
    for attribute in schema.attributes:
        if attribute.kind == "categorical":
            chosen = {level: found[f"{attribute.name}_{level}"] for level in attribute.levels}
            assert chosen == {level: float(level == answers[attribute.name]) for level in attribute.levels}
        else:
            made = next(c for c in layout.columns if c.name == attribute.name)
            answer = float(answers[attribute.name])  # type: ignore[arg-type]
            assert abs(found[attribute.name] - answer) <= made.step / 2 * (1 + 1e-9)
    for derived in schema.derived:
        if derived.kind != "log":
            expected = found[derived.of[0]] * found[derived.of[-1]]
            assert found[derived.name] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "answer"),
    [("hours", -0.1), ("hours", 6.1), ("hours", None), ("smoker", 2), ("region", "east"), ("age", 3)],
)
def test_answers_are_refused_as_everywhere(name: str, answer: object) -> None:
    for row_norm in (None, SMALL_NORM):
        with pytest.raises(AnswerError) as caught:
            MomentsLayout.of(SMALL, row_norm).encode({**SMALL_ANSWERS, name: answer})
        assert caught.value.attribute == name


def test_layouts_are_made_once_and_show_no_row() -> None:
    again = Schema.from_dict(SMALL.to_dict())
    layout = MomentsLayout.of(SMALL, SMALL_NORM)
    assert MomentsLayout.of(again, SMALL_NORM) is layout
    assert repr(layout.encode(SMALL_ANSWERS)) == "Encoded()"
