"""Rows shrunk to a norm: the pilot's correction, its error in every interval, and the caution that goes with them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import trimask
from bench.intervals import FILES, PILOT, Population, covers
from trimask.fit.clipping import _ranges
from trimask.simulation import drafted
from trimask_core.basics.errors import ImpossibleStudy, ParameterError, StudyError
from trimask_core.study.definition import Study
from trimask_core.study.pilot import PilotCorrection
from trimask_theory.planning.definition import StudyDefinition
from trimask_theory.planning.pilot import correction_of, whole_and_sent, with_pilot
from trimask_theory.planning.study_definition import load_definition

FORMULA = "y ~ x + yes + C(g)"
TEXT = """
title = "t"
purpose = "p"
contact = "c"
privacy = {PRIVACY}
collection = {COLLECTION}
attributes = [
  {name = "x", kind = "continuous", minimum = -4, maximum = 4CENTRED},
  {name = "y", kind = "continuous", minimum = -4, maximum = 4CENTRED},
  {name = "yes", kind = "binary"},
  {name = "g", kind = "categorical", levels = ["a", "b", "c"]},
]
"""
WEIGHTS = "weight = {attribute = 'g', weights = {a = 1, b = 2, c = 1.5}}"


def definition(suite: str, privacy: str = "exact = true", weights: str = "") -> StudyDefinition:
    norm, rows = ("2.2", ", block_rows = 64") if suite == "moments" else ("1.75", ", block_rows = 64")
    text = TEXT.replace("{PRIVACY}", f"{{{privacy}, row_norm = {norm}}}")
    text = text.replace("CENTRED", ", centre = 0, scale = 1.5" if suite == "moments" else "")
    only = f'{{suite = "{suite}", release_rows = 256{rows if suite == "rows" else ""}}}'
    text = text.replace("{COLLECTION}", only)
    return load_definition(text.replace("attributes = [", f"{weights}\nattributes = [", 1))


def people(count: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = np.clip(rng.standard_t(4, count), -4, 4).round(2)
    yes = rng.random(count) < 0.4
    g = rng.choice(["a", "b", "c"], count, p=[0.5, 0.3, 0.2])
    y = np.clip(0.5 * x + 0.8 * yes - 0.6 * (g == "c") + rng.standard_t(4, count), -4, 4).round(2)
    return pd.DataFrame({"x": x, "y": y, "yes": yes.astype(int), "g": g})


@pytest.mark.parametrize("weights", ["", WEIGHTS], ids=["alike", "weighted"])
@pytest.mark.parametrize("suite", ["rows", "moments"])
def test_with_the_people_themselves_as_the_pilot_the_correction_is_exact(suite: str, weights: str) -> None:
    """To the grid of the moments suite, to the rounding of the rows suite; and without a pilot it is far off."""
    taken = people(300, 1)
    study = definition(suite, weights=weights)
    corrected, plain = (trimask.simulate(taken, study, pilot=pilot) for pilot in (taken, None))
    scale = corrected.raw.rows
    np.testing.assert_allclose(corrected.moments.gram, corrected.raw.gram, atol=4e-3 * scale)
    assert np.abs(plain.moments.gram - plain.raw.gram).max() > 0.02 * scale
    assert corrected.moments.rows == corrected.raw.rows


@pytest.mark.parametrize("suite", ["rows", "moments"])
def test_its_error_is_that_of_the_pilots_mean_counted_twice(suite: str) -> None:
    """Of any combination of moments: the pilot rows' own variance of it over m, times n^2, and as much again as bias."""
    study, pilot = drafted(definition(suite)), people(400, 2)
    answers = pilot.to_dict("records")
    whole, sent = whole_and_sent(study, answers)
    assert 0.05 < float(np.mean(np.any(whole != sent, axis=1))) < 0.8
    tried = trimask.simulate(people(300, 3), study, pilot=pilot)
    rng = np.random.default_rng(4)
    A = rng.standard_normal((20, *tried.moments.gram.shape))
    A = A + A.transpose(0, 2, 1)
    d = np.einsum("ni,aij,nj->an", whole, A, whole) - np.einsum("ni,aij,nj->an", sent, A, sent)
    wanted = 2 * 300**2 * d.var(axis=1, ddof=1) / len(pilot)
    np.testing.assert_allclose(tried.moments.law.correction(A), wanted, rtol=5e-3)
    np.testing.assert_allclose(tried.moments.law.variance(A), wanted, rtol=5e-3)
    draws = np.array([tried.moments.law.draw(rng) for _ in range(4000)])
    seen = np.einsum("nij,aij->an", draws, A).var(axis=1)
    # 80,000 draws of a variance in all: each within 5 of its standard errors, wrongly so in one run in 100,000.
    np.testing.assert_allclose(seen, wanted, rtol=5 * (2 / 4000) ** 0.5)


def test_a_bias_of_b_is_a_variance_of_b_squared_more() -> None:
    """cv(t)^2 <= z^2 (1 + t^2) at every level used, and next to equal where the rule lets a bias be."""
    t = np.linspace(0, 4, 81)
    for level in (0.92, 0.95, 0.99):
        cv = stats.ncx2.ppf(level, 1, t**2)
        cv[0] = stats.chi2.ppf(level, 1)
        bound = stats.chi2.ppf(level, 1) * (1 + t**2)
        assert (cv <= bound * (1 + 1e-9)).all()
        np.testing.assert_allclose(cv[t <= 0.3] ** 0.5, bound[t <= 0.3] ** 0.5, rtol=2e-3)
    assert stats.ncx2.ppf(0.95, 1, 0.09) ** 0.5 == pytest.approx(2.045, abs=5e-4)


def test_it_is_signed_with_the_study_and_holds_no_row() -> None:
    study = drafted(definition("moments"))
    made = with_pilot(study, people(400, 2).to_dict("records"))
    assert made.id != study.id
    data = json.loads(made.canonical)
    again = Study.from_dict(data)
    assert (again.id, again.pilot) == (made.id, made.pilot)
    assert made.pilot is not None
    assert len(made.pilot.factors) <= len(made.pilot.mean)
    # As many numbers whatever the pilot's size: an average and a covariance.
    many = with_pilot(study, people(1600, 5).to_dict("records")).pilot
    assert many is not None
    assert (many.people, len(many.factors)) == (1600, len(made.pilot.factors))


def test_what_is_no_correction_is_refused() -> None:
    study = drafted(definition("moments"))
    pilot = correction_of(*whole_and_sent(study, people(50, 2).to_dict("records")))
    for wrong, why in (
        (replace(pilot, mean=pilot.mean[1:]), "entries"),
        (replace(pilot, rest=-1.0), "negative"),
        (replace(pilot, mean=(float("inf"), *pilot.mean[1:])), "finite"),
        (replace(pilot, people=1), "2 at least"),
        (replace(pilot, mean=("1", *pilot.mean[1:])), "numbers"),
    ):
        with pytest.raises(StudyError, match=why):
            replace(study, pilot=wrong)
    box = drafted(
        replace(definition("moments"), privacy=replace(definition("moments").privacy, row_norm=None))
    )
    with pytest.raises(ImpossibleStudy, match="no row is shrunk"):
        replace(box, pilot=pilot)
    with pytest.raises(ParameterError, match="nothing to correct"):
        with_pilot(box, people(50, 2).to_dict("records"))
    with pytest.raises(ParameterError, match="two people"):
        with_pilot(study, people(1, 2).to_dict("records"))


def _results(source: Any) -> list[Any]:
    fit = trimask.fit
    ols = fit.ols(source, FORMULA)
    return [
        ols, ols.predict([{"x": 1, "yes": 0, "g": "a"}]), fit.ridge(source, FORMULA, penalty=0.01), fit.describe(source),
        fit.crosstab(source, "g", "yes"), fit.means(source, "y", "g"), fit.partial_correlations(source, ["x", "y"]),
        fit.pca(source, ["x", "y"]), fit.summary_col([ols]), fit.lasso(source, FORMULA, penalty=0.01),
    ]  # fmt: skip


@pytest.mark.parametrize("suite", ["rows", "moments"])
@pytest.mark.filterwarnings("ignore::trimask.errors.CoverageWarning")
def test_every_summary_table_and_plot_of_a_clipped_release_says_so(suite: str) -> None:
    mpl.use("Agg")
    taken = people(3000, 6)
    study = definition(suite, "epsilon = 40, delta = 1e-6")
    for pilot, words in (
        (None, "not corrected: intervals leave that bias out"),
        (people(500, 7), "a pilot of 500"),
    ):
        tried = trimask.simulate(taken, study, pilot=pilot, seed=1)
        for result in _results(tried):
            for shown in (result.summary(), result.to_markdown(), result.to_latex(), result.to_html()):
                assert words in shown, type(result)
        fits = trimask.fit
        for axes in (
            trimask.plot.coefficients(fits.ols(tried, FORMULA)),
            trimask.plot.scree(fits.pca(tried, ["x", "y"])),
        ):
            assert words in axes.get_xlabel()
    without = trimask.simulate(taken, replace(study, privacy=replace(study.privacy, row_norm=None)), seed=1)
    assert all("shrunk" not in result.to_markdown() + result.summary() for result in _results(without))


def test_the_rule_lets_a_bias_be_at_which_94_percent_are_left() -> None:
    """0.3 standard errors: beyond, what a 95 % interval says is no longer nearly so."""
    none = np.zeros(2)
    left = np.array(
        [0.29, 0.31]
    )  # the correction's standard error, and the bias that may be left, over the rest
    whole, without = (
        trimask.fit.EstimateTable(pd.Index(["a", "b"]), none, none, spread)
        for spread in (np.sqrt(1 + 2 * left**2), np.ones(2))
    )
    assert _ranges(whole, without).tolist() == [False, True]
    held = stats.norm.cdf(1.96 - left) - stats.norm.cdf(-1.96 - left)
    np.testing.assert_allclose(held, 0.940, atol=1.5e-3)


@pytest.mark.parametrize("suite", ["rows", "moments"])
@pytest.mark.filterwarnings("ignore::trimask.errors.CoverageWarning")
def test_what_a_pilot_cannot_correct_is_a_range(suite: str) -> None:
    """By the pilot rows' own influences: a range where their mean's error is above 0.3 of the rest, of every mean.

    In the rows suite what is known of the ones takes a part of that error away, so only the order is looked at.
    """
    study, fit = drafted(definition(suite, "epsilon = 8, delta = 1e-6")), trimask.fit
    taken, seen = people(2000, 6), set()
    for m in (40, 400, 6000):
        pilot = people(m, 7)
        tried = trimask.simulate(taken, study, pilot=pilot, seed=1)
        whole, sent = whole_and_sent(study, pilot.to_dict("records"))
        table = fit.describe(tried, ["x", "y"]).estimates("means")
        d = (whole[:, :1] * whole - sent[:, :1] * sent)[:, 1:3]
        centred = d - (whole[:, 1:3].mean(axis=0)) * (whole[:, :1] ** 2 - sent[:, :1] ** 2)
        s = 4 * centred.std(axis=0, ddof=1) / m**0.5
        assert table.ranges is not None
        if suite == "moments":
            ratio = s / np.sqrt(table.errors**2 - 2 * s**2)
            assert table.ranges.tolist() == (ratio > 0.3).tolist(), (m, ratio)
        seen |= set(table.ranges.tolist())
    assert seen == {True, False}
    assert not np.isnan(fit.ols(tried, FORMULA).pvalues["yes"])
    uncorrected = trimask.simulate(taken, study, seed=1)
    assert np.isnan(fit.ols(uncorrected, FORMULA).pvalues).all()
    assert "range, no interval" in fit.ols(uncorrected, FORMULA).summary()
    columns = fit.summary_col([fit.ols(uncorrected, FORMULA), fit.ols(tried, FORMULA)], names=["a", "b"])
    assert all(row[1].endswith("†") for row in columns.blocks(0.05)[0].rows[0:6:2])
    assert "† a range." in columns.notes
    assert r"$\dagger$" in columns.to_latex()


@pytest.mark.parametrize("suite", ["rows", "moments"])
@pytest.mark.filterwarnings("ignore::trimask.errors.CoverageWarning")
def test_intervals_hold_with_shrunk_rows(suite: str) -> None:
    """RAND at epsilon 1, a fifth of the rows shrunk: 120 draws of people, noise and pilot.

    An estimate that holds in 95 % fails 99 of 120 with probability 1e-7; there are 28 of them a suite, less ranges.
    Without the correction means, and with its sign turned nearly everything, hold in few draws or none.
    """
    rand = FILES[0]
    norm, scales = (
        (2.65, {})
        if suite == "rows"
        else (2.8, {"logvis": (0.94, 0.9), "coins": (1.8, 2.1), "disease": (11.2, 7.1)})
    )
    attributes = tuple(
        replace(item, centre=scales[item.name][0], scale=scales[item.name][1])
        if item.name in scales
        else item
        for item in rand.schema.attributes
    )
    study = drafted(rand.definition(suite, 1.0, replace(rand.schema, attributes=attributes), norm))
    population = Population(study, rand.people)
    found = covers(rand, population, 120, PILOT, seed=1)
    assert population.study.clips
    assert all((held.coverage[~held.ranges] > 99 / 120).all() for held in found.values()), found
    left = covers(rand, population, 20, None, seed=2)
    assert left["mean"].coverage.min() < 0.8


def test_a_correction_is_written_with_few_numbers_where_there_are_many_columns() -> None:
    """Directions beyond the room are counted as at least as uncertain as they are."""
    rng = np.random.default_rng(8)
    whole = rng.standard_normal((600, 30))
    sent = whole * np.minimum(1, 4 / np.linalg.norm(whole, axis=1))[:, None]
    found = correction_of(whole, sent)
    entries = 30 * 31 // 2
    assert len(found.factors) == 20_000 // entries
    assert isinstance(found, PilotCorrection)
    upper = np.triu_indices(30)
    d = whole[:, upper[0]] * whole[:, upper[1]] - sent[:, upper[0]] * sent[:, upper[1]]
    F = np.array(found.factors)
    stated = F.T @ F + found.rest * np.eye(entries)
    assert np.linalg.eigvalsh(stated - np.cov(d.T) / 600).min() > -1e-6 * np.trace(stated)
