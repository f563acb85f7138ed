"""The price of every kind of question, beside brute force over records: never below what is moved, and where it is exact no
more than that."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from trimask_core.basics.errors import Refused
from trimask_core.moments.field import P, signed
from trimask_core.moments.layout import MomentsLayout
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.moments import moments_noise, sensitivity
from trimask_theory.moments.moments_question import MomentsQuestion

SCHEMA = Schema(
    (
        Attribute("age", "integer", 18, 78, centre=29.0),
        Attribute("bmi", "continuous", 15.0, 45.0, centre=25.0, scale=8.0, step=0.5),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
        Attribute("arm", "categorical", levels=("a", "b")),
    ),
    (
        Derived("older", "threshold", ("age",), cuts=(48.0,)),
        Derived("ages", "bins", ("age",), cuts=(30.0, 60.0)),
        Derived("where", "product", ("region", "arm")),
        Derived("heavy", "product", ("arm", "bmi")),
        Derived("age2", "square", ("age",)),
    ),
)
PEOPLE = [
    {"age": age, "bmi": bmi, "smoker": smoker, "region": region, "arm": arm}
    for age, bmi, smoker, region, arm in itertools.product(
        (18, 29, 47, 48, 78), (15.0, 24.5, 45.0), (0, 1), ("north", "south", "west"), ("a", "b")
    )
]


def moved(layout: MomentsLayout, question: MomentsQuestion, people: Sequence[Any] = PEOPLE) -> float:
    """The largest difference of two people's own answers, in deviations of the noise at mu = 1, over mu."""
    answers = []
    for person in people:
        z = layout.encode(person).z
        totals = [*z, *(z[j] * z[k] for j in range(len(z)) for k in range(j, len(z)))]
        answers.append([signed(cell.share([t % P for t in totals], 1)) for cell in question.cells(layout)])
    scale = [noise.deviation for noise in question.noises(layout, 1)]
    rows = np.unique(np.array(answers) / scale, axis=0)
    return max(float(np.linalg.norm(rows - row, axis=1).max()) for row in rows)


# Whether brute force reaches the price; the noise is rounded up by less than 0.4 %.
@pytest.mark.parametrize("ball", [None, 3.0])
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("table", ("region",)),
        ("table", ("smoker", "region")),
        ("table", ("smoker", "older")),
        ("table", ("region", "arm", "older")),  # by the declared product
        ("table", ("smoker", "region", "arm")),
        ("histogram", ("smoker", "region", "arm", "ages")),
        ("group_means", ("region", "smoker")),
        ("group_means", ("region", "arm", "age")),
        ("group_means", ("region", "age")),
        ("group_means", ("ages", "bmi")),
        ("sums", ("region_south", "region_west", "arm_b")),
        ("sums", ("age",)),
        ("sums", ("age", "bmi", "smoker", "region_west")),
        ("moments", ("age",)),
        ("moments", ("region_south", "region_west", "arm_b", "older")),
    ],
)
def test_the_price_is_what_one_record_can_move(kind: Any, names: tuple[str, ...], ball: float | None) -> None:
    layout = MomentsLayout.of(SCHEMA, ball)
    found = moved(layout, MomentsQuestion(kind, names, mu=1.0))
    assert found <= 1
    exact = ball is None or kind in ("table", "histogram")
    # Two of four groups are of the same number: not every combination is there.
    assert found > (0.9 if "ages" in names or "older" in names else 0.99 if exact else 0.4)


@pytest.mark.parametrize("ball", [None, 3.0])
@pytest.mark.parametrize("kind", ["sums", "moments"])
def test_every_choice_of_columns_is_paid_for(kind: Any, ball: float | None) -> None:
    layout = MomentsLayout.of(SCHEMA, ball)
    names = [column.name for column in layout.columns]
    for size in (1, 2, len(names)):
        for chosen in itertools.combinations(names, size):
            assert moved(layout, MomentsQuestion(kind, chosen, mu=1.0), PEOPLE[::7]) <= 1


def test_cells_are_counts_of_people_and_sums_of_the_number() -> None:
    """With the layout's own encoder: halves of yes-or-no answers and references come out as whole people."""
    layout = MomentsLayout.of(SCHEMA)
    people = PEOPLE[::5]
    rows = [layout.encode(person).z for person in people]
    totals = [sum(z[j] for z in rows) for j in range(layout.q)]
    totals += [sum(z[j] * z[k] for z in rows) for j in range(layout.q) for k in range(j, layout.q)]
    answers = {
        "smoker": [("no", "yes")[int(person["smoker"])] for person in people],  # type: ignore[call-overload]
        "region": [person["region"] for person in people],
        "arm": [person["arm"] for person in people],
        "older": ["yes" if person["age"] >= 48 else "no" for person in people],  # type: ignore[operator]
    }
    levels = {
        "smoker": ("no", "yes"),
        "region": ("north", "south", "west"),
        "arm": ("a", "b"),
        "older": ("no", "yes"),
    }
    for names in (("smoker",), ("smoker", "region"), ("smoker", "older"), ("smoker", "region", "arm")):
        cells = MomentsQuestion("table", names, mu=1.0).cells(layout)
        found = [signed(cell.share(totals, len(people))) for cell in cells]
        given = list(zip(*(answers[name] for name in names), strict=True))
        assert found == [given.count(cell) for cell in itertools.product(*(levels[name] for name in names))]
    cells = MomentsQuestion("group_means", ("arm", "age"), mu=1.0).cells(layout)
    found = [signed(cell.share(totals, len(people))) for cell in cells]
    ages = [np.array([person["age"] for person in people if person["arm"] == arm]) for arm in "ab"]
    assert found == [*(2 * int(age.sum()) - 2 * 48 * len(age) for age in ages), *map(len, ages)]


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (0, 1), (-2, 1), (-0.3, 0.3), (-3, 3), (1, 5), (-1, 3)])
def test_a_number_by_group_by_brute_force(low: float, high: float) -> None:
    numbers = np.linspace(low, high, 9)
    records = [
        (*(y * (g == k) for k in range(3)), *(float(g == k) for k in range(3)))
        for g in range(3)
        for y in numbers
    ]
    rows = np.array(records)
    most = max(float(np.linalg.norm(rows - row, axis=1).max()) for row in rows)
    assert sensitivity.group_means(low, high) == pytest.approx(most, rel=1e-9)
    assert sensitivity.group_means(low, high) >= most


def test_a_table_and_histograms_by_brute_force() -> None:
    cells = np.eye(6)
    most = max(float(np.linalg.norm(cells - cell, axis=1).max()) for cell in cells)
    assert most == math.sqrt(2) <= sensitivity.table() == pytest.approx(math.sqrt(2))
    people = [np.concatenate([np.eye(2)[a], np.eye(3)[b]]) for a in range(2) for b in range(3)]
    most = max(float(np.linalg.norm(one - other)) for one in people for other in people)
    assert most == 2 <= sensitivity.histograms(2) == pytest.approx(2)


@pytest.mark.parametrize(
    ("single", "several"), [(0, 1), (0, 3), (1, 0), (2, 0), (3, 0), (1, 2), (2, 1), (4, 1)]
)
def test_moments_of_levels_by_enumeration(single: int, several: int) -> None:
    """2 ((1 + G)^2 - 1) with three levels or more everywhere; two questions of two levels: 8, not 16."""
    options = [[(0,), (1,)]] * single + [[(0, 0), (1, 0), (0, 1)]] * several
    rows = [np.concatenate([(1,), *record]) for record in itertools.product(*options)]
    grams = np.array([np.outer(row, row).ravel() for row in rows], dtype=float)
    most = max(float(((grams - gram) ** 2).sum(axis=1).max()) for gram in grams)
    assert sensitivity.level_moments(single, several) == most
    if not single:
        assert most == 2 * ((1 + several) ** 2 - 1)
    if (single, several) == (2, 0):
        assert most == 8


@pytest.mark.parametrize(
    ("low", "high"), [(-1, 1), (-1.7, 1.7), (-3, 3), (-0.2, 4), (-5, 1), (2, 6), (-9, 9)]
)
def test_moments_of_one_number_by_search(low: float, high: float) -> None:
    u, v = np.meshgrid(np.linspace(low, high, 2001), np.linspace(low, high, 2001))
    most = float(((u - v) ** 2 * (2 + (u + v) ** 2)).max())
    found = sensitivity.number_moments(low, high)
    assert most <= found * (1 + 1e-12)
    assert found == pytest.approx(most, rel=1e-5)


def test_one_number_pays_less_than_the_ball_it_lies_in() -> None:
    """R^2 = 4: 4.899 where sqrt 2 R^2 is 5.657; R^2 = 10: 10.06 and 14.14."""
    for square, exact, ball in ((4.0, 4.899, 5.657), (10.0, 10.06, 14.14)):
        r = math.sqrt(square - 1)
        assert math.sqrt(sensitivity.number_moments(-r, r)) == pytest.approx(exact, abs=0.005)
        assert moments_noise.sensitivity(square) == pytest.approx(ball, abs=0.005)


def test_a_sum_pays_by_range_wherever_its_centre_is() -> None:
    """Ages 18 to 78 in steps of 1, centred at 29: 60 years, not twice the 49 from the centre to the end."""
    layout = MomentsLayout.of(SCHEMA)
    moved = MomentsQuestion("sums", ("age",), mu=1.0).sensitivity(layout)
    assert moved * layout.columns[0].width / 2 == pytest.approx(60)


def test_sums_in_a_ball_pay_no_more_than_its_diameter() -> None:
    layout = MomentsLayout.of(SCHEMA, 3.0)
    names = tuple(column.name for column in layout.columns)
    moved = MomentsQuestion("sums", names, mu=1.0).sensitivity(layout)
    assert moved <= 2 * math.sqrt(3.0**2 - 1) * (1 + 1e-9)


def test_what_was_not_declared_is_refused() -> None:
    layout = MomentsLayout.of(SCHEMA)
    for kind, names, why in (
        ("table", ("smoker", "region", "older"), "declare the product"),
        ("group_means", ("region", "older", "age"), "declare the product"),
        ("group_means", ("region", "age2"), "means are of one number"),
    ):
        with pytest.raises(Refused, match=why) as caught:
            MomentsQuestion(kind, names, mu=1.0).cells(layout)  # type: ignore[arg-type]
        assert caught.value.reason == "bad_question"
    wide = Schema(tuple(Attribute(f"c{i}", "categorical", levels=tuple("abcdefghij")) for i in range(5)))
    with pytest.raises(Refused, match="at most 50000 cells"):
        MomentsQuestion("table", tuple(f"c{i}" for i in range(5)), mu=1.0).noises(MomentsLayout.of(wide), 1)
