"""The law of the noise in a Gram matrix, as one linear map: what any smooth function of the matrix needs to know.

Statement. G = M + D with E D = 0. For a symmetric A let S(A) be the matrix of covariances Cov[D, tr(A D)]. S is linear,
and Cov[tr(A D), tr(B D)] = tr(B S(A)). So a function of G with gradient A (df = tr(A dG)) has the noise variance
tr(A S(A)) to first order. What S is, in three steps that compose:

*Rows* (Y = X + C with C i.i.d. N(0, s^2) on n rows, G = Y^T Y - n s^2 I):  S(A) = 2 s^2 (A M + M A) + 2 n s^4 A.
*Entries* (independent noise of variance V_jl on each entry j <= l):  S(A)_jj = V_jj A_jj, S(A)_jl = 2 V_jl A_jl.
*Other columns*: of L G L^T the map is L S(L^T A L) L^T.

For vectors u, v the entries law gives  Cov[(D u)_i, (D v)_k] = V_ik u_k v_i for i != k,  sum_l V_il u_l v_l for i = k.

Proof of the first. D = X^T C + C^T X + (C^T C - n s^2 I); the linear and the quadratic part are uncorrelated since third
moments vanish. tr(A D) has linear part 2 sum_i x_i^T A c_i, of covariance 4 s^2 tr(A M B) with tr(B D), and quadratic
part sum_i (c_i^T A c_i - s^2 tr A), of covariance 2 n s^4 tr(A B) by Isserlis' theorem. The others are sums of
independent terms and a change of variables.

Proved: the covariances. M of the first is not known: an estimate stands in for it, with its negative eigenvalues, which
only noise can make, set to zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.basics.errors import ParameterError

Matrix: TypeAlias = NDArray[np.float64]


class NoiseLaw(ABC):
    """Mean-zero noise of a symmetric matrix, with its covariance. Gradients are m x p x p, symmetric."""

    @property
    @abstractmethod
    def exact(self) -> bool:
        """Whether there is no noise."""

    @property
    @abstractmethod
    def fixed(self) -> NoiseLaw:
        """The part that does not depend on the data, and does not grow with the moments."""

    @abstractmethod
    def image(self, gradients: Matrix) -> Matrix:
        """S(A) for each A."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Matrix:
        """One D: for simulations and a parametric bootstrap, never for a release."""

    def covariance(self, gradients: Matrix) -> Matrix:
        """m x m, of functions with these gradients."""
        flat = gradients.reshape(len(gradients), -1)
        found = self.image(gradients).reshape(flat.shape) @ flat.T
        return (found + found.T) / 2

    def variance(self, gradients: Matrix) -> Matrix:
        """The diagonal of `covariance`; a last bit below zero is zero."""
        found: Matrix = np.einsum("aij,aij->a", self.image(gradients), gradients)
        return np.maximum(found, 0.0)

    def spread(self, sides: Matrix, moved: Matrix) -> Matrix:
        """The sum over the rows f of `moved` of the covariance of u^T D f, for the rows u of `sides`."""
        found = np.zeros((len(sides),) * 2)
        for f in moved:
            both = sides[:, :, None] * f
            found += self.covariance((both + both.transpose(0, 2, 1)) / 2)
        return found

    def correction(self, gradients: Matrix) -> Matrix:
        """The part of `variance` that is of a correction by pilot rows (`CorrectedLaw`)."""
        return np.zeros(len(gradients))

    def uncorrected(self) -> NoiseLaw:
        """The law without the error of such a correction."""
        return self


@dataclass(frozen=True, eq=False)
class RowsLaw(NoiseLaw):
    """Noise of deviation `sigma` on each value of `rows` rows with second moments `moments`, its bias taken off."""

    moments: Matrix
    rows: int
    sigma: float

    @property
    def exact(self) -> bool:
        """Exact mode."""
        return self.sigma == 0

    @property
    def fixed(self) -> NoiseLaw:
        """2 n s^4 A."""
        return RowsLaw(np.zeros_like(self.moments), self.rows, self.sigma)

    def image(self, gradients: Matrix) -> Matrix:
        """2 s^2 (A M + M A) + 2 n s^4 A."""
        half = gradients @ self.moments
        s = self.sigma
        found: Matrix = 2 * s**2 * (half + half.transpose(0, 2, 1)) + 2 * self.rows * s**4 * gradients
        return found

    def spread(self, sides: Matrix, moved: Matrix) -> Matrix:
        """All f at once, by F = sum of f f^T."""
        F, M, s = moved.T @ moved, self.moments, self.sigma
        crossed = sides @ F @ M @ sides.T
        plain = sides @ sides.T
        linear = crossed + crossed.T + np.sum(F * M) * plain + np.trace(F) * (sides @ M @ sides.T)
        square = sides @ F @ sides.T + np.trace(F) * plain
        found: Matrix = s**2 * linear + self.rows * s**4 * square
        return found

    def draw(self, rng: np.random.Generator) -> Matrix:
        """Exact: noise on the p rows that have the moments, and a Wishart matrix for the n - p others."""
        p, s = len(self.moments), self.sigma
        values, vectors = np.linalg.eigh(self.moments)
        noisy = (vectors * np.sqrt(np.maximum(values, 0.0))).T + s * rng.standard_normal((p, p))
        rest = np.tril(rng.standard_normal((p, p)), -1)
        rest[np.diag_indices(p)] = np.sqrt(rng.chisquare(np.maximum(self.rows - p - np.arange(p), 1)))
        found: Matrix = noisy.T @ noisy - self.moments + s**2 * (rest @ rest.T - self.rows * np.eye(p))
        return (found + found.T) / 2


@dataclass(frozen=True, eq=False)
class EntriesLaw(NoiseLaw):
    """Independent noise on the entries: `variances` of (j, l), the same as of (l, j)."""

    variances: Matrix

    def __post_init__(self) -> None:
        V = np.asarray(self.variances, dtype=np.float64)
        if V.ndim != 2 or V.shape[0] != V.shape[1] or not np.array_equal(V, V.T):
            raise ParameterError("variances", "a symmetric matrix", V.shape)
        if not (np.isfinite(V).all() and (V >= 0).all()):
            raise ParameterError("variances", "finite numbers >= 0")
        object.__setattr__(self, "variances", V)

    @property
    def exact(self) -> bool:
        """No entry has any."""
        return not self.variances.any()

    @property
    def fixed(self) -> NoiseLaw:
        """All of it: providers draw it without looking."""
        return self

    def image(self, gradients: Matrix) -> Matrix:
        """V_jj A_jj and 2 V_jl A_jl: an entry beside the diagonal counts twice in tr(A D)."""
        twice = 2.0 - np.eye(len(self.variances))
        found: Matrix = gradients * (self.variances * twice)
        return found

    def spread(self, sides: Matrix, moved: Matrix) -> Matrix:
        """All f at once: Cov[D f], with F = sum of f f^T for f f^T."""
        F = moved.T @ moved
        both = self.variances * F
        np.fill_diagonal(both, self.variances @ np.diag(F))
        found: Matrix = sides @ both @ sides.T
        return found

    def product(self, u: ArrayLike, v: ArrayLike) -> Matrix:
        """Cov[D u, D v], symmetrised: half of it plus its transpose. With u = v it is Cov[D v]."""
        first, second = np.asarray(u, dtype=np.float64), np.asarray(v, dtype=np.float64)
        both = np.outer(first, second)
        found: Matrix = self.variances * (both + both.T) / 2
        np.fill_diagonal(found, self.variances @ (first * second))
        return found

    def draw(self, rng: np.random.Generator) -> Matrix:
        """Normal entries, unrounded."""
        upper = np.triu(rng.standard_normal(self.variances.shape) * np.sqrt(self.variances))
        found: Matrix = upper + np.triu(upper, 1).T
        return found


@dataclass(frozen=True, eq=False)
class LinearLaw(NoiseLaw):
    """The law of a linear function of G, where G has the law `base`: of D under the adjoint of `back`.

    Everything is found in the columns of the base, where it is a step less and cannot come out negative.
    """

    base: NoiseLaw

    @abstractmethod
    def back(self, gradients: Matrix) -> Matrix:
        """The gradients in G of functions with these gradients in what is made of it."""

    @property
    def exact(self) -> bool:
        """The base is."""
        return self.base.exact

    def covariance(self, gradients: Matrix) -> Matrix:
        """The base's."""
        return self.base.covariance(self.back(gradients))

    def variance(self, gradients: Matrix) -> Matrix:
        """The base's."""
        return self.base.variance(self.back(gradients))

    def correction(self, gradients: Matrix) -> Matrix:
        """The base's."""
        return self.base.correction(self.back(gradients))


@dataclass(frozen=True, eq=False)
class MappedLaw(LinearLaw):
    """The law of L G L^T; with `R` of (L G R^T + R G L^T) / 2."""

    L: Matrix
    R: Matrix | None = None

    def back(self, gradients: Matrix) -> Matrix:
        """L^T A L."""
        return _between(self.L.T, gradients, None if self.R is None else self.R.T)

    def there(self, matrices: Matrix) -> Matrix:
        """L G L^T."""
        return _between(self.L, matrices, self.R)

    @property
    def fixed(self) -> NoiseLaw:
        """The base's."""
        return replace(self, base=self.base.fixed)

    def image(self, gradients: Matrix) -> Matrix:
        """L S(L^T A L) L^T."""
        return self.there(self.base.image(self.back(gradients)))

    def draw(self, rng: np.random.Generator) -> Matrix:
        """L D L^T."""
        return self.there(self.base.draw(rng))

    def spread(self, sides: Matrix, moved: Matrix) -> Matrix:
        """As `covariance`."""
        if self.R is not None:
            return super().spread(sides, moved)
        return self.base.spread(sides @ self.L, moved @ self.L)

    def uncorrected(self) -> NoiseLaw:
        """The base's."""
        return replace(self, base=self.base.uncorrected())


def _between(left: Matrix, matrices: Matrix, right: Matrix | None) -> Matrix:
    """L G L^T, or (L G R^T + R G L^T) / 2."""
    found: Matrix = left @ matrices @ (left if right is None else right).T
    return found if right is None else (found + np.swapaxes(found, -1, -2)) / 2


@dataclass(frozen=True, eq=False)
class CorrectedLaw(NoiseLaw):
    """The law `base`, and an independent error of covariance sum of F F^T over `factors` + `rest` on every entry.

    `factors` are symmetric matrices: the error of a correction by pilot rows (`trimask_theory.planning.pilot`).
    """

    base: NoiseLaw
    factors: Matrix
    rest: float

    @property
    def exact(self) -> bool:
        """The base is, and no row was shrunk."""
        return self.base.exact and not self.factors.any() and not self.rest

    @property
    def fixed(self) -> NoiseLaw:
        """The base's."""
        return self.base.fixed

    def image(self, gradients: Matrix) -> Matrix:
        """Of the base, and of the correction."""
        return self.base.image(gradients) + self._added(gradients)

    def covariance(self, gradients: Matrix) -> Matrix:
        """As `image`."""
        flat = gradients.reshape(len(gradients), -1)
        return self.base.covariance(gradients) + self._added(gradients).reshape(flat.shape) @ flat.T

    def variance(self, gradients: Matrix) -> Matrix:
        """As `image`."""
        return self.base.variance(gradients) + self.correction(gradients)

    def spread(self, sides: Matrix, moved: Matrix) -> Matrix:
        """As `image`."""
        F = moved.T @ moved
        found = self.base.spread(sides, moved)
        if self.rest:
            found = found + EntriesLaw(np.full(F.shape, self.rest)).spread(sides, moved)
        for factor in self.factors:
            left = sides @ factor
            found = found + left @ F @ left.T
        return found

    def correction(self, gradients: Matrix) -> Matrix:
        """The part of `variance` that is the correction's."""
        found: Matrix = np.einsum("aij,aij->a", self._added(gradients), gradients)
        return found

    def uncorrected(self) -> NoiseLaw:
        """The base."""
        return self.base

    def _added(self, gradients: Matrix) -> Matrix:
        weights = np.einsum("aij,kij->ak", gradients, self.factors)
        twice = 2.0 - np.eye(gradients.shape[-1])
        found: Matrix = np.einsum("ak,kij->aij", weights, self.factors) + self.rest * twice * gradients
        return found

    def draw(self, rng: np.random.Generator) -> Matrix:
        """The base's, and normal errors of the correction."""
        p = self.factors.shape[-1]
        moved = np.einsum("k,kij->ij", rng.standard_normal(len(self.factors)), self.factors)
        rest = EntriesLaw(np.full((p, p), self.rest)).draw(rng)
        found: Matrix = self.base.draw(rng) + moved + rest
        return found


@dataclass(frozen=True, eq=False)
class SumLaw(NoiseLaw):
    """The law of a sum of matrices with independent noise, each of its own law."""

    parts: tuple[NoiseLaw, ...]

    @property
    def exact(self) -> bool:
        """All are."""
        return all(part.exact for part in self.parts)

    @property
    def fixed(self) -> NoiseLaw:
        """Of each."""
        return SumLaw(tuple(part.fixed for part in self.parts))

    def image(self, gradients: Matrix) -> Matrix:
        """Images add up."""
        return _total([part.image(gradients) for part in self.parts])

    def covariance(self, gradients: Matrix) -> Matrix:
        """As `image`."""
        return _total([part.covariance(gradients) for part in self.parts])

    def variance(self, gradients: Matrix) -> Matrix:
        """As `image`."""
        return _total([part.variance(gradients) for part in self.parts])

    def spread(self, sides: Matrix, moved: Matrix) -> Matrix:
        """As `image`."""
        return _total([part.spread(sides, moved) for part in self.parts])

    def correction(self, gradients: Matrix) -> Matrix:
        """As `image`."""
        return _total([part.correction(gradients) for part in self.parts])

    def uncorrected(self) -> NoiseLaw:
        """Of each."""
        return SumLaw(tuple(part.uncorrected() for part in self.parts))

    def draw(self, rng: np.random.Generator) -> Matrix:
        """The sum of one of each."""
        return _total([part.draw(rng) for part in self.parts])


def _total(parts: Sequence[Matrix]) -> Matrix:
    found: Matrix = np.sum(parts, axis=0)
    return found


def positive_part(matrix: Matrix) -> Matrix:
    """The matrix with its negative eigenvalues set to zero: the nearest positive semidefinite one."""
    values, vectors = np.linalg.eigh(matrix)
    if values[0] >= 0:
        return matrix
    found: Matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return (found + found.T) / 2
