"""A budget in the study: signed with it, read strictly, and no change to studies without one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from trimask_core.basics.errors import ImpossibleStudy, StudyError
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget, Protection
from trimask_theory.planning.study_definition import load_definition
from trimask_theory.planning.study_plan import verify_guarantees

TOML = """
title = "Numbers"
purpose = "answers"
contact = "nobody"
[privacy]
{privacy}
[collection]
{suite}
release_rows = 48
[[attributes]]
name = "x"
kind = "continuous"
minimum = 0
maximum = 1
"""


MOMENTS = 'suite = "moments"'


def with_budget(study: Study, budget: Budget | None) -> Study:
    return replace(study, protection=Protection(study.protection.row_norm, 0.0, "exact", budget=budget))


@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Budget(mu=0.5), Budget(2, 1e-6, 1)])
def test_the_id_covers_the_budget_and_it_reads_back(make_study: Any, budget: Budget) -> None:
    plain = make_study(suite="moments", sigma=0.0).study
    study = with_budget(plain, budget)
    again = Study.from_dict(json.loads(study.canonical))
    assert again == study
    assert again.protection.budget == budget
    assert len({plain.id, study.id, with_budget(plain, Budget(3.0, 1e-6)).id}) == 3
    verify_guarantees(study)


def test_without_a_budget_the_canonical_form_says_so(make_study: Any) -> None:
    study = make_study(suite="moments", sigma=0.0).study
    assert study.to_dict()["protection"]["budget"] is None
    assert Study.from_dict(study.to_dict()).protection.budget is None


@pytest.mark.parametrize(
    "budget",
    [{}, {"epsilon": 1.0, "delta": 1e-6}, {"epsilon": 1.0, "delta": 1e-6, "mu": None, "colour": 1}, 5,
     {"epsilon": "1", "delta": 1e-6, "mu": None}, {"epsilon": None, "delta": None, "mu": None},
     {"epsilon": True, "delta": 1e-6, "mu": None}],
    ids=str,
)  # fmt: skip
def test_budgets_outside_the_canonical_form_are_refused(make_study: Any, budget: Any) -> None:
    """Half a budget would be signed under an id that does not show it."""
    data = make_study(suite="moments", sigma=0.0).study.to_dict()
    with pytest.raises(StudyError):
        Study.from_dict({**data, "protection": {**data["protection"], "budget": budget}})


def test_a_study_with_noise_has_no_budget(moments_study: Any) -> None:
    study = moments_study.study
    with pytest.raises(ImpossibleStudy, match="without noise of its own") as caught:
        replace(study, protection=replace(study.protection, budget=Budget(mu=1.0)))
    assert caught.value.reason == "budget"


def test_a_study_of_the_rows_suite_has_no_budget(make_study: Any) -> None:
    with pytest.raises(ImpossibleStudy, match='suite = "moments"') as caught:
        with_budget(make_study(sigma=0.0).study, Budget(mu=1.0))
    assert caught.value.reason == "budget"
    for privacy in ("exact = true", "epsilon = 1\ndelta = 1e-6"):
        text = TOML.format(privacy=f"{privacy}\n[privacy.budget]\nmu = 1", suite="block_rows = 24")
        with pytest.raises(StudyError, match=r'exact sums over everybody.*suite = "moments"'):
            load_definition(text)


def test_the_budget_is_read_from_the_definition() -> None:
    text = TOML.format(privacy="[privacy.budget]\nepsilon = 1.5\ndelta = 1e-6\nmu = 1", suite=MOMENTS)
    assert load_definition(text).privacy.budget == Budget(1.5, 1e-6, 1.0)
    assert load_definition(TOML.format(privacy="exact = true", suite=MOMENTS)).privacy.budget is None


@pytest.mark.parametrize(
    ("privacy", "message"),
    [
        ("exact = true\n[privacy.budget]\nmu = 1", "take privacy.exact out"),
        ("budget = 3", r"\[privacy.budget\]"),
        ("[privacy.budget]\nepsilom = 1", "did you mean 'epsilon'"),
        ("[privacy.budget]\nepsilon = 1", "epsilon and delta"),
        ("[privacy.budget]\nmu = 'x'", "privacy.budget.mu must be a number"),
        ("[privacy.budget]", "epsilon and delta, or mu"),
    ],
)
def test_definitions_that_are_refused(privacy: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        load_definition(TOML.format(privacy=privacy, suite=MOMENTS))
