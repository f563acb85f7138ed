"""Errors from fourth moments that declared squares and products carry, and what is said where intervals are too short."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from bench.coverage import measure
from bench.coverage_rows import NAMES, SIGMA, moments, noisy, rows, schema
from trimask import fit
from trimask.errors import CoverageWarning, NotWeighted
from trimask.fit.covariance import covariance_of
from trimask.moments.moments import Moments, row_moments
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.moments.noise_law import EntriesLaw

Array = np.ndarray[Any, Any]
COLUMNS = list(NAMES)
PLAIN, SQUARES = (schema("normal", squares=squares) for squares in (False, True))
X = rows("exponential", 400, np.random.default_rng(11))
CARRIED = moments(X, SQUARES)


def test_the_error_of_a_variance_is_that_of_the_squares() -> None:
    """To rounding: the variance of (x - mean)^2 over people, over n, with n - 1 twice."""
    found = fit.describe(CARRIED, COLUMNS)
    squares = (X - X.mean(axis=0)) ** 2
    expected = np.sqrt(squares.var(axis=0, ddof=1) / len(X)) * len(X) / (len(X) - 1)
    assert found.variances["sampling"].to_numpy() == pytest.approx(expected, rel=1e-9)
    assert found.by_fourth == NAMES
    assert "are from fourth moments, whatever the law" in found.summary()
    normal = fit.describe(moments(X, PLAIN), COLUMNS)
    assert normal.by_fourth == ()
    assert "take rows as normal" in normal.summary()


def test_correlations_have_the_variance_of_their_influence() -> None:
    """r moves by z_a z_b - r (z_a^2 + z_b^2)/2 for a person: the textbook's sandwich, to rounding."""
    found = fit.partial_correlations(CARRIED, COLUMNS, given=[])
    z = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    r = float(found.pairs.loc[("a", "b"), "estimate"])
    influence = z[:, 0] * z[:, 1] - r * (z[:, 0] ** 2 + z[:, 1] ** 2) / 2
    expected = np.sqrt(influence.var(ddof=1) * len(X)) / (len(X) - 1)
    assert found.pairs.loc[("a", "b"), "sampling"] == pytest.approx(expected, rel=1e-9)
    assert "declared squares and products carry" in found.summary()


def test_ridge_without_a_penalty_has_the_sandwich_of_statsmodels() -> None:
    found = fit.ridge(CARRIED, "a ~ b + c + d", 0.0)
    theirs = sm.OLS(X[:, 0], sm.add_constant(X[:, 1:])).fit(cov_type="HC0")
    factor = np.sqrt(len(X) / (len(X) - 1))
    assert found.robust
    assert found.bse.to_numpy() == pytest.approx(theirs.bse * factor, rel=1e-8)
    assert found.cov_params().to_numpy() == pytest.approx(
        theirs.cov_params() * factor**2, rel=1e-6, abs=1e-12
    )
    assert not fit.ridge(moments(X, PLAIN), "a ~ b + c + d", 0.0).robust


def test_only_what_is_declared_is_used() -> None:
    """The square of a alone: its variance has fourth moments, that of b has not, and the summary says which."""
    some = Schema(SQUARES.attributes, SQUARES.derived[:1])
    found = fit.describe(moments(X, some), ["a", "b"])
    assert found.by_fourth == ("a",)
    assert "from fourth moments for a, and take rows as normal for the others" in found.summary()
    known = covariance_of(moments(X, some), ["a", "b"]).sampling(np.array([[[0, 0.5], [0.5, 0]]]))[1]
    assert not known.any()


def test_fourth_moments_that_the_noise_hides_are_not_used() -> None:
    def noisy(size: float) -> Moments:
        law = EntriesLaw(np.full(CARRIED.gram.shape, size**2))
        return Moments(SQUARES, CARRIED.gram, CARRIED.rows, 1.0, law=law, suite="moments")

    assert fit.describe(noisy(1e-9), COLUMNS).by_fourth == NAMES
    assert fit.describe(noisy(1.0), COLUMNS).by_fourth == ()


SKEWED = Schema((Attribute("wait", "continuous", 0, 40), Attribute("cost", "continuous", 0, 40)))
PEOPLE = pd.DataFrame({"wait": np.abs(X[:, 0]), "cost": np.abs(X[:, 1])})


def test_rows_that_cannot_be_normal_are_warned_of() -> None:
    source = row_moments(PEOPLE, SKEWED)
    with pytest.warns(CoverageWarning, match="wait, cost cannot be normal") as caught:
        found = fit.partial_correlations(source, given=[])
    assert "Caution: intervals are likely" in found.summary()
    said = caught[0].message
    assert isinstance(said, CoverageWarning)
    assert said.columns == ("wait", "cost")
    assert caught[0].filename == __file__
    again = pickle.loads(pickle.dumps(said))  # noqa: S301  our own
    assert (again.columns, str(again)) == (said.columns, str(said))
    with pytest.warns(CoverageWarning):
        fit.pca(source)
    described = fit.describe(source)  # means are sound: no warning until deviations are asked for
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        described.conf_int()
    with pytest.warns(CoverageWarning):
        described.conf_int(of="deviations")


def test_few_rows_are_warned_of_and_many_normal_ones_are_not() -> None:
    with pytest.warns(CoverageWarning, match="at 400 rows the variance of"):
        fit.pca(CARRIED, COLUMNS)
    many = moments(rows("normal", 2000, np.random.default_rng(2)), SQUARES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit.pca(many, COLUMNS)
        fit.describe(many, COLUMNS).conf_int(of="variances")


def test_columns_without_a_product_are_named_when_people_are_weighted() -> None:
    grouped = Schema(
        (*SKEWED.attributes, Attribute("region", "categorical", levels=("n", "s"))),
        (Derived("region_wait", "product", ("region", "wait")),),
    )
    people = PEOPLE.assign(region=["n", "s"] * (len(PEOPLE) // 2))
    with pytest.warns(NotWeighted, match="weights by region do not reach cost, left out") as caught:
        even = fit.weighted(row_moments(people, grouped), "region", {"n": 1, "s": 3})
    said = caught[0].message
    assert isinstance(said, NotWeighted)
    assert said.columns == ("cost",)
    assert 'of = ["region", "cost"]' in str(said)
    assert [item.name for item in even.schema.attributes] == ["wait", "region"]


def test_fourth_moments_bring_coverage_back() -> None:
    """150 studies of 500 exponential rows: intervals of the variance of a, with its square declared and without.

    Measured at 300 and 1,000 rows: 0.92 and 0.74 over all columns. Binomial: below 0.82 at a true 0.92 has probability
    5e-5 and above 0.88 at a true 0.75 has 2e-4; the seed is fixed.
    """
    rng, held = np.random.default_rng(5), np.zeros(2)
    for _ in range(150):
        people = rows("exponential", 500, rng)
        for side, of in enumerate((SQUARES, PLAIN)):
            ends = fit.describe(moments(people, of), ["a"]).conf_int(of="variances").loc["a"]
            held[side] += ends[0] <= SIGMA[0, 0] <= ends[1]
    with_square, without = held / 150
    assert with_square >= 0.82
    assert without <= 0.88


@pytest.mark.slow
@pytest.mark.parametrize("law", ["normal", "uniform", "exponential"])
def test_coverage_with_fourth_moments_at_3000_rows(law: str) -> None:
    """400 studies of 3,000 rows: at 94 % a share below 0.89 is over 4 standard deviations (1.2 points), below 3e-5
    each; 21 shares."""
    found = measure(law, 3000, squares=True, studies=400, seed=6)
    del found["warned"]
    assert min(found.values()) >= 0.89, found


def test_fourth_moments_bring_coverage_back_with_privacy_noise() -> None:
    """100 studies of 3,000 exponential rows, noise of 0.3 on every sum of squares: intervals of the variance of a, with its
    square declared and without.

    Measured over all columns: 0.91 and 0.75. Binomial: below 0.80 at a true 0.91 has probability 5e-4, above 0.87 at a true
    0.75 has 2e-3; the seed is fixed.
    """
    wide = schema("exponential", squares=True, width=12.0)
    some, none = Schema(wide.attributes, wide.derived[:1]), Schema(wide.attributes)
    rng, drawn = np.random.default_rng(15), np.random.default_rng(16)
    held, used = np.zeros(2), 0
    for _ in range(100):
        people = rows("exponential", 3000, rng)
        for side, of in enumerate((some, none)):
            found = fit.describe(noisy(moments(people, of), 0.3, drawn), ["a"])
            ends = found.conf_int(of="variances").loc["a"]
            held[side] += ends[0] <= SIGMA[0, 0] <= ends[1]
            used += bool(found.by_fourth)
            assert found.variances.loc["a", "privacy"] > 0
    assert used >= 60  # nowhere without the square, and mostly with it: the rest is hidden by the noise
    assert held[0] / 100 >= 0.80
    assert held[1] / 100 <= 0.87


@pytest.mark.slow
def test_coverage_with_fourth_moments_and_privacy_noise() -> None:
    """200 studies of 3,000 exponential rows at a noise of 0.1: bounds are 4 standard deviations or more below what was
    measured (docs/accuracy.md)."""
    found = measure("exponential", 3000, squares=True, studies=200, seed=9, noise=0.1, width=12.0)
    assert found["refused"] == 0
    assert found["fourth"] >= 0.9
    assert found["mean"] >= 0.90
    assert found["variance"] >= 0.84
