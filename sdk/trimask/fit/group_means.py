"""Means of a column by group, with a test that they are equal; survey weights by the levels of a group.

Statement. With u_g the members of level g and y the column, the mean is u_g^T G y / u_g^T G one, which is the coefficient
of u_g in the least-squares fit of y on all levels without an intercept. Its noise error is that of such a fit
(`trimask_theory.mechanisms.noisy_regression`); a difference of means is a combination of two coefficients, with an error
of its own. The sampling part is the residual variance over the group's size: one variance for all groups, since a
variance within one group needs third moments. For a yes-or-no column it is p (1 - p) over the size, which needs no such
assumption. The F test is Wald's, of equal means; without noise it is the analysis of variance.

Proved and asymptotic: as for least squares.

Statement (weights, from the products that a study declares with a group). Let every person of level l of a group weigh
w_l, and let the products of the group with the columns x_j be declared. Then sum of w x_j x_k over people = sum_l w_l <l
x_j, x_k>: weighted second moments are linear in the release's own, and so is their noise. Weights are chosen after
collection (shares of a census, say), as often as one likes, at no further privacy cost; what it costs is declared before,
1 in a row's squared norm for each product. Works in both suites. A study whose devices weighted their rows already
(`[weight]`, `trimask.moments.moments`) is refused: weights would multiply.

Weighted moments are scaled to Kish's effective number of people, n_eff = (sum w)^2 / sum w^2, so that every fit takes
sampling errors at n_eff. **Approximate**: that is the sampling error where weights have nothing to do with the residuals'
spread; a design-based (sandwich) error needs fourth moments. The noise part is exact to first order. The sums of weights
are taken from the release's counts, whose noise is left out of the scale (second order).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from trimask.errors import FormulaError, NotWeighted, ParameterError
from trimask.fit.design import find_column, membership, plain_name, unit
from trimask.fit.formula import contents, nearest, product_lines, undeclared
from trimask.fit.hypothesis import FTest, joint
from trimask.fit.noise import check_signal, critical_value, moments_of
from trimask.fit.report import Block, Facts, Report, figures, noise_notes, of_data, places_for
from trimask.moments.moments import Moments
from trimask_core.study.derived import ONES, Column
from trimask_core.study.schema import Schema
from trimask_theory.mechanisms.noisy_regression import Combination, NoisyFit, fit
from trimask_theory.moments.noise_law import Matrix, NoiseLaw

if TYPE_CHECKING:
    from trimask.fit.noise import Source


_PARTS = ["estimate", "std err", "sampling", "privacy"]


@dataclass(frozen=True, eq=False, repr=False)
class MeansResults(Report):
    """What `fit.means` found.

    Attributes
    ----------
    means : DataFrame
        A row a level: estimate, std err, sampling and privacy parts.
    differences : DataFrame
        The same, to `reference`.
    counts : Series
        The people of each level, which add up to `nobs`.
    equal : FTest
        The test of equal means.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.means(data, "systolic", by="activity", reference="high")
    >>> found.differences.index.tolist()
    ['low', 'medium']
    """

    label: str
    nobs: int
    sigma: float
    response: str
    unit: str
    by: str
    reference: str
    pooled: bool
    counts: pd.Series[float]
    means: pd.DataFrame
    differences: pd.DataFrame
    equal: FTest

    @property
    def title(self) -> str:
        """What this is."""
        return f"Means of {self.response} by {self.by}, {of_data(self.sigma)}"

    @property
    def facts(self) -> Facts:
        """What the tables are of."""
        measured = [("unit", self.unit)] if self.unit else []
        test = f"F({self.equal.df_num}, {self.equal.df_denom:,}) = {self.equal.fvalue:.4g}, p = {self.equal.pvalue:.4g}"
        return [("data", self.label), ("rows", f"{self.nobs:,}"), *measured, ("equal means", test)]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        of = (
            "The sampling part takes one variance for all groups: a group's own needs third moments."
            if self.pooled
            else "The sampling part is that of a share."
        )
        return (*noise_notes(self.sigma), of)

    def conf_int(self, alpha: float = 0.05, of: str = "means") -> pd.DataFrame:
        """Intervals of the means, or of the differences.

        Parameters
        ----------
        alpha : float
            One less the level of the intervals: 0.05 for 95 %.
        of : "means" or "differences"
            Which.

        Returns
        -------
        DataFrame
            Lower ends in column 0, upper ends in column 1.
        """
        if of not in ("means", "differences"):
            raise ParameterError("of", "'means' or 'differences'", of)
        table = self.means if of == "means" else self.differences
        reach = critical_value(alpha, self.nobs - len(self.means)) * table["std err"]
        return pd.DataFrame({0: table["estimate"] - reach, 1: table["estimate"] + reach})

    def blocks(self, alpha: float) -> list[Block]:
        """Means with the size of each group, then differences to the reference."""
        ends = [f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]
        found = []
        for of, table in (("means", self.means), ("differences", self.differences)):
            values = np.column_stack([table[_PARTS].to_numpy(), self.conf_int(alpha, of).to_numpy()])
            rows = []
            for name, row in zip(table.index, values, strict=True):
                size = [f"{self.counts[name]:,.0f}"] if of == "means" else []
                called = str(name) if of == "means" else f"{name} - {self.reference}"
                rows.append([called, *size, *figures(list(row), places_for(row[1], row[0]))])
            head = ["", *(["people"] if of == "means" else []), *_PARTS, *ends]
            found.append(Block(head, rows, of))
        return found

    def __repr__(self) -> str:
        return f"<MeansResults of {self.response} by {self.by} in {self.label}>"


def means(dataset: Source, y: str, by: str, *, reference: str | None = None) -> MeansResults:
    """Means of a column in each level of a group, differences to a reference, and a test that all are equal.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    y : str
        A column; a yes-or-no one gives shares.
    by : str
        A categorical or yes-or-no attribute, or bins; also written C(group).
    reference : str, optional
        The level that differences are to; the first by default.

    Returns
    -------
    MeansResults
        `means` and `differences` with errors, `counts`, and `equal`, the F test.

    Raises
    ------
    NoiseExceedsSignal
        A level that cannot be told from nobody.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.means(data, "systolic", by="activity")
    >>> found.means["estimate"].round().to_dict()
    {'low': 130.0, 'medium': 126.0, 'high': 121.0}
    >>> found.equal.pvalue < 0.001
    True
    """
    moments = moments_of(dataset)
    by = plain_name(by)
    levels, U = membership(by, moments.schema)
    column = moments.columns[find_column(y, moments.schema)]
    if column.source == by:
        raise FormulaError(f"{y} is {by} itself; fit.describe has its shares")
    if reference is not None and reference not in levels:
        raise FormulaError(f"{by} has no level {reference}; there are {', '.join(levels)}")
    base = 0 if reference is None else levels.index(reference)
    n, k = moments.rows, len(levels)
    if n <= k:
        raise ParameterError("rows", f"more than the {k} levels", n)
    gram = U @ moments.gram @ U.T
    check_signal((gram + gram.T) / 2, U.T, moments, tuple(f"{by}_{level}" for level in levels))
    one = unit(moments.schema, ONES)
    # In original units: y = center * one + half_range * scaled.
    found = fit(
        moments.gram, moments.law, n, U.T, column.center * one + column.half_range * unit(moments.schema, y)
    )
    share = _is_share(moments, column)
    if share:
        found = _with_shares(found, U @ moments.gram @ one)
    contrasts = np.delete(np.eye(k) - np.eye(k)[base], base, axis=0)
    differences = found.combination(contrasts)
    others = [level for at, level in enumerate(levels) if at != base]
    words = " = ".join(levels)
    return MeansResults(
        label=moments.label,
        nobs=n,
        sigma=moments.sigma,
        response=y,
        unit=next((item.unit for item in moments.schema.attributes if item.name == column.source), ""),
        by=by,
        reference=levels[base],
        pooled=not share,
        counts=pd.Series(U @ moments.gram @ one, index=pd.Index(levels), name="people"),
        means=_table(found.combination(), levels),
        differences=_table(differences, others),
        equal=joint(differences, n - k, words),
    )


def _is_share(moments: Moments, column: Column) -> bool:
    kinds = {item.name: item.kind for item in moments.schema.attributes}
    return column.level is not None or kinds.get(column.name) == "binary"


def _with_shares(found: NoisyFit, counts: Matrix) -> NoisyFit:
    p = np.clip(found.coefficients, 0.0, 1.0)
    return replace(found, drawn=np.diag(p * (1 - p) / counts))


def _table(found: Combination, names: list[str]) -> pd.DataFrame:
    parts = [found.standard_errors, np.sqrt(np.diag(found.cov_sampling)), np.sqrt(np.diag(found.cov_widened))]
    return pd.DataFrame(
        np.column_stack([found.estimates, *parts]), index=pd.Index(names), columns=pd.Index(_PARTS)
    )


@dataclass(frozen=True, eq=False)
class _PairedLaw(NoiseLaw):
    """The law of (A G B^T + B G A^T) / 2, where G has the law `base`."""

    base: NoiseLaw
    A: Matrix
    B: Matrix

    @property
    def exact(self) -> bool:
        return self.base.exact

    @property
    def fixed(self) -> NoiseLaw:
        return _PairedLaw(self.base.fixed, self.A, self.B)

    def image(self, gradients: Matrix) -> Matrix:
        return self._of(self.base.image(self._back(gradients)))

    def draw(self, rng: np.random.Generator) -> Matrix:
        found: Matrix = self._of(self.base.draw(rng)[None])[0]
        return found

    def covariance(self, gradients: Matrix) -> Matrix:
        return self.base.covariance(self._back(gradients))

    def variance(self, gradients: Matrix) -> Matrix:
        return self.base.variance(self._back(gradients))

    def _of(self, matrices: Matrix) -> Matrix:
        found = self.A @ matrices @ self.B.T
        both: Matrix = (found + np.swapaxes(found, -1, -2)) / 2
        return both

    def _back(self, gradients: Matrix) -> Matrix:
        found = self.A.T @ gradients @ self.B
        both: Matrix = (found + np.swapaxes(found, -1, -2)) / 2
        return both


def weighted(dataset: Source, by: str, weights: Mapping[str, float]) -> Moments:
    """The moments of people weighted by their level of a group: a source for every fit.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    by : str
        A categorical attribute or bins, whose products with the columns the study declares.
    weights : dict
        A positive number for every level.

    Returns
    -------
    Moments
        Of `one`, the group, and the columns whose product with it is declared; `rows` is the effective number of people.

    Raises
    ------
    NotWeighted
        A warning: columns without a declared product are left out, with the lines that would declare them.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # NotWeighted names the columns that are left out
    ...     even = trimask.fit.weighted(data, "activity", {"low": 1, "medium": 1, "high": 2})
    >>> [column.name for column in even.columns][:2], even.rows < 2000
    (['one', 'age'], True)
    """
    moments, by = moments_of(dataset), plain_name(by)
    if moments.weight is not None:
        raise ParameterError(
            "dataset",
            f"one whose people count the same; devices weighted these by {moments.weight.attribute} already, and a second "
            "weight would multiply the first",
        )
    schema = moments.schema
    levels = schema.groups.get(by)
    if levels is None or not schema.ones:
        raise FormulaError(f"{by} is no choice of this study; {nearest(by, list(schema.groups) or ['none'])}")
    if set(weights) != set(levels):
        raise ParameterError("weights", f"one for each of {', '.join(levels)}", list(weights))
    given = {level: float(weights[level]) for level in levels}
    if not all(math.isfinite(w) and w > 0 for w in given.values()):
        raise ParameterError("weights", "positive numbers", dict(weights))
    kept, products = _kept(schema, by, levels)
    _warn_of_dropped(schema, kept, by)
    names = [column.name for column in kept.columns]
    B = np.array([unit(schema, name) for name in names])
    A = np.zeros_like(B)
    for level, weight in given.items():
        for row, name in zip(A, names, strict=True):
            product = products[level].get(name)
            if product is not None:
                row += weight * unit(schema, product)
    one = unit(schema, ONES)
    counts = {level: float(unit(schema, f"{by}_{level}") @ moments.gram @ one) for level in levels}
    total = sum(given[level] * max(counts[level], 0.0) for level in levels)
    squares = sum(given[level] ** 2 * max(counts[level], 0.0) for level in levels)
    if total <= 0:
        raise ParameterError("by", f"a group that the noise does not hide; it hides the people of {by}")
    rows = max(1, round(total**2 / squares))
    A *= rows / total
    law = _PairedLaw(moments.law, A, B)
    gram = law._of(moments.gram[None])[0]
    gram.flags.writeable = False
    label = f"{moments.label}, weighted by {by} ({rows:,} of {moments.rows:,} people in effect)".lstrip(", ")
    every = f"{moments.weighted_by}, {by}" if moments.weighted_by else by
    return Moments(
        kept, gram, rows, moments.sigma, moments.protection, label, law, moments.suite, weighted_by=every
    )


def _kept(schema: Schema, by: str, levels: tuple[str, ...]) -> tuple[Schema, dict[str, dict[str, str]]]:
    """The schema of what can be weighted, and for each level the column that is a kept column on its members."""
    known = contents(schema)
    keys = {name: key for key, name in known.items()}
    products: dict[str, dict[str, str]] = {}
    for level in levels:
        own = f"{by}_{level}"
        found = {ONES: own, own: own}
        for column in schema.columns:
            if column.name in keys:
                product = known.get(tuple(sorted((own, *keys[column.name]))))
                if product is not None and column.source != by:
                    found[column.name] = product
        products[level] = found
    first = products[levels[0]]
    items = [item.name for item in schema.attributes] + [item.name for item in schema.derived]
    names = {name: [column.name for column in schema.parts[name].columns] for name in items}
    attributes = tuple(
        item
        for item in schema.attributes
        if item.name == by or all(name in first for name in names[item.name])
    )
    there = {item.name for item in attributes}
    derived = []
    for made in schema.derived:
        whole = made.name == by or all(name in first for name in names[made.name])
        if whole and there.issuperset(made.of):
            derived.append(made)
            there.add(made.name)
    if len(attributes) + len(derived) < 2:
        other = next(item.name for item in schema.attributes if item.name != by)
        raise FormulaError(
            f"no product with {by} is declared, so nothing can be weighted by it; {undeclared('', None)}:\n\n"
            f"{product_lines((by, other), schema)}\n"
        )
    return Schema(attributes, tuple(derived)), products


def _warn_of_dropped(schema: Schema, kept: Schema, by: str) -> None:
    """Name what was left out; the products with the group themselves are not missed."""
    there = {item.name for item in kept.attributes} | {item.name for item in kept.derived}
    made = {item.name: item.of for item in schema.derived}
    every = [item.name for item in schema.attributes] + [item.name for item in schema.derived]
    lost = [name for name in every if name not in there]
    lost = [name for name in lost if by not in made.get(name, ())]
    if not lost:
        return
    able = [name for name in lost if schema.parts[name].kind != "within"]
    lines = "\n\n".join(product_lines((by, name), schema) for name in able[:3])
    more = f"\n\nand likewise for {', '.join(able[3:])}" if len(able) > 3 else ""
    warnings.warn(
        NotWeighted(
            lost,
            f"weights by {by} do not reach {', '.join(lost)}, left out: no product with {by} is declared"
            + (f". A study that can weight them declares\n\n{lines}{more}" if lines else ""),
        ),
        stacklevel=3,
    )
