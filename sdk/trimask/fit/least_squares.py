"""Least squares from noisy second moments, in original units, refused where the noise hides what it needs.

The mathematics is `trimask_theory.mechanisms.noisy_regression`'s: the score T^T G theta has mean zero over the noise at
the fit of the raw rows; errors are of second order, joined with Fieller's interval where that is not enough. Working
units are scaled ones; coefficients in original units are combinations of the working ones, and so are their errors.

The residual sum may come out negative. The coefficients need no RSS, and its share of their variance is then small beside
the privacy part, so it is taken as zero there and R^2 is reported as unknown (NaN), rather than the whole fit refused.
When the smallest eigenvalue of T^T G T is within a few standard errors of zero, intervals come out too wide, not too
narrow (measured in the tests).

Residuals cannot be checked after masking: those of masked rows are the true ones under a random rotation, so that every
vector of the same length is as likely, and their length, the residual variance, is all they tell. No residual
plot, no leverage, no test of normality.

Statement. With r times the rows, the sampling part of a coefficient's variance is divided by r. Sharp
calibration at the same epsilon has s^2 proportional to 1/sqrt(n), so the parts of the privacy variance that go
with s^2 and s^4 are divided by r^(3/2) and r^2; Theorem 3.4's sigma does not fall with n, and both are divided
by r. Asymptotic: for one pooled release of all the rows, and effects of the size estimated here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from trimask.errors import BeyondSecondMoments, ParameterError
from trimask.fit.covariance import fourth_moments
from trimask.fit.design import Design
from trimask.fit.noise import CLEAR_SIGNAL, check_signal
from trimask.fit.report import Block, Facts, Report
from trimask.moments.moments import Moments
from trimask_theory.mechanisms.noisy_regression import Combination, NoisyFit, fit, outers
from trimask_theory.moments.noise_law import Matrix


@dataclass(frozen=True, eq=False)
class Estimate:
    """Coefficients and covariances in original units; `signal` is what `check_signal` returns.

    `noise_to_signal` is about the part of each regressor that the others do not explain: noise variance over variance in
    the rows suite, the relative standard error of that variance in the moments suite.
    """

    params: Matrix
    cov_sampling: Matrix
    cov_privacy: Matrix
    noise_to_signal: Matrix
    residual_sum: float
    rsquared: float
    signal: float
    condition_number: float
    errors: Combination = field(repr=False)
    working: NoisyFit = field(repr=False)
    design: Design = field(repr=False)
    moments: Moments = field(repr=False)

    @property
    def gradients(self) -> Matrix:
        """Of the coefficients in the Gram matrix, at first order."""
        return outers(
            (self.working.T @ self.working.inverse @ self.design.to_original.T).T, self.working.theta
        )

    @property
    def grown(self) -> Matrix:
        """What second order multiplies each coefficient's privacy error by, >= 1."""
        first = np.diag(self.design.to_original @ self.working.first @ self.design.to_original.T)
        found = np.ones(len(first))
        np.divide(np.diag(self.cov_privacy), first, out=found, where=first > 0)
        root: Matrix = np.sqrt(np.maximum(found, 1.0))
        return root

    @cached_property
    def cov_fixed(self) -> Matrix:
        """The share of `cov_privacy` from noise that does not grow with the moments."""
        if self.moments.exact:
            return np.zeros_like(self.cov_privacy)
        return self.working.fixed_share(self.design.to_original) * np.outer(self.grown, self.grown)

    def combination(self, weights: Matrix) -> Combination:
        """Errors of combinations of the coefficients in original units: each its own, whatever the parametrisation."""
        found = self.working.combination(weights @ self.design.to_original)
        return replace(found, estimates=found.estimates + weights @ self.design.offset)


def solve(moments: Moments, design: Design, *, robust: bool = False) -> Estimate:
    """The fit, or `CollinearColumns`, `NoiseExceedsSignal`, or `ParameterError` for too few rows.

    `robust` has the sampling part of HC1, from fourth moments, or `BeyondSecondMoments` where products do not carry them.
    """
    n, k = moments.rows, len(design.names)
    if n <= k:
        raise ParameterError("rows", f"more than the {k} coefficients of the model", n)
    T, t = design.combine, design.response_combine
    gram = T.T @ moments.gram @ T
    signal = check_signal((gram + gram.T) / 2, T, moments, design.names, ridge=True)
    working = fit(moments.gram, moments.law, n, T, t)
    if robust:
        spread = fourth_moments(moments, outers((T @ working.inverse).T, working.theta)).covariance(moments)
        if spread is None:
            raise BeyondSecondMoments(NO_SANDWICH)
        working = replace(working, drawn=spread * (n - 1) / (n - k))
    change, half = design.to_original, design.response_half_range
    errors = working.combination(change)
    total, clear = _total_sum(moments, design)
    return Estimate(
        params=design.offset + errors.estimates,
        cov_sampling=errors.cov_sampling,
        cov_privacy=errors.cov_widened,
        noise_to_signal=_noise_to_signal(moments, T, working.inverse),
        residual_sum=working.residual_sum * half**2,
        rsquared=_rsquared(working.residual_sum, total, exact=moments.exact, clear=clear),
        signal=signal,
        condition_number=math.sqrt(float(np.linalg.cond(gram))),
        errors=replace(errors, estimates=design.offset + errors.estimates),
        working=working,
        design=design,
        moments=moments,
    )


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


NO_SANDWICH = (
    "robust (sandwich, clustered) standard errors cannot be had from this fit: they need the sum of x x' e^2, "
    "fourth moments. A study carries them that declares the products of the model's columns with one another and with the "
    "response (for y ~ C(g): the product of g and y), where the noise does not hide them. Otherwise: declare those in the "
    "next study, model the spread you suspect (a group, a square), or state that errors are taken as homoscedastic"
)
DETECTABLE = 2.8
"""|effect| / standard error that a two-sided test of level 5% finds four times in five."""
_MOST = 1e15


@dataclass(frozen=True, eq=False, repr=False)
class Diagnostics(Report):
    """What masking leaves to check of a fit.

    Attributes
    ----------
    table : DataFrame
        A row a coefficient: noise to signal, the noise's share of its variance, rows to find it.
    enough : bool
        Whether the weakest direction clears the noise.
    condition_number : float
        Of the design, in scaled units.
    signal : float
        Noise errors by which the weakest direction clears zero.
    rows_for_signal : int
        Rows at which it would.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.ols(data, "systolic ~ age + salt").diagnostics.enough
    True
    """

    label: str
    rows: int
    condition_number: float
    signal: float
    residual_variance: float
    residual_known: bool
    enough: bool
    rows_for_signal: int
    table: pd.DataFrame

    @property
    def title(self) -> str:
        """What this is."""
        return "Diagnostics of a least-squares fit"

    @property
    def facts(self) -> Facts:
        """The checks of the whole fit."""
        signal = "no noise" if math.isinf(self.signal) else f"{self.signal:.1f} noise standard errors"
        residual = f"variance {self.residual_variance:.5g}" if self.residual_known else "hidden by the noise"
        verdict = "yes" if self.enough else f"no: about {self.rows_for_signal:,} would be"
        return [
            ("data", self.label),
            ("rows", f"{self.rows:,}"),
            ("condition", f"{self.condition_number:.3g}"),
            ("weakest", signal),
            ("residuals", residual),
            ("rows enough", verdict),
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        return (
            "noise/signal: the noise in the part of a column that the others do not explain, over that part's variance.",
            "privacy share: of the variance of the coefficient.",
            f"rows to find it: where an effect of the size estimated is {DETECTABLE} standard errors (one release).",
            "No residual is in a release: only their variance can be looked at.",
        )

    def blocks(self, alpha: float) -> list[Block]:  # noqa: ARG002  no intervals here
        """The table."""
        rows = [
            [str(name), f"{noise:.3g}", f"{share:.0%}", "-" if math.isinf(need) else f"{need:,.0f}"]
            for name, noise, share, need in self.table.itertuples()
        ]
        return [Block(["", *map(str, self.table.columns)], rows)]

    def __repr__(self) -> str:
        return f"<Diagnostics of a fit on {self.label}: rows enough, {'yes' if self.enough else 'no'}>"


def diagnose(estimate: Estimate) -> Diagnostics:
    """The diagnostics of a fit."""
    names, n = estimate.design.names, estimate.moments.rows
    privacy = np.diag(estimate.cov_privacy)
    with np.errstate(invalid="ignore"):
        share = np.nan_to_num(privacy / (np.diag(estimate.cov_sampling) + privacy))
    need = [rows_needed(estimate, j, abs(size) / DETECTABLE) for j, size in enumerate(estimate.params)]
    columns = {"noise/signal": estimate.noise_to_signal, "privacy share": share, "rows to find it": need}
    # The eigenvalue over its noise grows as n where sigma falls with n, as sqrt(n) where it does not.
    factor = max(1.0, CLEAR_SIGNAL / estimate.signal)
    grown = factor if estimate.moments.noise_falls_with_rows else factor**2
    return Diagnostics(
        label=estimate.moments.label,
        rows=n,
        condition_number=estimate.condition_number,
        signal=estimate.signal,
        residual_variance=max(estimate.residual_sum, 0.0) / (n - len(names)),
        residual_known=estimate.residual_sum > 0 or estimate.moments.exact,
        enough=estimate.signal >= CLEAR_SIGNAL,
        rows_for_signal=math.ceil(n * grown),
        table=pd.DataFrame(columns, index=pd.Index(names)),
    )


def rows_needed(estimate: Estimate, j: int, error: float) -> float:
    """About how many rows would give coefficient j this standard error; inf for an error of zero."""
    k, n = len(estimate.params), estimate.moments.rows
    sampling, privacy = float(estimate.cov_sampling[j, j]), float(estimate.cov_privacy[j, j])
    quartic = float(estimate.cov_fixed[j, j])
    powers = (1.0, 1.5, 2.0) if estimate.moments.noise_falls_with_rows else (1.0, 1.0, 1.0)

    def variance(log_ratio: float) -> float:
        parts = zip((sampling, privacy - quartic, quartic), powers, strict=True)
        return sum(part * math.exp(-power * log_ratio) for part, power in parts)

    if error == 0:
        return math.inf if variance(0.0) > 0 else float(k + 1)
    low, high = math.log((k + 1) / n), math.log(_MOST / n)
    if variance(high) > error**2:
        return math.inf
    if variance(low) <= error**2:
        return float(k + 1)
    root = brentq(lambda x: math.log(variance(x)) - 2 * math.log(error), low, high, xtol=1e-9)
    return float(math.ceil(n * math.exp(root)))
