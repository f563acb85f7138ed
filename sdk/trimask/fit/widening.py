"""Standard errors of least squares where the noise is not small beside the moments.

Statement. With theta = t - T beta, exactly, whatever the size of the noise, T^T G T (b - beta) = T^T D theta. The noise
covariance of b at the b estimated, C(theta), differs from that at the beta sought in two ways.
*Second order*: theta is itself uncertain by T (b - beta), whose covariance F = C(theta) adds the sum of C(T f_r), where
F = sum_r f_r f_r^T, since C is quadratic in theta.
*Fieller*: along the line on which the other coefficients follow coefficient j, the variance of b_j at beta_j = b_j + t is
a quadratic a + b t + d t^2, and {t : t^2 <= a + b t + d t^2} is an interval of one standard error for beta_j - b_j, exact
for one regressor. It is unbounded for d >= 1, where the release does not bound the coefficient.
A standard error is the larger of the one with the second order in it and the farther end of Fieller's interval.

Basis. The first equation is proved; the rest is asymptotic. Coverage is measured in tests/sdk.
"""

from __future__ import annotations

import numpy as np

from trimask.fit.noise import outers
from trimask.noise_law import Matrix, NoiseLaw

__all__ = ["widened"]


def widened(
    law: NoiseLaw, T: Matrix, inverse: Matrix, theta: Matrix, first: Matrix, sampling: Matrix
) -> Matrix:
    """The privacy covariance such that, with `sampling` added, it has the standard errors above on its diagonal.

    `inverse` is (T^T G T)^-1 and `first` the covariance of first order. Infinite where the release gives no bound.
    """
    sides = (T @ inverse).T
    values, vectors = np.linalg.eigh(first)
    second = first.copy()
    for moved in (T @ (vectors * np.sqrt(np.maximum(values, 0.0)))).T:
        second += law.covariance(outers(sides, moved))
    whole = first + sampling
    k = len(sides)
    lines = -(T @ (whole / np.where(np.diag(whole) > 0, np.diag(whole), 1.0))).T
    along = outers(sides, lines)
    image = law.image(along)
    a = np.diag(whole)
    b = 2 * np.einsum("aij,aij->a", image, outers(sides, theta))
    d = np.einsum("aij,aij->a", image, along)
    reach = np.full(k, np.inf)
    bounded = d < 1
    root = np.sqrt(b * b / 4 + np.maximum(1 - d, 0.0) * a)
    np.divide(np.abs(b) / 2 + root, 1 - d, out=reach, where=bounded)
    wanted = np.maximum(reach**2 - np.diag(sampling), np.diag(second))
    factor = np.ones(k)
    np.divide(wanted, np.diag(second), out=factor, where=np.diag(second) > 0)
    grown = np.sqrt(factor)
    with np.errstate(invalid="ignore"):  # an infinite error beside an uncorrelated one
        found: Matrix = second * np.outer(grown, grown)
    return np.nan_to_num(found, nan=0.0, posinf=np.inf, neginf=-np.inf)
