"""The linear probability model: least squares of a 0/1 response, from second moments.

Coefficients are differences in probability. Nothing is approximated but the straight line; fitted probabilities may leave
[0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimask.errors import BeyondSecondMoments, FormulaError
from trimask.fit.clipping import marked
from trimask.fit.design import Design, build
from trimask.fit.formula import parse
from trimask.fit.least_squares import solve
from trimask.fit.noise import moments_of
from trimask.fit.ols_results import OLSResults, results_of
from trimask_core.study.schema import Schema
from trimask_theory.moments.noise_law import Matrix

if TYPE_CHECKING:
    from trimask.fit.noise import Source


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
