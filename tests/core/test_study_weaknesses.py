"""What is weak in a study, for studies of both suites, and what is not."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from trimask_core.basics.errors import ImpossibleStudy
from trimask_core.explain.sentences import plain_truth
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget, Guarantee, Neighbours, Protection, factor_words
from trimask_core.study.progress import waiting_of
from trimask_core.study.weaknesses import Weakness, findings, weaknesses


def with_promises(study: Study, public: dict[str, Any], collector: dict[str, Any] | None = None) -> Study:
    """The study with the numbers of its guarantees replaced."""
    found = study.protection.public
    assert found is not None
    ours = replace(found, **public)
    theirs = None if study.protection.collector is None else replace(found, **(collector or public))
    return replace(study, protection=replace(study.protection, public=ours, collector=theirs))


def budgeted(study: Study, **purses: float) -> Study:
    return replace(
        study, protection=Protection(study.protection.row_norm, 0.0, "exact", budget=Budget(**purses))
    )


def weak(study: Study) -> dict[str, Weakness]:
    return {item.what: item for item in weaknesses(study)}


@pytest.fixture(params=["rows", "moments"])
def strong(request: pytest.FixtureRequest, make_study: Any) -> Study:
    """A study of each suite in which nothing is weak."""
    sigma, right = (8.0, 4) if request.param == "rows" else (60.0, 3)
    made: Study = make_study(suite=request.param, sigma=sigma, right=right, label=request.param).study
    return with_promises(made, {})  # the collector's the same


def test_nothing_is_weak_in_a_strong_study(strong: Study) -> None:
    assert weaknesses(strong) == ()
    found = {item.what for item in findings(strong)}
    assert {"noise", "guarantee", "delta", "strength", "record", "parties"} <= found
    assert ("collector_strength" in found) == (strong.suite.name == "rows")
    assert ("noise_providers" in found) == (strong.suite.name == "moments")


def test_delta_is_refused_above_one_in_n_and_not_at_it(strong: Study) -> None:
    people = strong.release_rows
    assert not weak(with_promises(strong, {"delta": 1 / people}))
    for delta, open_people in ((math.nextafter(1 / people, 1), 1), (0.5, people // 2), (1.0, people)):
        found = weak(with_promises(strong, {"delta": delta}))["delta"]
        assert (found.number, found.severity) == (delta, "refuse")
        assert f"lays {open_people} of its {people} people open" in found.why
        assert found.fix.endswith("such as 0.001.")


@pytest.mark.parametrize(("suite", "enough"), [("rows", 2.0), ("moments", 60.0)])
def test_strength_is_named_where_it_is_weak(make_study: Any, suite: str, enough: float) -> None:
    """The same step and the same words as people read; what epsilon alone would allow does not matter."""
    for sigma, is_weak in ((enough, False), (enough / 16, True)):
        study = make_study(suite=suite, sigma=sigma, right=4, label=f"{sigma}").study
        found = next(item for item in findings(study) if item.what == "strength")
        promise = next(one for one in plain_truth(study, "en").promises if "collects" not in one.towards)
        assert (found.weakness is not None) == is_weak == (promise.step == "weak")
        assert found.words == f"{promise.towards}: {promise.word}. {promise.sentences[0]}"
    assert found.weakness is not None
    assert found.weakness.severity == "name"


def test_the_collectors_strength_is_a_line_of_its_own(make_study: Any) -> None:
    study = make_study(right=4, sigma=1.1).study
    found = weak(study)
    assert set(found) == {"collector_strength"}  # a block is half a release
    assert "block_rows" in found["collector_strength"].fix
    assert not weak(with_promises(study, {"epsilon": 0.4}))


def test_refused_ones_come_first(make_study: Any) -> None:
    study = with_promises(
        make_study(right=3).study, {"epsilon": 9.0, "delta": 0.02}, {"epsilon": 9.0, "delta": 0.05}
    )
    assert [item.what for item in weaknesses(study)] == ["delta", "strength", "collector_strength", "parties"]


@pytest.mark.parametrize("suite", ["rows", "moments"])
def test_exact_studies_are_named(make_study: Any, suite: str) -> None:
    study = make_study(suite=suite, sigma=0.0, right=4, label="exact").study
    found = weak(study)
    assert set(found) == {"noise"}
    assert ("could bring all the others" in found["noise"].why) == (suite == "moments")


def test_budgets(make_study: Any) -> None:
    moments = make_study(suite="moments", sigma=0.0, right=3, label="m").study
    assert not weak(budgeted(moments, epsilon=0.5, delta=1e-6, mu=0.5))
    assert weak(budgeted(moments, epsilon=1.0, delta=0.5))["delta"].severity == "refuse"
    assert "strength" in weak(budgeted(moments, epsilon=2.0, delta=1e-6))
    assert not weak(budgeted(moments, epsilon=1.0, delta=1e-6))
    assert not weak(budgeted(moments, mu=1.3))
    both = weak(budgeted(moments, epsilon=1.0, delta=1e-6, mu=1.3))["strength"]  # either alone would do
    assert both.number > 75


def test_a_mu_beyond_all_bounds_is_still_said(make_study: Any) -> None:
    study = make_study(suite="moments", sigma=0.0, right=3).study
    found = weak(budgeted(study, mu=1e6))["strength"]
    assert found.number == 100
    assert "near certainty" in found.why


def test_a_promise_about_less_than_a_record_and_none_at_all(make_study: Any) -> None:
    study = make_study(right=4).study
    unit = Neighbours("unit", study.protection.row_norm, 1.0)
    assert "whole record" in weak(with_promises(study, {"neighbours": unit}))["record"].why
    silent = replace(study, protection=replace(study.protection, public=None, collector=None))
    assert [(item.what, item.severity) for item in weaknesses(silent)] == [("guarantee", "refuse")]


def test_two_parties_that_suffice(make_study: Any) -> None:
    rows = weak(make_study(right=3).study)["parties"]
    assert (rows.number, rows.severity) == (2, "name")
    assert "4 right and 2 left" in rows.fix
    assert weak(make_study(suite="moments", right=2, sigma=60.0).study) == {}


@pytest.mark.parametrize("suite", ["rows", "moments"])
def test_parties_of_one_institution_count_once(make_study: Any, suite: str) -> None:
    study = make_study(suite=suite, right=4, sigma=0.25 if suite == "rows" else 30.0).study
    same = tuple(
        replace(party, organisation=name)
        for party, name in zip(study.right, ("A", "a ", "A", "A"), strict=True)
    )
    found = weak(replace(study, right=same))["parties"]
    assert (found.number, found.severity) == (1, "refuse")
    unnamed = tuple(replace(party, organisation="") for party in study.right)
    assert "parties" not in weak(replace(study, right=unnamed))


@pytest.mark.parametrize(
    ("right", "honest", "named"), [(3, 1, False), (3, 2, True), (4, 2, False), (4, 3, True)]
)
def test_two_that_take_the_noise_away(make_study: Any, right: int, honest: int, named: bool) -> None:
    study = make_study(suite="moments", right=right, sigma=30.0, honest_providers=honest).study
    assert ("noise_providers" in weak(study)) == named


@pytest.mark.parametrize(
    ("epsilon", "words"), [(0.0, "1"), (1.0, "2.72"), (5.0, "148"), (20.0, "485,165,195"), (21.0, "10^10"), (99.0, "10^43"),
                          (math.inf, "infinity")]
)  # fmt: skip
def test_factors_people_can_read(epsilon: float, words: str) -> None:
    assert factor_words(epsilon) == words


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan, "4", True])
@pytest.mark.parametrize("name", ["epsilon", "delta", "mu"])
def test_a_guarantees_numbers_are_numbers(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Guarantee(
            Neighbours("record"), "proved", "why", "where", **{"epsilon": 1.0, "delta": 1e-6, name: value}
        )


def test_a_weakness_is_json_ready(make_study: Any) -> None:
    weak_ones = weaknesses(make_study(right=3).study)
    assert weak_ones
    for found in weak_ones:
        assert Weakness(**json.loads(json.dumps(found.to_dict()))) == found


def test_a_device_checks_without_numpy() -> None:
    code = "import sys, trimask_core.study.weaknesses; sys.exit('numpy' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_several_releases_are_named_with_what_they_cost(make_study: Any) -> None:
    one = make_study(suite="moments", right=3, sigma=30.0).study
    several = replace(one, suite=replace(one.suite, several_releases=True))
    assert "releases" not in {item.what for item in weaknesses(one)}
    (found,) = [item for item in weaknesses(several) if item.what == "releases"]
    assert (found.severity, "of 35 it has 6 times" in found.why) == ("name", True)
    waits = {"pending": 1, "masking": 2, "pooled": 3}
    assert "published together when the study closes" in waiting_of(one, **waits)[0].because
    assert "35 releases together have 6 times the error" in waiting_of(several, **waits)[0].because
    assert one.id != several.id
    assert Study.from_dict(several.to_dict()) == several


def test_one_release_has_room_for_everybody_and_several_for_their_remainder(make_study: Any) -> None:
    one = make_study(suite="moments", right=3, sigma=30.0).study
    several = replace(one, suite=replace(one.suite, several_releases=True)).moments
    assert (several.full_rows, several.max_release_rows) == (one.release_rows, 3 * one.release_rows)
    room = one.moments.max_release_rows
    assert (one.moments.full_rows, room > 10**6) == (room // 3, True)
    replace(one, release_rows=room // 3)
    with pytest.raises(ImpossibleStudy, match=f"those over {room} do"):
        replace(one, release_rows=room // 3 + 1)
