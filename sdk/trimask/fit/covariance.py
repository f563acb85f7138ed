"""Covariances of columns from noisy second moments, and the error of anything computed from them.

Setting. `one` is the ones column, m the vector of means G_1j / G_11, w_j = e_j - m_j e_1 the direction that
centres column j, so that S = W^T G W / (n - 1) with W = (w_1 .. w_k) estimates the covariance matrix in scaled units.
Without a ones column nothing can be centred: S is about zero and W is made of unit vectors.

Statement. A function f of S with symmetric gradient A (df = tr(A dS)) has, to first order,
    privacy variance   that of the gradient W A W^T / (n - 1) under the law of the noise (`moments.noise_law`)
    sampling variance  (2/n) tr(A S A S), if the rows are normal.
The means may be held fixed: S is stationary in them. The second is the Wishart law. Where the squares and products that f
is made of are declared, fourth moments are there and the sampling variance is taken from them (below),
whatever the law of the rows; second moments of other columns cannot tell what other rows would
give.

The centred sum falls short of the truth on average by the noise in the means, n Cov[m_i, m_j], as it does by S from
sampling; both are added back.

Proved: the noise law, the shortfall to leading order. Asymptotic: the delta method. Assumed: normal rows, for
the sampling part alone and where there are no fourth moments; results say so, and warn.

Statement (fourth moments, which declared squares and products carry). A function of the Gram matrix with gradient A (df =
tr(A dG)) is, to first order, a sum over people of q = z^T A z, z a person's columns, so its sampling variance is n Var[q]
whatever the law of the rows. q is a polynomial in what people were asked (`trimask.moments.identities`). If it is a
combination u^T z of the study's columns, because the squares and products in it are declared, then the sum of q^2 is u^T
G u and
    n Var[q] is estimated by n/(n - 1) (u^T G u - tr(A G)^2 / n):
fourth moments stand in the second moments of squares and products. A variance needs the square of its column, a correlation
both squares and the product, k columns all k (k + 1)/2 of them; of yes-or-no columns and levels squares are known anyway.
The noise in u^T G u has the law of the release. Where it is not `CLEAR` of it, or q is no combination, nothing is
given, and the caller takes rows as normal.

Asymptotic: the delta method, of which this is the sandwich. At a few hundred rows with heavy tails it is still short: the
estimate of n Var[q] is itself uncertain and correlated with the estimate (`docs/accuracy.md` has the coverage measured).

Statement (when intervals hold the truth less often than they say). Sampling errors of variances, correlations and what is
made of them rest on fourth moments. Where the columns carry them nothing is assumed of the rows; elsewhere rows are taken
as normal, and then errors are wrong at any number of rows if they are not. Two conditions are looked at:
- *Rows that cannot be normal*, where normal rows were assumed: a column whose mean is within 2 standard deviations of a
  declared bound. A normal one would be beyond it on more than 2.3 % of rows. (A column of exponential times is 1 deviation
  from 0; of a yes-or-no column one bound is within 1.) It does not find heavy tails on both sides.
- *Too few rows*, where fourth moments were used: a variance known to no better than a tenth of itself. The error of
  the error then counts: at 300 exponential rows, where it is about 0.15, intervals for a variance held in 92 %, not 95 %.

Both are rules of thumb: set beforehand, not tuned, then measured once (`bench/coverage.py`, docs/accuracy.md); not proved.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from trimask.errors import CollinearColumns, CoverageWarning, ParameterError
from trimask.fit.design import find_column, level_columns
from trimask.fit.noise import check_signal
from trimask.moments.identities import column_polynomials
from trimask.moments.moments import Moments
from trimask_core.study.derived import ONES
from trimask_core.study.schema import Schema
from trimask_theory.mechanisms.noisy_regression import outers
from trimask_theory.moments.noise_law import Matrix, positive_part

CLEAR = 4.0
"""Noise standard errors by which a sum of squares must clear zero: one of them moves the error by an eighth at most."""
_ZERO = 1e-8  # relative; polynomials have coefficients of the order of 1


@dataclass(frozen=True, eq=False)
class Fourth:
    """`variances` of the functions asked for, NaN where the columns do not carry them, and the combinations u."""

    variances: Matrix
    directions: Matrix
    carried: NDArray[np.bool_]
    """Whether q is a combination of the columns, noise or not."""

    totals: Matrix
    """tr(A G), the sums of q."""

    def covariance(self, moments: Moments) -> Matrix | None:
        """The sampling covariance of all the functions together, or None if the variance of one is not there."""
        if not np.all(self.known):
            return None
        n, u = moments.rows, self.directions
        found: Matrix = (u @ moments.gram @ u.T - np.outer(self.totals, self.totals) / n) * n / max(n - 1, 1)
        # Noise may leave a small negative eigenvalue beside variances that are clear of it.
        return found if moments.exact else positive_part((found + found.T) / 2)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which variances are there."""
        return ~np.isnan(self.variances)


def fourth_moments(moments: Moments, gradients: Matrix) -> Fourth:
    """The sampling variances of functions of the Gram matrix with these gradients (m x p x p, symmetric)."""
    n, p = moments.rows, len(moments.gram)
    size = np.max(np.abs(gradients), axis=(1, 2), initial=0.0)
    used = tuple(
        np.flatnonzero(np.any(np.abs(gradients) > 1e-14 * size[:, None, None], axis=(0, 1))).tolist()
    )
    m = len(gradients)
    if not used:
        return Fourth(np.full(m, np.nan), np.zeros((m, p)), np.zeros(m, dtype=bool), np.zeros(m))
    products, columns, inverse = _spans(moments.schema, used)
    pairs = list(combinations_with_replacement(used, 2))
    first, second = np.array(pairs).T
    weights = gradients[:, first, second] * np.where(first == second, 1.0, 2.0)
    q = weights @ products
    u = q @ inverse
    carried = np.linalg.norm(q - u @ columns, axis=1) <= _ZERO * np.linalg.norm(q, axis=1)
    total = np.einsum("aij,ij->a", gradients, moments.gram)
    spread = np.einsum("ai,ij,aj->a", u, moments.gram, u) - total**2 / n
    noise = np.zeros(len(u))
    if not moments.exact and carried.any():
        noise[carried] = np.sqrt(moments.law.variance(np.einsum("ai,aj->aij", u[carried], u[carried])))
    clear = carried & (spread > CLEAR * noise)
    return Fourth(np.where(clear, spread * n / max(n - 1, 1), np.nan), u, carried, total)


@lru_cache(maxsize=32)
def _spans(schema: Schema, used: tuple[int, ...]) -> tuple[Matrix, Matrix, Matrix]:
    """Products of the columns used, and all columns, as rows over monomials; and what takes the first to combinations."""
    polynomials, rules = column_polynomials(schema)
    held = [polynomials[column.name] for column in schema.columns]
    products = [rules.product(held[i], held[j]) for i, j in combinations_with_replacement(used, 2)]
    place: dict[tuple[str, ...], int] = {}
    for polynomial in [*held, *products]:
        for monomial in polynomial:
            place.setdefault(monomial, len(place))
    rows = np.zeros((len(held) + len(products), len(place)))
    for row, polynomial in zip(rows, [*held, *products], strict=True):
        for monomial, part in polynomial.items():
            row[place[monomial]] = part
    columns = rows[: len(held)]
    inverse: Matrix = np.linalg.pinv(columns).astype(np.float64)
    return rows[len(held) :], columns, inverse


@dataclass(frozen=True, eq=False)
class Covariance:
    """S of the columns `names`, in scaled units, the directions W, and the means they were centred at."""

    names: tuple[str, ...]
    S: Matrix
    W: Matrix
    means: Matrix
    moments: Moments
    centred: bool

    @property
    def rows(self) -> int:
        """Rows behind it."""
        return self.moments.rows

    @property
    def degrees(self) -> int:
        """Rows, less one if means were taken out."""
        return self.rows - self.centred

    def sampling_variance(self, gradients: Matrix) -> Matrix:
        """The sampling variance of functions with these gradients (m x k x k, symmetric)."""
        return self.sampling(gradients)[0]

    def sampling(self, gradients: Matrix) -> tuple[Matrix, NDArray[np.bool_]]:
        """Sampling variances, and which of them come from fourth moments; the others take rows as normal."""
        AS = gradients @ self.S
        normal = np.maximum(2 / self.degrees * np.einsum("aij,aji->a", AS, AS), 0.0)
        fourth = fourth_moments(self.moments, self.W @ gradients @ self.W.T / self.degrees)
        return np.where(fourth.known, fourth.variances, normal), fourth.known

    def privacy_variance(self, gradients: Matrix) -> Matrix:
        """The privacy variance of functions with these gradients."""
        return self.moments.law.variance(self.W @ gradients @ self.W.T / self.degrees)

    def check(self) -> float:
        """The signal, or an error: what inverts S needs all of it to stand out of the noise."""
        return check_signal(self.degrees * self.S, self.W, self.moments, self.names)

    def deviations(self) -> Matrix:
        """Standard deviations in scaled units, or `NoiseExceedsSignal` naming a column the noise hides."""
        for j, value in enumerate(np.diag(self.S)):
            one = np.ix_([j], [j])
            if self.moments.exact and value <= 1e-14 * float(self.W[:, j] @ self.W[:, j]):
                raise CollinearColumns([self.names[j]], f"{self.names[j]} is the same on every row")
            if value <= 0:  # which this refuses
                check_signal(self.degrees * self.S[one], self.W[:, [j]], self.moments, (self.names[j],))
        found: Matrix = np.sqrt(np.diag(self.S))
        return found


def numeric_columns(schema: Schema) -> list[str]:
    """Every column but the ones column and the indicators of groups."""
    return [column.name for column in schema.columns if column.name != ONES and column.level is None]


def carriers(schema: Schema) -> set[str]:
    """Squares, and products with a number: what fits of other columns need, and no reader looks at unasked."""
    kinds = {item.name for item in schema.derived if item.kind in ("square", "product")}
    return {column.name for column in schema.columns if column.source in kinds and column.level is None}


def select(schema: Schema, columns: Sequence[str] | None, what: str = "columns") -> list[str]:
    """The columns asked for, checked; by default all numbers but carriers. Whole groups are collinear when centred."""
    if isinstance(columns, str):
        raise ParameterError(what, "a list of columns", columns)
    if columns is None:
        columns = [name for name in numeric_columns(schema) if name not in carriers(schema)]
    chosen = [str(name) for name in columns]
    if not chosen:
        raise ParameterError(what, "at least one column")
    for name in chosen:
        find_column(name, schema)
    twice = sorted({name for name in chosen if chosen.count(name) > 1})
    if twice:
        raise ParameterError(what, f"different columns; {twice[0]} appears twice")
    for levels in level_columns(schema):
        if schema.ones and set(levels) <= set(chosen):
            raise CollinearColumns(
                levels, f"{', '.join(levels)} add up to one on every row: leave one level out"
            )
    return chosen


def covariance_of(moments: Moments, names: Sequence[str]) -> Covariance:
    """The covariance of checked columns."""
    index = {column.name: j for j, column in enumerate(moments.columns)}
    at = [index[name] for name in names]
    k, n = len(at), moments.rows
    if n <= k + 1:
        raise ParameterError("rows", f"more than the {k} columns and one", n)
    block = moments.gram[np.ix_(at, at)]
    W = np.eye(len(index))[:, at]
    if ONES not in index:
        return Covariance(tuple(names), block / n, W, np.zeros(k), moments, False)
    one = index[ONES]
    size = float(moments.gram[one, one])
    if size <= 0:
        check_signal(moments.gram[np.ix_([one], [one])], np.eye(len(index))[:, [one]], moments, (ONES,))
    means = moments.gram[at, one] / size
    W[one] -= means
    S = block - size * np.outer(means, means)
    S = (S + moments.law.covariance(outers(W.T, np.eye(len(index))[one])) / size) / (n - 1)
    return Covariance(tuple(names), (S + S.T) / 2, W, means, moments, True)


NORMAL_ROWS = (
    "The sampling part takes rows as normal: second moments do not carry the fourth ones that would tell. "
    "The privacy part does not."
)
FOURTH_ROWS = (
    "The sampling part is from fourth moments, which declared squares and products carry: rows need not be normal. "
    "Intervals still hold less often at few rows."
)
_BOTH = (
    "The sampling part is from fourth moments where the declared squares and products carry them, and takes rows as normal "
    "elsewhere."
)
_SHORT = "intervals are likely to hold the truth less often than they say: "
_NEAR = 2.0
_UNCERTAIN = 0.1


def doubt(
    covariance: Covariance, known: NDArray[np.bool_], assumed: str = "rows as normal"
) -> tuple[str, tuple[str, ...]]:
    """What is said where intervals are too short, and because of which columns; empty where neither condition holds.

    `known` says which of the result's sampling errors come from fourth moments, `assumed` what the others take rows for.
    """
    spread = np.sqrt(np.maximum(np.diag(covariance.S), 0.0))
    if not np.all(known):
        bounds = 1.0 - np.abs(covariance.means) if covariance.centred else np.full(len(spread), np.inf)
        near = _named(covariance.names, bounds < _NEAR * spread)
        if near:
            because = (
                f"they take {assumed}, and {_list(near)} cannot be normal (mean within 2 standard deviations of a declared "
                "bound). Squares and products declared in the study carry the fourth moments that errors need"
            )
            return _SHORT + because, near
        return "", ()
    each = np.array([np.outer(unit, unit) for unit in np.eye(len(spread))])
    variances, carried = covariance.sampling(each)
    few = _named(covariance.names, carried & (np.sqrt(variances) > _UNCERTAIN * spread**2))
    if few:
        because = (
            f"at {covariance.rows:,} rows the variance of {_list(few)} is not known to a tenth of itself, so errors made of "
            "fourth moments are uncertain too"
        )
        return _SHORT + because, few
    return "", ()


def warn_of(said: tuple[str, tuple[str, ...]]) -> None:
    """Raise the warning at the researcher's own line, if there is something to say."""
    message, columns = said
    if message:
        frame, level = sys._getframe(1), 2
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("trimask."):
            frame, level = frame.f_back, level + 1
        warnings.warn(CoverageWarning(columns, message), stacklevel=level)


def rows_notes(known: NDArray[np.bool_], said: tuple[str, tuple[str, ...]]) -> tuple[str, ...]:
    """What a summary says of the rows' law."""
    first = FOURTH_ROWS if np.all(known) else _BOTH if np.any(known) else NORMAL_ROWS
    message = said[0]
    return (first, f"Caution: {message}.") if message else (first,)


def _named(names: Sequence[str], which: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(name for name, there in zip(names, which, strict=True) if there)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
