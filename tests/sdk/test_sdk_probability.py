"""Yes-or-no responses: the straight line, what noise does to log odds, and what second moments cannot give."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.genmod import families

from tests.sdk.test_sdk_tables import EXACT, NOISY, ROWS, noisy
from trimask import fit
from trimask.errors import BeyondSecondMoments, FormulaError, ParameterError
from trimask.fit.grouped_logit import step_noise
from trimask.fit.ols_results import binary_design
from trimask.release.local import gram

DESIGN = np.column_stack(
    [np.ones(len(ROWS)), ROWS["age"], ROWS["region"] == "south", ROWS["region"] == "west"]
).astype(float)
FORMULA = "ill ~ age + C(region)"


def test_the_line_is_least_squares() -> None:
    found, truth = fit.linear_probability(EXACT, FORMULA), sm.OLS(ROWS["ill"], DESIGN).fit()
    assert np.allclose(found.params, truth.params)
    assert np.allclose(found.bse, truth.bse)
    assert np.allclose(found.conf_int(), truth.conf_int())
    assert "differences in probability" in found.summary()
    assert np.allclose(fit.linear_probability(NOISY, FORMULA).params, fit.ols(NOISY, FORMULA).params)


def test_noise_of_log_odds_is_that_of_draws() -> None:
    """400 draws of the noise on fixed rows: variances have errors of 7%; 35% is 5 of them, under 3e-6 for four."""
    design, first, drawn, stated = binary_design(EXACT.schema, FORMULA), np.eye(4)[0], [], []
    rng = np.random.default_rng(9)
    assert step_noise(EXACT, design)[0] == pytest.approx(ROWS["ill"].mean())
    for _ in range(400):
        source = noisy(ROWS, 3.0, rng)
        p, covariance = step_noise(source, design)
        w = p * (1 - p)
        b = fit.linear_probability(source, FORMULA).params.to_numpy()
        drawn.append((b - first * p) / w + first * np.log(p / (1 - p)))
        stated.append(np.diag(covariance))
    assert np.allclose(np.var(drawn, axis=0), np.median(stated, axis=0), rtol=0.35)


def test_responses_that_are_not_yes_or_no_are_refused() -> None:
    with pytest.raises(FormulaError, match="age is not yes or no"):
        fit.linear_probability(EXACT, "age ~ ill")
    assert fit.linear_probability(EXACT, "region_west ~ age").names == ("Intercept", "age")


@pytest.mark.parametrize("name", ["logit", "poisson", "quantile", "cox"])
def test_what_cannot_be_had_says_why_and_what_can(name: str) -> None:
    with pytest.raises(BeyondSecondMoments, match="cannot be fitted to a release") as caught:
        getattr(fit, name)(EXACT, FORMULA)
    told = str(caught.value)
    named = [word.split("(")[0].strip(",.") for word in told.split() if word.startswith("fit.")]
    assert named
    assert all(callable(getattr(fit, word.removeprefix("fit."))) for word in named)
    assert isinstance(caught.value, NotImplementedError)


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("binomial", "a logistic regression"),
        ('binomial(link = "probit")', "a probit regression"),
        (families.Binomial(families.links.CLogLog()), "a binomial regression with this link"),
        (families.Binomial, "a logistic regression"),
        ("poisson", "a Poisson regression"),
        (families.Poisson(), "a Poisson regression"),
        ("negative_binomial", "a negative binomial regression"),
        ("Gamma", "gamma, inverse Gaussian or Tweedie"),
        (families.Gaussian(families.links.Log()), "a Gaussian regression with a link"),
    ],
)
def test_repro_glm_answers_about_the_family_that_is_asked_for(family: object, words: str) -> None:
    """Every family was told that a logistic regression cannot be had."""
    with pytest.raises(BeyondSecondMoments, match=words) as caught:
        fit.glm(EXACT, FORMULA, family=family)
    named = re.findall(r"fit\.(\w+)", str(caught.value))
    assert named
    assert all(callable(getattr(fit, name)) for name in named)


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("gaussian", r"fit\.ols"),
        (families.Gaussian(), r"fit\.ols"),
        (None, "family must be"),
        ("zipf", "zipf"),
    ],
)
def test_glm_names_least_squares_and_the_families(family: object, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        fit.glm(EXACT, FORMULA, family=family)


def test_other_names_are_answered_too() -> None:
    for name, word in (
        ("probit", "probit"),
        ("coxph", "Cox"),
        ("median", "median"),
        ("kaplan_meier", r"fit\.survival"),
    ):
        with pytest.raises(BeyondSecondMoments, match=word):
            getattr(fit, name)
    with pytest.raises(AttributeError, match="did you mean crosstab"):
        fit.crostab  # noqa: B018


def test_a_private_gram_matrix_will_do() -> None:
    frame = pd.DataFrame(ROWS)
    source = gram(frame, schema=EXACT.schema, epsilon=20.0, delta=1e-6, source=np.random.default_rng(3))
    assert fit.linear_probability(source, FORMULA).nobs == len(frame)
