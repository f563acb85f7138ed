"""Algorithm 3 over the service: declared in the study, clipped on the device, and summed with its noise."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trimask_core.clipping import Clipping
from trimask_core.errors import ImpossibleStudy, Refused, StudyError
from trimask_core.randomness import DeterministicRandom
from trimask_core.rows.device.row import noisy_answers
from trimask_core.schema import Attribute, Derived, Schema
from trimask_core.study import Budget, Protection, Study
from trimask_proto.v1 import release_pb2 as pb
from trimask_server.collector.releases.mechanisms import plan_release
from trimask_server.protocol.accounting import Price
from trimask_theory import gdp, vector_sum
from trimask_theory.study_plan import load_definition

SCHEMA = Schema(
    (
        Attribute("dose", "continuous", 0, 100),
        Attribute("sbp", "continuous", 60, 260),
        Attribute("region", "categorical", levels=("north", "south")),
    ),
    (Derived("dose_squared", "square", ("dose",)),),
)
CENTRE, DEVIATIONS = (20.0, 130.0), (4.0, 15.0)
RADIUS = vector_sum.clipping_radius(DEVIATIONS, 1e-3)
BALL = Clipping(("dose", "sbp"), CENTRE, DEVIATIONS, RADIUS)
ROWS = 400


@pytest.fixture(scope="module")
def study(make_study: Any) -> Study:
    budget = Budget(9.0, 1e-3, 9.0)
    protection = Protection(SCHEMA.row_norm, 0.0, "exact", budget=budget)
    found: Study = make_study(schema=SCHEMA, sigma=0.0, protection=protection, clipping=BALL).study
    return found


def row_of(study: Study, dose: float, sbp: float) -> list[float]:
    return study.encode({"dose": dose, "sbp": sbp, "region": "south"})


def away(row: list[float]) -> float:
    """|b (x - centre)| of a scaled row, in original units."""
    x = np.array([50.0, 160.0]) + np.array(row[1:3]) * [50.0, 100.0]
    return float(np.linalg.norm((x - CENTRE) * vector_sum.clipped_scaling(DEVIATIONS)))


def test_rows_in_the_ball_are_left_and_others_end_on_it(study: Study) -> None:
    usual = row_of(study, 22.0, 120.0)
    assert usual == SCHEMA.encode({"dose": 22.0, "sbp": 120.0, "region": "south"})
    assert away(usual) < RADIUS
    for dose, sbp in ((100.0, 260.0), (0.0, 60.0), (100.0, 130.0), (20.0, 260.0)):
        row = row_of(study, dose, sbp)
        raw = SCHEMA.encode({"dose": dose, "sbp": sbp, "region": "south"})
        assert away(raw) > away(row) == pytest.approx(RADIUS, rel=1e-12)
        # On the straight line to the centre, inside the range, and nothing else is touched.
        x, y = (np.array([50.0, 160.0]) + np.array(each[1:3]) * [50.0, 100.0] - CENTRE for each in (row, raw))
        assert x[0] * y[1] == pytest.approx(x[1] * y[0], abs=1e-9)
        assert max(map(abs, row)) <= 1.0
        assert (row[0], row[3:]) == (raw[0], raw[3:])


def test_a_device_clips(study: Study) -> None:
    answers = {"dose": 99.0, "sbp": 70.0, "region": "north"}
    steps = noisy_answers(study, answers, DeterministicRandom("a"))
    assert away(list(study.rows.grid.to_float(np.array(steps)))) == pytest.approx(RADIUS, rel=1e-5)


def asked(study: Study, *columns: str, method: int = pb.SUM_METHOD_CLIPPED) -> Any:
    request = pb.AskReleaseRequest(sum=pb.SumMechanism(columns=columns, method=method))  # type: ignore[arg-type]
    return plan_release(study, ROWS, request, Price(1.0, 1e-6))


def test_the_clipped_sum_has_algorithm_3_s_noise_and_the_clipped_rows_sum(study: Study) -> None:
    """2,000 draws, 5 standard deviations on two means: false failure 1e-6."""
    rng = np.random.default_rng(4)
    people = np.clip(
        np.array(CENTRE) + rng.standard_normal((ROWS, 2)) * DEVIATIONS * 1.5, [0, 60], [100, 260]
    )
    rows = np.array([row_of(study, *person) for person in people])
    truth = np.array([[50.0, 160.0]]) + rows[:, 1:3] * [50.0, 100.0]
    factor = np.linalg.qr(rows, mode="r")
    plan = asked(study)
    assert plan.parameters["columns"] == plan.parameters["clipped_columns"] == ["dose", "sbp"]
    noise = np.array(plan.parameters["noise"])
    b = vector_sum.clipped_scaling(DEVIATIONS)
    assert noise == pytest.approx(2 * RADIUS / gdp.mu(1.0, 1e-6) / b, rel=1e-5)
    # Less than the elliptical noise for the declared ranges, which is what it is for.
    assert (noise < np.array(asked(study, "dose", "sbp", method=2).parameters["noise"]) / 2).all()
    draws = np.array([plan.draw(factor, rng).values["sum"] for _ in range(2000)])
    assert (np.abs(draws.mean(axis=0) - truth.sum(axis=0)) <= 5 * noise / math.sqrt(2000)).all()
    assert (np.abs(draws.std(axis=0) / noise - 1) <= 5 / math.sqrt(4000)).all()
    guarantee = plan.draw(factor, rng).guarantee
    assert (guarantee.basis, guarantee.neighbours.relation) == ("proved", "record")
    assert "Algorithm 3" in guarantee.citation


@pytest.mark.parametrize("columns", [("dose", "sbp"), ("sbp",)])
def test_no_replaced_record_moves_the_sum_by_more_than_is_paid_for(
    study: Study, columns: tuple[str, ...]
) -> None:
    """Opposite outliers attain it, up to the roundings that are paid for; some of the columns are no worse."""
    plan = asked(study, *columns)
    noise, rng = np.array(plan.parameters["noise"]), np.random.default_rng(6)
    places = [{"dose": 1, "sbp": 2}[name] for name in columns]
    half = np.array([{"dose": 50.0, "sbp": 100.0}[name] for name in columns])
    ends = [row_of(study, *rng.uniform([0, 60], [100, 260])) for _ in range(200)]
    # Along sbp the ball is narrower than the range both ways, so its two poles are there.
    ends += [row_of(study, 20.0, 260.0), row_of(study, 20.0, 60.0)]
    points = np.array(ends)[:, places] * half / noise
    worst = max(float(np.linalg.norm(points - point, axis=1).max()) for point in points)
    assert 1e-6 * (1 - 1e-3) < gdp.delta(1.0, worst) <= 1e-6


def test_what_was_not_declared_is_refused(study: Study) -> None:
    for columns in (("dose_squared",), ("dose", "region_north")):
        with pytest.raises(Refused, match=r"a clipped sum is of dose, sbp") as caught:
            asked(study, *columns)
        assert caught.value.reason == "not_declared"


def test_the_declaration_is_signed_and_reads_back(study: Study) -> None:
    again = Study.from_dict(json.loads(study.canonical))
    assert again == study
    assert again.clipping == BALL
    plain = replace(study, clipping=None)
    assert plain.to_dict()["clipping"] is None
    wider = replace(study, clipping=replace(BALL, radius=2 * RADIUS))
    assert len({study.id, plain.id, wider.id}) == 3
    for bad in (
        {},
        {**BALL.to_dict(), "colour": 1},
        {**BALL.to_dict(), "radius": "x"},
        {**BALL.to_dict(), "radius": True},
    ):
        with pytest.raises(StudyError):
            Study.from_dict({**study.to_dict(), "clipping": bad})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": ("dose", "dose")}, "twice"), ({"columns": ("dose", "weight")}, "'weight' is not a numeric"),
        ({"columns": ("dose", "one")}, "'one' is not"), ({"columns": ("dose", "region_north")}, "region_north"),
        ({"centre": (-1.0, 130.0)}, "centre of dose must be between 0 and 100"), ({"radius": 0.0}, "above 0"),
        ({"deviations": (0.0, 1.0)}, "above 0"), ({"radius": math.inf}, "finite"), ({"centre": (1.0,)}, "one centre"),
    ],
)  # fmt: skip
def test_declarations_that_cannot_be(study: Study, change: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        replace(study, clipping=replace(BALL, **change))


def test_clipping_needs_a_budget_ones_and_the_whole_norm(study: Study) -> None:
    without_ones = replace(SCHEMA, ones=False)
    for change in (
        {"protection": replace(study.protection, budget=None)},
        {"schema": without_ones, "protection": replace(study.protection, row_norm=without_ones.row_norm)},
        {"protection": replace(study.protection, row_norm=1.0)},
    ):
        with pytest.raises(ImpossibleStudy) as caught:
            replace(study, **change)
        assert caught.value.reason == "clipping"


TOML = """
title = "T"
purpose = "p"
contact = "c"
[privacy]
exact = true
[privacy.budget]
mu = 1
[privacy.clipping]
{head}
[[privacy.clipping.columns]]
name = "x"
centre = 1
{deviation}
[collection]
block_rows = 24
release_rows = 48
[[attributes]]
name = "x"
kind = "continuous"
minimum = 0
maximum = 9
"""


def test_the_definition_says_centres_and_deviations() -> None:
    plan = load_definition(TOML.format(head="probability = 0.01", deviation="deviation = 2")).privacy.clipping
    assert plan is not None
    assert (plan.columns, plan.centre, plan.deviations, plan.probability) == (("x",), (1.0,), (2.0,), 0.01)
    for head, deviation, message in (
        ("", "", r"privacy\.clipping\.columns\.deviation must be given"),
        ("probabilty = 0.1", "deviation = 2", "did you mean 'probability'"),
        ("", "deviaton = 2", "did you mean 'deviation'"),
    ):
        with pytest.raises(StudyError, match=message):
            load_definition(TOML.format(head=head, deviation=deviation))
    with pytest.raises(StudyError, match=r"give a \[privacy.budget\]"):
        load_definition(
            TOML.format(head="", deviation="deviation = 2").replace("[privacy.budget]\nmu = 1\n", "")
        )
