"""One table under every result: interval and p-value of one law, bias counted in, ranges marked, nothing that cannot be."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from tests.sdk.test_sdk_tables import EXACT, NOISY, ROWS, noisy
from trimask import fit, plot
from trimask.errors import NoiseExceedsSignal, ParameterError
from trimask.fit.estimates import EstimateTable, adjust, critical_values

FITS = int(os.environ.get("TRIMASK_FITS", "600"))  # 11,000 were run once: no disagreement


def table(**more: Any) -> EstimateTable:
    rng = np.random.default_rng(1)
    estimate = more.pop("estimate", rng.normal(0, 2, 400))
    parts = np.abs(rng.normal(0, 0.3, (2, len(estimate)))) + 0.2
    return EstimateTable(pd.RangeIndex(len(estimate)), estimate, *parts, **more)


def agree(found: EstimateTable, alpha: float) -> None:
    """A p-value is below alpha exactly where the interval leaves the value out."""
    assert found.null is not None
    low, high = found.interval(alpha).T
    outside = (low > found.null) | (high < found.null)
    tie = np.isclose(found.pvalues, alpha, rtol=1e-9)
    assert np.array_equal((found.pvalues < alpha)[~tie], outside[~tie])


def test_interval_and_p_value_agree_on_every_scale() -> None:
    rng = np.random.default_rng(2)
    share, above, any_sign = rng.uniform(0.05, 0.95, 400), rng.uniform(0.1, 6, 400), rng.normal(0, 2, 400)
    for alpha in (0.001, 0.05, 0.3):
        for found in (
            table(null=0.0),
            table(null=0.0, df=7),
            table(null=0.4, bounds=(-1.0, 1.0), estimate=any_sign),
            table(null=0.0, bias=np.abs(rng.normal(0, 0.4, 400))),
            table(null=1.0, scale="log", estimate=above, bounds=(0.0, np.inf), clear=0.0),
            table(null=1.0, scale="log", estimate=any_sign),
            table(null=0.5, scale="loglog", estimate=share),
        ):
            agree(found, alpha)


def test_repro_no_p_value_disagrees_with_its_interval() -> None:
    """p = 0.13 stood beside an interval that excluded 0 in 81 of 11,000 fits: Fieller's interval, a plain p-value."""
    rng = np.random.default_rng(3)
    made = 0
    while made < FITS:
        data = noisy(ROWS, float(rng.choice([8.0, 40.0, 80.0, 120.0])), rng)
        for formula in ("age ~ visits + ill + C(region)", "visits ~ age + years", "ill ~ age + years"):
            try:
                found = fit.ols(data, formula)
            except NoiseExceedsSignal:
                continue
            for alpha in (0.01, 0.05):
                agree(found.estimates(), alpha)
                agree(found.t_test(np.eye(len(found.names))).estimates(), alpha)
            made += 1


def test_a_bias_is_counted_in() -> None:
    """cv(0.3) = 2.045: the root of the 95 % quantile of a noncentral chi-square (1, 0.09)."""
    for ratio in (0.0, 0.3, 1.0, 4.0):
        wanted = np.sqrt(stats.ncx2.ppf(0.95, 1, ratio**2)) if ratio else stats.norm.isf(0.025)
        assert critical_values(0.05, None, ratio)[0] == pytest.approx(wanted, rel=1e-6)
    assert critical_values(0.05, None, 0.3)[0] == pytest.approx(2.045, abs=5e-4)
    plain = EstimateTable(pd.Index(["a"]), np.array([1.0]), np.array([0.3]), np.array([0.4]), null=0.0)
    moved = EstimateTable(
        pd.Index(["a"]), plain.estimate, plain.sampling, plain.privacy, null=0.0, bias=np.array([0.15]),
        cautions=("rows were clipped",),
    )  # fmt: skip
    assert moved.interval()[0, 1] - 1.0 == pytest.approx(0.5 * 2.0447, abs=1e-3)
    assert moved.pvalues[0] > plain.pvalues[0]
    assert "Caution: rows were clipped." in moved.summary()
    assert "bias at most" in moved.table().columns


def test_a_range_is_no_interval_and_what_is_not_determined_says_so() -> None:
    found = EstimateTable(
        pd.Index(["a", "b", "c"]), np.array([0.4, 3.2, np.nan]), np.full(3, 0.01), np.array([0.1, 9.0, 0.1]),
        bounds=(0.0, 1.0), null=0.5, ranges=np.array([True, False, False]), style="percent",
    )  # fmt: skip
    lines = found.summary().splitlines()
    assert "range, no interval" in next(line for line in lines if line.startswith("a"))
    assert [sum("not determined" in line for line in lines if line.startswith(name)) for name in "abc"] == [
        0,
        1,
        1,
    ]
    assert "is no confidence interval" in lines[-1]
    assert np.isnan(found.pvalues[0])
    assert found.frame["estimate"].max() == 1.0  # a share of 320 % cannot be
    assert r"\toprule" in found.to_latex()
    assert "<table>" in found._repr_html_()


def test_adjusted_p_values_are_statsmodels() -> None:
    p = np.random.default_rng(5).uniform(size=9) ** 3
    for ours, theirs in (("holm", "holm"), ("bonferroni", "bonferroni"), ("bh", "fdr_bh")):
        assert np.allclose(adjust(p, ours), multipletests(p, method=theirs)[1])
    assert np.allclose(adjust(np.array([0.01, np.nan, 0.04]), "holm"), [0.02, np.nan, 0.04], equal_nan=True)
    found = fit.ols(NOISY, "age ~ visits + C(region)")
    assert (found.adjusted() >= found.pvalues).all()
    with pytest.raises(ParameterError, match="'holm'"):
        found.adjusted("best")


def test_every_result_has_the_table() -> None:
    results = [
        fit.ols(NOISY, "age ~ visits"), fit.describe(NOISY), fit.means(NOISY, "age", by="region"),
        fit.crosstab(NOISY, "region", "ill"), fit.rates(NOISY, "visits", "years", by="region"),
        fit.pca(EXACT, ["age", "visits", "years"]), fit.ols(NOISY, "age ~ visits").predict({"visits": 1}),
        fit.ols(NOISY, "age ~ visits").t_test("visits = 0"),
    ]  # fmt: skip
    for result in results:
        for name, one in result.tables.items():
            assert len(result.table(of=name)) == len(result.conf_int(of=name)) == len(one.index), (
                type(result),
                name,
            )
        assert plot.coefficients(result, units="original").get_yticklabels()
    with pytest.raises(ParameterError, match="'means', 'differences'"):
        results[2].table(of="medians")
