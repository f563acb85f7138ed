"""Effect modification, histograms, quantiles and life tables: without noise as elsewhere, with noise covered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.duration.survfunc import SurvfuncRight

from tests.sdk.moments_release import moments_study
from trimask import fit, plot
from trimask.errors import FormulaError, ParameterError
from trimask.moments.identities import ConstrainedLaw, schema_identities
from trimask.moments.moments import Moments, ObservedMoments, entry_variances, row_moments
from trimask.release.source import AskedColumns, columns_for
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.moments.noise_law import RowsLaw, positive_part

SCHEMA = Schema(
    (
        Attribute("age", "integer", 20, 80),
        Attribute("region", "categorical", levels=("n", "s", "w")),
        Attribute("sex", "categorical", levels=("f", "m")),
        Attribute("smoker", "binary"),
        Attribute("y", "continuous", -20, 100, step=0.1),
        Attribute("years", "integer", 0, 5),
        Attribute("died", "binary"),
    ),
    (
        Derived("age_group", "bins", ("age",), cuts=(30, 40, 50, 60, 70)),
        Derived("old", "threshold", ("age",), cuts=(60,)),
        Derived("year", "bins", ("years",), cuts=(1, 2, 3, 4, 5)),
        Derived("region_age", "product", ("region", "age")),
        Derived("sex_age", "product", ("sex", "age")),
        Derived("region_sex", "product", ("region", "sex")),
        Derived("region_sex_age", "product", ("region_sex", "age")),
        Derived("old_age", "product", ("old", "age")),
        Derived("sex_year", "product", ("sex", "year")),
        Derived("smoker_year", "product", ("smoker", "year")),
        Derived("region_smoker", "product", ("region", "smoker")),
    ),
)


# Fewer columns, for what is drawn many times.
SMALL = Schema(
    SCHEMA.attributes,
    tuple(item for item in SCHEMA.derived if item.name in ("age_group", "year", "region_age")),
)


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 81, n),
            "region": rng.choice(["n", "s", "w"], n, p=[0.5, 0.3, 0.2]),
            "sex": rng.choice(["f", "m"], n),
            "smoker": rng.random(n) < 0.4,
            "years": rng.integers(0, 6, n),
            "died": rng.random(n) < 0.4,
        }
    )
    slope = 0.2 + 0.3 * (frame.region == "s") + 0.2 * (frame.sex == "m") * (frame.region == "w")
    frame["y"] = (
        (10 + slope * frame.age + 3 * (frame.sex == "m") + rng.normal(0, 5, n)).clip(-20, 100).round(1)
    )
    return frame


PEOPLE = people(600, 1)
EXACT = row_moments(PEOPLE, SCHEMA)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ C(region)*age", "y ~ C(region):age", "y ~ C(region):age - 1", "y ~ C(region)*C(sex)",
        "y ~ C(region):C(sex) - 1", "y ~ C(region)*C(sex)*age", "y ~ C(region)*smoker", "age ~ y + C(region)*smoker",
    ],
)  # fmt: skip
def test_products_with_choices_are_those_of_statsmodels(formula: str) -> None:
    ours = fit.ols(EXACT, formula)
    theirs = smf.ols(formula, PEOPLE.assign(smoker=PEOPLE.smoker.astype(float))).fit()
    assert sorted(ours.params) == pytest.approx(sorted(theirs.params), rel=1e-6, abs=1e-6)
    assert sorted(ours.bse) == pytest.approx(sorted(theirs.bse), rel=1e-6)
    some = PEOPLE.assign(smoker=PEOPLE.smoker.astype(float)).head(4)
    assert list(ours.predict(some).mean) == pytest.approx(list(theirs.predict(some)), rel=1e-6)


def test_contrasts_agree_under_every_reference() -> None:
    one = fit.ols(EXACT, "y ~ C(region)*age").params
    other = fit.ols(EXACT, "y ~ C(region, ref=s)*age").params
    assert one["C(region)[s]:age"] == pytest.approx(-other["C(region)[n]:age"], abs=1e-9)


def test_bins_and_thresholds_are_groups_and_regressors() -> None:
    cut = pd.cut(PEOPLE.age, [19, 29, 39, 49, 59, 69, 80])
    assert fit.means(EXACT, "y", by="age_group").means["estimate"].to_numpy() == pytest.approx(
        PEOPLE.groupby(cut, observed=True).y.mean().to_numpy()
    )
    assert fit.crosstab(EXACT, "old", "region").counts.loc["yes", "s"] == pytest.approx(
        ((PEOPLE.age >= 60) & (PEOPLE.region == "s")).sum()
    )
    spline = fit.ols(EXACT, "y ~ age + old + old:age")
    theirs = smf.ols("y ~ age + old + old:age", PEOPLE.assign(old=(PEOPLE.age >= 60) * 1.0)).fit()
    assert sorted(spline.params) == pytest.approx(sorted(theirs.params), rel=1e-6)
    assert len(fit.ols(EXACT, "y ~ C(age_group)").names) == 6


def test_a_histogram_and_quantiles_without_noise() -> None:
    table = fit.histogram(EXACT, "age")
    edges = np.array([20, 30, 40, 50, 60, 70, 81])
    assert table.counts["estimate"].to_numpy() == pytest.approx(np.histogram(PEOPLE.age, edges)[0])
    assert table.conf_int().to_numpy().min() >= 0
    found = fit.quantiles(EXACT, "age_group", (0.1, 0.5, 0.9)).table()
    for p in (0.1, 0.5, 0.9):
        row = found.loc[p]
        assert row["[0.025"] < row["estimate"] < row["0.975]"]
        assert row["estimate"] == pytest.approx(PEOPLE.age.quantile(p), abs=2)
    assert "spread evenly" in fit.quantiles(EXACT, "age").summary()


def test_a_life_table_without_noise_is_kaplan_and_meiers() -> None:
    """With an interval for every time, and people who left counted to its end."""
    table = fit.survival(EXACT, "years", "died", leave="end")
    theirs = SurvfuncRight(PEOPLE.years, PEOPLE.died.astype(int))
    at = [list(theirs.surv_times).index(k) for k in range(6)]
    assert table.survival["survival"].to_numpy() == pytest.approx(theirs.surv_prob[at])
    assert table.survival["std err"].to_numpy() == pytest.approx(theirs.surv_prob_se[at])
    for by in ("sex", "smoker"):
        split = fit.survival(EXACT, "year", "died", by=by, leave="end").survival
        for level, rows in PEOPLE.groupby(by):
            name = {True: "yes", False: "no"}.get(level, level)  # type: ignore[call-overload]
            alone = SurvfuncRight(rows.years, rows.died.astype(int)).surv_prob
            assert split.loc[name]["survival"].to_numpy() == pytest.approx(alone)


def test_what_is_missing_is_said_with_the_lines_to_declare() -> None:
    for ask, words in (
        (lambda: fit.survival(EXACT, "years", "died", by="region"), 'of = ["region", "year"]'),
        (lambda: fit.histogram(EXACT, "y"), 'kind = "bins"'),
        (lambda: fit.histogram(EXACT, "agee"), "no bins agee"),
        (lambda: fit.ols(EXACT, "y ~ C(sex)*C(smoker)"), "smoker is not categorical"),
        (lambda: fit.ols(EXACT, "y ~ C(sex)*years"), 'of = \\["sex", "years"\\]'),
        (lambda: fit.ols(EXACT, "y ~ region_age"), r"write C\(region\):age"),
    ):
        with pytest.raises(FormulaError, match=words if "\\" in words else words.replace("[", r"\[")):
            ask()
    with pytest.raises(ParameterError, match="in \\(0, 1\\)"):
        fit.quantiles(EXACT, "age", (0.5, 1.0))
    with pytest.raises(ParameterError, match="middle, end, start"):
        fit.survival(EXACT, "years", "died", leave="never")


def test_pictures() -> None:
    axes = plot.histogram(fit.histogram(EXACT, "age"))
    assert len(axes.patches) == 6
    axes = plot.survival(fit.survival(EXACT, "years", "died", by="sex"))
    assert [line.get_label() for line in axes.get_lines()] == ["f", "m"]


def test_private_answers_bring_what_a_product_is_formed_of() -> None:
    _, needed = columns_for("y ~ C(sex)*age", SCHEMA)
    asked = AskedColumns.of(SCHEMA, needed)
    assert [item.name for item in asked.schema.derived] == ["sex_age"]
    assert set(asked.names) == {"one", "age", "sex_m", "y", "sex_age_f", "sex_age_m"}
    everything = AskedColumns.of(SCHEMA)
    assert everything.schema == SCHEMA
    assert "age_group_below_30" not in everything.names  # one less the others
    L = everything.from_scaled(SCHEMA.columns)
    row = np.array(SCHEMA.encode(PEOPLE.iloc[0].to_dict()))
    place = {column.name: j for j, column in enumerate(SCHEMA.columns)}
    assert L @ row[[place[name] for name in everything.names]] == pytest.approx(row)
    alone = AskedColumns.of(SCHEMA, ["one", "y", "age_group_50_to_60"])
    assert [item.kind for item in alone.schema.attributes] == ["continuous", "binary"]


def _moments_releases(frame: pd.DataFrame, sigma: float, draws: int, seed: int) -> Iterator[Moments]:
    study, rng = moments_study(SMALL, sigma).study, np.random.default_rng(seed)
    layout = study.moments.layout
    z = np.array([layout.encode(row).z for row in frame.to_dict("records")], dtype=float)
    x = np.column_stack([np.ones(len(z)), z / [column.width for column in layout.columns]])
    variances = entry_variances(study)
    for _ in range(draws):
        upper = np.triu(rng.normal(size=variances.shape) * np.sqrt(variances))
        yield ObservedMoments(study, x.T @ x + upper + np.triu(upper, 1).T, variances, len(x)).moments(
            "drawn"
        )


def _rows_releases(frame: pd.DataFrame, sigma: float, draws: int, seed: int) -> Iterator[Moments]:
    rng = np.random.default_rng(seed)
    X = np.array([SMALL.encode(row) for row in frame.to_dict("records")])
    n = len(X)
    for _ in range(draws):
        Y = X + sigma * rng.standard_normal(X.shape)
        raw = Y.T @ Y - n * sigma**2 * np.eye(X.shape[1])
        law = ConstrainedLaw(RowsLaw(positive_part(raw), n, sigma), schema_identities(SMALL))
        yield Moments(SMALL, law.project(raw, n), n, sigma, law=law)


@pytest.mark.parametrize("suite", ["moments", "rows"])
@pytest.mark.parametrize("draws", [8, pytest.param(150, marks=pytest.mark.slow)])
def test_noise_is_covered_in_both_suites(suite: str, draws: int) -> None:
    """Privacy errors alone against the same people's exact values, over counts, survival and interactions.

    With 8 releases a share of all below 86 % has probability under 1e-3 for an exact law, taking the 16 values of a release
    for 8 independent ones; the seed is fixed. Counts add up to n in every release.
    """
    made = (
        _moments_releases(PEOPLE, 8.0, draws, 5)
        if suite == "moments"
        else _rows_releases(PEOPLE, 0.12, draws, 6)
    )
    exact = row_moments(PEOPLE, SMALL)
    counts = fit.histogram(exact, "age").counts["estimate"].to_numpy()
    curve = fit.survival(exact, "years", "died").survival["survival"].to_numpy()[:-1]
    slopes = fit.ols(exact, "y ~ C(region)*age").params.to_numpy()
    inside: list[float] = []
    for moments in made:
        found = fit.histogram(moments, "age").counts
        assert found["estimate"].sum() == pytest.approx(len(PEOPLE))
        inside += list(np.abs(found["estimate"] - counts) < 1.96 * found["privacy"])
        table = fit.survival(moments, "years", "died").survival[:-1]
        inside += list(np.abs(table["survival"] - curve) < 1.96 * table["privacy"])
        result = fit.ols(moments, "y ~ C(region)*age")
        inside += list(np.abs(result.params - slopes) < 1.96 * result.bse_privacy)
    assert 0.86 < np.mean(inside) <= 1.0


@pytest.mark.filterwarnings("ignore:weights by:UserWarning")  # not every product is declared
def test_weights_by_level_are_those_of_weighted_least_squares() -> None:
    """Estimates are weighted least squares'; errors are taken at Kish's effective number of people."""
    weights = {"n": 1.0, "s": 2.5, "w": 0.4}
    w = PEOPLE.region.map(weights).astype(float)
    source = fit.weighted(EXACT, "C(region)", weights)
    assert source.rows == round(w.sum() ** 2 / (w**2).sum())
    assert f"({source.rows:,} of 600 people in effect)" in source.label
    assert [item.name for item in source.schema.attributes] == ["age", "region", "sex", "smoker"]
    found = fit.ols(source, "age ~ C(sex) + smoker")
    theirs = smf.wls("age ~ C(sex) + smoker", PEOPLE.assign(smoker=PEOPLE.smoker * 1.0), weights=w).fit()
    assert found.params.to_numpy() == pytest.approx(theirs.params.to_numpy(), rel=1e-9)
    assert found.bse.to_numpy() == pytest.approx(theirs.bse.to_numpy() * np.sqrt(600 / source.rows), rel=0.01)
    assert fit.describe(source, ["age"]).means["estimate"].iloc[0] == pytest.approx(
        np.average(PEOPLE.age, weights=w)
    )
    with pytest.raises(ParameterError, match="one for each of n, s, w"):
        fit.weighted(EXACT, "region", {"n": 1.0})
    with pytest.raises(ParameterError, match="positive numbers"):
        fit.weighted(EXACT, "region", weights | {"n": 0.0})
    with pytest.raises(FormulaError, match=r'of = \["age_group", "age"\]'):
        fit.weighted(row_moments(PEOPLE, SMALL), "age_group", dict.fromkeys(SMALL.groups["age_group"], 1.0))


@pytest.mark.filterwarnings("ignore:weights by:UserWarning")  # not every product is declared
def test_weighted_noise_has_the_variance_stated() -> None:
    """Over 40 releases of the moments suite the mean square of (estimate - exact) / error is 1 within 5 deviations."""
    weights = {"n": 1.0, "s": 2.5, "w": 0.4}
    exact = fit.weighted(row_moments(PEOPLE, SMALL), "region", weights).gram[0, 1]
    squares = []
    for moments in _moments_releases(PEOPLE, 8.0, 40, 9):
        found = fit.weighted(moments, "region", weights)
        gradient = np.zeros((1, *found.gram.shape))
        gradient[0, 0, 1] = gradient[0, 1, 0] = 0.5
        squares.append((found.gram[0, 1] - exact) ** 2 / found.law.variance(gradient)[0])
    assert 1 - 5 * np.sqrt(2 / 40) < np.mean(squares) < 1 + 5 * np.sqrt(2 / 40)


@pytest.mark.filterwarnings("ignore:weights by:UserWarning")
def test_repro_releases_weighted_one_by_one_do_not_pool() -> None:
    """Their noise was then counted as that of unweighted rows, and each was on a scale of its own."""
    weights = {"n": 1.0, "s": 2.5, "w": 0.4}
    parts = [
        replace(row_moments(PEOPLE, SMALL), label=label, sigma=0.1, law=None)  # type: ignore[arg-type]
        for label in ("first", "second")
    ]
    apart = [fit.weighted(part, "region", weights) for part in parts]
    with pytest.raises(ParameterError, match=r"Weight them together: fit\.weighted"):
        fit.describe(apart, ["age"])
    assert fit.weighted(parts, "region", weights).weighted_by == "region"
