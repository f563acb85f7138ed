"""From answers to a row: every kind, every refusal, and the largest norm."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimask_core.basics.errors import AnswerError, ImpossibleStudy
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema

AGE = Attribute("age", "integer", 18, 80, unit="years")
BMI = Attribute("bmi", "continuous", 15, 45)
SMOKER = Attribute("smoker", "binary")
REGION = Attribute("region", "categorical", levels=("north", "south", "west"))
CHANGE = Attribute("change", "continuous", -2, 4)
ALL = Schema(
    (AGE, BMI, SMOKER, REGION, CHANGE),
    derived=(
        Derived("log_bmi", "log", ("bmi",)),
        Derived("change_squared", "square", ("change",)),
        Derived("age_smoker", "product", ("age", "smoker")),
    ),
)
GOOD: dict[str, object] = {"age": 49, "bmi": 30.0, "smoker": "yes", "region": "south", "change": -2}


def test_columns_in_order() -> None:
    assert [column.name for column in ALL.columns] == [
        "one", "age", "bmi", "smoker", "region_north", "region_south", "region_west", "change",
        "log_bmi", "change_squared", "age_smoker",
    ]  # fmt: skip
    assert [c.level for c in ALL.columns if c.source == "region"] == ["north", "south", "west"]


def test_a_row_by_hand() -> None:
    low, high = math.log(15), math.log(45)
    expected = [
        1,
        0,
        0,
        1,
        0,
        1,
        0,
        -1,
        (2 * math.log(30) - low - high) / (high - low),
        (4 - 8) / 8,
        49 / 40 - 1,
    ]
    assert ALL.encode(GOOD) == pytest.approx(expected, abs=1e-15)


def test_columns_undo_what_encode_did() -> None:
    row = ALL.encode(GOOD)
    values = {c.name: x * c.half_range + c.center for c, x in zip(ALL.columns, row, strict=True)}
    assert values["age"] == pytest.approx(49)
    assert values["bmi"] == pytest.approx(30)
    assert values["log_bmi"] == pytest.approx(math.log(30))
    assert values["change_squared"] == pytest.approx(4)
    assert values["age_smoker"] == pytest.approx(49)


@pytest.mark.parametrize("yes", [True, 1, 1.0, "yes", "Yes ", "TRUE", "1", np.True_, np.int64(1)])
def test_yes(yes: object) -> None:
    assert SMOKER.read(yes) == 1.0


@pytest.mark.parametrize("no", [False, 0, 0.0, "no", " No", "False", "0", np.False_, np.int64(0)])
def test_no(no: object) -> None:
    assert SMOKER.read(no) == 0.0


@pytest.mark.parametrize("answer", [20, 20.0, "20", " 20 ", np.int64(20), np.float32(20), np.float64(20)])
def test_numbers_in_every_form(answer: object) -> None:
    assert AGE.read(answer) == 20.0
    assert BMI.read(answer) == 20.0


REFUSED: list[tuple[str, object]] = [
    ("age", 17.999), ("age", 81), ("age", 43.5), ("age", "forty"), ("age", ""), ("age", None), ("age", True),
    ("age", math.nan), ("age", "nan"), ("age", "inf"), ("age", math.inf), ("age", 10**400), ("age", [43]),
    ("age", b"43"), ("age", 43j),
    ("bmi", 14.999999), ("bmi", 45.000001), ("bmi", -math.inf), ("bmi", "27,5"), ("bmi", False), ("bmi", {}),
    ("smoker", "maybe"), ("smoker", 2), ("smoker", 0.5), ("smoker", ""), ("smoker", math.nan), ("smoker", []),
    ("region", "East"), ("region", "North"), ("region", ""), ("region", 0), ("region", ["north"]),
]  # fmt: skip


@pytest.mark.parametrize(("attribute", "answer"), REFUSED, ids=lambda value: repr(value)[:20])
def test_refused_by_name_without_the_value(attribute: str, answer: object) -> None:
    with pytest.raises(AnswerError) as caught:
        ALL.encode({**GOOD, attribute: answer})
    assert caught.value.attribute == attribute
    assert str(caught.value).startswith(f"{attribute}: ")
    # The value is nowhere in the message: not as typed, and no digit of it beyond the bounds the study states.
    told = str(caught.value).removeprefix(f"{attribute}: ")
    shown = str(answer).strip()
    if len(shown) > 1 and answer is not None:
        assert shown not in told
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_missing_and_unknown_answers() -> None:
    for name in GOOD:
        with pytest.raises(AnswerError, match=f"^{name}: an answer is needed"):
            ALL.encode({key: value for key, value in GOOD.items() if key != name})
    for name in ("weight", "one", "log_bmi", "region_north"):
        with pytest.raises(AnswerError, match=f"^{name}: is not asked") as caught:
            ALL.encode({**GOOD, name: 98765.4321})
        assert "98765" not in str(caught.value)


def test_bounds_are_inside() -> None:
    for low, high in ((18, 15), (80, 45)):
        row = ALL.encode({**GOOD, "age": low, "bmi": high})
        assert abs(row[1]) == abs(row[2]) == 1.0


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_every_row_is_in_the_cube_and_the_ball(
    low: float, width: float, u: float, v: float, ones: bool
) -> None:
    x = Attribute("x", "continuous", low, low + width)
    y = Attribute("y", "continuous", 0.25, 7.5)
    derived = (
        Derived("xx", "square", ("x",)), Derived("xy", "product", ("x", "y")), Derived("ly", "log", ("y",)),
    )  # fmt: skip
    schema = Schema((x, y, REGION), derived, ones=ones)
    high = low + width
    value = min(max(low + u * width, low), high)
    row = schema.encode({"x": value, "y": 0.25 + v * 7.25, "region": "west"})
    assert len(row) == len(schema.columns)
    assert all(-1.0 <= entry <= 1.0 for entry in row)
    assert math.fsum(entry * entry for entry in row) <= schema.row_norm**2 * (1 + 1e-15)


def test_the_largest_norm_is_attained() -> None:
    """Every column at -1 or 1 and one level of a group at 1: the norm sqrt(1 + attributes + derived)."""
    corners = itertools.product((18, 80), (15, 45), (False, True), REGION.levels, (-2, 4))
    names = ("age", "bmi", "smoker", "region", "change")
    norms = [math.hypot(*ALL.encode(dict(zip(names, corner, strict=True)))) for corner in corners]
    assert max(norms) == pytest.approx(ALL.row_norm, rel=1e-15)
    assert ALL.row_norm == math.sqrt(9)
    assert Schema((AGE,), ones=False).row_norm == 1.0


@pytest.mark.parametrize(
    ("kind", "sources", "expected"),
    [
        ("square", [(-2.0, 4.0)], (0.0, 16.0)),
        ("square", [(-5.0, 4.0)], (0.0, 25.0)),
        ("square", [(2.0, 4.0)], (4.0, 16.0)),
        ("square", [(-4.0, -2.0)], (4.0, 16.0)),
        ("product", [(-2.0, 3.0), (-5.0, 7.0)], (-15.0, 21.0)),
        ("product", [(2.0, 3.0), (-5.0, -4.0)], (-15.0, -8.0)),
        ("log", [(1.0, math.e)], (0.0, 1.0)),
    ],
)
def test_derived_bounds(kind: Any, sources: list[tuple[float, float]], expected: tuple[float, float]) -> None:
    derived = Derived("d", kind, ("x", "y")[: len(sources)])
    assert derived.bounds(sources) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("reason", "make"),
    [
        ("bad_name", lambda: Attribute("", "binary")),
        ("bad_name", lambda: Attribute("1st", "binary")),
        ("bad_name", lambda: Attribute("a-b", "binary")),
        ("bad_name", lambda: Attribute("one", "binary")),
        ("bad_name", lambda: Attribute("x" * 64, "binary")),
        ("bad_name", lambda: Schema((SMOKER, SMOKER))),
        ("bad_name", lambda: Schema((BMI,), (Derived("bmi", "log", ("bmi",)),))),
        ("bad_name", lambda: Schema((REGION, Attribute("region_north", "binary")))),
        ("bad_kind", lambda: Attribute("x", "ordinal")),  # type: ignore[arg-type]
        ("bad_kind", lambda: Derived("x", "cube", ("y",))),  # type: ignore[arg-type]
        ("bad_levels", lambda: Attribute("x", "categorical", levels=("a",))),
        ("bad_levels", lambda: Attribute("x", "categorical", levels=("a", "a"))),
        ("bad_levels", lambda: Attribute("x", "categorical", levels=("a", "b c"))),
        ("bounds_missing", lambda: Attribute("x", "continuous")),
        ("bounds_missing", lambda: Attribute("x", "integer", minimum=3)),
        ("bounds_missing", lambda: Attribute("x", "continuous", 0, math.inf)),
        ("bounds_missing", lambda: Attribute("x", "continuous", math.nan, 1)),
        ("bounds_reversed", lambda: Attribute("x", "continuous", 2, 1)),
        ("bounds_reversed", lambda: Attribute("x", "integer", 2, 2)),
        ("bounds_unused", lambda: Attribute("x", "binary", 0, 5)),
        ("bounds_unused", lambda: Attribute("x", "categorical", 0, None, ("a", "b"))),
        ("bounds_unused", lambda: Attribute("x", "continuous", 0, 1, ("a", "b"))),
        ("bad_derived", lambda: Derived("x", "product", ("y",))),
        ("bad_derived", lambda: Derived("x", "log", ("y", "z"))),
        ("bad_derived", lambda: Schema((BMI,), (Derived("x", "log", ("nothing",)),))),
        ("bad_derived", lambda: Schema((REGION,), (Derived("x", "square", ("region",)),))),
        ("bad_derived", lambda: Schema((CHANGE,), (Derived("x", "log", ("change",)),))),
        (
            "bad_derived",
            lambda: Schema((Attribute("y", "continuous", -3, 3),), (Derived("x", "log", ("y",)),)),
        ),
        (
            "bad_derived",
            lambda: Schema((Attribute("y", "continuous", 0, 1e200),), (Derived("x", "square", ("y",)),)),
        ),
        ("no_attributes", lambda: Schema(())),
        ("grid_unused", lambda: Attribute("x", "integer", 0, 9, step=1)),
        ("grid_unused", lambda: Attribute("x", "binary", step=1)),
        ("grid_unused", lambda: Attribute("x", "binary", scale=1)),
        ("grid_unused", lambda: Attribute("x", "categorical", levels=("a", "b"), centre=0)),
        ("bad_grid", lambda: Attribute("x", "continuous", 0, 9, step=0)),
        ("bad_grid", lambda: Attribute("x", "continuous", 0, 9, step=-1)),
        ("bad_grid", lambda: Attribute("x", "continuous", 0, 9, step=math.nan)),
        ("bad_grid", lambda: Attribute("x", "continuous", 0, 9, step=True)),
        ("bad_grid", lambda: Attribute("x", "continuous", 0, 9, step="1")),  # type: ignore[arg-type]
        ("bad_grid", lambda: Attribute("x", "continuous", 0, 9, scale=0)),
        ("bad_grid", lambda: Attribute("x", "integer", 0, 9, scale=math.inf)),
        ("bad_grid", lambda: Attribute("x", "integer", 0, 9, centre=9.5)),
        ("bad_grid", lambda: Attribute("x", "continuous", 0, 9, centre=-0.1)),
    ],
)
def test_schemas_that_cannot_be(reason: str, make: Any) -> None:
    with pytest.raises(ImpossibleStudy) as caught:
        make()
    assert caught.value.reason == reason


def test_json_round_trip() -> None:
    for schema in (ALL, Schema((AGE,), ones=False)):
        again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
        assert again.columns == schema.columns
        assert again.to_dict() == schema.to_dict()
        assert again.row_norm == schema.row_norm
    assert ALL.encode(GOOD) == Schema.from_dict(ALL.to_dict()).encode(GOOD)


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("step", lambda: Attribute("x", "integer", 0, 9, step=1)),
        ("centre", lambda: Attribute("x", "continuous", 0, 9, centre=10)),
        ("scale", lambda: Attribute("x", "continuous", 0, 9, scale=-1)),
    ],
)
def test_a_grid_is_refused_by_its_field(field: str, make: Any) -> None:
    with pytest.raises(ImpossibleStudy, match=f"^x: .*{field}"):
        make()


def test_a_grid_is_written_only_where_it_is_given() -> None:
    """So that the ids of studies without one are what they were."""
    plain = Schema((AGE, BMI)).to_dict()["attributes"]
    assert [set(item) for item in plain] == [{"name", "kind", "minimum", "maximum", "label", "unit"}] * 2
    schema = Schema(
        (
            Attribute("x", "continuous", 0, 9, step=0.5, centre=4, scale=2),
            Attribute("y", "integer", 0, 9, scale=2),
        )
    )
    written = json.loads(json.dumps(schema.to_dict()))
    assert (written["attributes"][0]["step"], written["attributes"][1].get("step")) == (0.5, None)
    assert Schema.from_dict(written) == schema
