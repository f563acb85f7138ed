"""Yes-or-no responses: a logistic regression of synthetic records (`trimask.synthesize`), and the linear probability model.

Of a release itself there is no logistic regression, and it says why.

The fit is the usual one, by Newton steps, to the records. Its errors are about the people of the release:
*Sampling*: the inverse of the information of as many people as the release has, however many records were drawn.
*Privacy*: that of one Newton step from everybody's share p (`step_noise`), times (w / w')^2, with w = p (1 - p) and w' its
mean over the records: noise in the sums of x y moves the logistic coefficient by 1 / w' where the step has 1 / w.
Not in the errors: what the records' model had to assume. It knows two-way tables and second moments; a response that
depends on three things at once in another way, or on the shape of a number within its cells, is estimated with a bias that
no interval shows. docs/researchers-reference.md has simulations.

Approximate in every part; no interval here is proved.

The linear probability model is least squares of a 0/1 response, from second moments: coefficients are differences in
probability. Nothing is approximated but the straight line; fitted probabilities may leave [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from trimask.errors import FormulaError, NoiseExceedsSignal, ParameterError
from trimask.fit.design import INTERCEPT, Design, build, unit
from trimask.fit.formula import parse
from trimask.fit.least_squares import solve
from trimask.fit.noise import moments_of, outer
from trimask.fit.ols_results import OLSResults
from trimask.fit.report import noise_notes, of_data
from trimask.fit.results import LinearResults
from trimask.fit.unavailable_models import refuse
from trimask.moments.moments import Moments, answers_of
from trimask_core.study.derived import ONES
from trimask_core.study.schema import Schema
from trimask_theory.mechanisms.noisy_regression import outers
from trimask_theory.moments.noise_law import Matrix

if TYPE_CHECKING:
    from trimask.fit.noise import Source


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


_STEPS = 50


@dataclass(frozen=True, eq=False, repr=False)
class LogitResults(LinearResults):
    """Log odds of a logistic regression of synthetic records.

    Attributes
    ----------
    records : int
        How many there were.
    weighted : bool
        Whether people of the release count by weights.
    odds_ratios : Series
        exp of the slopes.

    Examples
    --------
    >>> import trimask
    >>> made = trimask.synthesize(trimask.example(), 5000)  # doctest: +SKIP
    >>> print(trimask.fit.logit(made, "smoker ~ age").summary())  # doctest: +SKIP
    """

    records: int
    weighted: bool = False

    @property
    def title(self) -> str:
        """What was fitted, and to what."""
        return "Logistic regression of SYNTHETIC records"

    @property
    def odds_ratios(self) -> pd.Series[float]:
        """exp of the slopes."""
        slopes = self.params.drop(INTERCEPT)
        return pd.Series(np.exp(slopes.to_numpy()), index=slopes.index, name="odds ratio")

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        people = f"{self.nobs:,} people{' in effect' if self.weighted else ''}"
        return (
            *noise_notes(self.sigma),
            f"Fitted to {self.records:,} synthetic records, nobody's; errors are about the release's {people}.",
            "Errors are approximate, and leave out what the records' model assumes: two-way tables and second moments.",
        )


def logit(source: Any, formula: str = "", **_: Any) -> LogitResults:
    """Log odds, of what `trimask.synthesize` returns; `BeyondSecondMoments` says why a release has none.

    Parameters
    ----------
    source : Synthetic
        Synthetic records.
    formula : str
        With an intercept; the response is a yes-or-no attribute or a level.

    Returns
    -------
    LogitResults
        Log odds with errors that have sampling and noise put back, approximately, and `odds_ratios`.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> try:
    ...     trimask.fit.logit(data, "smoker ~ age")
    ... except trimask.errors.BeyondSecondMoments as error:
    ...     print(str(error)[:50])
    a logistic regression cannot be fitted to a releas
    >>> made = trimask.synthesize(data, 5000)  # doctest: +SKIP
    >>> trimask.fit.logit(made, "smoker ~ age").odds_ratios  # doctest: +SKIP
    """
    if not (isinstance(getattr(source, "frame", None), pd.DataFrame) and hasattr(source, "moments")):
        refuse("logit")
    moments: Moments = source.moments
    design = binary_design(moments.schema, formula)
    if INTERCEPT not in design.names:
        raise FormulaError(f"{formula.strip()!r}: a logistic regression needs an intercept here")
    share, privacy = step_noise(moments, design)  # refuses where the noise leaves nothing to say
    asked = source.frame[[item.name for item in moments.schema.attributes]]
    rows = np.array([moments.schema.encode(one) for one in answers_of(asked, moments.schema)])
    column = next(item for item in moments.columns if item.name == design.response)
    y = column.center + column.half_range * (rows @ design.response_combine)
    X = rows @ design.combine
    found, information, weight = _newton(X, y)
    change = design.to_original / design.response_half_range
    grown = (share * (1 - share) / weight) ** 2
    sampling = change @ np.linalg.inv(information) @ change.T * (len(rows) / moments.rows)
    return LogitResults(
        formula=formula.strip(), response=design.response, unit="log odds", basis="release", label=moments.label,
        nobs=moments.rows, sigma=moments.sigma, names=design.names, coefficients=change @ found,
        cov_sampling=sampling, cov_privacy=privacy * grown, records=len(rows),
        weighted=bool(moments.weighted_by),
    )  # fmt: skip


def step_noise(moments: Moments, design: Design) -> tuple[float, Matrix]:
    """Everybody's share p, and what the release's noise does to one Newton step from the model without regressors.

    The step's slopes are b_j / w and its intercept log(p / (1 - p)) + (b_0 - p) / w, with b the linear probability model and
    w = p (1 - p). The covariance is that of its gradients in the moments, p's noise included, grown where those of the
    linear fit are (`trimask_theory.mechanisms.noisy_regression`).
    """
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
    if moments.exact:
        return p, np.zeros((len(b), len(b)))
    first = np.array([name == INTERCEPT for name in design.names], dtype=float)
    working, change = estimate.working, design.to_original
    sides = (working.T @ working.inverse @ change.T).T
    # d(1/w) = -(1 - 2p)/w^2 dp; d log(p/(1-p)) = dp/w, which cancels the -dp/w of b_0 - p.
    pull = -(1 - 2 * p) / w**2 * (b - first * p)
    gradients = outers(sides, working.theta) / w + pull[:, None, None] * outer(one, response) / n
    known = np.diag(change @ working.first @ change.T)
    grown = np.ones(len(b))
    np.divide(np.diag(estimate.cov_privacy), known, out=grown, where=known > 0)
    grown = np.sqrt(np.maximum(grown, 1.0))
    return p, moments.law.covariance(gradients) * np.outer(grown, grown)


def _newton(X: Matrix, y: Matrix) -> tuple[Matrix, Matrix, float]:
    """Coefficients, information and the mean of p (1 - p)."""
    b = np.zeros(X.shape[1])
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(X @ b, -30, 30)))
        weight = p * (1 - p)
        information = X.T @ (X * weight[:, None])
        if np.linalg.cond(information) > 1e12:
            break
        step = np.linalg.solve(information, X.T @ (y - p))
        b = b + step
        if float(np.abs(step).max()) < 1e-9:
            return b, information, float(weight.mean())
    raise ParameterError(
        "formula",
        "one whose regressors do not decide the response in the records: Newton's steps do not settle",
    )
