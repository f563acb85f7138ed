"""Means of a column by group, with a test that they are equal; survey weights by the levels of a group.

Statement. With u_g the members of level g and y the column, the mean is u_g^T G y / u_g^T G one, which is the coefficient
of u_g in the least-squares fit of y on all levels without an intercept. Its noise error is that of such a fit
(`trimask_theory.mechanisms.noisy_regression`); a difference of means is a combination of two coefficients, with an error
of its own. For a yes-or-no column the sampling part is p (1 - p) over the group's size. For a number whose product with the
group is declared, w_g that column, the sum of squares of the members is w_g^T G y, so that each group has its own variance
(Welch's errors, with Satterthwaite's degrees of freedom, those of the noise without end). Where it is not declared, or the
noise hides it, one variance is taken for all groups. The F test is Wald's, of equal means; with one variance and without
noise it is the analysis of variance.

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
from typing import Any

import numpy as np
import pandas as pd

from trimask.errors import FormulaError, NotWeighted, ParameterError
from trimask.fit.clipping import marked
from trimask.fit.covariance import CLEAR, fourth_moments
from trimask.fit.design import common_level, find_column, membership, original, plain_name, unit
from trimask.fit.estimates import Estimates, EstimateTable, Framed
from trimask.fit.formula import contents, nearest, product_lines, undeclared
from trimask.fit.noise import Source, check_signal, moments_of
from trimask.fit.results import FTest, joint
from trimask.moments.moments import Moments
from trimask_core.study.derived import ONES, Column
from trimask_core.study.schema import Schema
from trimask_theory.mechanisms.noisy_regression import Combination, fit, outers
from trimask_theory.moments.noise_law import MappedLaw, Matrix


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MeansResults(Estimates):
    """What `fit.means` found.

    Attributes
    ----------
    means : DataFrame
        A row a level: estimate, std err, sampling and privacy parts.
    differences : DataFrame
        The same, to `reference`.
    counts : Series
        The people of each level, which add up to `nobs`.
    equal : FTest, optional
        The test of equal means; None where the noise hides it.
    deviations : Series, optional
        Standard deviations within each level, where the product of column and group is declared.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.means(data, "systolic", by="activity", reference="high")
    >>> found.differences.index.tolist()
    ['low', 'medium']
    """

    response: str
    by: str
    reference: str
    counts: pd.Series[float]
    equal: FTest | None
    deviations: pd.Series[float] | None = None

    means = Framed("means")
    differences = Framed("differences")


@marked
def means(dataset: Source, y: str, by: str, *, reference: str | None = None) -> MeansResults:
    """Means of a column in each level of a group, differences to a reference, and a test that all are equal.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    y : str
        A column; a yes-or-no one gives shares.
    by : str
        A categorical or yes-or-no attribute, or bins; also written C(group) or C(group, merge=[level, level]).
    reference : str, optional
        The level that differences are to; by default the first, or the commonest where that is rare.

    Returns
    -------
    MeansResults
        `means` and `differences` with errors, `counts`, and `equal`, the F test.

    Raises
    ------
    NoiseExceedsSignal
        Fewer than two levels can be told from nobody; others than those are "not determined".

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.means(data, "systolic", by="activity")
    >>> found.means["estimate"].round().to_dict()
    {'low': 130.0, 'medium': 126.0, 'high': 122.0}
    >>> found.equal.pvalue < 0.001
    True
    """
    moments = moments_of(dataset)
    levels, U = membership(by, moments.schema)
    by = plain_name(by)
    column = moments.columns[find_column(y, moments.schema)]
    if column.source == by:
        raise FormulaError(f"{y} is {by} itself; fit.describe has its shares")
    if reference is not None and reference not in levels:
        raise FormulaError(f"{by} has no level {reference}; there are {', '.join(levels)}")
    n, k = moments.rows, len(levels)
    if n <= k:
        raise ParameterError("rows", f"more than the {k} levels", n)
    one = unit(moments.schema, ONES)
    counts = U @ moments.gram @ one
    base = levels.index(
        common_level(dict(zip(levels, counts, strict=True))) if reference is None else reference
    )
    gram = U @ moments.gram @ U.T
    live = np.flatnonzero(np.diag(gram) > 0)  # levels exclude one another: the others' means do not change
    if moments.exact or len(live) < 2 or base not in live:
        live = np.arange(k)
        check_signal((gram + gram.T) / 2, U.T, moments, tuple(f"{by}_{level}" for level in levels))
    whole = original(y, moments.schema)
    found = fit(moments.gram, moments.law, n, U[live].T, whole)
    share = _is_share(moments, column)
    spread = _own_variances(moments, U[live], counts[live], whole, found.coefficients, share)
    if spread is not None:
        found = replace(found, drawn=np.diag(spread / counts[live]))
    others = [at for at in live if at != base]
    contrasts = np.array([(live == at) * 1.0 - (live == base) for at in others]).reshape(
        len(others), len(live)
    )
    mean, gap = found.combination(), found.combination(contrasts)
    own = None if share or spread is None else spread
    df = [np.full(len(part.estimates), float(n - k)) for part in (mean, gap)]
    if own is not None:
        each = own / counts[live]
        df = [
            _satterthwaite(weights, each, counts[live], part)
            for weights, part in ((np.eye(len(live)), mean), (contrasts, gap))
        ]
    words = " = ".join(levels[at] for at in live)
    try:
        equal = joint(gap, n - k, words)
    except ParameterError:  # the release does not bound a difference
        equal = None
    measured = next((item.unit for item in moments.schema.attributes if item.name == column.source), "")
    of = "takes one variance for all groups: a group's own needs the product of both, declared"
    if spread is not None:
        of = "is that of a share" if share else "is by each group's own variance (Welch)"
    lost = [levels[at] for at in range(k) if at not in live]
    notes = (
        [f"The noise hides the people of {', '.join(lost)}: merge levels, C({by}, merge=[...])."]
        if lost
        else []
    )
    rest = [at for at in range(k) if at != base]
    tables = {
        "means": _table(mean, levels, live, df[0], (0.0, 1.0) if share else None, counts),
        "differences": _table(
            gap,
            [levels[at] for at in rest],
            np.searchsorted(rest, others),
            df[1],
            (-1.0, 1.0) if share else None,
        ),
    }
    people = pd.Index(levels)
    deviations = None
    if own is not None:
        deviations = pd.Series(np.full(k, np.nan), index=people, name="SD")
        deviations.iloc[live] = np.sqrt(own)
    return MeansResults(
        what=f"Means of {y} by {by},", label=moments.label, nobs=n, sigma=moments.sigma, tables=tables,
        response=y, by=by, reference=levels[base], counts=pd.Series(counts, index=people, name="people"), equal=equal,
        about=[
            *([("unit", measured)] if measured else []), ("reference", levels[base]),
            ("equal means", "not known: the noise hides a level" if equal is None else equal.words),
        ],
        remarks=(f"The sampling part {of}.", *notes), deviations=deviations,
    )  # fmt: skip


def _own_variances(
    moments: Moments, U: Matrix, counts: Matrix, y: Matrix, mean: Matrix, share: bool
) -> Matrix | None:
    """The variance of a column within each level: of a share, or where the declared products carry it, clear of noise."""
    if share:
        p = np.clip(mean, 0.0, 1.0)
        found: Matrix = p * (1 - p)
        return found
    members = fourth_moments(moments, outers(U, y))
    if not members.carried.all():
        return None
    # About the mean: the sum of 1[g] (y - m)^2 has less noise than that of squares.
    squares = np.einsum("ai,ij,j->a", members.directions, moments.gram, y) - counts * mean**2
    left = members.directions - mean[:, None] * U
    noise = np.sqrt(moments.law.variance(outers(left, left)))
    if np.any(squares <= CLEAR * noise) or np.any(counts <= 1):
        return None
    own: Matrix = squares / (counts - 1)
    return own


def _satterthwaite(contrasts: Matrix, parts: Matrix, counts: Matrix, found: Combination) -> Matrix:
    """Degrees of freedom of combinations of means whose variances are `parts`; the noise's own are without end."""
    spread = ((contrasts**2 * parts) ** 2 / (counts - 1)).sum(axis=1)
    df: Matrix = np.diag(found.covariance) ** 2 / np.maximum(spread, 1e-300)
    return df


def _is_share(moments: Moments, column: Column) -> bool:
    kinds = {item.name: item.kind for item in moments.schema.attributes}
    return column.level is not None or kinds.get(column.name) == "binary"


def _table(
    found: Combination, names: list[str], at: Any, df: Matrix, bounds: tuple[float, float] | None,
    people: Matrix | None = None,
) -> EstimateTable:  # fmt: skip
    """Means with the people of each level, or differences, which are tested; NaN where there is none `at` the name."""
    k = len(names)

    def placed(values: Matrix, empty: float = np.nan) -> Matrix:
        whole = np.full((k, *values.shape[1:]), empty)
        whole[at] = values
        return whole

    def square(values: Matrix) -> Matrix:
        whole = np.zeros((k, k))
        whole[np.ix_(at, at)] = values
        return whole

    padded = replace(
        found, estimates=placed(found.estimates), cov_privacy=square(found.cov_privacy),
        cov_sampling=square(found.cov_sampling), quadratics=placed(found.quadratics, 0.0),
    )  # fmt: skip
    tested, table = people is None, EstimateTable.of(names, padded)
    return replace(
        table, sampling=placed(table.sampling[at]), privacy=placed(table.privacy[at]), df=placed(df, 1.0),
        bounds=bounds or (-np.inf, np.inf), null=0.0 if tested else None, head="difference" if tested else "mean",
        caption="differences" if tested else "means", before=None if people is None else {"people": people},
    )  # fmt: skip


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
    law = MappedLaw(moments.law, A, B)
    gram = law.there(moments.gram)
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
