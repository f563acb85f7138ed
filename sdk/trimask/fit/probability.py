"""Yes-or-no responses from second moments: a linear probability model, and a quadratic approximation of logistic regression.

*Linear probability model.* Least squares of a 0/1 response: coefficients are differences in probability. Nothing is
approximated but the straight line; fitted probabilities may leave [0, 1].

*Quadratic approximation.* A logistic regression needs the sum of y x and of log(1 + exp(x^T beta)), of which second moments
carry the first alone. Expanded to second order about the model without regressors, whose probability p is everybody's share,
the log-likelihood has its maximum at
    slopes b_j / w,   intercept log(p / (1 - p)) + (b_0 - p) / w,   w = p (1 - p),
with b the linear probability model: one Newton step of logistic regression. It is right to first order in the slopes, and
too large or too small beyond: docs/researchers.md has its error on simulations. The sampling covariance is the inverse of
the information at that point, (X^T X)^-1 / w; the noise covariance that of the gradients, p's noise included, grown where
those of the linear fit are (`trimask_theory.noisy_regression`).

Proved: the covariance of the noise at given gradients. Asymptotic: the rest. Intervals are for what the step aims at in the
population, which is the logistic coefficient only where effects are small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from trimask.errors import FormulaError, NoiseExceedsSignal
from trimask.fit.design import INTERCEPT, Design, build
from trimask.fit.formula import parse
from trimask.fit.groups import unit
from trimask.fit.least_squares import solve
from trimask.fit.noise import outer, outers
from trimask.fit.ols_results import OLSResults
from trimask.fit.report import noise_notes, of_data
from trimask.fit.results import LinearResults
from trimask.fit.source import moments_of
from trimask.moments import Matrix, Moments
from trimask_core.schema import ONES, Schema

if TYPE_CHECKING:
    from trimask.fit.source import Source

__all__ = [
    "LinearProbabilityResults",
    "QuadraticLogitResults",
    "binary_design",
    "linear_probability",
    "quadratic_logit",
]


@dataclass(frozen=True, eq=False, repr=False)
class LinearProbabilityResults(OLSResults):
    """A least-squares fit of a yes-or-no response: coefficients are differences in probability.

    It has all that `OLSResults` has.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.linear_probability(data, "smoker ~ age").title
    'Linear probability model in a release, noise corrected'
    """

    @property
    def title(self) -> str:
        """What was fitted."""
        return f"Linear probability model {of_data(self.sigma)}"

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        return (
            *(note for note in super().notes if "omoscedastic" not in note),
            "Coefficients are differences in probability; fitted values may leave 0 to 1.",
            "Errors take one variance for everybody; a yes-or-no answer has p (1 - p), which fit.crosstab uses for groups.",
        )


@dataclass(frozen=True, eq=False, repr=False)
class QuadraticLogitResults(LinearResults):
    """Log odds by the quadratic approximation.

    Attributes
    ----------
    share : float
        The response's, about which it is taken.
    odds_ratios : Series
        exp of the slopes.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> round(trimask.fit.quadratic_logit(data, "smoker ~ age").share, 2)
    0.25
    """

    share: float

    @property
    def title(self) -> str:
        """What was fitted, and that it is an approximation."""
        return f"Quadratic approximation of a logistic regression, {of_data(self.sigma)}"

    @property
    def odds_ratios(self) -> pd.Series[float]:
        """exp of the slopes."""
        slopes = self.params.drop(INTERCEPT)
        return pd.Series(np.exp(slopes.to_numpy()), index=slopes.index, name="odds ratio")

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        return (
            *noise_notes(self.sigma),
            f"Not a logistic regression: one Newton step from the share {self.share:.1%}, for small effects (odds ratios up",
            "to 1.5 over a deviation of the column). Intervals are about the step, not about the logistic coefficient.",
        )


def linear_probability(dataset: Source, formula: str) -> LinearProbabilityResults:
    """Least squares of a yes-or-no response: differences in probability, noise corrected.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    formula : str
        Its response is a yes-or-no attribute or a level.

    Returns
    -------
    LinearProbabilityResults
        Everything that `ols` has.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> fit = trimask.fit.linear_probability(data, "smoker ~ age")
    >>> fit.params["age"] < 0  # the old smoke less
    np.True_
    """
    moments = moments_of(dataset)
    design = binary_design(moments.schema, formula)
    estimate = solve(moments, design)
    return LinearProbabilityResults(
        **_described(moments, design, formula),
        coefficients=estimate.params,
        cov_sampling=estimate.cov_sampling,
        cov_privacy=estimate.cov_privacy,
        estimate=estimate,
        noise_falls_with_rows=moments.noise_falls_with_rows,
    )


def quadratic_logit(dataset: Source, formula: str) -> QuadraticLogitResults:
    """Log odds by a quadratic approximation of logistic regression: one Newton step from the response's share.

    It is no logistic regression, and says so: use it for small effects, and `linear_probability` where differences in
    probability will do. docs/researchers.md has its error on simulations.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    formula : str
        With an intercept; the response is a yes-or-no attribute or a level.

    Returns
    -------
    QuadraticLogitResults
        Log odds with errors, and `odds_ratios`.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.quadratic_logit(data, "smoker ~ age").odds_ratios.round(2).to_dict()
    {'age': 0.98}
    """
    moments = moments_of(dataset)
    design = binary_design(moments.schema, formula)
    if INTERCEPT not in design.names:
        raise FormulaError(
            f"{formula.strip()!r}: the approximation is about the share, and needs an intercept"
        )
    estimate, n, one = solve(moments, design), moments.rows, unit(moments.schema, ONES)
    # In original units: the response is 0 or 1, and its share the mean.
    response = design.response_half_range * design.response_combine
    centre = next(column.center for column in moments.columns if column.name == design.response)
    response = response + centre * one
    p = float(one @ moments.gram @ response) / n
    if not 0 < p < 1:
        raise NoiseExceedsSignal(
            [design.response], n + 1, None,
            f"the noise exceeds the signal: the share of {design.response} comes out as {p:.3g}, and has no log odds",
        )  # fmt: skip
    w, b = p * (1 - p), estimate.params
    first = np.array([name == INTERCEPT for name in design.names], dtype=float)
    params = (b - first * p) / w + first * math.log(p / (1 - p))
    working, change = estimate.working, design.to_original
    privacy = np.zeros((len(b), len(b)))
    if not moments.exact:
        sides = (working.T @ working.inverse @ change.T).T
        share = outer(one, response) / n
        # d(1/w) = -(1 - 2p)/w^2 dp; d log(p/(1-p)) = dp/w, which cancels the -dp/w of b_0 - p.
        pull = -(1 - 2 * p) / w**2 * (b - first * p)
        gradients = outers(sides, working.theta) / w + pull[:, None, None] * share
        grown = np.sqrt(_growth(estimate.cov_privacy, change @ working.first @ change.T))
        privacy = moments.law.covariance(gradients) * np.outer(grown, grown)
    information = change @ working.inverse @ change.T / design.response_half_range**2
    return QuadraticLogitResults(
        **_described(moments, design, formula),
        coefficients=params,
        cov_sampling=information / w,
        cov_privacy=privacy,
        share=p,
    )


def _growth(widened: Matrix, first: Matrix) -> Matrix:
    grown = np.ones(len(first))
    np.divide(np.diag(widened), np.diag(first), out=grown, where=np.diag(first) > 0)
    return np.maximum(grown, 1.0)


def binary_design(schema: Schema, formula: str) -> Design:
    """The design of a formula whose response is yes or no; `FormulaError` otherwise."""
    design = build(parse(formula, schema), schema)
    binary = [item.name for item in schema.attributes if item.kind == "binary"]
    levels = [column.name for column in schema.columns if column.level is not None]
    if design.response not in binary + levels:
        raise FormulaError(
            f"{formula.strip()!r}: {design.response} is not yes or no; fit.ols is for it"
            + (f". Yes-or-no columns: {', '.join(binary + levels)}" if binary + levels else "")
        )
    return design


def _described(moments: Moments, design: Design, formula: str) -> dict[str, Any]:
    return {
        "formula": formula.strip(),
        "response": design.response,
        "unit": design.unit,
        "basis": "release",
        "label": moments.label,
        "nobs": moments.rows,
        "sigma": moments.sigma,
        "names": design.names,
    }
