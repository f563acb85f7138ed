"""The spectrum a private PCA is judged by: eigenvalues, gap, and the Hilbert transform of the bulk.

Statement. For the covariance Sigma = (1/n) sum x_i x_i^T of n rows in p dimensions, eigenvalues l_1 >= ...
>= l_p, and k components: H(g) = (1/p) sum_{i>k} 1/(g - l_i), its derivatives, the gap D = l_k - l_{k+1},
and the sample ratio theta = n / p^{3/2} (Yun and Dudeja 2025, Assumption 1 and equation 3).

Assumptions. Rows of norm at most sqrt(p), so that trace Sigma <= p; a gap D > 0. Definitions: nothing to
prove.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.errors import ParameterError
from trimask_theory._checks import whole

__all__ = ["Spectrum", "from_covariance", "from_rows", "hilbert", "hilbert_prime", "hilbert_second"]


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Eigenvalues in falling order, eigenvectors in the columns beside them, for n rows and k components."""

    eigenvalues: NDArray[np.float64]
    eigenvectors: NDArray[np.float64] = field(repr=False)
    rows: int
    components: int

    @property
    def dimension(self) -> int:
        """p, the number of attributes."""
        return self.eigenvalues.size

    @property
    def leading(self) -> NDArray[np.float64]:
        """The eigenvalues l_1..l_k of the components asked for."""
        return self.eigenvalues[: self.components]

    @property
    def bulk(self) -> NDArray[np.float64]:
        """The eigenvalues l_{k+1}..l_p left out."""
        return self.eigenvalues[self.components :]

    @property
    def gap(self) -> float:
        """D = l_k - l_{k+1}."""
        return float(self.leading[-1] - self.bulk[0])

    @property
    def theta(self) -> float:
        """n / p^{3/2}, the ratio that stays fixed in the limit."""
        return float(self.rows / self.dimension**1.5)

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Sigma, put together again."""
        return (self.eigenvectors * self.eigenvalues) @ self.eigenvectors.T

    def with_row(self, row: ArrayLike) -> Spectrum:
        """The spectrum of the neighbouring data set that holds `row` as well."""
        added = np.asarray(row, dtype=np.float64)
        if added.shape != (self.dimension,) or not np.all(np.isfinite(added)):
            raise ParameterError("row", f"{self.dimension} finite numbers")
        # In the basis of the eigenvectors: n diag(l) + y y^T.
        y = self.eigenvectors.T @ added
        grown = (self.rows * np.diag(self.eigenvalues) + np.outer(y, y)) / (self.rows + 1)
        values, vectors = np.linalg.eigh(grown)
        basis = self.eigenvectors @ vectors[:, ::-1]
        return Spectrum(values[::-1].copy(), basis, self.rows + 1, self.components)


def from_covariance(covariance: ArrayLike, rows: int, components: int) -> Spectrum:
    """The spectrum of a p x p covariance of `rows` rows; masked data give it too, as (AX)^T (AX) / n."""
    sigma = np.asarray(covariance, dtype=np.float64)
    if sigma.ndim != 2 or sigma.shape[0] != sigma.shape[1] or not np.all(np.isfinite(sigma)):
        raise ParameterError("covariance", "a square matrix of finite numbers")
    p = sigma.shape[0]
    scale = float(np.abs(sigma).max(initial=0.0))
    if not np.allclose(sigma, sigma.T, rtol=0, atol=1e-9 * scale):
        raise ParameterError("covariance", "symmetric")
    if float(np.trace(sigma)) > p * (1 + 1e-9):
        raise ParameterError(
            "covariance", f"of rows of norm at most sqrt(p), so its trace at most {p}", float(np.trace(sigma))
        )
    rows, components = whole("rows", rows, 1), whole("components", components, 1)
    if components >= p:
        raise ParameterError("components", f"at most {p - 1}, one less than the attributes", components)
    values, vectors = np.linalg.eigh((sigma + sigma.T) / 2)
    spectrum = Spectrum(values[::-1].copy(), vectors[:, ::-1].copy(), rows, components)
    # Below the rounding of eigh a gap is not one; without a gap the components themselves are not defined.
    if spectrum.gap <= 8 * p * np.finfo(np.float64).eps * scale:
        raise ParameterError(
            "covariance",
            f"such that the gap l_{components} - l_{components + 1} is positive: with equal eigenvalues the "
            f"first {components} components are not determined and no privacy level can be given",
            spectrum.gap,
        )
    return spectrum


def from_rows(data: ArrayLike, components: int) -> Spectrum:
    """The spectrum of data whose rows already have norm at most sqrt(p)."""
    x = np.asarray(data, dtype=np.float64)
    if x.ndim != 2 or x.size == 0 or not np.all(np.isfinite(x)):
        raise ParameterError("data", "a matrix of finite numbers, one row a person")
    norm = float(np.sqrt(np.max(np.einsum("ij,ij->i", x, x))))
    limit = float(np.sqrt(x.shape[1]))
    if norm > limit * (1 + 1e-9):
        raise ParameterError(
            "data", f"of rows of norm at most sqrt(p) = {limit:.6g}; scale or clip them", norm
        )
    return from_covariance(x.T @ x / x.shape[0], x.shape[0], components)


def hilbert(spectrum: Spectrum, at: ArrayLike) -> NDArray[np.float64]:
    """H(g), defined above the bulk (equation 3)."""
    return _moment(spectrum, at, 1)


def hilbert_prime(spectrum: Spectrum, at: ArrayLike) -> NDArray[np.float64]:
    """H'(g) = -(1/p) sum 1/(g - l_i)^2, negative."""
    return -_moment(spectrum, at, 2)


def hilbert_second(spectrum: Spectrum, at: ArrayLike) -> NDArray[np.float64]:
    """H''(g) = (2/p) sum 1/(g - l_i)^3."""
    return 2 * _moment(spectrum, at, 3)


def _moment(spectrum: Spectrum, at: ArrayLike, order: int) -> NDArray[np.float64]:
    points = np.asarray(at, dtype=np.float64)
    if not np.all(points > spectrum.bulk[0]):
        raise ParameterError("at", f"above the bulk, that is > {spectrum.bulk[0]:.6g}")
    powers = (points[..., None] - spectrum.bulk) ** -order
    return np.asarray(powers.sum(axis=-1) / spectrum.dimension, dtype=np.float64)
