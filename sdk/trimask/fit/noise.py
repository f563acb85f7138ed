"""The law of the noise in a corrected Gram matrix, and what it makes of any smooth function of one.

Statement. Z has n rows, W = Z + E with E i.i.d. N(0, s^2), G = W^T W - n s^2 I, M = Z^T Z, and D = G - M. For
symmetric A and B, over the noise,
    E tr(A D) = 0,   Cov[tr(A D), tr(B D)] = 4 s^2 tr(A M B) + 2 n s^4 tr(A B).
So a function f of G with gradient A (df = tr(A dG)) has the noise variance 4 s^2 tr(A M A) + 2 n s^4 tr(A^2)
to first order, and two functions the covariance above.

Proof. D = Z^T E + E^T Z + (E^T E - n s^2 I); the linear and the quadratic part are uncorrelated since third
moments vanish. tr(A D) has linear part 2 sum_i z_i^T A e_i, of covariance 4 s^2 sum_i z_i^T A B z_i, and
quadratic part sum_i (e_i^T A e_i - s^2 tr A), of covariance 2 n s^4 tr(A B) by Isserlis' theorem.

Proved: the covariance. Asymptotic: the delta method. M is not known: G stands in for it, with its negative
eigenvalues, which only noise can make, set to zero.
"""

from __future__ import annotations

import numpy as np

from trimask.moments import Matrix, Moments

__all__ = ["gram_covariance", "outer"]


def outer(u: Matrix, v: Matrix) -> Matrix:
    """The symmetric A with tr(A D) = u^T D v."""
    both: Matrix = (np.outer(u, v) + np.outer(v, u)) / 2
    return both


def gram_covariance(moments: Moments, gradients: Matrix) -> Matrix:
    """Noise covariance of functions of the Gram matrix with these gradients (m x p x p, symmetric)."""
    n, s = moments.rows, moments.sigma
    values, vectors = np.linalg.eigh(moments.gram)
    M = (vectors * np.maximum(values, 0.0)) @ vectors.T
    flat = gradients.reshape(len(gradients), -1)
    found: Matrix = 4 * s**2 * (gradients @ M).reshape(flat.shape) @ flat.T + 2 * n * s**4 * flat @ flat.T
    return (found + found.T) / 2
