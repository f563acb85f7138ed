"""Histograms and quantiles of a number, from the bins that a study declares of it.

Statement. Counts N_k = <one, u_k> add up to n. Their sampling covariance is the multinomial's, the noise's that of the
gradients. The share below a cut is a sum of counts over n; between cuts it is taken as linear in the number, which is
exact at the cuts alone. A quantile is where that line reaches p; its interval holds every value at which the share does
not differ from p by more than the normal reach of its error (Woodruff 1952), so no density is needed.

Proved: the covariances. Asymptotic: normal intervals of shares. **Not** in the interval: the error of interpolation; a
quantile is certain only up to its interval between cuts, which `between` names.

All of it is made of counts of people by the declared bins of a number, whole or in a group, as life tables are. Bins are
a choice: column `b_k` is 1 on the members of interval k. With u_k that combination of columns, <one, u_k> counts them and
<y, u_k> those of them with y = 1. Within a level of a group the members are the declared product of group and bins; of a
yes-or-no group, (bin + product) / 2 and (bin - product) / 2 of the scaled product.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from trimask.errors import FormulaError, ParameterError
from trimask.fit.clipping import marked
from trimask.fit.design import group_names, membership, plain_name, unit
from trimask.fit.estimates import Estimates, EstimateTable, Framed
from trimask.fit.formula import contents, nearest, product_lines, undeclared
from trimask.fit.noise import Source, counted, moments_of
from trimask.moments.moments import Moments
from trimask_core.study.derived import ONES, Derived
from trimask_core.study.schema import Schema
from trimask_theory.mechanisms.noisy_regression import outers
from trimask_theory.moments.noise_law import Matrix


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins, their edges (with the number's bounds at the ends), and the members of each, a row an interval.

    A whole number stands for the unit that begins with it: the last edge of an integer is 1 above its `highest`.
    """

    name: str
    of: str
    unit: str
    levels: tuple[str, ...]
    edges: Matrix
    highest: float
    members: dict[str, Matrix]

    @property
    def words(self) -> list[str]:
        """[18, 40), [40, 65), [65, 90]."""
        ends = [*(f"{edge:g}" for edge in self.edges[:-1]), f"{self.highest:g}"]
        last = len(ends) - 2
        return [f"[{ends[k]}, {ends[k + 1]}{']' if k == last else ')'}" for k in range(last + 1)]


def bins_of(moments: Moments, name: str, by: str | None = None, *, at_end: bool = False) -> Bins:
    """The bins of this name, or the only ones of a number; with `by` the members of each interval in each level.

    `at_end` allows a last cut at the maximum: the interval of those who are there.
    """
    schema = moments.schema
    declared = _declared(schema, plain_name(name))
    attribute = next(item for item in schema.attributes if item.name == declared.of[0])
    low, high = attribute.bounds
    edges = np.array([low, *declared.cuts, high + (attribute.kind == "integer")])
    if edges[-1] <= edges[-2] and not at_end:
        raise ParameterError("bins", f"with a last cut below {high:g}", declared.name)
    levels, whole = membership(declared.name, schema)
    members = {"": whole} if by is None else _within(schema, declared, plain_name(by), whole)
    return Bins(declared.name, attribute.name, attribute.unit, tuple(levels), edges, high, members)


def _declared(schema: Schema, name: str) -> Derived:
    bins = [item for item in schema.derived if item.kind == "bins"]
    for item in bins:
        if item.name == name:
            return item
    same = [item for item in bins if item.of[0] == name]
    if len(same) == 1:
        return same[0]
    if same:
        raise ParameterError("bins", f"one of {', '.join(item.name for item in same)}", name)
    if name in [item.name for item in schema.attributes if item.kind in ("continuous", "integer")]:
        low, high = next(item.bounds for item in schema.attributes if item.name == name)
        cuts = ", ".join(f"{low + (high - low) * k / 4:g}" for k in (1, 2, 3))
        toml = (
            f'[[derived]]\nname = "{name}_bins"\nkind = "bins"\nof = ["{name}"]\ncuts = [{cuts}]  # your own'
        )
        raise FormulaError(f"the study declares no bins of {name}; {undeclared('', None)}:\n\n{toml}\n")
    known = [item.name for item in bins]
    raise FormulaError(
        f"this study has no bins {name}; " + (nearest(name, known) if known else "it declares none")
    )


def _within(schema: Schema, bins: Derived, by: str, whole: Matrix) -> dict[str, Matrix]:
    if by not in group_names(schema):
        raise FormulaError(f"this study has no group {by}; {nearest(by, group_names(schema))}")
    known = contents(schema)
    keys = {name: key for key, name in known.items()}
    names = [f"{bins.name}_{level}" for level in bins.levels]

    def product(one: str, other: str) -> Matrix:
        found = known.get(tuple(sorted((*keys[one], *keys[other]))))
        if found is None:
            raise FormulaError(
                f"{bins.name} by {by} needs their product; {undeclared('', None)}:\n\n"
                f"{product_lines((by, bins.name), schema)}\n"
            )
        return unit(schema, found)

    if by in schema.groups:
        return {
            level: np.array([product(f"{by}_{level}", name) for name in names]) for level in schema.groups[by]
        }
    signed = np.array([product(by, name) for name in names])
    return {"no": (whole - signed) / 2, "yes": (whole + signed) / 2}


_POINTS = 4000


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HistogramResults(Estimates):
    """What `fit.histogram` found.

    Attributes
    ----------
    counts : DataFrame
        A row an interval: estimate, std err, sampling and privacy parts; they add up to `nobs`.
    edges : array
        The declared cuts, between the bounds.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.histogram(data, "age")
    >>> found.edges[:4].tolist()
    [20.0, 35.0, 50.0, 65.0]
    """

    of: str
    unit: str
    edges: Matrix

    counts = Framed()

    @property
    def density(self) -> pd.Series[float]:
        """Shares over the width of their interval."""
        return self.counts["estimate"] / self.nobs / np.diff(self.edges)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class QuantileResults(Estimates):
    """What `fit.quantiles` found.

    Attributes
    ----------
    quantiles : DataFrame
        A row a probability (and level): estimate, and `between`, the cuts it lies between.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.quantiles(data, "age", [0.5]).quantiles.loc[0.5, "between"]
    '[50, 65)'
    """

    of: str
    unit: str

    @property
    def quantiles(self) -> pd.DataFrame:
        """A row a probability, and level: the estimate, and the cuts it lies between."""
        return self.estimates().frame[["estimate", "between"]]


@marked
def histogram(dataset: Source, bins: str) -> HistogramResults:
    """People in each declared interval of a number.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    bins : str
        The bins' name, or that of a number that has one set of bins.

    Returns
    -------
    HistogramResults
        `counts`, which add up to the number of people, `density`, `conf_int()`.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.histogram(data, "age").counts["estimate"].round().to_dict()
    {'[20, 35)': 478.0, '[35, 50)': 487.0, '[50, 65)': 461.0, '[65, 80]': 574.0}
    """
    moments = moments_of(dataset)
    found = bins_of(moments, bins)
    counts, sampling, privacy = counted(moments, outers(found.members[""], unit(moments.schema, ONES)))
    parts = [np.sqrt(np.maximum(np.diag(part), 0.0)) for part in (sampling, privacy)]
    n = moments.rows
    table = EstimateTable(
        pd.Index(found.words, name=found.of), counts, *parts, style="count", bounds=(0.0, float(n)), head="people",
        after={"share": [f"{value / n:.1%}" for value in np.clip(counts, 0, n)]},
    )  # fmt: skip
    return HistogramResults(
        what=f"Histogram of {found.of},", label=moments.label, nobs=n, sigma=moments.sigma, tables={"counts": table},
        about=[("unit", found.unit)] if found.unit else [], of=found.of, unit=found.unit, edges=found.edges,
        remarks=("A count of zero may be one that the noise exceeds.",) if (counts < 0).any() else (),
    )  # fmt: skip


@marked
def quantiles(
    dataset: Source, bins: str, probabilities: Sequence[float] = (0.25, 0.5, 0.75), *,
    by: str | None = None,
) -> QuantileResults:  # fmt: skip
    """Quantiles of a number with declared bins, by interpolation, with intervals.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    bins : str
        The bins' name, or that of a number that has one set of bins.
    probabilities : list of float
        Which quantiles.
    by : str, optional
        A group whose product with the bins is declared: quantiles in each of its levels.

    Returns
    -------
    QuantileResults
        `quantiles` and the cuts each lies between; `conf_int()`.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.quantiles(data, "age").quantiles["estimate"].round().to_dict()
    {0.25: 36.0, 0.5: 51.0, 0.75: 67.0}
    """
    moments = moments_of(dataset)
    chosen = [float(p) for p in probabilities]
    if not chosen or not all(0 < p < 1 for p in chosen):
        raise ParameterError("probabilities", "in (0, 1)", list(probabilities))
    found = bins_of(moments, bins, by)
    rows: dict[tuple[Hashable, ...], _Line] = {}
    for level, members in found.members.items():
        counts, sampling, privacy = counted(moments, outers(members, unit(moments.schema, ONES)))
        if counts.sum() <= 0:
            raise ParameterError("by", f"groups that the noise does not hide; {level} is one it does")
        for p in chosen:
            rows[level, p] = _Line(found, counts, sampling + privacy, p)
    index = pd.MultiIndex.from_tuples(list(rows), names=[by or "", "p"])
    lines, unknown = list(rows.values()), np.full(len(rows), np.nan)
    best = np.array([line.best for line in lines])
    table = EstimateTable(
        index.droplevel(0) if by is None else index, best, unknown, unknown,
        ends=lambda reach: np.array([line.ends(reach) for line in lines]),
        total=np.array([np.diff(line.ends(1.0))[0] / 2 for line in lines]),
        after={"between": [line.between for line in lines]},
    )  # fmt: skip
    return QuantileResults(
        what=f"Quantiles of {found.of},", label=moments.label, nobs=moments.rows, sigma=moments.sigma,
        tables={"quantiles": table}, about=[("unit", found.unit)] if found.unit else [], of=found.of, unit=found.unit,
        remarks=("Between cuts people are taken as spread evenly; that error is not in the interval: see `between`.",),
    )  # fmt: skip


class _Line:
    """The share below each value, as a line between the cuts, and where it reaches p."""

    def __init__(self, bins: Bins, counts: Matrix, covariance: Matrix, p: float) -> None:
        total = float(counts.sum())
        edges, k = bins.edges, len(counts)
        x = np.unique(np.concatenate([np.linspace(edges[0], edges[-1], _POINTS), edges]))
        at = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, k - 1)
        part = (x - edges[at]) / np.diff(edges)[at]
        # weights[i, j]: how much of interval j lies below x_i
        weights = (np.arange(k)[None, :] < at[:, None]).astype(float)
        weights[np.arange(len(x)), at] = part
        share = weights @ counts / total
        gradient = (weights - share[:, None]) / total
        error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", gradient, covariance, gradient), 0.0))
        self.x, self.gap, self.error = x, np.abs(share - p), error
        self.best = float(np.interp(p, np.maximum.accumulate(share), x))
        held = int(np.clip(np.searchsorted(edges, self.best, side="right") - 1, 0, k - 1))
        self.between = bins.words[held]

    def ends(self, reach: float) -> list[float]:
        """Woodruff's interval: the values whose share is within so many errors of p."""
        inside = self.x[self.gap <= reach * self.error]
        low, high = (float(inside[0]), float(inside[-1])) if len(inside) else (self.best, self.best)
        return [min(low, self.best), max(high, self.best)]
