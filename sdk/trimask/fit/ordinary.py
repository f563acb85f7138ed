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

    `dataset` may be a list of releases of one study; their Gram matrices and rows are added up. Raises
    `FormulaError`, `CollinearColumns`, or `NoiseExceedsSignal` where no number would mean anything.
    """
    return _fit(moments_of(dataset), formula, "release")


def naive_ols(dataset: Source, formula: str) -> OLSResults:
    """The fit of somebody who takes the release for the data. Biased towards zero; for comparison only."""
    moments = moments_of(dataset)
    return _fit(moments.ignoring_noise(), formula, "naive", moments.sigma)


def ols_from_rows(rows: Any, study: Study | Schema, formula: str) -> OLSResults:
    """The exact fit on raw answers (a DataFrame, or mappings), in the same parametrisation."""
    schema = study if isinstance(study, Schema) else study.schema
    return _fit(row_moments(rows, schema), formula, "rows")


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
