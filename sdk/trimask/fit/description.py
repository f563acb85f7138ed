"""What a paper says of its columns: means, deviations and shares with intervals; correlations and partial correlations.

Statement. In scaled units a mean is m = G_1j / G_11. Where a dataset was read, G_11 is the number of people, and what
noise had made of it has already helped the other entries (`trimask.moments.identities`). Its privacy variance is that of the
gradient e_1 (e_j - m e_1)^T / G_11 under the law of the noise, its sampling variance v/n, whatever the rows' law (v the
variance). The variance is S_jj of `trimask.fit.covariance`, with the privacy part given there; its sampling part is
from fourth moments where the column's square is declared (`trimask.fit.covariance`), (1 - 2 p)^2 p (1 - p)/n for a
yes-or-no column, whose fourth moment its mean determines, and else 2 v^2/(n-1), for normal rows. Intervals of variances
and deviations are made on the scale of logarithms, which holds better at few rows.

A standard deviation is its root, with the error of first order. Shares are means of indicators; since moments agree with
what the schema knows, those of a group add up to 1, and counts to the number of people.

Proved: the noise variances. Asymptotic: normal intervals. Assumed: normal rows for the sampling part of a
variance whose column is neither yes-or-no nor has its square declared.

Statement (correlations). Let e_i and e_j be the directions of what is left of columns i and j when the others given are
taken out, so that V = (e_i, e_j)^T S (e_i, e_j) is the inverse of the block of i and j of the inverse of S; given a set of
columns alone, S is the covariance of i, j and that set. The correlation is r = V_ij / sqrt(V_ii V_jj). With
x = e_i / sqrt V_ii and y = e_j / sqrt V_jj, to first order
    x^T dS y - (rho/2) (x^T dS x + y^T dS y)
is the error of r - rho if rho is the truth: S is stationary in what e_i and e_j take out. Its variance, by
`trimask.fit.covariance`, is a quadratic in rho. The standard error is its root at rho = r, and the interval has the rho
that r is within c of those roots of (Fieller's). Where the noise is large, the error grows as S comes near to singular, and
r with it: an interval with the error at r alone, on Fisher's scale, held in 98 % and left the truth out on one side.
For normal rows without noise, |r - rho| <= c sqrt(((r - rho)^2 + (1 - r rho)^2) / n) is Fisher's interval,
|arctanh r - arctanh rho| <= arctanh(c / sqrt(n - c^2)). Asymptotic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import linalg

from trimask.errors import FormulaError, ParameterError
from trimask.fit.clipping import marked
from trimask.fit.covariance import Covariance, carriers, covariance_of, doubt, rows_notes, select, warn_of
from trimask.fit.design import plain_name
from trimask.fit.estimates import Estimates, EstimateTable, Framed
from trimask.fit.noise import Source, moments_of, outer
from trimask.fit.report import Block
from trimask.moments.moments import Moments
from trimask_core.study.derived import ONES, Column
from trimask_theory.mechanisms.noisy_regression import Combination
from trimask_theory.moments.noise_law import Matrix

CLEAR_LOG = 4.0
"""Errors above zero from which a variance has an interval on the log scale: noise is normal on its own."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DescribeResults(Estimates):
    """What `fit.describe` found, in original units.

    Attributes
    ----------
    means : DataFrame
        A row a column: estimate, std err, sampling and privacy parts.
    variances : DataFrame
        The same; `deviations` are their roots, NaN where the noise hides them.
    shares : DataFrame
        A row a level of every group, and "yes" of every yes-or-no column: people, share and its errors.
    by_fourth : tuple
        Columns whose variance has an error from fourth moments.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.describe(data, ["age", "smoker"])
    >>> found.conf_int(of="shares").loc[("smoker", "yes"), 0] > 0.2
    np.True_
    """

    by_fourth: tuple[str, ...] = ()
    doubts: tuple[tuple[str, tuple[str, ...]], ...] = ()

    means = Framed("means")
    variances = Framed("variances")
    deviations = Framed("deviations")
    shares = Framed("shares")

    def conf_int(self, alpha: float = 0.05, of: str | None = None) -> pd.DataFrame:
        """Intervals of level 1 - alpha of the "means", "variances", "deviations" or "shares"; all but means end at zero."""
        if of in ("variances", "deviations"):
            for said in self.doubts:
                warn_of(said)
        return super().conf_int(alpha, of)

    def blocks(self, alpha: float) -> list[Block]:
        """Means with deviations, then shares with counts."""
        means, shares = self.estimates("means"), self.estimates("shares")
        measured = [at for at, name in enumerate(means.index) if name not in set(self.shares["column"])]
        blocks = []
        if measured:
            block = replace(means, spread=self.estimates("deviations").values).block(alpha)
            blocks.append(replace(block, rows=[block.rows[at] for at in measured]))
        if len(shares.index):
            blocks.append(replace(shares, before={"people": self.shares["people"].tolist()}).block(alpha))
        return blocks


@marked
def describe(dataset: Source, columns: Sequence[str] | None = None) -> DescribeResults:
    """Mean (SD) of measured columns and people (share) of groups and yes-or-no columns, with intervals; noise corrected.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    columns : list of str, optional
        Columns or groups, also written C(group); by default all but squares and products with a number.

    Returns
    -------
    DescribeResults
        `means`, `deviations`, `variances` and `shares`, each with its errors; shares of a group add up to 1.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.describe(data, ["age", "C(activity)"])
    >>> found.means.loc["age", "estimate"].round()
    np.float64(51.0)
    >>> found.shares.loc["activity", "estimate"].sum().round(9)
    np.float64(1.0)
    """
    moments = moments_of(dataset)
    if not moments.schema.ones:
        raise FormulaError("this study has no ones column, so no mean can be taken")
    if isinstance(columns, str):
        raise ParameterError("columns", "a list of columns", columns)
    if columns is None:
        left_out = {ONES} | carriers(moments.schema)
        names = [column.name for column in moments.columns if column.name not in left_out]
    else:
        groups = {item.name: item.levels for item in moments.schema.attributes if item.levels}
        names = []
        for asked in map(plain_name, columns):
            whole = [f"{asked}_{level}" for level in groups.get(asked, ())]
            # One at a time: a whole group of indicators is collinear only for what uses them together.
            names += whole or select(moments.schema, [asked])
    if not names:
        raise ParameterError("columns", "at least one column")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ParameterError("columns", f"different columns; {twice[0]} appears twice")
    found = [_one(moments, name) for name in names]
    means, variances = (np.array([item[i] for item in found]) for i in (0, 1))
    shares = _shares(moments, names, means)
    shown = set() if shares.before is None else set(shares.before["column"])
    measured = [name for name in names if name not in shown]
    known = {name: item[2] for name, item in zip(names, found, strict=True)}
    doubts = _doubts(moments, measured, known)
    index, df = pd.Index(names), moments.rows - 1
    # Rows that cannot be normal where normal ones were assumed, or too few of them: no interval of a level.
    ranges = np.isin(names, [name for _, columns in doubts for name in columns])
    with np.errstate(invalid="ignore", divide="ignore"):
        root = np.sqrt(np.where(variances[:, 0] > 0, variances[:, 0], np.nan))
        errors = (variances[:, 1:] / (2 * root[:, None])).T
    zero = (0.0, np.inf)
    tables = {
        "means": EstimateTable(index, *means.T, df=df, head="mean", caption="means"),
        "variances": EstimateTable(
            index, *variances.T, df=df, scale="log", bounds=zero, clear=CLEAR_LOG, ranges=ranges
        ),
        # A deviation is clear by half as many of its own errors as its square is.
        "deviations": EstimateTable(
            index, root, *errors, df=df, scale="log", bounds=zero, clear=2 * CLEAR_LOG, ranges=ranges
        ),
        "shares": shares,
    }
    notes = (
        [f"Errors are those of the means; those in `deviations` {_of_rows(known, measured)}."]
        if measured
        else []
    )
    notes += [f"Caution, for `deviations`: {message}." for message, _ in doubts]
    if any(variances[names.index(name), 0] <= 0 for name in measured):
        notes.append("A variance of zero or less is one that the noise hides.")
    if (shares.estimate < 0).any():
        notes.append(
            "A share of zero may be one that the noise exceeds; people are left as they came out, and add up."
        )
    return DescribeResults(
        what="Means, deviations and shares", label=moments.label, nobs=moments.rows, sigma=moments.sigma,
        tables=tables, remarks=tuple(notes), by_fourth=tuple(name for name in measured if known[name]), doubts=doubts,
    )  # fmt: skip


def _of_rows(known: dict[str, bool], measured: Sequence[str]) -> str:
    """How errors of deviations were made."""
    fourth = [name for name in measured if known[name]]
    if not fourth:
        return "take rows as normal"
    if len(fourth) == len(measured):
        return "are from fourth moments, whatever the law of the rows"
    return f"are from fourth moments for {', '.join(fourth)}, and take rows as normal for the others"


def _doubts(
    moments: Moments, measured: Sequence[str], known: dict[str, bool]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What is to be said of intervals of deviations: of the columns with fourth moments, and of those without."""
    sides = [[name for name in measured if known[name] is side] for side in (True, False)]
    said = [
        doubt(covariance_of(moments, side), np.array([side == sides[0]]))
        for side in sides
        if 0 < len(side) < moments.rows - 1
    ]
    return tuple(item for item in said if item[0])


def _shares(moments: Moments, names: Sequence[str], means: Matrix) -> EstimateTable:
    """The means of indicators, by group and level."""
    binary = {item.name for item in moments.schema.attributes if item.kind == "binary"}
    picked = [c for c in moments.columns if c.name in names and (c.level is not None or c.name in binary)]
    at = [list(names).index(column.name) for column in picked]
    index = pd.MultiIndex.from_tuples(
        [(c.source, c.level or "yes") for c in picked], names=["group", "level"]
    )
    values = means[at] if at else np.zeros((0, 3))
    return EstimateTable(
        index, *values.T, df=moments.rows - 1, bounds=(0.0, 1.0), head="share", style="percent", caption="shares",
        before={"column": [column.name for column in picked], "people": moments.rows * values[:, 0]},
    )  # fmt: skip


def _one(moments: Moments, name: str) -> tuple[list[float], list[float], bool]:
    """Mean and variance, each with the two parts of its error, in original units; and whether by fourth moments."""
    column = next(item for item in moments.columns if item.name == name)
    covariance = covariance_of(moments, [name])
    n, h = moments.rows, column.half_range
    v = float(covariance.S[0, 0])
    known = max(v, 0.0)
    m = float(covariance.means[0])
    mean = [column.center + h * m, h * (known / n) ** 0.5, h * _mean_noise(moments, covariance) ** 0.5]
    gradient = np.ones((1, 1, 1))
    privacy = float(covariance.privacy_variance(gradient)[0])
    sampling, fourth = _sampling(covariance, gradient, moments, column, m)
    return mean, [h**2 * v, h**2 * sampling**0.5, h**2 * privacy**0.5], fourth


def _mean_noise(moments: Moments, covariance: Covariance) -> float:
    """Privacy variance of the mean, scaled units."""
    one = [column.name for column in moments.columns].index(ONES)
    unit = np.eye(len(moments.gram))[one]
    gradient = outer(unit, covariance.W[:, 0]) / float(moments.gram[one, one])
    return float(moments.law.variance(gradient[None])[0])


def _sampling(
    covariance: Covariance, gradient: Matrix, moments: Moments, column: Column, m: float
) -> tuple[float, bool]:
    """Sampling variance of the variance, scaled units, and whether it is from fourth moments."""
    kinds = {attribute.name: attribute.kind for attribute in moments.schema.attributes}
    if column.level is None and kinds.get(column.name) != "binary":
        variances, known = covariance.sampling(gradient)
        return float(variances[0]), bool(known[0])
    p = min(max(column.center + column.half_range * m, 0.0), 1.0)
    return (1 - 2 * p) ** 2 * p * (1 - p) / moments.rows / column.half_range**4, True


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PartialCorrelationResults(Estimates):
    """What `fit.partial_correlations` found.

    Attributes
    ----------
    pairs : DataFrame
        A row a pair of columns: estimate, std err, sampling and privacy parts.
    columns : tuple
        What is correlated.
    given : tuple, optional
        What is held fixed; None for all other columns.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.partial_correlations(data, ["age", "salt", "systolic"])
    >>> found.conf_int().loc[("age", "systolic"), 0] > 0
    np.True_
    """

    columns: tuple[str, ...]
    given: tuple[str, ...] | None

    pairs = Framed()

    def matrix(self) -> pd.DataFrame:
        """The correlations as a symmetric matrix with ones on the diagonal."""
        found = pd.DataFrame(np.eye(len(self.columns)), index=self.columns, columns=pd.Index(self.columns))
        for a, b in self.pairs.index:
            found.loc[a, b] = found.loc[b, a] = self.pairs.loc[(a, b), "estimate"]
        return found


@marked
def partial_correlations(
    dataset: Source, columns: Sequence[str] | None = None, *, given: Sequence[str] | None = None
) -> PartialCorrelationResults:
    """Correlations between columns given others, noise corrected.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    columns : list of str, optional
        By default all numeric columns but squares and products.
    given : list of str, optional
        None: each pair given all other columns; a list: given those; an empty list: plain correlations.

    Returns
    -------
    PartialCorrelationResults
        `pairs` with errors, `matrix()`, `conf_int()`.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> plain = trimask.fit.partial_correlations(data, ["age", "salt", "systolic"], given=[])
    >>> plain.pairs.loc[("age", "systolic"), "estimate"].round(1)
    np.float64(0.7)
    >>> plain.matrix().shape
    (3, 3)
    """
    moments = moments_of(dataset)
    if columns is None and given is not None:
        columns = [name for name in select(moments.schema, None) if name not in given]
    chosen = select(moments.schema, columns)
    held = [] if given is None else select(moments.schema, given, "given") if given else []
    if len(chosen) < 2:
        raise ParameterError("columns", "at least two columns")
    whole = covariance_of(moments, select(moments.schema, [*chosen, *held]))
    whole.check()
    found, index = [], []
    for i, j in combinations(range(len(chosen)), 2):
        others = range(len(chosen)) if given is None else [i, j, *range(len(chosen), len(whole.names))]
        found.append(_pair(whole, i, j, list(others)))
        index.append((chosen[i], chosen[j]))
    r, sampling, privacy, known, quadratics = map(np.array, zip(*found, strict=True))
    said = doubt(whole, known)
    warn_of(said)
    held_fixed = "all other columns of the table" if given is None else ", ".join(held) or "nothing"
    none = np.zeros((len(r), len(r)))
    table = EstimateTable(
        pd.MultiIndex.from_tuples(index), r, np.sqrt(sampling), np.sqrt(privacy),
        combination=Combination(r, none, none, quadratics), bounds=(-1.0, 1.0), null=0.0, style=4, join=" ~ ",
    )  # fmt: skip
    return PartialCorrelationResults(
        what="Correlations" if given is not None and not held else "Partial correlations", label=moments.label,
        nobs=moments.rows, sigma=moments.sigma, tables={"pairs": table}, about=[("given", held_fixed)],
        remarks=rows_notes(known, said), columns=tuple(chosen), given=None if given is None else tuple(held),
    )  # fmt: skip


def correlations(dataset: Source, columns: Sequence[str] | None = None) -> PartialCorrelationResults:
    """The correlations of columns, noise corrected: `partial_correlations` given nothing.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    columns : list of str, optional
        By default all numeric columns but squares and products.

    Returns
    -------
    PartialCorrelationResults
        `matrix()`, `pairs` with errors, `conf_int()`.

    Examples
    --------
    >>> import trimask
    >>> trimask.fit.correlations(trimask.example(), ["age", "salt", "systolic"]).matrix().shape
    (3, 3)
    """
    return partial_correlations(dataset, columns, given=[])


def _pair(
    covariance: Covariance, i: int, j: int, among: list[int]
) -> tuple[float, float, float, bool, Matrix]:
    """The correlation of i and j given the others of `among`, its two variances, and whether by fourth moments; then A, B, C
    of the variance A + B t + C t^2 if the truth is r + t.
    """
    at = np.ix_(among, among)
    inverse = linalg.inv(covariance.S[at])
    both = [among.index(i), among.index(j)]
    V = linalg.inv(inverse[np.ix_(both, both)])
    x, y = (inverse[:, both] @ V / np.sqrt(np.diag(V))).T
    r = float(V[0, 1] / np.sqrt(V[0, 0] * V[1, 1]))
    gradients: Matrix = np.zeros((3, *covariance.S.shape))
    for gradient, t in zip(gradients, (0.0, 1.0, -1.0), strict=True):
        gradient[at] = outer(x, y) - (r + t) / 2 * (np.outer(x, x) + np.outer(y, y))
    sampling, known = covariance.sampling(gradients)
    if known.any() and not known.all():  # by two laws they would be of no quadratic
        sampling = np.full(3, sampling[0])
    privacy = covariance.privacy_variance(gradients)
    here, above, below = sampling + privacy
    quadratic = np.array([here, (above - below) / 2, (above + below) / 2 - here])
    return r, float(sampling[0]), float(privacy[0]), bool(known[0]), quadratic
