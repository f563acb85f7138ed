"""The noise covariance of functions of a Gram matrix, by the law the moments come with (`trimask_theory.noise_law`)."""

from __future__ import annotations

import numpy as np

from trimask.moments import Matrix, Moments
from trimask_theory.noisy_regression import outers

__all__ = ["gram_covariance", "outer", "outers"]


def outer(u: Matrix, v: Matrix) -> Matrix:
    """The symmetric A with tr(A D) = u^T D v."""
    both: Matrix = (np.outer(u, v) + np.outer(v, u)) / 2
    return both


def gram_covariance(moments: Moments, gradients: Matrix) -> Matrix:
    """Noise covariance of functions of the Gram matrix with these gradients (m x p x p, symmetric)."""
    return moments.law.covariance(gradients)
