"""Weighted studies: fits of a release are weighted least squares', on both suites, and errors say what they can."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import trimask
from trimask import fit
from trimask.errors import ParameterError
from trimask.moments.identities import layout_identities, schema_identities
from trimask.moments.moments import effective
from trimask.moments.waves import pool
from trimask.simulation import Simulated, drafted
from trimask_core.basics.errors import ImpossibleStudy, StudyError
from trimask_core.study.definition import Study
from trimask_core.study.weight import Weight
from trimask_theory.planning.study_definition import load_definition

SUITES = ("rows", "moments")
WEIGHTS = {
    "choice": '{attribute = "region", weights = {n = 1.0, s = 2.5, w = 4.0}}',
    "answer": '{attribute = "design"}',
    "bins": '{attribute = "group", weights = {below_40 = 1.0, 40_to_60 = 3.0, from_60 = 0.7}}',
}
STUDY = """
title = "t"
purpose = "p"
contact = "c"
privacy = {PRIVACY}
collection = {suite = "SUITE", release_rows = 600 BLOCKS}
attributes = [
  {name = "age", kind = "integer", minimum = 20, maximum = 80},
  {name = "ill", kind = "binary"},
  {name = "region", kind = "categorical", levels = ["n", "s", "w"]},
  {name = "bp", kind = "integer", minimum = 80, maximum = 180},
  {name = "design", kind = "continuous", minimum = 0.5, maximum = 4.0},
]
derived = [
  {name = "square", kind = "square", of = ["age"]},
  {name = "region_age", kind = "product", of = ["region", "age"]},
  {name = "group", kind = "bins", of = ["age"], cuts = [40, 60]},
]
weight = WEIGHT
"""
CASES = list(product(SUITES, WEIGHTS))
MODEL = "bp ~ age + ill + C(region)"


@lru_cache
def people() -> pd.DataFrame:
    """Where the weight is related to the answer, so that it matters."""
    rng = np.random.default_rng(11)
    n = 600
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 80, n),
            "ill": rng.integers(0, 2, n),
            "region": rng.choice(["n", "s", "w"], n, p=[0.7, 0.2, 0.1]),
            "design": np.round(rng.uniform(0.5, 4, n), 2),
        }
    )
    effect = 8 * (frame.region == "s") + 4 * frame.design
    frame["bp"] = np.clip(
        np.round(90 + 0.5 * frame.age + 5 * frame.ill + effect + rng.normal(0, 8, n)), 80, 180
    )
    return frame


def text(suite: str, weight: str, privacy: str = "exact = true") -> str:
    """A study file."""
    blocks = ", block_rows = 100" if suite == "rows" else ""
    found = STUDY.replace("SUITE", suite).replace("BLOCKS", blocks).replace("PRIVACY", privacy)
    return found.replace("weight = WEIGHT", f"weight = {weight}" if weight else "")


@lru_cache
def study(suite: str, weight: str, privacy: str) -> Study:
    """Calibrated once."""
    return drafted(load_definition(text(suite, WEIGHTS.get(weight, ""), privacy)))


@lru_cache
def simulated(suite: str, weight: str, privacy: str = "exact = true", seed: int = 1) -> Simulated:
    """A release of the people."""
    return trimask.simulate(people(), study(suite, weight, privacy), seed=seed)


def weights_of(one: Simulated) -> Any:
    """The weights in use, a person each."""
    weight, schema = one.study.weight, one.study.schema
    assert weight is not None
    return np.array([weight.used(schema, weight.of(schema, person)) for person in one.people])


@pytest.mark.parametrize(("suite", "weight"), CASES)
def test_fits_without_noise_are_weighted_least_squares(suite: str, weight: str) -> None:
    one, frame = simulated(suite, weight), people()
    w = weights_of(one)
    theirs = smf.wls("bp ~ age + ill + C(region)", frame, weights=w).fit()
    ours = fit.ols(one, MODEL)
    order = ["Intercept", "age", "ill", "C(region)[T.s]", "C(region)[T.w]"]
    np.testing.assert_allclose(ours.params, theirs.params[order], rtol=1e-6)
    unweighted = smf.ols("bp ~ age + ill + C(region)", frame).fit()
    assert np.abs(theirs.params - unweighted.params).max() > 0.05
    # Kish's number of people where statsmodels, which takes weights for inverse variances, has all.
    worth = round(w.sum() ** 2 / (w**2).sum())
    assert one.moments.rows == worth < len(frame)
    np.testing.assert_allclose(
        ours.bse, theirs.bse[order] * np.sqrt((len(frame) - 5) / (worth - 5)), rtol=1e-6
    )
    means = fit.describe(one, ["bp", "age"]).means["estimate"]
    np.testing.assert_allclose(means, [np.average(frame[name], weights=w) for name in means.index], rtol=1e-6)
    shares = fit.describe(one, ["region_n", "region_s", "region_w"]).means["estimate"]
    np.testing.assert_allclose(
        shares, [w[frame.region == level].sum() / w.sum() for level in "nsw"], atol=1e-7
    )
    assert f"{worth:,} of 600 people in effect; errors are at that number, and not design-based" in str(
        ours.summary()
    )


@pytest.mark.parametrize(("suite", "weight"), CASES)
def test_what_the_schema_knows_holds_of_weighted_moments(suite: str, weight: str) -> None:
    """All equations but that <one, one> is N, which a table by levels replaces by another."""
    one, plain = simulated(suite, weight), simulated(suite, "")
    study, n = one.study, len(people())
    if suite == "rows":
        gram = one.observed.products  # type: ignore[union-attr]
        found = schema_identities(study.schema, weight=study.weight)
        without = schema_identities(plain.study.schema)
    else:
        gram = one.observed.gram  # type: ignore[union-attr]
        found = layout_identities(study.moments.layout)
        without = layout_identities(plain.study.moments.layout)
    known = study.weight is not None and bool(study.weight.weights)
    np.testing.assert_allclose(found.values(gram[None])[0], n * found.ones, atol=1e-5 * n)
    assert len(found) == len(without) - (not known)
    assert found.ones.any() == known
    assert np.abs(without.values(gram[None])[0] - n * without.ones).max() > 0.1 * n  # <one, one> = N, for one


@pytest.mark.parametrize(("suite", "weight"), CASES)
def test_noise_is_counted(suite: str, weight: str) -> None:
    """Estimates are as far from the weighted truth as their privacy errors say: 4 releases of 5 coefficients.

    The mean square of z is chi-square over its degrees, some 20 but correlated; the seeds are fixed.
    """
    scores = []
    truth = fit.ols(simulated(suite, weight).raw, MODEL)
    for seed in range(4):
        one = simulated(suite, weight, "epsilon = 20, delta = 1e-6", seed)
        found = fit.ols(one, MODEL)
        scores += list((found.params - truth.params) / found.bse_privacy)
        assert abs(one.moments.rows - truth.nobs) < 0.1 * truth.nobs
    assert 0.25 < np.mean(np.square(scores)) < 2.5


@pytest.mark.parametrize("suite", SUITES)
def test_releases_pool_before_they_are_scaled(suite: str) -> None:
    whole = simulated(suite, "choice")
    halves = [
        replace(
            trimask.simulate(part, whole.study, seed=2),
            people=whole.people[start : start + 300],
        )
        for start, part in ((0, people()[:300]), (300, people()[300:]))
    ]
    parts = [replace(half.moments, label=f"half {k}") for k, half in enumerate(halves)]
    both = pool(parts)
    assert both.rows == whole.moments.rows
    np.testing.assert_allclose(both.gram, whole.moments.gram, atol=1e-4)
    with pytest.raises(ParameterError, match="of another"):
        pool([parts[0], replace(simulated(suite, "").moments, label="plain")])


def test_naive_fits_are_on_the_same_scale() -> None:
    one = simulated("rows", "choice", "epsilon = 20, delta = 1e-6")
    naive, ours = fit.naive_ols(one, MODEL), fit.ols(one, MODEL)
    assert naive.nobs == ours.nobs
    assert abs(naive.params["age"]) < abs(ours.params["age"])


def test_weights_do_not_multiply_unsaid() -> None:
    with pytest.raises(ParameterError, match="weighted these by region already"):
        fit.weighted(simulated("rows", "choice"), "region", {"n": 1, "s": 1, "w": 1})


def test_the_effective_number_stays_within_its_bounds() -> None:
    one = simulated("rows", "choice")
    weight, schema = one.study.weight, one.study.schema
    assert weight is not None
    size = len(schema.columns)
    assert effective(weight, schema, np.zeros((size, size)), 100)[0] == 100
    noisy = -5.0 * np.eye(size)
    assert effective(weight, schema, noisy, 100)[0] == 100
    heavy = np.eye(size) * 1e6
    assert effective(weight, schema, heavy, 100)[0] == 64  # 4 * 4 / 25


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ('{attribute = "region"}', "weight.weights"),
        ('{attribute = "region", weights = {n = 1.0, s = 2.0}}', "weight.weights.w must be given"),
        ('{attribute = "region", weights = {n = 1.0, s = 2.0, w = 1.0, x = 1.0}}', "has no setting 'x'"),
        ('{attribute = "ill"}', "no numeric attribute"),
        ('{atribute = "design"}', "did you mean 'attribute'"),
        ('{attribute = "age", weights = {a = 1.0}}', "no categorical attribute and no bins"),
    ],
)
def test_the_study_file_says_what_is_wrong(change: str, why: str) -> None:
    with pytest.raises((StudyError, ImpossibleStudy), match=why):
        load_definition(text("rows", change))


def test_what_a_weighted_study_cannot_have_is_said_with_what_instead() -> None:
    for suite, privacy in (
        ("moments", "budget = {mu = 1.0}"),
        ("rows", 'epsilon = 1, delta = 1e-6, protect = "unit"'),
    ):
        with pytest.raises(StudyError, match=r"fit\.weighted"):
            load_definition(text(suite, WEIGHTS["choice"], privacy))
    plain = load_definition(text("moments", WEIGHTS["choice"], "epsilon = 1, delta = 1e-6"))
    assert plain.weight == Weight("region", (1.0, 2.5, 4.0))


def test_the_finest_roots_that_fit_are_taken() -> None:
    """Totals of wide columns leave less room for weights: docs/theory/verified-moments.md#weights."""
    assert simulated("moments", "choice").study.weight == Weight("region", (1.0, 2.5, 4.0), 1024)
    wide = text("moments", WEIGHTS["choice"]).replace("release_rows = 600", "release_rows = 20_000_000")
    made = drafted(load_definition(wide)).weight
    assert made is not None
    assert 16 <= made.steps < 1024
