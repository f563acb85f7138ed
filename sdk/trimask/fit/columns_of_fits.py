"""Several fits side by side, as papers print them: coefficients with stars, errors in brackets, N and R-squared below."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimask.errors import ParameterError
from trimask.fit.ols_results import OLSResults
from trimask.fit.report import Block, Facts, Report, places_for
from trimask.fit.results import LinearResults

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
"""p-values below which a coefficient gets its stars."""


RANGE = "†"
"""Behind a coefficient whose interval is a range: nothing is tested."""


def _is_range(result: LinearResults, name: str) -> bool:
    ranges = result.estimates().ranges
    return ranges is not None and bool(ranges[result.names.index(name)])


@dataclass(frozen=True, eq=False, repr=False)
class ColumnsOfFits(Report):
    """A table with a column a fit; `to_latex`, `to_markdown`, `to_html` and notebooks show it with its notes.

    Attributes
    ----------
    results : tuple
        The fits.
    titles : tuple
        The columns' heads.
    order : tuple
        The coefficients, as the rows are ordered.
    labels : mapping
        Other names for them.
    stars : bool
        Whether p-values are marked.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> table = trimask.fit.summary_col([trimask.fit.ols(data, "systolic ~ age")], names=["Age alone"])
    >>> table.blocks(0.05)[0].header
    ['', 'Age alone']
    """

    results: tuple[LinearResults, ...]
    titles: tuple[str, ...]
    order: tuple[str, ...]
    labels: Mapping[str, str]
    stars: bool

    @property
    def title(self) -> str:
        """What this is."""
        responses = list(dict.fromkeys(result.response for result in self.results))
        return f"Coefficients for {', '.join(responses)}"

    @property
    def facts(self) -> Facts:
        """What they are from."""
        return [("data", ", ".join(dict.fromkeys(result.label for result in self.results)))]

    @property
    def notes(self) -> tuple[str, ...]:
        """What stars and brackets mean, and what a reader must know of the noise."""
        shown = [
            "Standard errors in brackets"
            + (", privacy noise included." if any(r.sigma for r in self.results) else ".")
        ]
        if self.stars:
            shown.append(", ".join(f"{mark} p < {level:g}" for level, mark in reversed(STARS)) + ".")
        if any(_is_range(result, name) for result in self.results for name in result.names):
            shown.append(f"{RANGE} a range.")
        own = [note for result in self.results for note in result.notes if "privacy is its part" not in note]
        return (*shown, *dict.fromkeys(own))

    def blocks(self, alpha: float) -> list[Block]:  # noqa: ARG002  errors in brackets, no intervals
        """Two lines a coefficient, then N and R-squared."""
        rows = []
        for name in self.order:
            value, error = [self.labels.get(name, name)], [""]
            for result in self.results:
                if name not in result.names:
                    value.append("")
                    error.append("")
                    continue
                coef, spread = float(result.params[name]), float(result.bse[name])
                places = places_for(spread, coef)
                value.append(f"{coef:.{places}f}{self._mark(result, name)}")
                error.append(f"({spread:.{places}f})")
            rows += [value, error]
        rows.append(["N", *(f"{result.nobs:,}" for result in self.results)])
        if any(isinstance(result, OLSResults) for result in self.results):
            for label, field in (("R-squared", "rsquared"), ("adjusted R-squared", "rsquared_adj")):
                found = [getattr(result, field, math.nan) for result in self.results]
                rows.append([label, *("" if math.isnan(value) else f"{value:.3f}" for value in found)])
        return [Block(["", *self.titles], rows)]

    def _mark(self, result: LinearResults, name: str) -> str:
        if _is_range(result, name):
            return RANGE
        if not self.stars or not result.tested:
            return ""
        p = float(result.pvalues[name])
        return next((mark for level, mark in STARS if p < level), "")

    def to_latex(self, alpha: float = 0.05, *, notes: bool = True) -> str:
        """A tabular with the rules of booktabs; notes below, in its last rows."""
        return super().to_latex(alpha, notes=notes)

    def __repr__(self) -> str:
        return f"<ColumnsOfFits of {len(self.results)} fits>"


def summary_col(
    results: Sequence[LinearResults],
    *,
    names: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    stars: bool = True,
) -> ColumnsOfFits:
    r"""Fits side by side: coefficients with stars, standard errors in brackets, N and R-squared below.

    Parameters
    ----------
    results : list of fits
        Of one or several formulas.
    names : list of str, optional
        The columns' heads; (1), (2), .. by default.
    labels : dict, optional
        Replace coefficients' names.
    stars : bool
        Whether to mark p-values; a penalised fit has none.

    Returns
    -------
    ColumnsOfFits
        Prints as text, and as Markdown, HTML and LaTeX with its notes.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> fits = [trimask.fit.ols(data, "systolic ~ age"), trimask.fit.ols(data, "systolic ~ age + salt")]
    >>> table = trimask.fit.summary_col(fits, labels={"age": "Age, years"})
    >>> print(table.to_latex().splitlines()[0])
    \begin{tabular}{lrr}
    """
    found = tuple(results)
    if not found or not all(isinstance(result, LinearResults) for result in found):
        raise ParameterError("results", "fits of linear models in a list")
    titles = tuple(f"({i + 1})" for i in range(len(found))) if names is None else tuple(map(str, names))
    if len(titles) != len(found):
        raise ParameterError("names", f"one a fit, {len(found)} of them", len(titles))
    order = tuple(dict.fromkeys(name for result in found for name in result.names))
    return ColumnsOfFits(found, titles, order, dict(labels or {}), stars)
