"""Yes-or-no responses from second moments: the linear probability model.

Least squares of a 0/1 response: coefficients are differences in probability. Nothing is approximated but the straight
line; fitted probabilities may leave [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trimask.errors import FormulaError
from trimask.fit.design import Design, build
from trimask.fit.formula import parse
from trimask.fit.least_squares import solve
from trimask.fit.ols_results import OLSResults
from trimask.fit.report import of_data
from trimask.fit.source import moments_of
from trimask.moments import Moments
from trimask_core.schema import Schema

if TYPE_CHECKING:
    from trimask.fit.source import Source

__all__ = [
    "LinearProbabilityResults",
    "binary_design",
    "linear_probability",
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
