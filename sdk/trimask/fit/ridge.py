"""Ridge regression from noisy second moments.

Statement. In scaled units (every column in [-1, 1] by its declared bounds) the fit minimises
    RSS / n + penalty * (sum of squared slopes),
the intercept left free: beta = (T^T G T + n penalty P)^-1 T^T G t, P the diagonal of zeros and ones. Its noise
covariance is that of its gradient, dbeta = K T^T dG theta with K the inverse above and theta = t - T beta
(`trimask_theory.noise_law`; K T^T D theta is what `gram_covariance` is given). The sampling part is K T^T G T K times
the residual variance, for independent homoscedastic errors.

The estimate is pulled towards zero on purpose, so errors are about what ridge aims at, not about the true
coefficients: there are no t values or p-values, and an interval is one for the penalised coefficient. Fitting a
release as if it were the data is ridge with penalty sigma^2, on the intercept too.

Proved: the noise covariance of the score. Asymptotic: the delta method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import linalg

from trimask.errors import ParameterError
from trimask.fit.design import INTERCEPT, build
from trimask.fit.formula import parse
from trimask.fit.noise import gram_covariance, outer
from trimask.fit.report import Facts, noise_notes, of_data
from trimask.fit.results import HOMOSCEDASTIC, LinearResults
from trimask.fit.signal import check_signal
from trimask.fit.source import moments_of

if TYPE_CHECKING:
    from trimask.fit.source import Source

__all__ = ["RidgeResults", "ridge"]


@dataclass(frozen=True, eq=False, repr=False)
class RidgeResults(LinearResults):
    """A ridge fit. Errors are about the penalised coefficients; nothing is tested."""

    penalty: float

    @property
    def title(self) -> str:
        """What was fitted."""
        return f"Ridge regression {of_data(self.sigma)}"

    @property
    def facts(self) -> Facts:
        """What the table is of."""
        return [*super().facts, ("penalty", f"{self.penalty:g} (scaled units)")]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        return (
            *noise_notes(self.sigma),
            "Pulled towards zero on purpose: errors and intervals are for the penalised coefficients.",
            HOMOSCEDASTIC,
        )

    def _tested(self) -> Sequence[pd.Series[float]]:
        return []

    def f_test(self, hypothesis: Any) -> Any:
        """Refused: a penalised fit is biased, so the F test does not hold for it."""
        raise ParameterError("f_test", "asked of an ols fit; a ridge fit is biased on purpose", hypothesis)


def ridge(dataset: Source, formula: str, penalty: float) -> RidgeResults:
    """Ridge regression, noise corrected. It answers where `ols` must refuse, if the penalty outweighs the noise."""
    if not (np.isfinite(penalty) and penalty >= 0):
        raise ParameterError("penalty", "finite and >= 0", penalty)
    moments = moments_of(dataset)
    design = build(parse(formula, moments.schema), moments.schema)
    n, k = moments.rows, len(design.names)
    if n <= k:
        raise ParameterError("rows", f"more than the {k} coefficients of the model", n)
    T, t = design.combine, design.response_combine
    gram = T.T @ moments.gram @ T
    gram = (gram + gram.T) / 2
    penalised = gram + np.diag([0.0 if name == INTERCEPT else n * penalty for name in design.names])
    check_signal(penalised, T, moments, design.names, ridge=True)
    K = linalg.inv(penalised)
    beta = K @ (T.T @ moments.gram @ t)
    theta = t - T @ beta
    gradients = np.array([outer(T @ row, theta) for row in K])
    residual = max(float(theta @ moments.gram @ theta), 0.0) / (n - k)
    change = design.to_original
    # An indefinite T^T G T, which the penalty made up for, would give negative variances: its positive part.
    values, vectors = np.linalg.eigh(gram)
    spread = residual * K @ ((vectors * np.maximum(values, 0.0)) @ vectors.T) @ K
    return RidgeResults(
        formula=formula.strip(),
        response=design.response,
        unit=design.unit,
        basis="release",
        label=moments.label,
        nobs=n,
        sigma=moments.sigma,
        names=design.names,
        coefficients=design.offset + change @ beta,
        cov_sampling=change @ spread @ change.T,
        cov_privacy=change @ gram_covariance(moments, gradients) @ change.T,
        penalty=float(penalty),
    )
