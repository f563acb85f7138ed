"""What relative differential privacy needs to know about a data set: Definitions 6 and 7 from its rows, and M_sigma^rel.

Statement. Let D = [B, b] have rows v_i, and X hold D and what one row taken away from it, or one of its rows added
once more, makes of it (NDIS, Section 7.2). With q_i and p_i the leverages of row i in D and in B, and e the residuals
of b on B:
- leverage for X (Definition 6): max q_i for M_RP, which sees D, and max p_i for M_LS, which regresses on B;
- residual for X (Definition 7): max e_i^2/|e|^2 = max (q_i - p_i) (Proposition 4);
- sensitivity of least squares over X, for M_sigma^rel: max |(B'B)^{-1} v_i e_i|/(1 - p_i).
The maxima are over pairs in X, and rows taken away from D attain them: a row added once more has leverage q/(1 + q),
residual (q - p)/((1 + q)(1 + p)) and moves the answer by the same vector over 1 + p_i, each of them less.

Assumptions. B and D of full column rank. Relative to X alone: these numbers depend on the data, the guarantee holds
between data sets in X and says nothing of others, and publishing the numbers, or that no noise was needed, is not
covered by it. Basis: the identities are proved, for a rank-one change of B'B.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_theory.checks import Calibration, matrix
from trimask_theory.gaussian import local_noise
from trimask_theory.gaussian.grid_gaussian import NormalSource
from trimask_theory.mechanisms import least_squares

Array = NDArray[np.float64]
_CHUNK = 65_536
_CITATION = "Lu, Magdon-Ismail, Wei, Zikas: The Normal Distributions Indistinguishability Spectrum"


@dataclass(frozen=True, slots=True)
class RelativeSet:
    """A data set's numbers for relative privacy. They depend on the data: a data holder's, not for publishing."""

    leverage: float
    """Definition 6 for D: the largest leverage of a row among all columns."""
    feature_leverage: float
    """Definition 6 for B: the largest leverage of a row among the features."""
    residual: float
    """Definition 7: the largest share of a row in the sum of squared residuals."""
    sensitivity: float
    """How far, at most, one row of X moves the least squares solution."""
    row_norm: float
    """The longest row of D."""
    rows: int
    features: int
    edge: tuple[tuple[float, float], ...] = field(repr=False)
    """(q, p) of the rows that no other row exceeds in both leverage and residual."""


def of_rows(rows: ArrayLike) -> RelativeSet:
    """Definitions 6 and 7 of a matrix [B, b] of rows, the response last."""
    data = matrix("rows", rows, "a matrix of finite numbers with at least 2 columns", columns=2)
    count, columns = data.shape
    # The last row of the lower factor of D'D is (L^{-1} B'b, |e|), so whitened rows end in e_i/|e|.
    upper: Array = np.asarray(np.linalg.qr(data, mode="r"), dtype=np.float64)
    scale = np.abs(np.diag(upper))
    if count < columns or scale.min() <= 1e-12 * np.linalg.norm(upper, axis=0).max():
        raise ParameterError("rows", "of full column rank: no column is a combination of the others")
    features = upper[:-1, :-1]
    moved = longest = 0.0
    q = np.empty(count)
    p = np.empty(count)
    for start in range(0, count, _CHUNK):
        part = slice(start, start + _CHUNK)
        white = solve_triangular(upper, data[part].T, trans="T")
        q[part], p[part] = (white**2).sum(axis=0), (white[:-1] ** 2).sum(axis=0)
        influence = solve_triangular(features, white[:-1]) * white[-1] * upper[-1, -1]
        # A row alone in its direction has p = 1: without it there is no least squares solution.
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = np.linalg.norm(influence, axis=0) / np.maximum(1 - p[part], 0.0)
        moved = max(moved, float(np.nan_to_num(shift, nan=0.0, posinf=np.inf).max()))
        longest = max(longest, float((data[part] ** 2).sum(axis=1).max()))
    return RelativeSet(
        leverage=min(float(q.max()), 1.0),
        feature_leverage=min(float(p.max()), 1.0),
        residual=float((q - p).max()),
        sensitivity=moved,
        row_norm=float(np.sqrt(longest)),
        rows=count,
        features=columns - 1,
        edge=_edge(q, p),
    )


def inherent_delta(relative_set: RelativeSet, epsilon: float, reduced_dim: int) -> float:
    """The delta of M_LS on X with no noise added: the largest delta_ALS of its own rows (Theorem 4), numerical.

    Figure 13 asks for delta_ALS at the largest leverage and the largest residual together, which no one row need have;
    this takes them row by row, over the rows that none exceeds in both, so it is at most that where delta_ALS increases
    with leverage and with residual, as the paper assumes (docs/theory/errata.md#ndis).
    """
    features = relative_set.features
    if any(q >= 1 for q, _ in relative_set.edge):
        return 1.0
    return max(least_squares.delta(epsilon, q, p, reduced_dim, features) for q, p in relative_set.edge)


def gaussian_calibrate(relative_set: RelativeSet, epsilon: float, delta: float) -> Calibration:
    """M_sigma^rel (Section 7.4): the analytic Gaussian mechanism on least squares at its sensitivity over X."""
    noise = local_noise.calibrate(epsilon, delta, relative_set.sensitivity)
    guarantee = Guarantee(
        neighbours=Neighbours("add-remove", row_norm=relative_set.row_norm),
        basis="proved",
        because="holds only between the data set at hand and what one of its rows added or taken away makes of it",
        citation=f"{_CITATION}, Section 7.4 and Corollary 4",
        epsilon=float(epsilon),
        delta=float(delta),
    )
    return Calibration(noise.sigma, guarantee, "relative")


def gaussian_release(gram: ArrayLike, sigma: float, normals: NormalSource) -> Array:
    """One draw of M_sigma^rel: the least squares solution from D'D, the response last, plus N(0, sigma^2 I), in doubles."""
    products = matrix("gram", gram, "a square matrix, at least 2 x 2", columns=2, square=True)
    solution = np.linalg.solve(products[:-1, :-1], products[:-1, -1])
    return np.asarray(solution + sigma * normals.standard_normal(solution.shape))


def _edge(q: Array, p: Array) -> tuple[tuple[float, float], ...]:
    """The rows that no other row exceeds in both leverage and residual, by falling leverage."""
    residual = q - p
    order = np.lexsort((-residual, -p))
    best = np.maximum.accumulate(residual[order])
    first = np.concatenate([[True], best[1:] > best[:-1]])
    return tuple((float(q[i]), float(p[i])) for i in order[first])
