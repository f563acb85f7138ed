"""Tables as papers print them: the first one, every column by group, and several fits side by side.

*Table one*: means of numbers are `fit.means`', shares of groups and yes-or-no columns `fit.crosstab`'s, with the statements
and assumptions made there: the tests are the F test of equal means and the test of independence that counts the noise in.
There are as many tests as columns, which `adjusted` allows for.

*Columns of fits*: coefficients with stars, errors in brackets, N and R-squared below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from trimask.errors import FormulaError, NoiseExceedsSignal, ParameterError
from trimask.fit.crosstab import crosstab
from trimask.fit.design import group_names, membership, plain_name, unit
from trimask.fit.estimates import NOT_DETERMINED, Estimates, EstimateTable, adjust
from trimask.fit.formula import nearest
from trimask.fit.group_means import means
from trimask.fit.noise import Source, moments_of
from trimask.fit.ols_results import OLSResults
from trimask.fit.report import Block, Facts, Report, figures, places_for
from trimask.fit.results import LinearResults
from trimask_core.study.derived import ONES


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TableOneResults(Estimates):
    """What `fit.table_one` found: a table a column, by its name, of means or of shares by level of the group.

    `counts` are the people of each level, `pvalues` the tests by column; NaN where the noise hides one.
    """

    by: str
    counts: pd.Series[float]
    pvalues: pd.Series[float]

    def adjusted(self, method: str = "holm", of: str | None = None) -> pd.Series[float]:
        """The columns' p-values, adjusted for how many they are; of one column's table where it is named."""
        if of is not None:
            return super().adjusted(method, of)
        values = adjust(np.asarray(self.pvalues, dtype=np.float64), method)
        return pd.Series(values, index=self.pvalues.index, name=f"P, {method}")

    def table(self, alpha: float = 0.05, of: str | None = None) -> pd.DataFrame:
        """All columns' tables one below another, with each test's p-value; or the table `of` one column."""
        if of is not None:
            return super().table(alpha, of)
        parts = []
        for name, table in self.tables.items():
            low, high = table.interval(alpha).T
            known = table.determined
            shown = {
                "estimate": table.values,
                "std err": table.errors,
                f"[{alpha / 2:g}": low,
                f"{1 - alpha / 2:g}]": high,
            }
            frame = pd.DataFrame({key: np.where(known, values, np.nan) for key, values in shown.items()})
            groups = table.index.get_level_values(0)
            frame.insert(0, "people", self.counts.reindex(groups).to_numpy())
            within = table.index.get_level_values(1) if table.index.nlevels > 1 else [""] * len(frame)
            frame["P"] = self.pvalues[name]
            frame.index = pd.MultiIndex.from_arrays(
                [[name] * len(frame), within, groups], names=["column", "level", self.by]
            )
            parts.append(frame)
        return pd.concat(parts) if parts else pd.DataFrame()

    def blocks(self, alpha: float) -> list[Block]:
        """A row a number or a level, a column a level of the group."""
        levels = list(self.counts.index)
        rows = []
        for name, p in self.pvalues.items():
            test = "" if np.isnan(p) else "<0.001" if p < 0.0005 else f"{p:.3f}"
            table = self.tables.get(str(name))
            if table is None:
                rows.append([str(name), *[NOT_DETERMINED] * len(levels), test])
                continue
            cells = _cells(table, alpha)
            if table.index.nlevels == 1:
                rows.append([str(name), *cells, test])
                continue
            within = list(dict.fromkeys(table.index.get_level_values(1)))
            rows.append([str(name), *[""] * len(levels), test])
            rows += [[f"  {level}", *cells[at :: len(within)], ""] for at, level in enumerate(within)]
        head = ["", *(f"{level} ({count:,.0f})" for level, count in self.counts.items()), "P"]
        return [Block(head, rows, f"means and shares by {self.by}, {1 - alpha:.0%} intervals")]


def _cells(table: EstimateTable, alpha: float) -> list[str]:
    shown = []
    parts = zip(table.values, table.errors, table.interval(alpha), table.determined, strict=True)
    for value, error, ends, known in parts:
        if not known:
            shown.append(NOT_DETERMINED)
        elif table.style == "percent":
            shown.append(f"{value:.1%} [{ends[0]:.1%}, {ends[1]:.1%}]")
        else:
            told, low, high = figures([value, *ends], places_for(error, value))
            shown.append(f"{told} [{low}, {high}]")
    return shown


def table_one(dataset: Source, columns: Sequence[str] | None = None, *, by: str) -> TableOneResults:
    """The first table of a paper: means of numbers and shares of groups, by group, with tests; noise corrected.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    columns : list of str, optional
        Numbers and groups, also written C(group, merge=[level, level]); all but `by` by default.
    by : str
        A categorical or yes-or-no attribute, or bins; also written C(group, merge=[level, level]).

    Returns
    -------
    TableOneResults
        `counts`, `pvalues`, `adjusted()`, and a table a column: `table(of="age")`; `table()` has all.

    Examples
    --------
    >>> import trimask
    >>> found = trimask.fit.table_one(trimask.example(), ["age", "smoker"], by="activity")
    >>> found.table(of="age")["mean"].round().to_dict()
    {'low': 51.0, 'medium': 51.0, 'high': 49.0}
    >>> found.table().loc[("smoker", "yes", "low"), "estimate"].round(2)
    np.float64(0.24)
    >>> found.adjusted().index.tolist()
    ['age', 'smoker']
    """
    moments = moments_of(dataset)
    if isinstance(columns, str):
        raise ParameterError("columns", "a list of columns", columns)
    levels, members = membership(by, moments.schema)
    groups = group_names(moments.schema)
    asked = [item.name for item in moments.schema.attributes] if columns is None else list(columns)
    if columns is None:
        asked = [name for name in asked if name != plain_name(by)]
    known = {*groups, *(column.name for column in moments.columns)}
    tables: dict[str, EstimateTable] = {}
    tests: dict[str, float] = {}
    remarks: dict[str, list[str]] = {}
    for name in asked:
        plain = plain_name(name)
        if plain not in known:
            raise FormulaError(f"this study has no column {plain}; {nearest(plain, sorted(known))}")
        try:
            if plain in groups:
                table = crosstab(dataset, by, name)
                tables[plain] = table.estimates("shares")
                tests[plain] = np.nan if table.chi2 is None else table.chi2.pvalue
            else:
                found = means(dataset, plain, by)
                tables[plain] = found.estimates("means")
                tests[plain] = np.nan if found.equal is None else found.equal.pvalue
                for note in found.remarks:
                    remarks.setdefault(note, []).append(plain)
        except NoiseExceedsSignal:
            tests[plain] = np.nan
    counts = pd.Series(
        members @ moments.gram @ unit(moments.schema, ONES), index=pd.Index(levels), name="people"
    )
    return TableOneResults(
        what=f"First table by {plain_name(by)},", label=moments.label, nobs=moments.rows, sigma=moments.sigma,
        tables=tables, remarks=(
            *(f"{', '.join(names)}: {note[0].lower()}{note[1:]}" for note, names in remarks.items()),
            f"{len(tests)} tests: adjusted() allows for their number.",
        ),
        by=plain_name(by), counts=counts, pvalues=pd.Series(tests, name="P", dtype=float),
    )  # fmt: skip


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
