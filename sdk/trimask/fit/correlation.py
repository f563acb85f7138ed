"""Correlations and partial correlations from noisy second moments.

Statement. With Om = S^-1 the correlation of columns i and j given all others is r = -Om_ij / sqrt(Om_ii Om_jj), and
    dr = -dOm_ij / sqrt(Om_ii Om_jj) - (r/2) (dOm_ii/Om_ii + dOm_jj/Om_jj),   dOm = -Om dS Om.
Given a set of columns alone, Om is the inverse of the covariance of i, j and that set. Errors follow by
`trimask.fit.covariance`; intervals are made on Fisher's scale, arctanh r, where the error is se/(1 - r^2).
The sampling part is (1 - r^2)^2/n, the textbook's, for normal rows, or from fourth moments. Asymptotic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import linalg

from trimask.errors import ParameterError
from trimask.fit.clipping import marked
from trimask.fit.covariance import Covariance, covariance_of, doubt, rows_notes, select, warn_of
from trimask.fit.estimates import Estimates, EstimateTable
from trimask.fit.noise import moments_of, outer
from trimask_theory.moments.noise_law import Matrix

if TYPE_CHECKING:
    from trimask.fit.noise import Source


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

    @property
    def pairs(self) -> pd.DataFrame:
        """A row a pair."""
        return self.estimates().frame

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
        All numeric columns by default.
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
    rows, index, known = [], [], []
    for i, j in combinations(range(len(chosen)), 2):
        others = range(len(chosen)) if given is None else [i, j, *range(len(chosen), len(whole.names))]
        values, fourth = _pair(whole, i, j, list(others))
        rows.append(values)
        known.append(fourth)
        index.append((chosen[i], chosen[j]))
    said = doubt(whole, np.array(known))
    warn_of(said)
    held_fixed = "all other columns of the table" if given is None else ", ".join(held) or "nothing"
    table = EstimateTable(
        pd.MultiIndex.from_tuples(index),
        *np.array(rows).T,
        scale="fisher",
        bounds=(-1.0, 1.0),
        null=0.0,
        style=4,
        join=" ~ ",
    )
    return PartialCorrelationResults(
        what="Correlations" if given is not None and not held else "Partial correlations", label=moments.label,
        nobs=moments.rows, sigma=moments.sigma, tables={"pairs": table}, about=[("given", held_fixed)],
        remarks=rows_notes(np.array(known), said), columns=tuple(chosen), given=None if given is None else tuple(held),
    )  # fmt: skip


def correlations(dataset: Source, columns: Sequence[str] | None = None) -> PartialCorrelationResults:
    """The correlations of columns, noise corrected: `partial_correlations` given nothing.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    columns : list of str, optional
        All numeric columns by default.

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


def _pair(covariance: Covariance, i: int, j: int, among: list[int]) -> tuple[list[float], bool]:
    """The correlation of i and j given the others of `among`, the parts of its error, and whether by fourth moments."""
    at = np.ix_(among, among)
    inverse = linalg.inv(covariance.S[at])
    a, b = among.index(i), among.index(j)
    x, y = inverse[:, a], inverse[:, b]
    size = float(np.sqrt(x[a] * y[b]))
    r = -float(x[b]) / size
    inner = outer(x, y) / size + r / 2 * (np.outer(x, x) / x[a] + np.outer(y, y) / y[b])
    gradient: Matrix = np.zeros((1, *covariance.S.shape))
    gradient[0][at] = inner
    variances, known = covariance.sampling(gradient)
    sampling = float(variances[0])
    privacy = float(covariance.privacy_variance(gradient)[0])
    return [r, sampling**0.5, privacy**0.5], bool(known[0])
