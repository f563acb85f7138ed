"""What statsmodels has for a fit: exact against it without noise, covering with it, the same under every reference."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.regression.linear_model import RegressionResults

from tests.sdk.test_sdk_tables import EXACT, NOISY, REGIONS, ROWS, noisy, people
from trimask import fit
from trimask.errors import BeyondSecondMoments, FormulaError, NoiseExceedsSignal, ParameterError
from trimask.moments.moments import Moments

FORMULA = "age ~ visits + ill + C(region)"
TRUTH: RegressionResults = smf.ols(FORMULA, ROWS).fit()
ORDER = ["Intercept", "visits", "ill", "C(region)[T.south]", "C(region)[T.west]"]
FIT = fit.ols(EXACT, FORMULA)
PRIVATE = fit.ols(NOISY, FORMULA)


def test_tests_of_combinations_are_statsmodels() -> None:
    found = FIT.t_test("C(region)[west] - C(region)[south], 2 * visits + ill = 1, C(region)")
    theirs = TRUTH.t_test(
        "C(region)[T.west] - C(region)[T.south] = 0, 2 * visits + ill = 1, C(region)[T.south] = 0, C(region)[T.west] = 0"
    )
    assert np.allclose(found.effect, theirs.effect)
    assert np.allclose(found.sd, np.diag(theirs.sd) if np.ndim(theirs.sd) == 2 else theirs.sd)
    assert np.allclose(found.tvalue, theirs.tvalue.ravel())
    assert np.allclose(found.pvalue, theirs.pvalue)
    assert np.allclose(found.conf_int(), theirs.conf_int())
    assert found.statements[0] == "C(region)[west] - C(region)[south] = 0"
    assert "C(region)[west]" in found.summary()
    joint = FIT.f_test("C(region)")
    assert joint.fvalue == pytest.approx(
        float(TRUTH.f_test("C(region)[T.south] = 0, C(region)[T.west] = 0").fvalue)
    )
    assert "<pre>F(2" in joint._repr_html_()


def test_the_whole_fit_is_statsmodels() -> None:
    assert FIT.fvalue == pytest.approx(TRUTH.fvalue)
    assert FIT.f_pvalue == pytest.approx(TRUTH.f_pvalue, rel=1e-6)
    assert (FIT.rsquared, FIT.rsquared_adj) == (
        pytest.approx(TRUTH.rsquared),
        pytest.approx(TRUTH.rsquared_adj),
    )
    assert "adjusted" in FIT.summary()
    deviations = ROWS[["visits", "ill"]].std() / ROWS["age"].std()
    assert np.allclose(
        FIT.standardized.loc[["visits", "ill"], "estimate"], TRUTH.params[["visits", "ill"]] * deviations
    )
    assert np.allclose(
        FIT.standardized.loc[["visits", "ill"], "std err"], TRUTH.bse[["visits", "ill"]] * deviations
    )
    nothing = fit.ols(EXACT, "age ~ 1")
    assert np.isnan(nothing.fvalue)


def test_predictions_are_statsmodels() -> None:
    new = pd.DataFrame({"visits": [0, 3], "ill": [1, 0], "region": ["west", "north"]}, index=["a", "b"])
    found, theirs = FIT.predict(new), TRUTH.get_prediction(new).summary_frame()
    assert np.allclose(found.summary_frame(), theirs)
    assert list(found.mean.index) == ["a", "b"]
    assert FIT.predict({"visits": 0, "ill": 1, "region": "west"}).mean.iloc[0] == pytest.approx(
        theirs["mean"].iloc[0]
    )
    assert "one more person" in found.summary()
    for rows, words in (
        ({"visits": 1, "ill": 0}, "region is missing"),
        ({"visits": 1, "ill": 0, "region": "east"}, "one of north, south, west"),
        ({"visits": "many", "ill": 0, "region": "west"}, "finite numbers"),
        ([], "at least one person"),
        ({"visits": 1}, "is missing"),  # and not that its numbers are not finite
    ):
        with pytest.raises(ParameterError, match=words):
            FIT.predict(rows)
    assert PRIVATE.predict(new).se_mean.iloc[0] > found.se_mean.iloc[0]


def test_any_reference_gives_the_same_contrasts_errors_and_tests() -> None:
    fits = [fit.ols(NOISY, f"age ~ visits + ill + C(region, ref={level})") for level in REGIONS]
    west_south = [
        fits[0].t_test("C(region)[west] - C(region)[south]"),
        fits[1].t_test("C(region)[west]"),
        fits[2].t_test("0 - C(region)[south]"),
    ]
    for other in west_south[1:]:
        assert other.effect == pytest.approx(west_south[0].effect, abs=1e-9)
        assert other.sd == pytest.approx(west_south[0].sd, rel=1e-7)
        assert np.allclose(other.conf_int(), west_south[0].conf_int(), rtol=1e-7)
    joint = [one.f_test("C(region)").fvalue for one in fits]
    assert joint == pytest.approx([joint[0]] * 3, rel=1e-7)
    assert [one.fvalue for one in fits] == pytest.approx([fits[0].fvalue] * 3, rel=1e-7)


def test_what_cannot_be_had_is_said() -> None:
    with pytest.raises(BeyondSecondMoments, match="fourth moments"):
        FIT.get_robustcov_results("HC3")
    for hypothesis, words in (
        ("C(regoin)", "no group regoin"),
        ("agee = 0", "no coefficient agee"),
        ("visits visits", "not a hypothesis"),
        ("visits = ", "not a hypothesis"),
        ("visits - visits", "not a hypothesis"),
    ):
        with pytest.raises(FormulaError, match=words):
            FIT.t_test(hypothesis)


def test_fits_side_by_side() -> None:
    table = fit.summary_col(
        [PRIVATE, fit.ols(NOISY, "age ~ visits")], names=["all", "one"], labels={"visits": "Visits a year"}
    )
    text, latex, html = table.summary(), table.to_latex(), table.to_html()
    for shown in (text, latex, html):
        for words in ("Visits a year", "1,200", "R-squared", "p "):
            assert words in shown
    assert r"\multicolumn{3}" in latex
    assert "***" in fit.summary_col([FIT]).summary() or "*" in fit.summary_col([FIT]).summary()
    ridge = fit.ridge(NOISY, "age ~ visits", 0.01)
    plain = fit.summary_col([ridge]).blocks(0.05)[0]
    assert not any("*" in cell for row in plain.rows for cell in row)
    with pytest.raises(ParameterError, match="fits of linear models"):
        fit.summary_col([])
    with pytest.raises(ParameterError, match="one a fit"):
        fit.summary_col([FIT], names=["a", "b"])


NAMES = [column.name for column in EXACT.columns]


def _slopes(data: Moments) -> pd.Series[float]:
    """`fit.ols(data, "age ~ visits + ill").params` without its errors, in scaled units."""
    at = [NAMES.index(name) for name in ("one", "visits", "ill")]
    found = np.linalg.solve(data.gram[np.ix_(at, at)], data.gram[at, NAMES.index("age")])
    return pd.Series(found, index=pd.Index(["one", "visits", "ill"]))


def _product(data: Moments) -> float:
    found = _slopes(data)
    # Scaled slopes are over half-ranges of 10 and 1/2, the response's is 30.
    return float(found["visits"] * 30 / 10 * found["ill"] * 30 / 0.5)


def test_the_bootstrap_agrees_where_first_order_is_enough() -> None:
    """400 draws: a deviation has a relative standard error of 3.5 %; 5 of it, 4 numbers: below 1e-5."""
    found = fit.bootstrap(NOISY, _slopes, draws=400, seed=3)
    theirs = fit.ols(NOISY, "age ~ visits + ill")
    in_units = np.array([30 / 10, 30 / 0.5])
    assert np.allclose(found.estimate[1:] * in_units, theirs.params[1:])
    assert np.allclose(found.bse[1:] * in_units, theirs.bse[1:], rtol=0.18)
    alone = fit.bootstrap(NOISY, _slopes, draws=400, seed=3, sampling=False)
    assert np.allclose(alone.bse[1:] * in_units, theirs.bse_privacy[1:], rtol=0.18)
    assert "basic" in found.summary()
    named = fit.bootstrap(NOISY, lambda data: fit.ols(data, "age ~ visits").params, draws=20, seed=1)
    assert list(named.conf_int().index) == ["Intercept", "visits"]


def test_bootstrap_intervals_cover_a_product() -> None:
    """25 studies of 60 draws: 0.95 has a standard error of 0.044, and so few draws cost a little; 5 of it below: 1e-4."""
    many = people(400_000, 12)
    slopes = smf.ols("age ~ visits + ill", many).fit().params
    truth = slopes["visits"] * slopes["ill"]
    rng = np.random.default_rng(13)
    inside = []
    for at in range(25):
        found = fit.bootstrap(noisy(people(1500, rng), 6.0, rng), _product, draws=60, seed=at)
        low, high = found.conf_int().iloc[0]
        inside.append(low <= truth <= high)
    assert np.mean(inside) > 0.95 - 5 * 0.044


def test_a_bootstrap_that_means_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match="draws"):
        fit.bootstrap(NOISY, _product, draws=3)

    asked: list[Moments] = []

    def sometimes(data: Moments) -> float:
        asked.append(data)
        if len(asked) > 2:  # the release and its positive part
            raise NoiseExceedsSignal([], 1, None, "no number")
        return 1.0

    with pytest.raises(NoiseExceedsSignal, match="draws like this release"):
        fit.bootstrap(NOISY, sometimes, draws=40, seed=1)


def test_standardised_slopes_cover() -> None:
    """60 studies: 0.95 has a standard error of 0.028; 2 slopes, 5 of it below: under 1e-4, the seed fixed."""
    many = people(400_000, 14)
    slopes = smf.ols("age ~ visits + ill", many).fit().params[["visits", "ill"]]
    truth = (slopes * many[["visits", "ill"]].std() / many["age"].std()).to_numpy()
    rng = np.random.default_rng(15)
    inside = []
    for _ in range(60):
        table = fit.ols(noisy(people(1500, rng), 6.0, rng), "age ~ visits + ill").standardized
        inside.append(np.abs(table["estimate"] - truth) < 1.96 * table["std err"])
    assert (np.mean(inside, axis=0) > 0.95 - 5 * 0.028).all()
