"""What least squares on releases of one study, or on raw rows, returns: coefficients, tests, predictions, diagnostics.

The linear probability model is least squares of a 0/1 response: coefficients are differences in probability. Nothing is
approximated but the straight line; fitted probabilities may leave [0, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from trimask.errors import BeyondSecondMoments, FormulaError, ParameterError
from trimask.fit.clipping import marked
from trimask.fit.covariance import covariance_of
from trimask.fit.design import INTERCEPT, Design, build
from trimask.fit.estimates import EstimateTable
from trimask.fit.formula import parse
from trimask.fit.least_squares import NO_SANDWICH, Diagnostics, Estimate, diagnose, rows_needed, solve
from trimask.fit.noise import CLEAR_SIGNAL, Source, moments_of
from trimask.fit.prediction import PredictionResults, regressor_rows
from trimask.fit.report import Facts
from trimask.fit.results import HOMOSCEDASTIC, ROBUST, Basis, FTest, LinearResults, described, joint
from trimask.moments.moments import Moments, row_moments
from trimask_core.study.derived import ONES
from trimask_core.study.schema import Schema
from trimask_theory.mechanisms.noisy_regression import Combination, outers
from trimask_theory.moments.noise_law import Matrix

if TYPE_CHECKING:
    from trimask_core.study.definition import Study


def standardized(moments: Moments, estimate: Estimate) -> pd.DataFrame:
    """estimate, std err, sampling and privacy of every slope, in deviations; merged levels have none."""
    design = estimate.design
    at = [j for j, name in enumerate(design.columns) if name != ONES and "+" not in name]
    names = [design.columns[j] for j in at]
    spread = covariance_of(moments, [*names, design.response])
    deviations = spread.deviations()
    half = {column.name: column.half_range for column in moments.columns}
    scaled = deviations * [half[name] for name in (*names, design.response)]
    factor = scaled[:-1] / scaled[-1]
    b = estimate.params[at]
    sampling = factor**2 * np.diag(estimate.cov_sampling)[at]
    privacy = np.zeros(len(at))
    if not moments.exact:
        squares = outers(spread.W.T, spread.W.T) / spread.degrees / np.diag(spread.S)[:, None, None]
        gradients = estimate.gradients[at] + (b / 2)[:, None, None] * (squares[:-1] - squares[-1])
        privacy = factor**2 * moments.law.variance(gradients) * estimate.grown[at] ** 2
    parts = np.column_stack([factor * b, np.sqrt(sampling + privacy), np.sqrt(sampling), np.sqrt(privacy)])
    index = pd.Index([design.names[j] for j in at])
    return pd.DataFrame(parts, index=index, columns=pd.Index(["estimate", "std err", "sampling", "privacy"]))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OLSResults(LinearResults):
    r"""A least-squares fit: what `fit.ols` returns.

    Attributes
    ----------
    params, bse, tvalues, pvalues : Series
        As statsmodels names them; `bse_sampling` and `bse_privacy` are the parts of `bse`.
    rsquared, rsquared_adj, fvalue, f_pvalue, scale : float
        Of the whole fit, from the corrected moments.
    standardized : DataFrame
        Slopes in deviations, with errors.
    diagnostics : Diagnostics
        What masking leaves to check.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> fit = trimask.fit.ols(data, "systolic ~ age + salt + C(activity)")
    >>> fit.predict({"age": 60, "salt": 9, "activity": "low"}).mean.round().tolist()
    [136.0]
    >>> print(fit.to_latex().splitlines()[1])
    \toprule
    """

    estimate: Estimate
    robust: bool = False

    what: str = "Least squares"

    @property
    def title(self) -> str:
        """What was fitted, and whether the noise was corrected."""
        if self.basis == "release":
            return super().title
        return f"{self.what} on {'raw rows' if self.basis == 'rows' else 'a release, noise ignored'}"

    def _table(self, **more: Any) -> EstimateTable:
        """The coefficients' table; where the noise is large intervals reach farther than so many `bse` (Fieller's)."""
        return super()._table(combination=self.estimate.errors if self.basis == "release" else None, **more)

    def combination(self, weights: Matrix) -> Combination:
        """Combinations of coefficients, a row of `weights` each, with their own errors, noise of second order included."""
        return self.estimate.combination(np.atleast_2d(np.asarray(weights, dtype=float)))

    def get_robustcov_results(self, cov_type: str = "HC1", **_: Any) -> OLSResults:
        """The same fit with errors that assume no common variance, where the declared products carry fourth moments.

        `cov_type` is "HC1", or "HC0", which is taken as the same; leverages, which others need, are in no release.
        """
        return _fit(self.estimate.moments, self.formula, self.basis, self.sigma, robust=_is_robust(cov_type))

    @cached_property
    def _overall(self) -> FTest | None:
        slopes = np.array([name != INTERCEPT for name in self.names])
        if not slopes.any() or self.df_resid < 1:
            return None
        try:
            return joint(self.combination(np.eye(len(self.names))[slopes]), self.df_resid, "every slope = 0")
        except ParameterError:  # the release does not bound one, or the fit is exact
            return None

    @property
    def fvalue(self) -> float:
        """The F statistic that every slope is zero, the noise counted in; NaN where it is not known."""
        return math.nan if self._overall is None else self._overall.fvalue

    @property
    def f_pvalue(self) -> float:
        """Its p-value."""
        return math.nan if self._overall is None else self._overall.pvalue

    @property
    def rsquared_adj(self) -> float:
        """1 - (1 - R^2) (n - c) / (n - k), c = 1 with a constant in the model."""
        constant = self.estimate.design.constant is not None
        return 1 - (1 - self.rsquared) * (self.nobs - constant) / self.df_resid

    @cached_property
    def standardized(self) -> pd.DataFrame:
        """Slopes in deviations of the response over deviations of the regressor, with errors."""
        return standardized(self.estimate.moments, self.estimate)

    def predict(self, rows: Any) -> PredictionResults:
        """Predictions for people given in original units, with errors.

        `rows` are a DataFrame, a mapping or a list of them, a column or key an attribute: levels, products and squares are
        formed of the answers. Both errors are in `se_mean`; `conf_int(of="obs")` is for one more person.
        """
        weights, index = regressor_rows(rows, self.estimate.design, self.estimate.moments.schema)
        found = self.combination(weights)
        known = self.estimate.residual_sum > 0 or self.sigma == 0
        scale = self.scale if known else math.nan
        return PredictionResults.of(self, found, scale, index)

    @property
    def rsquared(self) -> float:
        """1 - RSS/TSS, from the corrected moments; NaN when the noise hides the variance of residuals or response."""
        return self.estimate.rsquared

    @property
    def scale(self) -> float:
        """The residual variance RSS / df_resid, from the corrected moments; zero when the noise hides it."""
        return max(self.estimate.residual_sum, 0.0) / self.df_resid

    @property
    def signal(self) -> float:
        """Noise standard errors by which the design's weakest direction clears zero; inf without noise."""
        return self.estimate.signal

    @property
    def condition_number(self) -> float:
        """Of the design, in scaled units."""
        return self.estimate.condition_number

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """Condition, noise-to-signal, residual variance, and whether there are rows enough."""
        return diagnose(self.estimate)

    @property
    def facts(self) -> Facts:
        """What the table is of."""
        known = "not known" if math.isnan(self.rsquared) else f"{self.rsquared:.3f}"
        shown = [("R-squared", known)]
        if not math.isnan(self.rsquared):
            shown.append(("adjusted", f"{self.rsquared_adj:.3f}"))
        if self._overall is not None:
            shown.append(("F", self._overall.words))
        return [*super().facts, *shown]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the table should know."""
        notes = list(super().notes) if self.basis == "release" else []
        if self.basis == "naive":
            notes.append(
                "The noise was ignored: coefficients are biased, mostly towards zero; intervals miss."
            )
        if self.basis == "release" and self.sigma > 0:
            if math.isnan(self.rsquared):
                notes.append(
                    "The noise hides the variance of residuals or response: R-squared is not known (coefficients are)."
                )
            lost = [name for name, error in self.bse.items() if math.isinf(error)]
            if lost:
                notes.append(
                    f"The release does not bound {', '.join(map(str, lost))}: fit.ridge would, pulled towards zero."
                )
            if self.signal < CLEAR_SIGNAL:
                notes.append(
                    f"Weak: the least-determined direction is {self.signal:.1f} noise errors above zero. "
                    "Intervals hold but are wide; more rows or fewer columns would help."
                )
        if self.robust or self.basis != "rows":
            notes.append(ROBUST if self.robust else HOMOSCEDASTIC)
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            **super().to_dict(),
            "rsquared": None if math.isnan(self.rsquared) else self.rsquared,
            "fvalue": None if math.isnan(self.fvalue) else self.fvalue,
            "signal": None if math.isinf(self.signal) else self.signal,
        }


def _is_robust(cov_type: str) -> bool:
    if cov_type in ("HC2", "HC3", "cluster", "HAC"):
        raise BeyondSecondMoments(
            f"{cov_type} needs leverages or clusters of rows, which no release has; " + NO_SANDWICH
        )
    if cov_type not in ("nonrobust", "HC0", "HC1"):
        raise ParameterError("cov_type", "'nonrobust' or 'HC1'", cov_type)
    return cov_type != "nonrobust"


@marked
def ols(dataset: Source, formula: str, *, cov_type: str = "nonrobust", weights: Any = None) -> OLSResults:
    """Least squares with the noise removed from the moments, and noise-aware standard errors.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    formula : str
        "response ~ column + C(group)"; docs/researchers-reference.md has what may be written.
    cov_type : "nonrobust" or "HC1"
        The second assumes no common variance; the study must declare the products of the columns and the response.
    weights
        Refused: people are weighted by the levels of a group, `fit.weighted`.

    Returns
    -------
    OLSResults
        `params`, `bse` (and its parts `bse_sampling`, `bse_privacy`), `conf_int()`, `t_test`, `f_test`, `predict`,
        `summary()`.

    Raises
    ------
    FormulaError
        A name that is not a column, or something to declare in the study; the message has the lines.
    CollinearColumns
        Columns that add up to one another.
    NoiseExceedsSignal
        The noise leaves no number that would mean anything; `.rows_needed`, `.epsilon_needed`.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> fit = trimask.fit.ols(data, "systolic ~ age + salt + smoker + C(activity)")
    >>> fit.params[["age", "salt"]].round(1).to_dict()  # the people were made with 0.6 and 1.5
    {'age': 0.6, 'salt': 1.6}
    >>> print(fit.f_test("C(activity)"))  # doctest: +ELLIPSIS
    F(2, 1,994) = ..., p = ...   [C(activity)[medium] = 0, C(activity)[high] = 0]
    """
    if weights is not None:
        raise ParameterError(
            "weights", "left out: fit.weighted(dataset, by, {level: weight}) makes a source for every fit"
        )
    return _fit(moments_of(dataset), formula, "release", robust=_is_robust(cov_type))


def naive_ols(dataset: Source, formula: str) -> OLSResults:
    """The fit of somebody who takes the release for the data. Biased, mostly towards zero; for comparison only.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    formula : str
        "response ~ column + C(group)"; docs/researchers-reference.md has what may be written.

    Returns
    -------
    OLSResults
        With `basis` "naive"; its errors and intervals are wrong on purpose.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.naive_ols(data, "systolic ~ age").basis
    'naive'
    """
    moments = moments_of(dataset)
    return _fit(moments.ignoring_noise(), formula, "naive", moments.sigma)


def ols_from_rows(rows: Any, study: Study | Schema, formula: str) -> OLSResults:
    """The exact fit on raw answers, in the parametrisation of `ols`.

    Parameters
    ----------
    rows : DataFrame, or mappings
        People whose answers may be seen: a column an attribute, in original units.
    study : Study or Schema
        Whose columns they are; a study's people are weighted as it says.
    formula : str
        "response ~ column + C(group)"; docs/researchers-reference.md has what may be written.

    Returns
    -------
    OLSResults
        With `basis` "rows" and no privacy part in its errors.

    Examples
    --------
    >>> import pandas as pd, trimask
    >>> from trimask_core.study.schema import Attribute, Schema
    >>> schema = Schema((Attribute("x", "continuous", 0, 5), Attribute("y", "continuous", 0, 9)))
    >>> people = pd.DataFrame({"x": [1, 2, 3, 4], "y": [3, 5, 7, 9]})
    >>> trimask.fit.ols_from_rows(people, schema, "y ~ x").params.round(6).tolist()
    [1.0, 2.0]
    """
    if isinstance(study, Schema):
        return _fit(row_moments(rows, study), formula, "rows")
    return _fit(row_moments(rows, study.schema, weight=study.weight), formula, "rows")


def _fit(
    moments: Moments, formula: str, basis: Basis, sigma: float | None = None, *, robust: bool = False
) -> OLSResults:
    design = build(parse(formula, moments.schema), moments.schema, moments.gram)
    found = results_of(OLSResults, formula, solve(moments, design, robust=robust), robust, basis=basis)
    return found if sigma is None else replace(found, sigma=sigma)


_Results = TypeVar("_Results", bound=OLSResults)


def results_of(kind: type[_Results], formula: str, estimate: Estimate, robust: bool, **more: Any) -> _Results:
    """An estimate as a result of this kind."""
    return kind(
        **described(estimate.moments, estimate.design, formula), coefficients=estimate.params, estimate=estimate,
        cov_sampling=estimate.cov_sampling, cov_privacy=estimate.cov_privacy, robust=robust, **more,
    )  # fmt: skip


def rows_for_error(result: OLSResults, name: str, error: float) -> float:
    """About how many rows would give a coefficient this standard error.

    Parameters
    ----------
    result : OLSResults
        A fit of `ols`.
    name : str
        A coefficient's.
    error : float
        The standard error wanted, in original units.

    Returns
    -------
    float
        People in one pooled release of the same study; inf for an error of zero.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> fit = trimask.fit.ols(data, "systolic ~ age + salt")
    >>> trimask.fit.rows_for_error(fit, "salt", fit.bse["salt"]) <= 2000 < trimask.fit.rows_for_error(fit, "salt", 0.05)
    True
    """
    if name not in result.names:
        raise ParameterError("name", f"one of {', '.join(result.names)}", name)
    if not error >= 0:
        raise ParameterError("error", ">= 0", error)
    return rows_needed(result.estimate, result.names.index(name), error)


_ONE_VARIANCE = (
    "Errors take one variance for everybody; a yes-or-no answer has p (1 - p), which fit.crosstab uses for groups, and this "
    "fit where the products of its columns are declared."
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
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

    what: str = "Linear probability model"

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        return (
            *(note for note in super().notes if "omoscedastic" not in note),
            "Coefficients are differences in probability; fitted values may leave 0 to 1.",
            *([] if self.robust else [_ONE_VARIANCE]),
        )


@marked
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
    design = binary_design(moments.schema, formula, moments.gram)
    robust = True
    try:  # a yes-or-no answer has no common variance
        estimate = solve(moments, design, robust=True)
    except BeyondSecondMoments:
        estimate, robust = solve(moments, design), False
    return results_of(LinearProbabilityResults, formula, estimate, robust)


def binary_design(schema: Schema, formula: str, gram: Matrix | None = None) -> Design:
    """The design of a formula whose response is yes or no; `FormulaError` otherwise."""
    design = build(parse(formula, schema), schema, gram)
    binary = [item.name for item in schema.attributes if item.kind == "binary"]
    levels = [column.name for column in schema.columns if column.level is not None]
    if design.response not in binary + levels:
        raise FormulaError(
            f"{formula.strip()!r}: {design.response} is not yes or no; fit.ols is for it"
            + (f". Yes-or-no columns: {', '.join(binary + levels)}" if binary + levels else "")
        )
    return design
