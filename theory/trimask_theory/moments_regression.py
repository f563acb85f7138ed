"""Least squares from published moments G = M + E, with standard errors that hold where the noise is not small.

Setting. The columns of a release are Z (p of them); regressor j is Z a_j, the response Z t; T = (a_1 .. a_k),
beta = (T^T M T)^-1 T^T M t is the fit without privacy, b = (T^T G T)^-1 T^T G t the one from the release.

Statement. With theta = t - T beta, exactly, whatever the size of the noise,
    T^T G T (b - beta) = T^T E theta,   of mean zero and covariance V(beta) = T^T Cov[E theta] T (`moments_law`).
For unit vectors, one noise deviation sigma_tot on the diagonal and that over sqrt(2) off it,
V = sigma_tot^2 / 2 (|theta|^2 I + theta_x theta_x^T), less sigma_tot^2 theta_0^2 in the corner of the constant, whose own
entry, the number of people, is published without noise.
*Plain*: (T^T G T)^-1 V(b) (T^T G T)^-1, with what is not known about beta added to V to second order (Cov(b) in place of
b b^T's error). *Fieller*: along the line on which the other coefficients follow coefficient j, the variance of b_j at
beta_j = b_j + t is a quadratic A + B t + D t^2, and {t : t^2 <= z^2 (A + B t + D t^2)} is an interval for beta_j - b_j,
exact for one regressor; it is unbounded when z^2 D >= 1, where the release does not bound the coefficient.
The standard error is the larger of the plain one and the farther end of Fieller's interval at z = 1; `interval` takes both
at its own z. Sampling adds RSS / (n - k) (T^T G T)^-1 for independent errors of equal variance.

Basis. The first equation is proved. Plug-in, second order and Fieller are asymptotic; coverage is measured in
tests/theory/test_moments_regression.py. The formula at the true M and beta is too narrow by 1.3 at epsilon 0.1 there;
at the release's own G and b it is too wide instead, except for large coefficients of weak regressors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from trimask_core.errors import ParameterError, TrimaskError
from trimask_theory import _checks
from trimask_theory.moments_law import NoiseLaw

__all__ = ["IndefiniteMoments", "MomentsFit", "fit"]

Matrix = NDArray[np.float64]


class IndefiniteMoments(TrimaskError):
    """The regressors' published moments are not positive definite. `.penalty` is a ridge that would make them so."""

    def __init__(self, least: float, penalty: float) -> None:
        self.least, self.penalty = least, penalty
        super().__init__(
            f"the noise exceeds the signal: the regressors' moments have an eigenvalue of {least:.3g}, and no fit means "
            f"anything. Use a ridge penalty of about {penalty:.3g} in scaled units, fewer regressors, more people or a "
            "larger epsilon"
        )


@dataclass(frozen=True, eq=False)
class MomentsFit:
    """Coefficients and their errors, in the units of the moments.

    `cov_privacy` is plain, second order included; `widening` >= 1 is by how much each standard error exceeds the plain one
    (infinite where the release does not bound the coefficient). `residual_sum` may be negative where noise hides it.
    `signal`: deviations by which the regressors' smallest eigenvalue clears zero.
    """

    coefficients: Matrix
    cov_privacy: Matrix
    cov_sampling: Matrix
    widening: Matrix
    residual_sum: float
    signal: float
    quadratics: Matrix
    """A, B, D of Fieller's interval, a row a coefficient."""

    @property
    def covariance(self) -> Matrix:
        """Privacy and sampling together, without the widening."""
        return self.cov_privacy + self.cov_sampling

    @property
    def standard_errors(self) -> Matrix:
        """One a coefficient, widened where first order is not enough."""
        found: Matrix = np.sqrt(np.diag(self.covariance)) * self.widening
        return found

    def interval(self, level: float = 0.95) -> Matrix:
        """Confidence intervals (k x 2): the hull of the plain one and Fieller's, infinite where that is unbounded."""
        z = -float(ndtri((1 - _checks.probability("level", level)) / 2))
        plain = z * np.sqrt(np.diag(self.covariance))
        low, high = _fieller(self.quadratics, z)
        return np.column_stack(
            [self.coefficients - np.maximum(plain, -low), self.coefficients + np.maximum(plain, high)]
        )


def fit(
    gram: ArrayLike, law: NoiseLaw, rows: int, combine: ArrayLike | None = None, response: ArrayLike | None = None,
    *, sampling: bool = True,
) -> MomentsFit:  # fmt: skip
    """Least squares of Z `response` on the columns of Z `combine`; by default of the last column on all others.

    `gram` are the published moments, symmetric, in the units of `law`. Without `sampling` the errors are distances to the
    fit without privacy on the same people. Raises `IndefiniteMoments`.
    """
    G = np.asarray(gram, dtype=np.float64)
    p = len(law.variances)
    if G.shape != (p, p) or not np.isfinite(G).all():
        raise ParameterError("gram", f"a {p} x {p} matrix of finite numbers", G.shape)
    eye = np.eye(p)
    T = eye[:, :-1] if combine is None else np.asarray(combine, dtype=np.float64)
    t = eye[:, -1] if response is None else np.asarray(response, dtype=np.float64)
    n, k = _checks.whole("rows", rows, 1), T.shape[1]
    if n <= k:
        raise ParameterError("rows", f"more than the {k} coefficients of the model", n)
    inner = _symmetric(T.T @ G @ T)
    signal = _signal(inner, T, law)
    inverse = _symmetric(np.asarray(np.linalg.inv(inner), dtype=np.float64))
    b = inverse @ (T.T @ G @ t)
    theta = t - T @ b

    def spread(first: Matrix, second: Matrix) -> Matrix:
        return _symmetric(inverse @ T.T @ law.product(first, second) @ T @ inverse)

    first_order = spread(theta, theta)
    # The uncertain part of theta is -T (b - beta): its covariance takes the place of the outer product.
    unsure = T @ first_order @ T.T
    extra = law.variances * unsure
    np.fill_diagonal(extra, law.variances @ np.diag(unsure))
    privacy = first_order + _symmetric(inverse @ T.T @ extra @ T @ inverse)
    # The fit takes up noise: the residual sum falls short of the true one by this trace on average.
    residual = float(theta @ G @ theta) + float(np.trace(inner @ first_order))
    noise = residual / (n - k) if sampling and residual > 0 else 0.0
    drawn = noise * inverse
    whole = first_order + drawn
    quadratics = np.empty((k, 3))
    for j in range(k):
        line = -T @ (whole[:, j] / whole[j, j]) if whole[j, j] > 0 else np.zeros(p)
        quadratics[j] = whole[j, j], 2 * spread(theta, line)[j, j], spread(line, line)[j, j]
    plain = np.sqrt(np.diag(privacy + drawn))
    low, high = _fieller(quadratics, 1.0)
    far = np.maximum(high, -low)
    widening = np.ones(k)
    np.divide(far, plain, out=widening, where=plain > 0)
    return MomentsFit(b, privacy, drawn, np.maximum(widening, 1.0), residual, signal, quadratics)


def _fieller(quadratics: Matrix, z: float) -> tuple[Matrix, Matrix]:
    """The ends of {t : t^2 <= z^2 (A + B t + D t^2)}, for each row; infinite where it is unbounded."""
    A, B, D = (z * z * quadratics).T
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(B * B / 4 + (1 - D) * A)
        low, high = (B / 2 - root) / (1 - D), (B / 2 + root) / (1 - D)
    bounded = D < 1
    return np.where(bounded, low, -math.inf), np.where(bounded, high, math.inf)


def _signal(inner: Matrix, T: Matrix, law: NoiseLaw) -> float:
    """Deviations by which the smallest eigenvalue clears zero; an error where it does not."""
    values, vectors = np.linalg.eigh(inner)
    least, size = float(values[0]), float(np.linalg.norm(T, 2) ** 2)
    if least <= 0:
        # -E has its largest eigenvalue at s sqrt(2 p) at most on average (s the largest deviation, s^2/2 off the diagonal),
        # and more than 4 s above that with probability below e^-8.
        raise IndefiniteMoments(least, law.largest * (math.sqrt(2 * len(law.variances)) + 4) * size)
    direction = T @ vectors[:, 0]
    noise = float(law.covariance(np.outer(direction, direction)[None])[0, 0])
    return least / math.sqrt(noise) if noise > 0 else math.inf


def _symmetric(matrix: Matrix) -> Matrix:
    found: Matrix = (matrix + matrix.T) / 2
    return found
