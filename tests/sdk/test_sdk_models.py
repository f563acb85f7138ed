"""Models on exact moments: each is what its textbook says, on the same rows; and what each refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import trimask
from trimask import Dataset, fit
from trimask.errors import CollinearColumns, FormulaError, NoiseExceedsSignal, ParameterError
from trimask.fit.factors import varimax
from trimask.moments.moments import Moments, row_moments
from trimask.moments.waves import pool
from trimask_core.study.schema import Attribute, Schema

People = Callable[..., pd.DataFrame]
FORMULA = "sbp ~ age + bmi + smoker + C(region)"
NUMERIC = ["age", "bmi", "smoker", "sbp"]


@pytest.fixture(scope="module")
def answers(people: People) -> pd.DataFrame:
    return people(300, 21)


@pytest.fixture(scope="module")
def rows(answers: pd.DataFrame, schema: Schema) -> Moments:
    return row_moments(answers, schema)


def _numbers(answers: pd.DataFrame, names: list[str]) -> np.ndarray[Any, Any]:
    return answers[names].to_numpy(float)


# Tests and diagnostics of least squares


def test_f_test_is_that_of_nested_fits(answers: pd.DataFrame, schema: Schema) -> None:
    whole = fit.ols_from_rows(answers, schema, FORMULA)
    part = fit.ols_from_rows(answers, schema, "sbp ~ age + bmi + smoker")
    test = whole.f_test("C(region)[south], C(region)[west] = 0")
    more = (part.scale * part.df_resid - whole.scale * whole.df_resid) / 2
    assert test.fvalue == pytest.approx(more / whole.scale, rel=1e-8)
    assert test.pvalue == pytest.approx(stats.f.sf(test.fvalue, 2, whole.df_resid), rel=1e-9)
    assert (test.df_num, test.df_denom) == (2, whole.df_resid)
    assert "C(region)[south] = 0, C(region)[west] = 0" in test.summary()


def test_f_test_of_one_statement_is_t_squared(answers: pd.DataFrame, schema: Schema) -> None:
    result = fit.ols_from_rows(answers, schema, FORMULA)
    assert result.f_test("age").fvalue == pytest.approx(result.tvalues["age"] ** 2, rel=1e-9)
    shifted = ((result.params["smoker"] - 6) / result.bse["smoker"]) ** 2
    assert result.f_test(["smoker = 6"]).fvalue == pytest.approx(shifted, rel=1e-9)
    C = result.cov_params()
    same = (result.params["age"] - result.params["bmi"]) ** 2
    spread = C.loc["age", "age"] + C.loc["bmi", "bmi"] - 2 * C.loc["age", "bmi"]
    for hypothesis in ("age = bmi", np.array([0, 1, -1, 0, 0, 0])):
        assert result.f_test(hypothesis).fvalue == pytest.approx(same / spread, rel=1e-8)


@pytest.mark.parametrize(
    ("hypothesis", "message"),
    [
        ("agee = 0", "no coefficient agee; did you mean age?"),
        ("age = nan", "is not a hypothesis"),
        ("age = age", "is not a hypothesis"),
        ("", "at least one statement"),
        ("age, bmi, age = bmi", "none of which follows"),
        (np.eye(2), "a matrix with 6 columns"),
    ],
)
def test_f_test_refusals(hypothesis: Any, message: str, answers: pd.DataFrame, schema: Schema) -> None:
    with pytest.raises((FormulaError, ParameterError), match=message):
        fit.ols_from_rows(answers, schema, FORMULA).f_test(hypothesis)


def test_diagnostics_of_a_release(noisy_folder: Path) -> None:
    result = fit.ols(Dataset.open(noisy_folder), FORMULA)
    found = result.diagnostics
    assert found.enough == (result.signal >= 4)
    assert found.rows_for_signal >= 400
    assert list(found.table.index) == list(result.names)
    share = (result.bse_privacy / result.bse) ** 2
    np.testing.assert_allclose(found.table["privacy share"], share, rtol=1e-12)
    for words in (
        "condition",
        "noise/signal",
        "rows to find it",
        "No residual is in a release",
        "C(region)[west]",
    ):
        assert words in found.summary()
        assert words.split("(")[0] in found._repr_html_()
    assert "rows enough" in repr(found)


def test_noise_to_signal_is_what_pulls_a_naive_slope_down() -> None:
    """One regressor, no intercept: the naive slope is the true one over 1 + noise/signal."""
    schema = Schema((Attribute("x", "continuous", -1, 1), Attribute("y", "continuous", -1, 1)), ones=False)
    n, sigma = 1000, 0.7
    gram = n * np.array([[0.3, 0.12], [0.12, 0.2]])
    moments = Moments(schema, gram, n, sigma)
    right, naive = fit.ols(moments, "y ~ x - 1"), fit.naive_ols(moments, "y ~ x - 1")
    ratio = float(right.diagnostics.table.loc["x", "noise/signal"])
    assert ratio == pytest.approx(sigma**2 / 0.3)
    assert naive.params["x"] == pytest.approx(right.params["x"] / (1 + ratio))


def test_rows_it_would_take_are_right(rows: Moments, signed_study: Any) -> None:
    """Four times the rows at the same epsilon: the Gram matrix grows by 4 and, calibrated sharply, s^2 falls by 2."""
    now = fit.ols(Moments(rows.schema, rows.gram, rows.rows, 0.2), FORMULA)
    later = fit.ols(Moments(rows.schema, 4 * rows.gram, 4 * rows.rows, 0.2 / math.sqrt(2)), FORMULA)
    for name in now.names:  # up to what the fit adds back to RSS, which falls as 1/n
        assert fit.rows_for_error(now, name, later.bse[name]) == pytest.approx(4 * rows.rows, rel=0.05)
    # Theorem 3.4's sigma does not fall: the error is halved by four times the rows.
    protection = type(signed_study().study.protection)(1.0, 0.2, "theorem")
    fixed = fit.ols(Moments(rows.schema, rows.gram, rows.rows, 0.2, protection), FORMULA)
    assert fit.rows_for_error(fixed, "age", fixed.bse["age"] / 2) == pytest.approx(1200, abs=1)
    assert math.isinf(fit.rows_for_error(now, "age", 0.0))
    assert fit.rows_for_error(now, "age", 1e9) == len(now.names) + 1
    with pytest.raises(ParameterError, match="one of Intercept"):
        fit.rows_for_error(now, "agee", 1.0)


# Pooling


def test_releases_of_one_study_pool_to_the_fit_on_all(
    noisy: Any, exact: Any, write_release: Any, people: People, schema: Schema, tmp_path: Path
) -> None:
    parts = [people(200, 31), people(300, 32)]
    first = Dataset.open(write_release(tmp_path / "1", exact, parts[0]))
    second = Dataset.open(
        write_release(tmp_path / "2", exact, parts[1], release=2, previous=first.manifest.sha256)
    )
    whole = fit.ols_from_rows(pd.concat(parts), schema, FORMULA)
    pooled = fit.ols([first, second], FORMULA)
    np.testing.assert_allclose(pooled.params, whole.params, rtol=1e-8)
    np.testing.assert_allclose(pooled.bse, whole.bse, rtol=1e-8)
    assert pooled.nobs == 500
    assert first.id in pooled.label
    assert second.id in pooled.label
    assert fit.ols([first], FORMULA).nobs == 200
    with pytest.raises(ParameterError, match="given twice"):
        fit.ols([first, first], FORMULA)
    with pytest.raises(ParameterError, match="at least one"):
        fit.ols([], FORMULA)


def test_pooled_noise_is_that_of_all_rows(rows: Moments) -> None:
    """The same Gram matrix as one release or as the sum of two: the same fit, the same errors."""
    half = [Moments(rows.schema, rows.gram / 2, 150, 0.2, None, label) for label in ("one", "two")]
    one = fit.ols(Moments(rows.schema, rows.gram, 300, 0.2), FORMULA)
    np.testing.assert_allclose(fit.ols(half, FORMULA).cov_params(), one.cov_params(), rtol=1e-12)
    assert pool(half).label == "one + two"


# Ridge and two-stage least squares


def test_ridge_is_least_squares_with_rows_added(answers: pd.DataFrame, rows: Moments) -> None:
    penalty, n = 0.05, len(answers)
    Z = np.column_stack([np.ones(n), (answers["age"] - 49) / 31, (answers["bmi"] - 30) / 15])
    y = (answers["sbp"].to_numpy() - 140) / 60
    extra = np.column_stack([np.zeros(2), math.sqrt(n * penalty) * np.eye(2)])
    b, *_ = np.linalg.lstsq(np.vstack([Z, extra]), np.concatenate([y, np.zeros(2)]))
    result = fit.ridge(rows, "sbp ~ age + bmi", penalty)
    np.testing.assert_allclose(result.params[["age", "bmi"]], b[1:] * 60 / [31, 15], rtol=1e-8)
    plain, zero = fit.ols(rows, "sbp ~ age + bmi"), fit.ridge(rows, "sbp ~ age + bmi", 0)
    np.testing.assert_allclose(zero.params, plain.params, rtol=1e-9)
    np.testing.assert_allclose(zero.bse, plain.bse, rtol=1e-6)
    assert abs(result.params["age"]) < abs(plain.params["age"])
    assert "P>|t|" not in result.table()
    assert "penalised coefficients" in result.summary()
    with pytest.raises(ParameterError, match="biased on purpose"):
        result.f_test("age")
    for bad in (-1, math.nan, math.inf):
        with pytest.raises(ParameterError, match="penalty"):
            fit.ridge(rows, "sbp ~ age", bad)


def test_ridge_privacy_error_at_no_penalty_is_that_of_least_squares(rows: Moments) -> None:
    noisy = Moments(rows.schema, rows.gram, rows.rows, 0.2)
    zero, plain = fit.ridge(noisy, FORMULA, 0), fit.ols(noisy, FORMULA)
    # ols adds back what the fit takes from RSS, a few per cent of it.
    np.testing.assert_allclose(zero.bse_privacy, plain.bse_privacy, rtol=0.05)


def test_ridge_answers_where_the_noise_hides_a_direction() -> None:
    schema = Schema((Attribute("a", "continuous", -1, 1), Attribute("b", "continuous", -1, 1)))
    gram = 1000 * np.diag([1.0, 0.3, -0.02])
    moments = Moments(schema, gram, 1000, 1.0)
    with pytest.raises(NoiseExceedsSignal):
        fit.ols(moments, "a ~ b")
    result = fit.ridge(moments, "a ~ b", 0.5)
    assert np.all(np.isfinite(result.bse))
    with pytest.raises(NoiseExceedsSignal):
        fit.ridge(moments, "a ~ b", 0.01)


def test_two_stage_least_squares_by_hand(answers: pd.DataFrame, rows: Moments) -> None:
    n = len(answers)
    X = np.column_stack([np.ones(n), _numbers(answers, ["bmi", "smoker"])])
    H = np.column_stack([np.ones(n), answers["age"], np.log(answers["bmi"]), answers["smoker"]]).astype(float)
    y = answers["sbp"].to_numpy()
    fitted = H @ np.linalg.lstsq(H, X)[0]
    b = np.linalg.solve(fitted.T @ X, fitted.T @ y)
    scale = float(np.sum((y - X @ b) ** 2)) / (n - 3)
    result = fit.tsls(rows, "sbp ~ bmi + smoker", "age + log_bmi + smoker")
    np.testing.assert_allclose(result.params, b, rtol=1e-7)
    np.testing.assert_allclose(result.cov_params(), scale * np.linalg.inv(fitted.T @ fitted), rtol=1e-6)
    first = fit.ols(rows, "bmi ~ age + log_bmi + smoker").f_test("age, log_bmi")
    assert result.first_stage == {"bmi": first}
    assert "first stage" in result.summary()


def test_weak_instruments_are_said(rows: Moments) -> None:
    assert "Weak instruments for bmi" in fit.tsls(rows, "sbp ~ bmi", "smoker").summary()


@pytest.mark.parametrize(
    ("formula", "instruments", "message"),
    [
        ("sbp ~ bmi + age", "bmi + age + smoker", "nothing is endogenous"),
        ("sbp ~ bmi + smoker", "age", "2 endogenous"),
        ("sbp ~ bmi", "age - 1", "both have an intercept"),
        ("sbp ~ C(region)", "age + bmi", "name its indicator column"),
        ("sbp ~ bmi", "log(age)", "declare it in the study"),
        ("sbp ~ bmi", "agee", "did you mean age?"),
        ("sbp ~ bmi", "sbp", "both sides"),
    ],
)
def test_two_stage_refusals(formula: str, instruments: str, message: str, rows: Moments) -> None:
    with pytest.raises(FormulaError, match=message):
        fit.tsls(rows, formula, instruments)


# Covariances


def test_means_and_variances(answers: pd.DataFrame, rows: Moments) -> None:
    result = fit.describe(rows)
    X, n = _numbers(answers, NUMERIC), len(answers)
    variances = X.var(axis=0, ddof=1)
    np.testing.assert_allclose(result.means.loc[NUMERIC, "estimate"], X.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(result.variances.loc[NUMERIC, "estimate"], variances, rtol=1e-8)
    np.testing.assert_allclose(result.means.loc[NUMERIC, "std err"], np.sqrt(variances / n), rtol=1e-8)
    np.testing.assert_allclose(
        result.variances.loc["age", "std err"], variances[0] * math.sqrt(2 / (n - 1)), rtol=1e-8
    )
    p = float(answers["smoker"].mean())
    error = abs(1 - 2 * p) * math.sqrt(p * (1 - p) / n)
    assert result.variances.loc["smoker", "std err"] == pytest.approx(error, rel=1e-8)
    west = float((answers["region"] == "west").mean())
    assert result.means.loc["region_west", "estimate"] == pytest.approx(west)
    low, high = result.conf_int(0.1).loc["age"]
    half = stats.t.isf(0.05, n - 1) * math.sqrt(variances[0] / n)
    assert (high - low) / 2 == pytest.approx(half)
    assert np.all(result.conf_int(of="variances")[0] >= 0)
    assert list(fit.describe(rows, ["bmi"]).means.index) == ["bmi"]
    for words in ("mean (SD)", "people", "privacy", "take rows as normal"):
        assert words in result.summary()
    with pytest.raises(ParameterError, match="'means', 'variances'"):
        result.conf_int(of="medians")


def test_principal_components(answers: pd.DataFrame, rows: Moments) -> None:
    X, n = _numbers(answers, NUMERIC), len(answers)
    values, vectors = np.linalg.eigh(np.corrcoef(X.T))
    result = fit.pca(rows, NUMERIC)
    np.testing.assert_allclose(result.eigenvalues["estimate"], values[::-1], rtol=1e-8)
    np.testing.assert_allclose(np.abs(result.loadings), np.abs(vectors[:, ::-1]), rtol=1e-6, atol=1e-9)
    assert result.explained_variance_ratio.sum() == pytest.approx(1.0)
    assert result.noise_floor == 0
    # Covariances: an eigenvalue's sampling error is l sqrt(2/(n-1)), the classical result.
    plain = fit.pca(rows, ["age", "smoker"], standardize=False, components=1)
    scaled = np.column_stack([(answers["age"] - 49) / 31, 2.0 * answers["smoker"] - 1])
    top = float(np.linalg.eigvalsh(np.cov(scaled.T))[-1])
    assert plain.eigenvalues.loc["PC1", "estimate"] == pytest.approx(top)
    assert plain.eigenvalues.loc["PC1", "std err"] == pytest.approx(top * math.sqrt(2 / (n - 1)))
    assert "PC1" in result.summary()
    with pytest.raises(ParameterError, match="components"):
        fit.pca(rows, NUMERIC, components=5)


def test_close_components_get_no_errors() -> None:
    schema = Schema(tuple(Attribute(name, "continuous", -1, 1) for name in "abc"))
    gram = 1000 * np.diag([1.0, 0.3, 0.295, 0.1])
    result = fit.pca(Moments(schema, gram, 1000, 0.2), standardize=False)
    assert result.eigenvalues["std err"].isna().tolist() == [True, True, False]
    assert result.loadings_bse.isna().all().tolist() == [True, True, False]
    assert "PC1, PC2: too close" in result.summary()


def test_partial_correlations_by_residuals(answers: pd.DataFrame, rows: Moments) -> None:
    X, n = _numbers(answers, NUMERIC), len(answers)
    given = np.column_stack([np.ones(n), X[:, 1:3]])
    residuals = X[:, [0, 3]] - given @ np.linalg.lstsq(given, X[:, [0, 3]])[0]
    r = float(np.corrcoef(residuals.T)[0, 1])
    everything = fit.partial_correlations(rows, NUMERIC)
    some = fit.partial_correlations(rows, ["age", "sbp"], given=["bmi", "smoker"])
    for result in (everything, some):
        row = result.pairs.loc[("age", "sbp")]
        assert row["estimate"] == pytest.approx(r)
        assert row["std err"] == pytest.approx((1 - r**2) / math.sqrt(n - 1), rel=1e-8)
    plain = fit.partial_correlations(rows, NUMERIC, given=[])
    np.testing.assert_allclose(plain.matrix(), np.corrcoef(X.T), rtol=1e-8)
    low, high = plain.conf_int().loc[("age", "sbp")]
    assert -1 < low < plain.pairs.loc[("age", "sbp"), "estimate"] < high < 1
    assert "age ~ sbp" in plain.summary()
    assert "bmi" not in fit.partial_correlations(rows, given=["bmi", "log_bmi"]).columns
    with pytest.raises(ParameterError, match="at least two"):
        fit.partial_correlations(rows, ["age"])
    with pytest.raises(ParameterError, match="age appears twice"):
        fit.partial_correlations(rows, ["age", "bmi"], given=["age"])


def test_factor_analysis_finds_the_loadings_of_an_exact_model() -> None:
    L = np.array([[0.8, 0.1], [0.7, 0.0], [0.75, 0.2], [0.1, 0.8], [0.0, 0.7], [0.2, 0.65]])
    psi = 1 - np.sum(L**2, axis=1)
    schema = Schema(tuple(Attribute(name, "continuous", -1, 1) for name in "abcdef"))
    n = 1000
    gram = np.zeros((7, 7))
    gram[0, 0], gram[1:, 1:] = n, 0.1 * (n - 1) * (L @ L.T + np.diag(psi))
    result = fit.factor_loadings(Moments(schema, gram, n, 0.0), 2)
    found = result.loadings.to_numpy()
    np.testing.assert_allclose(found @ found.T, L @ L.T, atol=1e-7)
    np.testing.assert_allclose(result.uniquenesses, psi, atol=1e-7)
    np.testing.assert_allclose(result.communalities, 1 - psi, atol=1e-7)
    plain = fit.factor_loadings(Moments(schema, gram, n, 0.0), 2, rotate=False).loadings.to_numpy()
    inner = plain.T @ np.diag(1 / psi) @ plain
    assert abs(inner[0, 1]) < 1e-6 * inner[0, 0]
    assert "varimax" in result.summary()
    with pytest.raises(ParameterError, match="factors"):
        fit.factor_loadings(Moments(schema, gram, n, 0.0), 4)


def test_varimax_is_the_best_rotation() -> None:
    rng = np.random.default_rng(3)
    L = rng.normal(size=(8, 3))
    unit = L / np.linalg.norm(L, axis=1, keepdims=True)

    def criterion(turn: np.ndarray[Any, Any]) -> float:
        return float(np.sum(np.var((unit @ turn) ** 2, axis=0)))

    best = varimax(L)
    np.testing.assert_allclose(best.T @ best, np.eye(3), atol=1e-12)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        for angle in (1e-3, -1e-3):
            near = np.eye(3)
            near[[i, i, j, j], [i, j, i, j]] = (
                math.cos(angle),
                -math.sin(angle),
                math.sin(angle),
                math.cos(angle),
            )
            assert criterion(best @ near) < criterion(best)


def test_heywood_case_gets_no_errors() -> None:
    """A column that its factor explains wholly: its specific variance is at the bound."""
    L = np.array([0.9999, 0.7, 0.6, 0.5])
    schema = Schema(tuple(Attribute(name, "continuous", -1, 1) for name in "abcd"))
    gram = np.zeros((5, 5))
    gram[0, 0] = 1000
    gram[1:, 1:] = 100 * (np.outer(L, L) + np.diag(1 - L**2))
    result = fit.factor_loadings(Moments(schema, gram, 1000, 0.0), 1)
    assert result.loadings_bse.isna().all(axis=None)
    assert "Heywood" in result.summary()


# What all of them refuse


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (["agee", "bmi"], FormulaError, "did you mean age?"),
        (["log(age)", "age"], FormulaError, "declare it in the study"),
        (["age*bmi", "age"], FormulaError, "declare it in the study"),
        (["region", "age"], FormulaError, "categorical"),
        (["one", "age"], FormulaError, "intercept"),
        ("age", ParameterError, "a list of columns"),
        ([], ParameterError, "at least one column"),
        (["age", "age"], ParameterError, "appears twice"),
        (["region_north", "region_south", "region_west"], CollinearColumns, "add up to one"),
    ],
)
def test_columns_are_refused_with_what_to_write(
    columns: Any, error: type[Exception], message: str, rows: Moments
) -> None:
    for model in (fit.pca, fit.partial_correlations):
        with pytest.raises(error, match=message):
            model(rows, columns)


def test_collinear_columns_are_named(answers: pd.DataFrame, schema: Schema) -> None:
    same = row_moments(answers.assign(bmi=15 + 0.2 * answers["age"]), schema)
    for model in (fit.partial_correlations, lambda m, c: fit.factor_loadings(m, 1, c)):
        with pytest.raises(CollinearColumns, match="age, bmi are collinear"):
            model(same, ["age", "bmi", "smoker", "sbp"])
    with pytest.raises(CollinearColumns, match="smoker is the same on every row"):
        fit.pca(row_moments(answers.assign(smoker=0), schema), ["age", "smoker"])


def test_too_few_rows(people: People, schema: Schema) -> None:
    few = row_moments(people(4, 1), schema)
    for call in (
        lambda: fit.pca(few, ["age", "bmi", "sbp"]),
        lambda: fit.ridge(few, "sbp ~ age + bmi + smoker", 1.0),
        lambda: fit.tsls(few, "sbp ~ bmi", "age + smoker + region_west"),
    ):
        with pytest.raises(ParameterError, match="more than the"):
            call()


def test_noise_above_a_column_is_refused_everywhere(rows: Moments) -> None:
    gram = rows.gram.copy()
    gram[2, 2] = gram[0, 2] ** 2 / gram[0, 0] - 1.0  # bmi: less than its mean alone would give
    hidden = Moments(rows.schema, gram, rows.rows, 0.5)
    for call in (
        lambda: fit.pca(hidden, ["age", "bmi"]),
        lambda: fit.partial_correlations(hidden, ["age", "bmi"]),
        lambda: fit.tsls(hidden, "sbp ~ age", "bmi"),
    ):
        with pytest.raises(NoiseExceedsSignal, match="bmi"):
            call()
    assert "the noise hides" in fit.describe(hidden, ["bmi"]).summary()


def test_without_a_ones_column() -> None:
    schema = Schema(
        (Attribute("x", "continuous", -1, 1), Attribute("y", "continuous", -1, 1), Attribute("g", "binary")), ones=False
    )  # fmt: skip
    moments = Moments(schema, 100 * np.diag([0.3, 0.2, 1.0]), 100, 0.1)
    with pytest.raises(FormulaError, match="no mean"):
        fit.describe(moments)
    with pytest.raises(FormulaError, match="cannot be counted"):
        fit.means(moments, "x", by="g")
    np.testing.assert_allclose(
        fit.pca(moments, ["x", "y"], standardize=False).eigenvalues["estimate"], [0.3, 0.2]
    )


# What is looked at unasked


def test_repro_products_that_a_study_declares_are_nobodys_columns_by_default() -> None:
    """The example had no correlations, and a component of nothing: products by group add up to their number."""
    data = trimask.example()
    numbers = ["age", "salt", "smoker", "leaflet", "systolic"]
    assert list(fit.correlations(data).matrix()) == numbers
    assert list(fit.pca(data).loadings.index) == numbers
    assert list(fit.factor_loadings(data, 1).loadings.index) == numbers
    assert fit.partial_correlations(data).columns == tuple(numbers)
    found = fit.describe(data)
    assert not {name for name in found.means.index if name.startswith("activity_age")}
    assert fit.describe(data, ["activity_age_low"]).means.shape[0] == 1
