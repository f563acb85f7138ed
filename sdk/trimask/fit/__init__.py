"""Models on a release. Everything here needs second moments alone, which is what masking keeps.

results = trimask.fit.ols(dataset, "sbp ~ age + smoker + C(region)")
print(results.summary())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimask_core.schema import Schema

from trimask.errors import ParameterError
from trimask.fit import design as _design
from trimask.fit.formula import parse
from trimask.fit.least_squares import solve
from trimask.fit.results import Basis, OLSResults
from trimask.moments import Moments, row_moments

if TYPE_CHECKING:
    from trimask_core.study import Study

    from trimask.dataset import Dataset

__all__ = ["OLSResults", "naive_ols", "ols", "ols_from_rows"]


def ols(dataset: Dataset | Moments, formula: str) -> OLSResults:
    """Least squares with the noise removed from the moments, and noise-aware standard errors.

    Raises `FormulaError`, `CollinearColumns`, or `NoiseExceedsSignal` where no number would mean anything.
    """
    return _fit(_moments(dataset), formula, "release")


def naive_ols(dataset: Dataset | Moments, formula: str) -> OLSResults:
    """The fit of somebody who takes the release for the data. Biased towards zero; for comparison only."""
    moments = _moments(dataset)
    return _fit(moments.ignoring_noise(), formula, "naive", moments.sigma)


def ols_from_rows(rows: Any, study: Study | Schema, formula: str) -> OLSResults:
    """The exact fit on raw answers (a DataFrame, or mappings), in the same parametrisation."""
    schema = study if isinstance(study, Schema) else study.schema
    return _fit(row_moments(rows, schema), formula, "rows")


def _moments(dataset: Dataset | Moments) -> Moments:
    if isinstance(dataset, Moments):
        return dataset
    found = getattr(dataset, "moments", None)
    if not isinstance(found, Moments):
        raise ParameterError(
            "dataset", "a trimask.Dataset (raw rows go to ols_from_rows)", type(dataset).__name__
        )
    return found


def _fit(moments: Moments, formula: str, basis: Basis, sigma: float | None = None) -> OLSResults:
    asked = parse(formula)
    design = _design.build(asked, moments.schema)
    return OLSResults(
        formula=formula.strip(),
        response=design.response,
        unit=design.unit,
        basis=basis,
        label=moments.label,
        nobs=moments.rows,
        sigma=moments.sigma if sigma is None else sigma,
        names=design.names,
        estimate=solve(moments, design),
    )
