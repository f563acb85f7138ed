"""Least squares from noisy second moments, with the noise corrected and its share of the error accounted for.

Setting (scaled units). Z has n rows, G = Z^T Z + D is published or made from what is, D has mean zero and a known law
(`trimask.noise_law`). Regressor j is Z a_j, the response Z t; write T = (a_1 .. a_k), beta = (T^T G T)^-1 T^T G t and
theta = t - T beta (so Z theta are the residuals).

Statement. At the least-squares solution of the raw rows the score T^T G theta = T^T D theta has mean zero over the noise,
and the covariance V that the law gives the gradients of a_j^T G theta. The privacy part of the covariance of beta is
(T^T G T)^-1 V (T^T G T)^-1 to first order, widened where that is not enough (`trimask.fit.widening`). The sampling part
is the usual RSS/(n-k) (T^T G T)^-1, for independent homoscedastic errors; both parts add, because the noise has mean zero
given the rows. In the rows suite, for T made of coordinate vectors and nothing known of the moments, the diagonal of V is
s^2 |theta|^2 G_jj + s^2 RSS + n s^4 (|theta|^2 + theta_j^2).

Proved: V. Asymptotic: the rest and the normal intervals; their coverage is measured in the tests. When the smallest
eigenvalue of T^T G T is within a few standard errors of zero, intervals come out too wide, not too narrow (measured there
too).

The fitted residual sum falls short of RSS by tr((T^T G T)^-1 V) on average, as it does by k RSS/n from
sampling, so that is added back. It may still come out negative. The coefficients need no RSS, and its share of their
variance is then small beside the privacy part, so it is taken as zero there and R^2 is reported as unknown (NaN), rather
than the whole fit refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from trimask.errors import ParameterError
from trimask.fit.design import Design
from trimask.fit.noise import outers
from trimask.fit.signal import check_signal
from trimask.fit.widening import widened
from trimask.moments import Matrix, Moments

__all__ = ["Estimate", "solve"]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Coefficients and covariances in original units; `signal` is what `check_signal` returns.

    `cov_fixed` is the share of `cov_privacy` from noise that does not grow with the moments. `noise_to_signal` is about
    the part of each regressor that the others do not explain: noise variance over variance in the rows suite, the
    relative standard error of that variance in the moments suite.
    """

    params: Matrix
    cov_sampling: Matrix
    cov_privacy: Matrix
    cov_fixed: Matrix
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
    T, t, law = design.combine, design.response_combine, moments.law
    gram = _symmetric(T.T @ moments.gram @ T)
    signal = check_signal(gram, T, moments, design.names, ridge=True)
    inverse = _symmetric(linalg.inv(gram))
    beta = inverse @ (T.T @ moments.gram @ t)
    theta = t - T @ beta
    rss = float(theta @ moments.gram @ theta)
    privacy = fixed = np.zeros((k, k))
    if not moments.exact:
        gradients = outers((T @ inverse).T, theta)
        first = law.covariance(gradients)
        rss += float(np.sum(gram * first))
        privacy = widened(law, T, inverse, theta, first, max(rss, 0.0) / (n - k) * inverse)
        fixed = law.fixed.covariance(gradients) * _share(privacy, first)
    known = max(rss, 0.0)
    to_original, half = design.to_original, design.response_half_range
    return Estimate(
        params=design.offset + to_original @ beta,
        cov_sampling=_carried(to_original, known / (n - k) * inverse),
        cov_privacy=_carried(to_original, privacy),
        cov_fixed=_carried(to_original, fixed),
        noise_to_signal=_noise_to_signal(moments, T, inverse),
        residual_sum=rss * half**2,
        rsquared=_rsquared(rss, moments, design),
        signal=signal,
        condition_number=math.sqrt(float(np.linalg.cond(gram))),
    )


def _share(privacy: Matrix, first: Matrix) -> Matrix:
    """By how much the widened covariance exceeds that of first order, coefficient by coefficient."""
    grown = np.ones(len(first))
    np.divide(np.diag(privacy), np.diag(first), out=grown, where=np.diag(first) > 0)
    found: Matrix = np.sqrt(np.outer(grown, grown))
    return found


def _carried(change: Matrix, covariance: Matrix) -> Matrix:
    """The covariance in original units; an infinite one stays with the coefficients it goes into."""
    if np.all(np.isfinite(covariance)):
        return _symmetric(change @ covariance @ change.T)
    lost = np.isinf(np.diag(covariance))
    rest = np.where(np.logical_or.outer(lost, lost), 0.0, covariance)
    found = _symmetric(change @ rest @ change.T)
    touched = (change[:, lost] != 0).any(axis=1)
    found[touched, touched] = np.inf
    return found


def _noise_to_signal(moments: Moments, T: Matrix, inverse: Matrix) -> Matrix:
    left = (T @ inverse).T / np.diag(inverse)[:, None]  # what the others leave of each regressor
    if moments.suite == "rows":
        found: Matrix = moments.rows * moments.sigma**2 * np.sum(left**2, axis=1) * np.diag(inverse)
        return found
    return np.sqrt(moments.law.variance(np.einsum("ai,aj->aij", left, left))) * np.diag(inverse)


def _symmetric(matrix: Matrix) -> Matrix:
    return (matrix + matrix.T) / 2


def _rsquared(rss: float, moments: Moments, design: Design) -> float:
    """1 - RSS/TSS, about the mean if the model contains a constant; NaN where the noise hides RSS or TSS."""
    t, one = design.response_combine, design.constant
    total = float(t @ moments.gram @ t)
    if one is not None:
        total -= float(one @ moments.gram @ t) ** 2 / float(one @ moments.gram @ one)
    if moments.exact:
        return 1 - max(rss, 0.0) / total if total > 0 else math.nan
    return 1 - rss / total if 0 < rss <= total else math.nan
