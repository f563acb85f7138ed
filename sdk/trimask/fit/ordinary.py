"""Ordinary least squares on a release, on several releases of one study, or on raw rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimask.fit.design import build
from trimask.fit.formula import parse
from trimask.fit.least_squares import solve
from trimask.fit.ols_results import OLSResults
from trimask.fit.results import Basis
from trimask.fit.source import moments_of
from trimask.moments import Moments, row_moments
from trimask_core.schema import Schema

if TYPE_CHECKING:
    from trimask.fit.source import Source
    from trimask_core.study import Study

__all__ = ["naive_ols", "ols", "ols_from_rows"]


def ols(dataset: Source, formula: str) -> OLSResults:
    """Least squares with the noise removed from the moments, and noise-aware standard errors.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    formula : str
        "response ~ column + C(group)"; docs/researchers.md has what may be written.

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
    {'age': 0.6, 'salt': 1.7}
    >>> print(fit.f_test("C(activity)"))  # doctest: +ELLIPSIS
    F(2, 1,994) = ..., p = ...   [C(activity)[medium] = 0, C(activity)[high] = 0]
    """
    return _fit(moments_of(dataset), formula, "release")


def naive_ols(dataset: Source, formula: str) -> OLSResults:
    """The fit of somebody who takes the release for the data. Biased, mostly towards zero; for comparison only.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    formula : str
        "response ~ column + C(group)"; docs/researchers.md has what may be written.

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
        "response ~ column + C(group)"; docs/researchers.md has what may be written.

    Returns
    -------
    OLSResults
        With `basis` "rows" and no privacy part in its errors.

    Examples
    --------
    >>> import pandas as pd, trimask
    >>> from trimask_core.schema import Attribute, Schema
    >>> schema = Schema((Attribute("x", "continuous", 0, 5), Attribute("y", "continuous", 0, 9)))
    >>> people = pd.DataFrame({"x": [1, 2, 3, 4], "y": [3, 5, 7, 9]})
    >>> trimask.fit.ols_from_rows(people, schema, "y ~ x").params.round(6).tolist()
    [1.0, 2.0]
    """
    if isinstance(study, Schema):
        return _fit(row_moments(rows, study), formula, "rows")
    return _fit(row_moments(rows, study.schema, weight=study.weight), formula, "rows")


def _fit(moments: Moments, formula: str, basis: Basis, sigma: float | None = None) -> OLSResults:
    design = build(parse(formula, moments.schema), moments.schema)
    estimate = solve(moments, design)
    return OLSResults(
        formula=formula.strip(),
        response=design.response,
        unit=design.unit,
        basis=basis,
        label=moments.label,
        nobs=moments.rows,
        sigma=moments.sigma if sigma is None else sigma,
        names=design.names,
        coefficients=estimate.params,
        cov_sampling=estimate.cov_sampling,
        cov_privacy=estimate.cov_privacy,
        estimate=estimate,
        noise_falls_with_rows=moments.noise_falls_with_rows,
    )
