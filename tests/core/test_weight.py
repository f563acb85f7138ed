"""Weights: what a device multiplies its row by, that no row becomes longer, and what is refused."""

from __future__ import annotations

import json
import math
from random import Random
from typing import Any

import pytest

from moments_cases import random_answers
from trimask_core.basics.errors import AnswerError, ImpossibleStudy, StudyError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.rows.gateway import Gateway
from trimask_core.rows.payloads import noisy_answers
from trimask_core.study.definition import Study
from trimask_core.study.derived import Derived
from trimask_core.study.guarantee import Budget, Guarantee, Neighbours, Protection
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.weaknesses import findings, weaknesses
from trimask_core.study.weight import Weight
from trimask_core.submit.submission import build_submission

SCHEMA = Schema(
    (
        Attribute("age", "integer", 18, 80),
        Attribute("design", "continuous", 0.5, 8.0),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
    ),
    (Derived("group", "bins", ("age",), cuts=(40, 65)), Derived("square", "square", ("age",))),
)
BY_REGION = Weight("region", (1.0, 2.5, 4.0))
PERSON = {"age": 40, "design": 2.0, "smoker": 1, "region": "south"}


def test_the_weight_of_a_person() -> None:
    assert BY_REGION.of(SCHEMA, PERSON) == 2.5
    assert Weight("design").of(SCHEMA, PERSON) == 2.0
    assert Weight("group", (1.0, 7.0, 3.0)).of(SCHEMA, PERSON) == 7.0  # an interval begins at its cut
    assert Weight("design").root(SCHEMA, PERSON) == 0.5
    with pytest.raises(AnswerError, match="design"):
        Weight("design").of(SCHEMA, PERSON | {"design": 9})


def test_whole_roots_reach_the_largest_and_never_nothing() -> None:
    weight = Weight("region", (0.001, 2.5, 4.0), 16)
    assert [weight.whole_root(SCHEMA, value) for value in weight.weights] == [1, 13, 16]
    assert weight.table(SCHEMA) == {"north": 4 / 256, "south": 4 * (13 / 16) ** 2, "west": 4.0}
    fine = Weight("region", (1.0, 2.5, 4.0), 1024)
    for declared, used in zip(fine.weights, fine.table(SCHEMA).values(), strict=True):
        assert used == pytest.approx(declared, rel=1 / 512)


@pytest.mark.parametrize(
    ("weight", "why"),
    [
        (Weight("income"), "no numeric attribute"),
        (Weight("smoker"), "no numeric attribute"),
        (Weight("region"), "no numeric attribute"),
        (Weight("square"), "no numeric attribute"),
        (Weight("age", (1.0, 2.0)), "no categorical attribute"),
        (Weight("region", (1.0, 2.0)), "north, south, west"),
        (Weight("region", (1.0, 2.0, 10_001.0)), "10,000 times"),
    ],
)
def test_a_weight_that_the_schema_does_not_give_is_refused(weight: Weight, why: str) -> None:
    with pytest.raises(ImpossibleStudy, match=why) as caught:
        weight.check(SCHEMA)
    assert caught.value.reason == "weight"


def test_a_weight_may_not_be_nothing() -> None:
    with pytest.raises(ImpossibleStudy, match="above 0"):
        Weight("x").check(Schema((Attribute("x", "continuous", 0, 5),)))
    for value in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ImpossibleStudy, match="above 0"):
            Weight("region", (1.0, 2.0, value))
    with pytest.raises(ImpossibleStudy, match="ones"):
        BY_REGION.check(Schema(SCHEMA.attributes, ones=False))
    with pytest.raises(StudyError, match="numbers"):
        Weight("region", (1.0, 2.0, True))


def test_a_study_says_it_only_where_it_has_one(make_study: Any) -> None:
    """So the ids of all studies without weights stay what they were."""
    plain = make_study(schema=SCHEMA, sigma=0.0).study
    weighted = make_study(schema=SCHEMA, sigma=0.0, weight=BY_REGION).study
    assert "weight" not in plain.to_dict()
    assert weighted.to_dict()["weight"] == {"attribute": "region", "weights": [1.0, 2.5, 4.0], "steps": 0}
    assert Study.from_dict(json.loads(weighted.canonical)) == weighted
    assert plain.id != weighted.id
    with pytest.raises(StudyError, match="canonical"):
        Study.from_dict({**plain.to_dict(), "weight": None})


def test_what_weights_do_not_go_with(make_study: Any) -> None:
    norm = SCHEMA.row_norm
    with pytest.raises(ImpossibleStudy, match="rows that all count the same"):
        make_study(
            suite="moments",
            schema=SCHEMA,
            sigma=0.0,
            weight=BY_REGION,
            protection=Protection(norm, 0.0, "exact", budget=Budget(1.0, 1e-6)),
        )
    sigma = make_study(schema=SCHEMA).study.protection.sigma
    unit = Guarantee(Neighbours("unit", norm, 1.0), "proved", "a test's", "none", epsilon=1.0, delta=1e-6)
    with pytest.raises(ImpossibleStudy, match="moves the whole row"):
        make_study(schema=SCHEMA, weight=BY_REGION, protection=Protection(norm, sigma, "sharp", unit))
    with pytest.raises(ImpossibleStudy, match="steps"):
        make_study(schema=SCHEMA, weight=Weight("region", (1.0, 2.5, 4.0), 8))


@pytest.mark.parametrize("row_norm", [None, 1.2])
@pytest.mark.parametrize("weight", [BY_REGION, Weight("design"), Weight("group", (1.0, 9.0, 3.0))])
def test_a_row_is_its_root_times_itself_and_no_longer_than_allowed(
    make_study: Any, weight: Weight, row_norm: float | None
) -> None:
    """docs/theory/collection.md#weights: the sensitivity of a weighted row is that of the study without weights."""
    study = make_study(schema=SCHEMA, sigma=0.0, row_norm=row_norm, weight=weight).study
    plain = make_study(schema=SCHEMA, sigma=0.0, row_norm=row_norm).study
    random, source, step = Random(5), DeterministicRandom("rows"), study.rows.grid.step
    longest = 0.0
    for _ in range(300):
        answers = random_answers(random, SCHEMA)
        row = [value * step for value in noisy_answers(study, answers, source)]
        before = [value * step for value in noisy_answers(plain, answers, source)]
        root = weight.root(SCHEMA, answers)
        assert row == pytest.approx([root * value for value in before], abs=2 * step)
        longest = max(longest, math.dist(row, [0.0] * len(row)))
        assert max(map(abs, row)) <= 1.0
    assert longest <= study.protection.row_norm * (1 + 1e-12)


def test_a_gateway_gives_the_bytes_of_a_device(make_study: Any) -> None:
    study = make_study(schema=SCHEMA, weight=Weight("design")).study
    people = [PERSON, PERSON | {"design": 8.0}, PERSON | {"design": 0.5}]
    one, other = DeterministicRandom("gateway"), DeterministicRandom("gateway")
    made = Gateway(study).submissions(people, one)
    assert [item.submission_id for item in made] == [
        build_submission(study, answers, other).submission_id for answers in people
    ]


def test_extreme_weights_are_named(make_study: Any) -> None:
    mild = make_study(schema=SCHEMA, sigma=0.0, weight=BY_REGION, release_rows=1000).study
    (found,) = (item for item in findings(mild) if item.what == "weights")
    assert found.weakness is None
    assert "1,000 people are worth 640 at worst" in found.words  # 4 * 4 / (1 + 4)^2
    wild = make_study(schema=SCHEMA, sigma=0.0, weight=Weight("region", (1.0, 2.0, 100.0))).study
    (weak,) = (item for item in weaknesses(wild) if item.what == "weights")
    assert weak.number == pytest.approx(101**2 / 400)
    assert "100 times" in weak.why
