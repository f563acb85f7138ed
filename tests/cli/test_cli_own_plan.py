"""`trimask plan --study`: predicted standard errors against those that simulated releases show, columns correlated."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimask import fit
from trimask.moments.moments import Moments, ObservedMoments, ObservedRows, entry_variances
from trimask.simulation import drafted
from trimask_cli.own_plan.first_order import Needs, without
from trimask_cli.own_plan.predict import Population, expected_moments, predict
from trimask_cli.own_plan.recommend import boxed_scales, in_suite, recommend, with_attributes
from trimask_cli.study_file import bundled_definition
from trimask_core.basics.errors import StudyError
from trimask_core.moments.layout import MomentsLayout
from trimask_core.study.definition import Study, SuiteName
from trimask_core.study.derived import Derived
from trimask_theory.moments.noise_law import NoiseLaw
from trimask_theory.planning.definition import StudyDefinition, draw_people
from trimask_theory.planning.pilot import scaled_reports, whole_and_sent
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
SLOPES = ("a", "b", "c", "C(group)[mid]", "C(group)[high]", "female")
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
    assert after.inflation < before.inflation * (0.85 if suite == "rows" else 0.6)
    assert not any(after.bias)  # a pilot's rows correct it
    made_up = predict(advice.definition, replace(others, pilot=False), FORMULA)
    assert max(map(abs, made_up.bias)) > 0  # it is counted
    assert made_up.left["slopes"] > after.left["slopes"]


def test_scales_within_the_bounds_leave_less_error() -> None:
    """No row is shrunk: what one column's noise weighs against another's. Judged on other people."""
    definition = in_suite(_definition(), "moments")
    few = _people(200, 4)
    boxed = boxed_scales(definition, lambda candidate: predict(candidate, few, FORMULA).inflation)
    assert boxed.privacy.row_norm is None
    assert {item.scale for item in boxed.schema.attributes} != {None}
    others = _people(2000, 5)
    assert predict(boxed, others, FORMULA).inflation < 0.95 * predict(definition, others, FORMULA).inflation


def test_repro_what_is_recommended_does_not_hang_on_what_was_before() -> None:
    """A plan of a draft with scales of its own stopped near those: here a tenth of what serves."""
    definition, people = in_suite(_definition(), "moments"), _people(300, 4)
    tenth = {
        item.name: replace(item, scale=(item.bounds[1] - item.bounds[0]) / 20)
        for item in definition.schema.attributes
        if item.kind in ("continuous", "integer")
    }
    fresh = recommend(definition, people, FORMULA).best.inflation
    assert recommend(with_attributes(definition, tenth), people, FORMULA).best.inflation < 1.05 * fresh


def test_repro_a_level_that_few_of_the_pilot_have_is_planned_with() -> None:
    """Scales are found by every second of 300 people, none of whom has it: the plan ended with "collinear"."""
    definition = load_definition(
        STUDY.partition("[[expected.columns]]")[0].replace("block_rows = 128", 'suite = "moments"')
    )
    definition = replace(
        definition, schema=replace(definition.schema, attributes=definition.schema.attributes[2:])
    )
    rng = np.random.default_rng(6)
    people = [
        {"b": float(b), "c": float(c), "group": "high" if place in (1, 7, 31, 65) else "low" if b < 50 else "mid",
         "female": int(b > c)}
        for place, (b, c) in enumerate(rng.uniform(20, 80, (300, 2)))
    ]  # fmt: skip
    found = recommend(definition, Population(people), "b ~ C(group)")
    assert "C(group)[high]" in found.best.names
    assert np.isfinite(found.best.inflation)


@pytest.mark.parametrize("cover", ["slopes", "means", "moments"])
@pytest.mark.parametrize("suite", SUITES)
def test_the_recommended_clipping_lets_intervals_hold(suite: SuiteName, cover: str) -> None:
    """The bias that may be left is at most 0.3 standard errors of what is covered, here from the pilot's rows themselves;
    and some norm with less error on the curve is left aside for it, or none has any.
    """
    population = _people(900, 4)
    advice = recommend(in_suite(_definition(), suite), population, FORMULA, cover=cover)
    assert advice.settings
    study, m = drafted(advice.definition), 900
    whole, sent = whole_and_sent(study, population.people)
    names = [column.name for column in study.schema.columns]
    used = [names.index(name) for name in ("one", "a", "b", "c", "group_mid", "group_high", "female")]
    gram = whole.T @ whole / m
    inverse = np.linalg.inv(gram[np.ix_(used, used)])
    theta = np.zeros(len(names))
    theta[names.index("y")], theta[used] = 1.0, -inverse @ gram[used, names.index("y")]
    psi = ((whole @ theta)[:, None] * whole - (sent @ theta)[:, None] * sent)[:, used] @ inverse
    s = psi.std(axis=0, ddof=1) / m**0.5
    s = (s * 50.0 / np.array([1.0, 50.0, 50.0, 50.0, 1.0, 1.0, 0.5]))[
        1:
    ]  # in the units of y and of the columns
    se = np.array(advice.best.se)[[advice.best.names.index(name) for name in SLOPES]]
    assert np.all(s <= 0.31 * np.sqrt(se**2 - 2 * s**2)), (s, se)
    assert s.max() > 0
    kinds = ["slopes", "means", "moments"][: ["slopes", "means", "moments"].index(cover) + 1]
    assert all(advice.best.left[kind] <= 0.301 for kind in kinds)
    chosen = advice.prices[cover]
    better = [point for point in advice.curve if point.inflation < chosen.inflation]
    assert all(max(point.left[kind] for kind in kinds) > 0.3 for point in better)
    assert list(advice.prices) == ["slopes", "means", "moments"]
    errors = [point.inflation for point in advice.prices.values()]
    assert errors == sorted(errors)


@pytest.mark.parametrize("suite", SUITES)
def test_repro_the_curve_and_its_best_point_are_of_the_same_people(suite: SuiteName) -> None:
    """The curve was of 600 people at most and the point of all, so that it lay beside the curve."""
    population = _people(900, 4)
    advice = recommend(in_suite(_definition(), suite), population, FORMULA)
    assert advice.settings
    allowed = [point for point in advice.curve if point.covers("slopes")]
    best = min(allowed, key=lambda point: point.inflation)
    assert advice.definition.privacy.row_norm == pytest.approx(best.row_norm, rel=1e-6)
    assert advice.best.row_norm == pytest.approx(best.row_norm, rel=1e-6)
    assert advice.best.inflation < advice.unclipped.inflation
    assert advice.best.coefficients == advice.unclipped.coefficients  # the fit on whole rows, of everybody
    assert predict(advice.definition, population, FORMULA) == advice.best


@pytest.mark.parametrize("suite", SUITES)
def test_first_order_is_what_releases_show_where_the_noise_is_small(suite: SuiteName) -> None:
    """The ladder's errors at its own number of people and at others, beside medians of drawn releases."""
    definition, population = in_suite(_definition(), suite), _people(400, 4)
    advice = recommend(definition, population, FORMULA)
    rung = next(one for one in advice.ladder.rungs if one.definition is advice.definition)
    for people in (8000, 20000):
        drawn = predict(advice.definition, population, FORMULA, people)
        assert drawn.fits == drawn.drawn
        errors, _ = advice.ladder.errors(rung, people, 4.0)
        ratios = errors[: len(drawn.se)] / np.array(drawn.se)
        assert np.all(np.abs(np.log(ratios)) < np.log(1.15)), ratios


@pytest.mark.parametrize("suite", SUITES)
def test_people_needed_give_the_error_wanted(suite: SuiteName) -> None:
    """As releases of that size show it, planned by the best clipping there; and so does the epsilon."""
    definition, population = in_suite(_definition(), suite), _people(400, 6)
    ladder = recommend(definition, population, FORMULA).ladder
    needs = Needs(ladder, "slopes")
    wanted = [("a", 0.05), ("b", 0.06)]
    found = needs.of(wanted)
    assert found.people is not None
    assert found.epsilon is not None
    shown = recommend(definition, population, FORMULA, found.people).best
    assert shown.fits == shown.drawn
    assert all(shown.se[shown.names.index(name)] <= 1.15 * limit for name, limit in wanted)
    fewer = recommend(definition, population, FORMULA, found.people // 2).best
    assert any(fewer.se[shown.names.index(name)] > limit for name, limit in wanted)
    other = recommend(definition.changed(epsilon=found.epsilon), population, FORMULA).best
    assert all(other.se[shown.names.index(name)] <= 1.15 * limit for name, limit in wanted)
    assert found.raw < found.people
    assert needs.of([("a", 1e-7)]).people is None
    assert set(without(ladder, wanted)) == {"a", "b", "c", "group", "female"}


def test_people_are_encoded_at_once_as_devices_encode_them_one_by_one() -> None:
    """With squares, logarithms, bins and products, inside a ball and without one: to the last whole number."""
    definition = in_suite(_definition(), "moments")
    derived = (
        Derived("a_squared", "square", ("a",)), Derived("a_bins", "bins", ("a",), cuts=(40.0, 60.0)),
        Derived("a_group", "product", ("a", "group")), Derived("a_b", "product", ("a", "b")),
    )  # fmt: skip
    people = _people(150, 2).people
    schema = replace(definition.schema, derived=derived)
    for norm in (None, 3.0, 2.6):
        layout = MomentsLayout.of(schema, norm)
        widths = [1, *(column.width for column in layout.columns)]
        one_by_one = np.array([layout.encode(one).counted for one in people]) / np.array(widths)
        assert np.array_equal(scaled_reports(layout, people), one_by_one)


@pytest.mark.parametrize("suite", SUITES)
def test_covariances_of_many_directions_are_the_sum_of_those_of_each(suite: SuiteName) -> None:
    """`NoiseLaw.spread` all at once, for a law with levels that add up and a pilot's correction."""
    definition, population = in_suite(_definition(), suite), _people(300, 4)
    study = drafted(replace(definition, privacy=replace(definition.privacy, row_norm=2.2)))
    law = expected_moments(replace(study, pilot=population.correction(study)), population, 8000)[0].law
    rng, p = np.random.default_rng(1), len(study.schema.columns)
    sides, moved = rng.normal(size=(4, p)), rng.normal(size=(3, p))
    one_by_one = NoiseLaw.spread(law, sides, moved)
    assert np.allclose(law.spread(sides, moved), one_by_one, rtol=1e-9, atol=1e-12 * np.abs(one_by_one).max())


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
    wide = json.loads(trimask(*arguments, "--formula", FORMULA, "--json", "--cover", "moments").out)[
        "suites"
    ]["moments"]
    assert wide["recommended"]["best"]["inflation"] >= told["recommended"]["best"]["inflation"]
    shown = trimask(*arguments, "--formula", FORMULA, "--se", "a=0.5")
    assert "--cover" in shown.out
    assert "the standard error is as asked" in " ".join(shown.out.split())
    named = json.loads(trimask(*arguments, "--formula", FORMULA, "--effect", "a=0.5", "b", "--json").out)
    assert [(item["name"], item["effect"] == 0.5) for item in named["wanted"]] == [("a", True), ("b", False)]
    assert named["suites"]["moments"]["needed"]["a"]["people"] > 100
    wrong = trimask(*arguments, "--se", "zz=1", "--formula", FORMULA)
    assert "NAME one of Intercept, a, b" in wrong.err
    assert "two waves" not in shown.out  # where there is a pilot
    bare = trimask("plan", "--study", tmp_path / "study.toml", "--suite", "moments", "--formula", FORMULA)
    first = re.search(r"in two waves: ask ([\d,]+) of the ([\d,]+) first", " ".join(bare.out.split()))
    assert first is not None
    few, people_in_all = (int(number.replace(",", "")) for number in first.groups())
    assert 0 < few <= people_in_all / 4 + 1


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
    words = " ".join(done.out.split())
    assert "no effect of the size wanted can be relied on to be seen" in words
    assert re.search(r"all of them with [\d,]+ people", words)  # never without a way on
    assert "inf times" not in done.out
    assert "…" not in done.out


def test_a_model_out_of_reach_has_a_smaller_one_beside_it(
    tmp_path: Path, trimask: Callable[..., Any]
) -> None:
    """Nine questions, two of them nearly the same, and 80 people: what four of them would ask for is said."""
    rng = np.random.default_rng(3)
    columns = rng.normal(50, 10, (80, 8)).clip(5, 95).round(1)
    columns[:, 7] = (columns[:, 6] + rng.normal(0, 1, 80)).clip(5, 95).round(1)
    lines = [",".join(map(str, row)) for row in columns]
    (tmp_path / "pilot.csv").write_text("y,b,c,d,e,f,g,h\n" + "\n".join(lines) + "\n")
    trimask("study", "from-csv", tmp_path / "pilot.csv", "--out", tmp_path / "own.toml")
    command = [
        "plan",
        "--study",
        tmp_path / "own.toml",
        "--pilot",
        tmp_path / "pilot.csv",
        "--suite",
        "moments",
    ]
    told = json.loads(trimask(*command, "--json").out)
    smaller = told["smaller"]
    assert smaller["formula"].count("+") == 3
    assert not {"g", "h"} <= set(smaller["formula"].replace("~", "+").replace(" ", "").split("+"))
    assert smaller["needed"]["people"] < told["suites"]["moments"]["needed_together"]["people"] / 10
    without = told["suites"]["moments"]["people_without"]
    assert min(without, key=without.get) in "gh"
    said = trimask(*command).out.split()
    assert said[said.index("--columns") + 1 : said.index("--out")] == ["y", *smaller["columns"][1:]]
    assert f"--rows {smaller['needed']['people']}" in " ".join(said)


def test_columns_that_a_model_leaves_out_are_told_with_what_they_cost(
    tmp_path: Path, trimask: Callable[..., Any]
) -> None:
    """What is printed can be run: the smaller study, by the same pilot, shows at that number what was wanted."""
    rng = np.random.default_rng(8)
    b = rng.normal(50, 10, 600).clip(5, 95).round(1)
    y = (0.5 * b + rng.normal(25, 8, 600)).clip(5, 95).round(1)
    others = np.array(list("pqrst"))[rng.integers(0, 5, (600, 8))]
    lines = [",".join(map(str, row)) for row in zip(y, b, *others.T, strict=True)]
    table, own = tmp_path / "pilot.csv", tmp_path / "own.toml"
    table.write_text("y,b,c,d,e,f,g,h,i,j\n" + "\n".join(lines) + "\n")
    trimask("study", "from-csv", table, "--out", own)
    command = ("--pilot", table, "--suite", "moments", "--formula", "y ~ b", "--json")
    told = json.loads(trimask("plan", "--study", own, *command).out)
    smaller, whole = told["smaller"], told["suites"]["moments"]["needed_together"]["people"]
    assert (smaller["formula"], smaller["columns"]) == ("y ~ b", ["y", "b"])
    assert smaller["needed"]["people"] < 0.9 * whole
    small = tmp_path / "small.toml"
    drafted = trimask("study", "from-csv", table, "--pilot", "--columns", "y", "b", "--out", small)
    assert drafted.status == 0, drafted.err
    more = ("--rows", str(smaller["needed"]["people"]))
    again = json.loads(trimask("plan", "--study", small, *command, *more).out)
    best = again["suites"]["moments"]["recommended"]["best"]
    (_, slope) = best["coefficients"]
    assert slope["releases_that_bound_it"] == best["releases_drawn"]
    assert slope["se"] < 1.15 * told["wanted"][0]["error"]
    unknown = trimask("study", "from-csv", table, "--columns", "z", "--out", tmp_path / "no.toml")
    assert (unknown.status, "has no column z; it has y, b, c" in unknown.err) == (2, True)


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
