"""`trimask plan --study`: predicted standard errors against those that simulated releases show, columns correlated."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimask import fit
from trimask.moments.moments import Moments
from trimask.moments.published_moments import ObservedMoments, ObservedRows, entry_variances
from trimask.simulation import drafted
from trimask_cli.own_plan.predict import Population, people_needed, predict
from trimask_cli.own_plan.recommend import in_suite, recommend
from trimask_cli.study_file import bundled_definition
from trimask_core.basics.errors import StudyError
from trimask_core.study.definition import Study
from trimask_core.study.settings import SuiteName
from trimask_theory.planning.definition import StudyDefinition, draw_people
from trimask_theory.planning.planner import Target, make_plan
from trimask_theory.planning.study_definition import load_definition

# Narrow columns inside wide bounds, three of them nearly the same: what a plan by uniform, independent columns misses.
STUDY = """
title = "Correlated"
purpose = "p"
contact = "c"
[privacy]
epsilon = 4.0
delta = 1e-6
[collection]
block_rows = 128
release_rows = 8000
""" + "".join(
    f'[[attributes]]\nname = "{name}"\nkind = "continuous"\nminimum = 0\nmaximum = 100\n' for name in "yabc"
) + """
[[attributes]]
name = "group"
kind = "categorical"
levels = ["low", "mid", "high"]
[[attributes]]
name = "female"
kind = "binary"
[[expected.columns]]
name = "y"
mean = 40
deviation = 16
[[expected.columns]]
name = "a"
mean = 55
deviation = 15
[[expected.columns]]
name = "b"
mean = 50
deviation = 14
[[expected.columns]]
name = "group"
shares = [0.5, 0.3, 0.2]
[[expected.correlations]]
of = ["a", "b"]
value = 0.7
[[expected.correlations]]
of = ["y", "a"]
value = 0.6
[[expected.correlations]]
of = ["y", "b"]
value = 0.5
"""  # fmt: skip
FORMULA = "y ~ a + b + c + C(group) + female"
SUITES: tuple[SuiteName, ...] = ("rows", "moments")


def _definition() -> StudyDefinition:
    return load_definition(STUDY)


def _people(count: int, seed: int) -> Population:
    definition = _definition()
    assert definition.expected is not None
    return Population(draw_people(definition.schema, definition.expected, count, seed))


def _release(study: Study, people: Population, rng: np.random.Generator) -> Moments:
    """What a release of these people would be, with noise of the declared law."""
    n = len(people.people)
    if study.suite.name == "rows":
        rows, _ = people.clipped_rows(study)
        noisy = rows + rng.normal(0, study.protection.sigma, rows.shape)
        return ObservedRows(study, noisy.T @ noisy, n).moments("simulated")
    reports, _ = people.reports(study.moments.layout)
    gram = reports.T @ reports
    exact = ObservedMoments(study, gram, np.zeros_like(gram), n)
    variances = entry_variances(study)
    upper = np.triu(rng.normal(size=gram.shape) * np.sqrt(variances))
    return replace(exact, gram=gram + upper + np.triu(upper, 1).T, variances=variances).moments("simulated")


@pytest.mark.parametrize("suite", SUITES)
def test_predicted_errors_are_those_a_release_shows(suite: SuiteName) -> None:
    """Within 20 % for every coefficient, by a pilot of 500 others. Seeds are fixed: nothing fails by chance."""
    definition = in_suite(_definition(), suite)
    predicted = predict(definition, _people(500, 1), FORMULA)
    shown = fit.ols(_release(drafted(definition), _people(8000, 2), np.random.default_rng(3)), FORMULA).bse
    ratios = np.array(predicted.se) / shown.to_numpy()
    assert np.all(np.abs(np.log(ratios)) < np.log(1.2)), ratios


def test_repro_a_plan_by_uniform_columns_is_far_too_optimistic() -> None:
    definition = _definition()
    target = Target(4.0, 1e-6, len(definition.schema.columns), 8000, row_norm=definition.schema.row_norm)
    plain = make_plan(target, [8000]).releases[0].standard_error["sharp"]
    assert plain is not None
    found = predict(definition, _people(500, 1), FORMULA)
    slopes = [
        se for name, se in zip(found.names, found.se, strict=True) if name in "abc"
    ]  # same bounds: scaled as is
    assert np.median(slopes) > 2.0 * plain


@pytest.mark.parametrize("suite", SUITES)
def test_the_recommended_clipping_leaves_less_error(suite: SuiteName) -> None:
    """Judged on other people than it was chosen by: noise and bias together, over those of no clipping."""
    definition = in_suite(_definition(), suite)
    advice = recommend(definition, _people(400, 4), FORMULA)
    assert advice.best.clipped < 0.4
    others = _people(2000, 5)
    before, after = predict(definition, others, FORMULA), predict(advice.definition, others, FORMULA)
    assert after.inflation < before.inflation * (0.8 if suite == "rows" else 0.5)
    assert max(map(abs, after.bias)) > 0  # it is counted


@pytest.mark.parametrize("suite", SUITES)
def test_repro_the_curve_and_its_best_point_are_of_the_same_people(suite: SuiteName) -> None:
    """The curve was of 600 people at most and the point of all, so that it lay beside the curve."""
    population = _people(900, 4)
    advice = recommend(in_suite(_definition(), suite), population, FORMULA)
    assert advice.settings
    assert advice.best in advice.curve
    assert (
        advice.best.inflation == min(point.inflation for point in advice.curve) < advice.unclipped.inflation
    )
    assert advice.best.coefficients == advice.unclipped.coefficients  # the fit on whole rows, of everybody
    assert predict(advice.definition, population, FORMULA) == advice.best


def test_people_needed_give_the_error_wanted() -> None:
    definition = in_suite(_definition(), "moments")
    population = _people(400, 6)
    needed = people_needed(definition, population, FORMULA, {"a": 0.05})
    assert needed is not None
    assert predict(definition, population, FORMULA, needed).se[1] <= 0.05
    assert predict(definition, population, FORMULA, int(needed * 0.9)).se[1] > 0.05


def test_expectations_are_held_to_the_schema() -> None:
    for wrong, words in (
        ('[[expected.columns]]\nname = "age"\nshare = 0.5\n', "give mean and deviation"),
        ('[[expected.columns]]\nname = "agee"\nmean = 5\n', "no attribute agee"),
        ('[[expected.columns]]\nname = "age"\nmeans = 5\n', "did you mean 'mean'"),
        ('[[expected.correlations]]\nof = ["age", "bmi"]\nvalue = 1.5\n', "between -1 and 1"),
    ):
        with pytest.raises(StudyError, match=words):
            load_definition(bundled_definition() + wrong)


def test_the_program_plans_by_a_pilot(tmp_path: Path, trimask: Callable[..., Any]) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    people = _people(200, 7).people
    with (tmp_path / "pilot.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(people[0]))
        table.writeheader()
        table.writerows(people)
    arguments = [
        "plan",
        "--study",
        tmp_path / "study.toml",
        "--pilot",
        tmp_path / "pilot.csv",
        "--suite",
        "moments",
    ]
    done = trimask(*arguments, "--formula", FORMULA, "--json", "--plot", tmp_path / "plan.png")
    assert done.status == 0, done.err
    told = json.loads(done.out)["suites"]["moments"]
    assert [item["name"] for item in told["as_given"]["coefficients"]][:2] == ["Intercept", "a"]
    assert told["recommended"]["settings"]["privacy"]["row_norm"] > 1
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    shown = trimask(*arguments, "--formula", FORMULA, "--se", "a=0.5")
    assert "People needed for a to 0.5" in shown.out
    wrong = trimask(*arguments, "--se", "zz=1", "--formula", FORMULA)
    assert "NAME one of Intercept, a, b" in wrong.err


@pytest.mark.parametrize("suite", SUITES)
def test_repro_bins_thresholds_and_products_with_choices_are_planned(
    suite: SuiteName, tmp_path: Path, trimask: Callable[..., Any]
) -> None:
    """Levels of bins and of such products add up to other columns: the search for a ball met a singular matrix."""
    rng = np.random.default_rng(4)
    arm, age = rng.choice(["new", "usual"], 300), rng.integers(20, 80, 300)
    y = np.clip(100 + 0.5 * age + 10 * (arm == "new") + rng.normal(0, 10, 300), 60, 200).round(1)
    lines = [f"{a},{b},{c}" for a, b, c in zip(arm, age, y, strict=True)]
    (tmp_path / "people.csv").write_text("arm,age,y\n" + "\n".join(lines) + "\n")
    (tmp_path / "own.toml").write_text(
        'title = "Own"\npurpose = "mine"\ncontact = "me"\n[privacy]\nepsilon = 4.0\ndelta = 1e-6\n'
        "[collection]\nblock_rows = 64\nrelease_rows = 20000\n"
        '[[attributes]]\nname = "arm"\nkind = "categorical"\nlevels = ["new", "usual"]\n'
        '[[attributes]]\nname = "age"\nkind = "integer"\nminimum = 20\nmaximum = 80\n'
        '[[attributes]]\nname = "y"\nkind = "continuous"\nminimum = 60\nmaximum = 200\n'
        '[[derived]]\nname = "age_group"\nkind = "bins"\nof = ["age"]\ncuts = [40, 65]\n'
        '[[derived]]\nname = "old"\nkind = "threshold"\nof = ["age"]\ncuts = [65]\n'
        '[[derived]]\nname = "arm_age"\nkind = "product"\nof = ["arm", "age"]\n'
        '[[derived]]\nname = "arm_age_group"\nkind = "product"\nof = ["arm", "age_group"]\n'
    )
    command = [
        "plan", "--study", str(tmp_path / "own.toml"), "--pilot", str(tmp_path / "people.csv"), "--suite", suite,
        "--formula", "y ~ C(arm)*C(age_group)", "--json",
    ]  # fmt: skip
    done = trimask(*command)
    assert done.status == 0, done.err
    told = json.loads(done.out)["suites"][suite]
    assert len(told["as_given"]["coefficients"]) == 6


def test_repro_a_coefficient_without_a_fit_is_said_in_words(
    tmp_path: Path, trimask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`errors inf times those of raw rows`, under a heading cut to `coefficie…` on 80 columns."""
    study = _few_people()
    table = tmp_path / "pilot.csv"
    table.write_text(
        "age,sex,bmi,smoker,systolic\n"
        + "".join(
            f"{20 + i * 7 % 60},{'fm'[i % 2]},{18 + i * 5 % 17}.5,{i % 3 % 2},{90 + i * 11 % 90}\n"
            for i in range(60)
        )
    )
    (tmp_path / "study.toml").write_text(study)
    monkeypatch.setenv("COLUMNS", "80")
    done = trimask("plan", "--study", tmp_path / "study.toml", "--pilot", table)
    assert done.status == 0, done.err
    assert "no fit of every coefficient: too much noise, or too few people" in " ".join(done.out.split())
    assert "inf times" not in done.out
    assert "…" not in done.out


def _few_people() -> str:
    numbers = {"age": (20, 80), "bmi": (16, 42), "systolic": (90, 180)}
    return (
        'title = "Few"\npurpose = "p"\ncontact = "c"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n'
        "[collection]\nblock_rows = 32\nrelease_rows = 60\n"
        + "".join(
            f'[[attributes]]\nname = "{name}"\nkind = "continuous"\nminimum = {low}\nmaximum = {high}\n'
            for name, (low, high) in numbers.items()
        )
        + '[[attributes]]\nname = "sex"\nkind = "categorical"\nlevels = ["f", "m"]\n'
        '[[attributes]]\nname = "smoker"\nkind = "binary"\n'
    )
