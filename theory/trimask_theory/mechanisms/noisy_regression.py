"""Least squares from noisy moments G = M + D, with standard errors that hold where the noise is not small.

Setting. The columns of a release are Z (p of them); regressor j is Z a_j, the response Z t; T = (a_1 .. a_k),
beta = (T^T M T)^-1 T^T M t is the fit without privacy, b = (T^T G T)^-1 T^T G t the one from the release. D has mean zero
and a known law (`trimask_theory.moments.noise_law`): that of masked rows, of verified moments, of a noisy Gram
matrix, before or after they are moved onto what a schema knows.

Statement. With theta = t - T beta, exactly, whatever the size of the noise,
    T^T G T (b - beta) = T^T D theta,   of mean zero and covariance V(beta), that of the gradients of a_j^T D theta.
*Plain*: (T^T G T)^-1 V(b) (T^T G T)^-1, with what is not known about beta added to second order: theta is uncertain by
T (b - beta), whose covariance F = sum_r f_r f_r^T adds the sum of V at T f_r, since V is quadratic in theta.
*Fieller*, for a combination a^T beta: along the line on which the coefficients follow it, the variance of a^T b at
a^T beta = a^T b + t is a quadratic A + B t + C t^2, and {t : t^2 <= z^2 (A + B t + C t^2)} is an interval for
a^T (beta - b), exact for one regressor; it is unbounded when z^2 C >= 1, where the release does not bound the combination.
A standard error is the larger of the plain one and the farther end of Fieller's interval at z = 1; `interval` takes both
at its own z. Sampling adds RSS / (n - k) (T^T G T)^-1 for independent errors of equal variance. The fitted residual sum
falls short of RSS by tr((T^T G T)^-1 V) on average, which is added back.
For masked rows, T of unit vectors and nothing known of the moments, the diagonal of V is
s^2 |theta|^2 G_jj + s^2 RSS + n s^4 (|theta|^2 + theta_j^2).

Basis. The first equation is proved. Plug-in, second order and Fieller are asymptotic; coverage is measured in
tests/theory/test_noisy_regression.py and tests/sdk. The formula at the true M and beta is too narrow by 1.3 at epsilon 0.1
there; at the release's own G and b it is too wide instead, except for large coefficients of weak regressors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from trimask_core.basics.errors import ParameterError, TrimaskError
from trimask_theory import checks
from trimask_theory.moments.noise_law import Matrix, NoiseLaw


class IndefiniteMoments(TrimaskError):
    """The regressors' published moments are not positive definite. `.penalty` is a ridge that would make them so."""

    def __init__(self, least: float, penalty: float) -> None:
        self.least, self.penalty = least, penalty
        super().__init__(
            f"the noise exceeds the signal: the regressors' moments have an eigenvalue of {least:.3g}, and no fit means "
            f"anything. Use a ridge penalty of about {penalty:.3g} in scaled units, fewer regressors, more people or a "
            "larger epsilon"
        )


def outers(U: Matrix, V: Matrix) -> Matrix:
    """For each row u of U, with v or its row of V: the symmetric A with tr(A D) = u^T D v."""
    both = U[:, :, None] * V[..., None, :]
    found: Matrix = (both + both.transpose(0, 2, 1)) / 2
    return found


@dataclass(frozen=True, eq=False)
class Combination:
    """Combinations of coefficients and their errors.

    `cov_privacy` is plain, second order included; `quadratics` has A, B, C of Fieller's interval, a row each.
    """

    estimates: Matrix
    cov_privacy: Matrix
    cov_sampling: Matrix
    quadratics: Matrix

    @property
    def covariance(self) -> Matrix:
        """Privacy and sampling together, without the widening."""
        return self.cov_privacy + self.cov_sampling

    @cached_property
    def widening(self) -> Matrix:
        """By how much each standard error exceeds the plain one, >= 1; infinite where there is no bound."""
        plain = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        low, high = _fieller(self.quadratics, 1.0)
        found = np.ones(len(plain))
        np.divide(np.maximum(high, -low), plain, out=found, where=plain > 0)
        return np.maximum(found, 1.0)

    @property
    def standard_errors(self) -> Matrix:
        """One a combination, widened where first order is not enough."""
        found: Matrix = np.sqrt(np.maximum(np.diag(self.covariance), 0.0)) * self.widening
        return found

    @property
    def cov_widened(self) -> Matrix:
        """The privacy covariance grown so that with `cov_sampling` it has the standard errors on its diagonal."""
        plain = np.maximum(np.diag(self.cov_privacy), 0.0)
        grown = np.ones(len(plain))
        wanted = np.maximum(self.standard_errors**2 - np.diag(self.cov_sampling), plain)
        np.divide(wanted, plain, out=grown, where=plain > 0)
        root = np.sqrt(grown)
        with np.errstate(invalid="ignore"):  # an infinite error beside an uncorrelated one
            found: Matrix = self.cov_privacy * np.outer(root, root)
        return np.nan_to_num(found, nan=0.0, posinf=np.inf, neginf=-np.inf)

    def interval(self, level: float = 0.95, *, deviations: float | None = None) -> Matrix:
        """Confidence intervals (m x 2): the hull of the plain one and Fieller's, infinite where that is unbounded.

        `deviations` is the number of standard errors to go, by default the normal law's for the level.
        """
        z = -float(ndtri((1 - checks.probability("level", level)) / 2)) if deviations is None else deviations
        plain = z * np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        low, high = _fieller(self.quadratics, z)
        return np.column_stack(
            [self.estimates - np.maximum(plain, -low), self.estimates + np.maximum(plain, high)]
        )


@dataclass(frozen=True, eq=False)
class NoisyFit:
    """Coefficients in the units of T, and what the errors of any combination of them follow from.

    `residual_sum` may be negative where noise hides it. `first` and `drawn` are the covariances of first order, of noise
    and of sampling; `theta` is t - T b.
    """

    coefficients: Matrix
    residual_sum: float
    law: NoiseLaw
    T: Matrix
    theta: Matrix
    inverse: Matrix
    first: Matrix
    drawn: Matrix

    @cached_property
    def second(self) -> Matrix:
        """The privacy covariance with what is not known about beta added to second order."""
        if self.law.exact:
            return self.first
        sides = (self.T @ self.inverse).T
        values, vectors = np.linalg.eigh(self.first)
        return self.first + self.law.spread(sides, (self.T @ (vectors * np.sqrt(np.maximum(values, 0.0)))).T)

    def combination(self, weights: ArrayLike | None = None) -> Combination:
        """The combinations `weights` (a row each) of the coefficients; by default each coefficient."""
        A = np.eye(len(self.coefficients)) if weights is None else np.atleast_2d(np.asarray(weights, float))
        whole = _symmetric(A @ (self.first + self.drawn) @ A.T)
        spread = np.maximum(np.diag(whole), 0.0)
        quadratics = np.zeros((len(A), 3))
        quadratics[:, 0] = spread
        if not self.law.exact:
            sides = (self.T @ self.inverse @ A.T).T
            follow = (self.first + self.drawn) @ A.T / np.where(spread > 0, spread, np.inf)
            along = outers(sides, -(self.T @ follow).T)
            image = self.law.image(along)
            quadratics[:, 1] = 2 * np.einsum("aij,aij->a", image, outers(sides, self.theta))
            quadratics[:, 2] = np.einsum("aij,aij->a", image, along)
        return Combination(
            A @ self.coefficients,
            _symmetric(A @ self.second @ A.T),
            _symmetric(A @ self.drawn @ A.T),
            quadratics,
        )

    def fixed_share(self, weights: Matrix) -> Matrix:
        """The first-order covariance of combinations from the noise that does not grow with the moments."""
        return self.law.fixed.covariance(outers((self.T @ self.inverse @ weights.T).T, self.theta))


def fit(
    gram: ArrayLike, law: NoiseLaw, rows: int, combine: ArrayLike | None = None, response: ArrayLike | None = None,
    *, sampling: bool = True,
) -> NoisyFit:  # fmt: skip
    """Least squares of Z `response` on the columns of Z `combine`; by default of the last column on all others.

    `gram` are moments, symmetric, with noise of `law`. Without `sampling` the errors are distances to the fit without
    privacy on the same people. Raises `IndefiniteMoments`.
    """
    G = np.asarray(gram, dtype=np.float64)
    p = len(G)
    if G.ndim != 2 or G.shape != (p, p) or not np.isfinite(G).all():
        raise ParameterError("gram", "a square matrix of finite numbers", G.shape)
    T = np.eye(p)[:, :-1] if combine is None else np.asarray(combine, dtype=np.float64)
    t = np.eye(p)[:, -1] if response is None else np.asarray(response, dtype=np.float64)
    n, k = checks.whole("rows", rows, 1), T.shape[1]
    if n <= k:
        raise ParameterError("rows", f"more than the {k} coefficients of the model", n)
    inner = _symmetric(T.T @ G @ T)
    _refuse_indefinite(inner, T, law)
    inverse = _symmetric(np.asarray(np.linalg.inv(inner), dtype=np.float64))
    b = inverse @ (T.T @ G @ t)
    theta = t - T @ b
    first = np.zeros((k, k)) if law.exact else law.covariance(outers((T @ inverse).T, theta))
    residual = float(theta @ G @ theta) + float(np.sum(inner * first))
    noise = max(residual, 0.0) / (n - k) if sampling else 0.0
    return NoisyFit(b, residual, law, T, theta, inverse, first, noise * inverse)


def _fieller(quadratics: Matrix, z: float) -> tuple[Matrix, Matrix]:
    """The ends of {t : t^2 <= z^2 (A + B t + C t^2)}, for each row; infinite where it is unbounded."""
    A, B, C = (z * z * quadratics).T
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(B * B / 4 + (1 - C) * A)
        low, high = (B / 2 - root) / (1 - C), (B / 2 + root) / (1 - C)
    bounded = C < 1
    return np.where(bounded, low, -math.inf), np.where(bounded, high, math.inf)


def _refuse_indefinite(inner: Matrix, T: Matrix, law: NoiseLaw) -> None:
    least = float(np.linalg.eigvalsh(inner)[0])
    if least > 0:
        return
    unit = np.eye(len(T))
    largest = math.sqrt(float(law.variance(np.einsum("ai,aj->aij", unit, unit)).max()))
    # -D has its largest eigenvalue at s sqrt(2 p) at most on average (s the largest deviation, s^2/2 off the diagonal),
    # and more than 4 s above that with probability below e^-8.
    size = float(np.linalg.norm(T, 2) ** 2)
    raise IndefiniteMoments(least, largest * (math.sqrt(2 * len(T)) + 4) * size)


def _symmetric(matrix: Matrix) -> Matrix:
    found: Matrix = (matrix + matrix.T) / 2
    return found
