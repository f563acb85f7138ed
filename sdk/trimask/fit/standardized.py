"""Standardised coefficients: b_j times the deviation of the regressor over that of the response.

Statement. With variances S_jj and S_yy from the corrected moments, beta_j = b_j sqrt(S_jj / S_yy), and
    dbeta_j = sqrt(S_jj / S_yy) (db_j + b_j / 2 (dS_jj / S_jj - dS_yy / S_yy)).
The noise variance is that of the whole gradient, grown where that of b_j is. The sampling part takes the deviations as
known, as is usual. Asymptotic.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from trimask.fit.covariance import covariance_of
from trimask.fit.least_squares import Estimate
from trimask.fit.noise import outers
from trimask.moments import Moments
from trimask_core.schema import ONES

__all__ = ["standardized"]


def standardized(moments: Moments, estimate: Estimate) -> pd.DataFrame:
    """estimate, std err, sampling and privacy of every slope, in deviations."""
    design, working = estimate.design, estimate.working
    at = [j for j, name in enumerate(design.columns) if name != ONES]
    names = [design.columns[j] for j in at]
    spread = covariance_of(moments, [*names, design.response])
    deviations = spread.deviations()
    half = {column.name: column.half_range for column in moments.columns}
    scaled = deviations * [half[name] for name in (*names, design.response)]
    factor = scaled[:-1] / scaled[-1]
    b = estimate.params[at]
    sampling = factor**2 * np.diag(estimate.cov_sampling)[at]
    privacy = np.zeros(len(at))
    if not moments.exact:
        sides = (working.T @ working.inverse @ design.to_original[at].T).T
        squares = outers(spread.W.T, spread.W.T) / spread.degrees / np.diag(spread.S)[:, None, None]
        gradients = outers(sides, working.theta) + (b / 2)[:, None, None] * (squares[:-1] - squares[-1])
        first = np.diag(design.to_original @ working.first @ design.to_original.T)[at]
        grown = np.ones(len(at))
        np.divide(np.diag(estimate.cov_privacy)[at], first, out=grown, where=first > 0)
        privacy = factor**2 * moments.law.variance(gradients) * np.maximum(grown, 1.0)
    parts = np.column_stack([factor * b, np.sqrt(sampling + privacy), np.sqrt(sampling), np.sqrt(privacy)])
    index = pd.Index([design.names[j] for j in at])
    return pd.DataFrame(parts, index=index, columns=pd.Index(["estimate", "std err", "sampling", "privacy"]))
