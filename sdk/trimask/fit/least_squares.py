"""Least squares from noisy second moments, in original units, refused where the noise hides what it needs.

The mathematics is `trimask_theory.noisy_regression`'s: the score T^T G theta has mean zero over the noise at the fit of the
raw rows; errors are of second order, joined with Fieller's interval where that is not enough. Working units are scaled
ones; coefficients in original units are combinations of the working ones, and so are their errors.

The residual sum may come out negative. The coefficients need no RSS, and its share of their variance is then small beside
the privacy part, so it is taken as zero there and R^2 is reported as unknown (NaN), rather than the whole fit refused.
When the smallest eigenvalue of T^T G T is within a few standard errors of zero, intervals come out too wide, not too
narrow (measured in the tests).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from trimask.errors import ParameterError
from trimask.fit.design import Design
from trimask.fit.signal import check_signal
from trimask.moments import Matrix, Moments
from trimask_theory.noisy_regression import Combination, NoisyFit, fit

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
    working: NoisyFit = field(repr=False)
    design: Design = field(repr=False)
    moments: Moments = field(repr=False)

    def combination(self, weights: Matrix) -> Combination:
        """Errors of combinations of the coefficients in original units: each its own, whatever the parametrisation."""
        found = self.working.combination(weights @ self.design.to_original)
        return replace(found, estimates=found.estimates + weights @ self.design.offset)


def solve(moments: Moments, design: Design) -> Estimate:
    """The fit, or `CollinearColumns`, `NoiseExceedsSignal`, or `ParameterError` for too few rows."""
    n, k = moments.rows, len(design.names)
    if n <= k:
        raise ParameterError("rows", f"more than the {k} coefficients of the model", n)
    T, t = design.combine, design.response_combine
    gram = T.T @ moments.gram @ T
    signal = check_signal((gram + gram.T) / 2, T, moments, design.names, ridge=True)
    working = fit(moments.gram, moments.law, n, T, t)
    change, half = design.to_original, design.response_half_range
    errors = working.combination(change)
    privacy = errors.cov_widened
    fixed = np.zeros((k, k)) if moments.exact else working.fixed_share(change)
    total, clear = _total_sum(moments, design)
    return Estimate(
        params=design.offset + errors.estimates,
        cov_sampling=errors.cov_sampling,
        cov_privacy=privacy,
        cov_fixed=fixed * _share(privacy, change @ working.first @ change.T),
        noise_to_signal=_noise_to_signal(moments, T, working.inverse),
        residual_sum=working.residual_sum * half**2,
        rsquared=_rsquared(working.residual_sum, total, exact=moments.exact, clear=clear),
        signal=signal,
        condition_number=math.sqrt(float(np.linalg.cond(gram))),
        working=working,
        design=design,
        moments=moments,
    )


def _share(privacy: Matrix, first: Matrix) -> Matrix:
    """By how much the widened covariance exceeds that of first order, coefficient by coefficient."""
    grown = np.ones(len(first))
    np.divide(np.diag(privacy), np.diag(first), out=grown, where=np.diag(first) > 0)
    found: Matrix = np.sqrt(np.outer(grown, grown))
    return found


def _noise_to_signal(moments: Moments, T: Matrix, inverse: Matrix) -> Matrix:
    left = (T @ inverse).T / np.diag(inverse)[:, None]  # what the others leave of each regressor
    if moments.suite == "rows":
        found: Matrix = moments.rows * moments.sigma**2 * np.sum(left**2, axis=1) * np.diag(inverse)
        return found
    return np.sqrt(moments.law.variance(np.einsum("ai,aj->aij", left, left))) * np.diag(inverse)


def _total_sum(moments: Moments, design: Design) -> tuple[float, bool]:
    """Of squares of the response in scaled units, about the mean if the model contains a constant; whether it is clear.

    That is, more than three deviations of its noise above zero.
    """
    t, one = design.response_combine, design.constant
    if one is not None:
        t = t - float(one @ moments.gram @ t) / float(one @ moments.gram @ one) * one
    total = float(t @ moments.gram @ t)
    noise = 0.0 if moments.exact else float(moments.law.variance(np.outer(t, t)[None])[0])
    return total, total > 3 * math.sqrt(max(noise, 0.0))


def _rsquared(rss: float, total: float, *, exact: bool, clear: bool) -> float:
    """1 - RSS/TSS, and 0 where RSS, corrected for noise, is a little above a clear TSS; NaN where noise hides either."""
    if exact:
        return 1 - max(rss, 0.0) / total if total > 0 else math.nan
    if 0 < rss <= total:
        return 1 - rss / total
    return 0.0 if clear and rss > total else math.nan
