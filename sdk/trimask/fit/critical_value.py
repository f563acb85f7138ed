"""How many standard errors an interval reaches to either side."""

from __future__ import annotations

from scipy import stats

from trimask.errors import ParameterError

__all__ = ["critical_value"]


def critical_value(alpha: float, df: float | None = None) -> float:
    """The upper alpha / 2 quantile of the normal distribution, or of Student's with `df` degrees of freedom."""
    if not 0 < alpha < 1:
        raise ParameterError("alpha", "in (0, 1)", alpha)
    return float(stats.norm.isf(alpha / 2) if df is None else stats.t.isf(alpha / 2, df))
