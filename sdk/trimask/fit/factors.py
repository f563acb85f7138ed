"""Factor loadings from noisy second moments: maximum-likelihood factor analysis of the correlations.

Statement. The model is R = L L^T + Psi, Psi diagonal, R the corrected correlation matrix. For given Psi the
likelihood is largest at L = Psi^1/2 V (Lam - I)^1/2, with the leading eigenvectors V and eigenvalues Lam of
Psi^-1/2 R Psi^-1/2 (Joreskog 1967), and Psi solves diag(L L^T + Psi) = diag R. Loadings are rotated by varimax
(Kaiser 1958, rows normalised) unless asked not to be; unrotated ones have L^T Psi^-1 L diagonal.

Errors: loadings are a smooth function of S away from ties, whose gradient is taken by central differences (the
equation for Psi is differentiated implicitly), then `trimask.fit.covariance` gives sampling (normal rows) and
privacy parts. Asymptotic, and numerical in the gradient. In a Heywood case, a specific variance at its bound, the
function is not smooth and no errors are given (NaN).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from trimask.errors import ParameterError
from trimask.fit.clipping import marked
from trimask.fit.components import CLEAR_GAP, Loadings, loading_frames, loadings_block
from trimask.fit.covariance import covariance_of, doubt, rows_notes, select, warn_of
from trimask.fit.estimates import EstimateTable
from trimask.fit.noise import Source, moments_of
from trimask.fit.report import Block
from trimask_theory.moments.noise_law import Matrix

LEAST_SPECIFIC = 0.005
_STEP = 1e-5


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FactorResults(Loadings):
    """What `fit.factor_loadings` found.

    Attributes
    ----------
    loadings : DataFrame
        Of standardised columns, a column a factor.
    loadings_bse : DataFrame
        Their errors, NaN where there are none to give; `loadings_bse_sampling` and `loadings_bse_privacy` are its parts.
    uniquenesses : Series
        The share of a column's variance that no factor explains.
    rotation : str
        How factors were turned.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.factor_loadings(data, 1, ["age", "salt", "smoker", "systolic"])
    >>> (found.communalities + found.uniquenesses).round(6).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    rotation: str
    uniquenesses: pd.Series[float]

    @property
    def communalities(self) -> pd.Series[float]:
        """The share of a column's variance that the factors explain."""
        return (1 - self.uniquenesses).rename("communality")

    def blocks(self, alpha: float) -> list[Block]:  # noqa: ARG002  errors in brackets, no intervals
        """A row a column."""
        return [loadings_block(self.loadings, self.loadings_bse, specific=self.uniquenesses)]


@marked
def factor_loadings(
    dataset: Source, factors: int, columns: Sequence[str] | None = None, *, rotate: bool = True
) -> FactorResults:
    """Maximum-likelihood factor analysis, noise corrected.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    factors : int
        How many; few enough for the columns to determine them.
    columns : list of str, optional
        By default all numeric columns but squares and products.
    rotate : bool
        Varimax (default), or as found.

    Returns
    -------
    FactorResults
        `loadings` with errors in two parts, `uniquenesses`, `communalities`.

    Examples
    --------
    >>> import numpy as np, pandas as pd, trimask
    >>> from trimask_core.study.schema import Attribute, Schema
    >>> rng = np.random.default_rng(1)
    >>> skill = rng.standard_normal((2000, 1))
    >>> marks = pd.DataFrame(skill + rng.standard_normal((2000, 4)), columns=list("abcd")).clip(-9, 9)
    >>> schema = Schema(tuple(Attribute(name, "continuous", -9, 9) for name in "abcd"))
    >>> found = trimask.fit.factor_loadings(trimask.moments.moments.row_moments(marks, schema), 1)
    >>> found.loadings["F1"].round(1).tolist()  # 0.7 is the square root of a half
    [0.7, 0.7, 0.7, 0.7]
    """
    moments = moments_of(dataset)
    names = select(moments.schema, columns)
    k = len(names)
    # The model must have fewer parameters than correlations: (k - q)^2 >= k + q (Lawley and Maxwell).
    if not (isinstance(factors, int) and factors >= 1 and (k - factors) ** 2 >= k + factors):
        raise ParameterError("factors", f"at least 1, and few enough for {k} columns to determine", factors)
    covariance = covariance_of(moments, names)
    covariance.check()
    S = covariance.S
    R = _correlation(S)
    psi = _specific(R, factors)
    plain = _plain(R, psi, factors)
    if plain is None:
        raise ParameterError("factors", "fewer: not so many stand out of these columns", factors)
    turn = varimax(plain) if rotate else np.eye(factors)
    base = _tidy(plain @ turn)
    heywood = bool(np.min(psi) <= LEAST_SPECIFIC * 1.01)
    parts, known = np.full((2, k, factors), np.nan), np.zeros(1, dtype=bool)
    if not heywood:
        gradients = _gradients(S, psi, base, factors, rotate)
        variances, known = covariance.sampling(gradients)
        sampling = variances.reshape(k, factors)
        privacy = covariance.privacy_variance(gradients).reshape(k, factors)
        # Factors that can hardly be told apart make loadings that vary as much as they are large.
        if np.all(np.sqrt(np.max(sampling + privacy, axis=0)) < np.max(np.abs(base), axis=0) / CLEAR_GAP):
            parts = np.array([sampling, privacy])
    index, labels = pd.Index(names), pd.Index([f"F{i + 1}" for i in range(factors)])
    said = doubt(covariance, known)
    warn_of(said)
    long = pd.MultiIndex.from_product([labels, index], names=["factor", "column"])
    table = EstimateTable(long, base.T.ravel(), *(np.sqrt(part).T.ravel() for part in parts), head="loading")
    notes = [
        "In brackets the standard error of a loading, noise and sampling together.",
        *rows_notes(known, said),
    ]
    if np.isnan(parts).any():
        notes.append(
            "No errors: a specific variance is at its bound (a Heywood case) or factors are too alike to tell apart."
        )
    turned = "varimax" if rotate and factors > 1 else "none"
    return FactorResults(
        what="Factor loadings", label=moments.label, nobs=moments.rows, sigma=moments.sigma,
        tables={"loadings": table}, about=[("rotation", turned)], remarks=tuple(notes), rotation=turned,
        **loading_frames(base, parts[0], parts[1], names, labels), uniquenesses=pd.Series(psi, index=index, name="specific"),
    )  # fmt: skip


def _correlation(S: Matrix) -> Matrix:
    d = np.sqrt(np.diag(S))
    found: Matrix = S / np.outer(d, d)
    return found


def _leading(R: Matrix, psi: Matrix, q: int) -> tuple[Matrix, Matrix, Matrix]:
    root = np.sqrt(psi)
    values, vectors = np.linalg.eigh(R / np.outer(root, root))
    return values[::-1], vectors[:, ::-1][:, :q], root


def _plain(R: Matrix, psi: Matrix, q: int) -> Matrix | None:
    """Unrotated loadings, largest entry of each positive; None if fewer than q factors stand out."""
    values, vectors, root = _leading(R, psi, q)
    if values[q - 1] <= 1:
        return None
    L = root[:, None] * vectors * np.sqrt(values[:q] - 1)
    found: Matrix = L * np.sign(L[np.argmax(np.abs(L), axis=0), np.arange(q)])
    return found


def _specific(R: Matrix, q: int) -> Matrix:
    """Psi at the largest likelihood, in the logarithm of Psi, bounded below, then polished by Newton's method."""

    def objective(log_psi: Matrix) -> tuple[float, Matrix]:
        psi = np.exp(log_psi)
        values, vectors, root = _leading(R, psi, q)
        rest = np.maximum(values[q:], 1e-12)
        f = -float(np.sum(np.log(rest) - rest)) - (len(R) - q)
        load = root[:, None] * vectors * np.sqrt(np.maximum(values[:q] - 1, 0.0))
        return f, (np.sum(load**2, axis=1) + psi - np.diag(R)) / psi

    start = np.log(np.clip((1 - 0.5 * q / len(R)) / np.diag(np.linalg.inv(R)), LEAST_SPECIFIC, 1.0))
    bounds = [(np.log(LEAST_SPECIFIC), 0.0)] * len(R)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14})
    psi: Matrix = np.exp(found.x)
    if np.min(psi) > LEAST_SPECIFIC * 1.01:
        for _ in range(4):
            J = _psi_jacobian(R, psi, q)
            if not np.all(np.isfinite(J)) or np.linalg.cond(J) > 1e10:
                break
            step = np.linalg.solve(J, _mismatch(R, psi, q))
            if np.any(psi - step <= LEAST_SPECIFIC):
                break
            psi = psi - step
    return psi


def _mismatch(R: Matrix, psi: Matrix, q: int) -> Matrix:
    """diag(L L^T + Psi - R), zero at the solution."""
    values, vectors, root = _leading(R, psi, q)
    load = root[:, None] * vectors * np.sqrt(np.maximum(values[:q] - 1, 0.0))
    found: Matrix = np.sum(load**2, axis=1) + psi - np.diag(R)
    return found


def _psi_jacobian(R: Matrix, psi: Matrix, q: int) -> Matrix:
    k = len(psi)
    steps = _STEP * np.eye(k)
    return np.column_stack(
        [(_mismatch(R, psi + step, q) - _mismatch(R, psi - step, q)) / (2 * _STEP) for step in steps]
    )


def _gradients(S: Matrix, psi: Matrix, base: Matrix, q: int, rotate: bool) -> Matrix:
    """Gradients of all loadings with respect to S, row by row of the loadings."""
    k = len(S)
    J = _psi_jacobian(_correlation(S), psi, q)
    inverse = np.linalg.inv(J)

    def loadings(moved: Matrix) -> Matrix:
        R = _correlation(moved)
        L = _plain(R, psi - inverse @ _mismatch(R, psi, q), q)
        if L is None:
            return np.full(base.shape, np.nan)
        return _aligned(L @ varimax(L) if rotate else L, base)

    found = np.zeros((k * q, k, k))
    for i in range(k):
        for j in range(i, k):
            step = np.zeros((k, k))
            step[i, j] = step[j, i] = _STEP * np.sqrt(S[i, i] * S[j, j])
            change = (loadings(S + step) - loadings(S - step)).ravel() / (2 * step[i, j])
            # tr(A dS) counts an off-diagonal entry twice.
            found[:, i, j] = found[:, j, i] = change if i == j else change / 2
    return found


def varimax(L: Matrix) -> Matrix:
    """The rotation with the largest variance of squared loadings, rows normalised (Kaiser)."""
    q = L.shape[1]
    turn = np.eye(q)
    if q == 1:
        return turn
    length = np.sqrt(np.sum(L**2, axis=1, keepdims=True))
    unit = L / np.where(length > 0, length, 1.0)
    now = unit
    for _ in range(100):
        largest = 0.0
        for i, j in combinations(range(q), 2):
            # The best angle in one plane is known in closed form (Kaiser 1958), so sweeps converge quadratically.
            u, v = now[:, i] ** 2 - now[:, j] ** 2, 2 * now[:, i] * now[:, j]
            A, B = float(np.sum(u)), float(np.sum(v))
            above = 2 * float(u @ v) - 2 * A * B / len(L)
            below = float(u @ u - v @ v) - (A * A - B * B) / len(L)
            angle = math.atan2(above, below) / 4
            c, s = math.cos(angle), math.sin(angle)
            plane = np.array([[c, -s], [s, c]])
            turn[:, [i, j]] = turn[:, [i, j]] @ plane
            now = unit @ turn
            largest = max(largest, abs(angle))
        if largest < 1e-12:
            break
    return turn


def _tidy(L: Matrix) -> Matrix:
    """Factors by the variance they explain, each with its largest loading positive."""
    L = L[:, np.argsort(-np.sum(L**2, axis=0))]
    found: Matrix = L * np.sign(L[np.argmax(np.abs(L), axis=0), np.arange(L.shape[1])])
    return found


def _aligned(L: Matrix, base: Matrix) -> Matrix:
    """The order and signs closest to the base solution."""
    cross = L.T @ base
    order = np.argmax(np.abs(cross), axis=0)
    found: Matrix = L[:, order] * np.sign(cross[order, np.arange(base.shape[1])])
    return found
