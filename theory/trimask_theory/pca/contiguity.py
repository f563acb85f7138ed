"""Any small change of the matrix, not only one row's: the contiguity theorem, and privacy in Renyi's measure.

Statement (Yun and Dudeja 2025, Theorem 5). Let Sigma~ = Sigma + E/sqrt(p), E symmetric of nuclear norm at most 1, and
beta > H(l_k). In the limit the laws of the two mechanisms are told apart like N(0, 1) and N(sqrt(v), 1), and their Renyi
divergence of order a is a v/2, with v from (12) and (13):
    v = sum_{j<=k<i} E_ij^2 (beta - H(l_j))/(l_j - l_i) + (1/2) sum_{j,j'<=k} E_jj'^2 K(l_j, l_j'),
    K(g, g') = (1/p) sum_{i>k} 1/((g - l_i)(g' - l_i)),   E_ij = u_i^T E u_j.
It is the variance of (sqrt(p) beta/2) tr V^T E V: of the terms linear in Z and of those quadratic in it; what E does
beyond the first k eigenvectors alone vanishes as 1/p. A row x added is E = sqrt(p) x x^T/n, and v at its largest is
sigma_beta^2 (Theorem 2), so that the mechanism is (a, a sigma_beta^2/2)-Renyi DP for every order a > 1, and no better.

Assumptions. Those of `limits`; the matrix need not be a covariance. Asymptotic in p.
Derivation: docs/theory/mechanisms.md#pca.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.errors import ParameterError
from trimask_theory._checks import positive
from trimask_theory.pca.limits import sigma_beta
from trimask_theory.pca.spectrum import Spectrum, hilbert

__all__ = ["perturbation_variance", "renyi"]


def perturbation_variance(spectrum: Spectrum, beta: float, perturbation: ArrayLike) -> float:
    """v of Theorem 5 for Sigma~ = Sigma + E/sqrt(p): the two releases are sqrt(v) apart, as normals are."""
    p, k = spectrum.dimension, spectrum.components
    matrix = np.asarray(perturbation, dtype=np.float64)
    if matrix.shape != (p, p) or not np.isfinite(matrix).all():
        raise ParameterError("perturbation", f"a {p} x {p} matrix of finite numbers", matrix.shape)
    if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-9 * np.abs(matrix).max()):
        raise ParameterError("perturbation", "symmetric")
    excess = positive("beta", beta) - hilbert(spectrum, spectrum.leading)
    if excess[-1] <= 0:
        raise ParameterError("beta", "above H(l_k), below which a component is lost", beta)
    turned = spectrum.eigenvectors.T @ matrix @ spectrum.eigenvectors[:, :k]
    apart: NDArray[np.float64] = spectrum.leading - spectrum.bulk[:, None]
    linear = float(np.sum(turned[k:] ** 2 * excess / apart))
    both = (1 / apart).T @ (1 / apart) / p
    return linear + 0.5 * float(np.sum(turned[:k] ** 2 * both))


def renyi(spectrum: Spectrum, beta: float, order: float) -> float:
    """The epsilon of (order, epsilon)-Renyi DP (Definition 4) in the limit: order sigma_beta^2/2, for orders above 1."""
    order = positive("order", order)
    if not order > 1 or not math.isfinite(order):
        raise ParameterError("order", "a finite number above 1", order)
    return order * sigma_beta(spectrum, beta) ** 2 / 2
