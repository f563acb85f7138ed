"""Least squares from noisy second moments, with the noise corrected and its share of the error accounted for.

Setting (scaled units). Z has n rows; W = Z + E with E i.i.d. N(0, s^2), then masked by an orthogonal matrix,
which W^T W does not see. G = W^T W - n s^2 I is unbiased for Z^T Z. Regressor j is Z a_j, the response Z t;
write T = (a_1 .. a_k), beta = (T^T G T)^-1 T^T G t, theta = t - T beta (so Z theta are the residuals), B =
T^T T, b = T^T theta.

Statement. At the least-squares solution of the raw rows the score T^T G theta has mean zero over the noise
and covariance
    V = s^2 |theta|^2 T^T Z^T Z T + s^2 RSS B + n s^4 (|theta|^2 B + b b^T),
and the privacy part of the covariance of beta is (T^T G T)^-1 V (T^T G T)^-1 to first order. The sampling
part is the usual RSS/(n-k) (T^T G T)^-1, for independent homoscedastic errors; both parts add, because the
noise has mean zero given the rows.

V is exact: row i adds (z_i a_j + e_i a_j)(r_i + e_i theta) - s^2 a_j.theta, whose covariance over e_i is
s^2 |theta|^2 z_ij z_ik + s^2 r_i^2 a_j.a_k + s^2 r_i (z_ij b_k + z_ik b_j) + s^4 (|theta|^2 a_j.a_k + b_j b_k),
and the third term sums to zero since residuals are orthogonal to regressors. For T made of coordinate vectors
the diagonal of V is s^2 |theta|^2 G_jj + s^2 RSS + n s^4 (|theta|^2 + theta_j^2).

Proved: V. Asymptotic: the delta method and the normal intervals; their coverage is measured in the tests. When
the smallest eigenvalue of T^T G T is within a few standard errors of zero, intervals come out too wide, not
too narrow (measured there too).

The fitted residual sum falls short of RSS by tr((T^T G T)^-1 V) on average, as it does by k RSS/n from
sampling, so that is added back. It may still come out negative when s^2 |theta|^2 sqrt(2 n) exceeds RSS. The
coefficients need no RSS, and its share of their variance is then at most of order sqrt(2/n) of the privacy
part, so it is taken as zero there and R^2 is reported as unknown (NaN), rather than the whole fit refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from trimask.errors import ParameterError
from trimask.fit.design import Design
from trimask.fit.signal import check_signal
from trimask.moments import Matrix, Moments

__all__ = ["Estimate", "solve"]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Coefficients and covariances in original units; `signal` is what `check_signal` returns.

    `cov_quartic` is the share of `cov_privacy` that goes with s^4 and not s^2. `noise_to_signal` is, for each
    regressor, noise variance over variance in the part of it that the others do not explain.
    """

    params: Matrix
    cov_sampling: Matrix
    cov_privacy: Matrix
    cov_quartic: Matrix
    noise_to_signal: Matrix
    residual_sum: float
    rsquared: float
    signal: float
    condition_number: float


def solve(moments: Moments, design: Design) -> Estimate:
    """The fit, or `CollinearColumns`, `NoiseExceedsSignal`, or `ParameterError` for too few rows."""
    n, k = moments.rows, len(design.names)
    if n <= k:
        raise ParameterError("rows", f"more than the {k} coefficients of the model", n)
    T, t, sigma = design.combine, design.response_combine, moments.sigma
    gram = _symmetric(T.T @ moments.gram @ T)
    B = T.T @ T
    signal = check_signal(gram, B, moments, design.names)
    inverse = _symmetric(linalg.inv(gram))
    beta = inverse @ (T.T @ moments.gram @ t)
    theta = t - T @ beta
    b, size = T.T @ theta, float(theta @ theta)
    fitted = float(theta @ moments.gram @ theta)

    quartic = n * sigma**4 * (size * B + np.outer(b, b))

    def score_covariance(rss: float) -> Matrix:
        V: Matrix = sigma**2 * (size * gram + rss * B) + quartic
        return V

    rss = fitted + float(np.trace(inverse @ score_covariance(max(fitted, 0.0))))
    known = max(rss, 0.0)
    to_original, half = design.to_original, design.response_half_range
    privacy = inverse @ score_covariance(known) @ inverse
    sampling = known / (n - k) * inverse
    return Estimate(
        params=design.offset + to_original @ beta,
        cov_sampling=_symmetric(to_original @ sampling @ to_original.T),
        cov_privacy=_symmetric(to_original @ privacy @ to_original.T),
        cov_quartic=_symmetric(to_original @ inverse @ quartic @ inverse @ to_original.T),
        noise_to_signal=n * sigma**2 * np.diag(inverse @ B @ inverse) / np.diag(inverse),
        residual_sum=rss * half**2,
        rsquared=_rsquared(rss, moments, design),
        signal=signal,
        condition_number=math.sqrt(float(np.linalg.cond(gram))),
    )


def _symmetric(matrix: Matrix) -> Matrix:
    return (matrix + matrix.T) / 2


def _rsquared(rss: float, moments: Moments, design: Design) -> float:
    """1 - RSS/TSS, about the mean if the model contains a constant; NaN where the noise hides RSS or TSS."""
    t, one = design.response_combine, design.constant
    total = float(t @ moments.gram @ t)
    if one is not None:
        total -= float(one @ moments.gram @ t) ** 2 / float(one @ moments.gram @ one)
    if moments.sigma == 0:
        return 1 - max(rss, 0.0) / total if total > 0 else math.nan
    return 1 - rss / total if 0 < rss <= total else math.nan
