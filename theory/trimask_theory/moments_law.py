"""The law of the noise in published moments, and what it makes of any smooth function of them.

Statement. M = sum over people of x x^T, published is G = M + E with E symmetric, its entries E_jl, j <= l, independent,
of mean zero and known variances V_jl, normal up to rounding. Then for vectors u, v
    Cov[(E u)_i, (E v)_k] = V_ik u_k v_i for i != k,     sum_l V_il u_l v_l for i = k,
and for symmetric A and B
    Cov[tr(A E), tr(B E)] = sum_j V_jj A_jj B_jj + 4 sum_(j < l) V_jl A_jl B_jl.
So a function of G with gradient A (df = tr(A dG)) has that noise variance to first order. Entries of columns that are
combinations (original units, contrasts) follow by A = T A' T^T; nothing has to be independent after such a change.

Assumptions. Independent entries, which is how the providers draw them. Proved; the delta method is asymptotic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.errors import ParameterError
from trimask_theory import _checks
from trimask_theory.moments_grid import entries
from trimask_theory.normal_source import NormalSource

__all__ = ["NoiseLaw", "noise_law"]

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoiseLaw:
    """`variances[j, l]` of the noise on entry (j, l), in the units of the moments; zero where an entry is known."""

    variances: Matrix

    def __post_init__(self) -> None:
        V = np.asarray(self.variances, dtype=np.float64)
        if V.ndim != 2 or V.shape[0] != V.shape[1] or not np.array_equal(V, V.T):
            raise ParameterError("variances", "a symmetric matrix", V.shape)
        if not (np.isfinite(V).all() and (V >= 0).all()):
            raise ParameterError("variances", "finite numbers >= 0")
        object.__setattr__(self, "variances", V)

    @property
    def largest(self) -> float:
        """The largest deviation of an entry."""
        return math.sqrt(float(self.variances.max()))

    def subset(self, columns: Sequence[int]) -> NoiseLaw:
        """The law of the moments of some of the columns."""
        return NoiseLaw(self.variances[np.ix_(columns, columns)])

    def pooled(self, *others: NoiseLaw) -> NoiseLaw:
        """The law of the sum of independent releases' moments."""
        return NoiseLaw(self.variances + sum(other.variances for other in others))

    def product(self, u: ArrayLike, v: ArrayLike) -> Matrix:
        """Cov[E u, E v], symmetrised: half of it plus its transpose. With u = v it is Cov[E v]."""
        first, second = np.asarray(u, dtype=np.float64), np.asarray(v, dtype=np.float64)
        both = np.outer(first, second)
        found: Matrix = self.variances * (both + both.T) / 2
        np.fill_diagonal(found, self.variances @ (first * second))
        return found

    def covariance(self, gradients: ArrayLike) -> Matrix:
        """First-order noise covariance of functions of the moments with these gradients (m x p x p, symmetric)."""
        given = np.asarray(gradients, dtype=np.float64)
        weights = self.variances * np.where(np.eye(len(self.variances)) > 0, 1.0, 2.0)
        flat = given.reshape(len(given), -1)
        found: Matrix = (given * weights).reshape(flat.shape) @ flat.T
        return (found + found.T) / 2

    def draw(self, source: NormalSource) -> Matrix:
        """One E, unrounded: for simulations and a parametric bootstrap."""
        upper = np.triu(np.asarray(source.standard_normal(self.variances.shape)) * np.sqrt(self.variances))
        found: Matrix = upper + np.triu(upper, 1).T
        return found


def noise_law(sigma: float, widths: Sequence[int], providers: int, honest: int = 1) -> NoiseLaw:
    """The law of a release in scaled units x = z / w, column 0 the constant: all providers' noise, rounded."""
    _checks.whole("providers", providers, 1)
    scale = np.array([1.0, *widths])
    V = np.zeros((len(scale), len(scale)))
    for j, index, noise in entries(sigma, widths, honest):
        V[j, index] = V[index, j] = noise.variance(providers) / (scale[j] * scale[index]) ** 2
    return NoiseLaw(V)
