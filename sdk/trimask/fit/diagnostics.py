"""What can be checked about a fit after masking, and how many rows it would take.

Residuals themselves cannot: those of masked rows are the true ones under a random rotation, so that every
vector of the same length is as likely, and their length, the residual variance, is all they tell. No residual
plot, no leverage, no test of normality.

Statement. With r times the rows, the sampling part of a coefficient's variance is divided by r. Sharp
calibration at the same epsilon has s^2 proportional to 1/sqrt(n), so the parts of the privacy variance that go
with s^2 and s^4 are divided by r^(3/2) and r^2; Theorem 3.4's sigma does not fall with n, and both are divided
by r. Asymptotic: for one pooled release of all the rows, and effects of the size estimated here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from trimask.errors import ParameterError
from trimask.fit.least_squares import Estimate
from trimask.fit.report import Block, Facts, Report
from trimask.fit.signal import CLEAR_SIGNAL

__all__ = ["DETECTABLE", "Diagnostics", "LeastSquaresFit", "diagnose", "rows_for_error"]

DETECTABLE = 2.8
"""|effect| / standard error that a two-sided test of level 5% finds four times in five."""
_MOST = 1e15


class LeastSquaresFit(Protocol):
    """What diagnostics need of a fit: `OLSResults` has it."""

    @property
    def label(self) -> str: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def nobs(self) -> int: ...
    @property
    def sigma(self) -> float: ...
    @property
    def noise_falls_with_rows(self) -> bool: ...
    @property
    def cov_sampling(self) -> Any: ...
    @property
    def cov_privacy(self) -> Any: ...
    @property
    def estimate(self) -> Estimate: ...
    @property
    def params(self) -> pd.Series[float]: ...
    @property
    def bse(self) -> pd.Series[float]: ...
    @property
    def bse_privacy(self) -> pd.Series[float]: ...
    @property
    def scale(self) -> float: ...
    @property
    def signal(self) -> float: ...
    @property
    def condition_number(self) -> float: ...


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


def diagnose(result: LeastSquaresFit) -> Diagnostics:
    """The diagnostics of a fit."""
    estimate = result.estimate
    with np.errstate(invalid="ignore"):
        share = (result.bse_privacy / result.bse) ** 2
    need = [rows_for_error(result, name, abs(result.params[name]) / DETECTABLE) for name in result.names]
    table = pd.DataFrame(
        {
            "noise/signal": estimate.noise_to_signal,
            "privacy share": share.fillna(0.0).to_numpy(),
            "rows to find it": need,
        },
        index=pd.Index(result.names),
    )
    # The eigenvalue over its noise grows as n where sigma falls with n, as sqrt(n) where it does not.
    factor = max(1.0, CLEAR_SIGNAL / result.signal)
    grown = factor if result.noise_falls_with_rows else factor**2
    return Diagnostics(
        label=result.label,
        rows=result.nobs,
        condition_number=result.condition_number,
        signal=result.signal,
        residual_variance=result.scale,
        residual_known=estimate.residual_sum > 0 or result.sigma == 0,
        enough=result.signal >= CLEAR_SIGNAL,
        rows_for_signal=math.ceil(result.nobs * grown),
        table=table,
    )


def rows_for_error(result: LeastSquaresFit, name: str, error: float) -> float:
    """About how many rows would give a coefficient this standard error.

    Parameters
    ----------
    result : OLSResults
        A fit of `ols`.
    name : str
        A coefficient's.
    error : float
        The standard error wanted, in original units.

    Returns
    -------
    float
        People in one pooled release of the same study; inf for an error of zero.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> fit = trimask.fit.ols(data, "systolic ~ age + salt")
    >>> trimask.fit.rows_for_error(fit, "salt", fit.bse["salt"]) <= 2000 < trimask.fit.rows_for_error(fit, "salt", 0.05)
    True
    """
    if name not in result.names:
        raise ParameterError("name", f"one of {', '.join(result.names)}", name)
    if not error >= 0:
        raise ParameterError("error", ">= 0", error)
    j = result.names.index(name)
    sampling, privacy = float(result.cov_sampling[j, j]), float(result.cov_privacy[j, j])
    quartic = float(result.estimate.cov_fixed[j, j])
    falls = result.noise_falls_with_rows
    powers = (1.0, 1.5, 2.0) if falls else (1.0, 1.0, 1.0)

    def variance(log_ratio: float) -> float:
        parts = zip((sampling, privacy - quartic, quartic), powers, strict=True)
        return sum(part * math.exp(-power * log_ratio) for part, power in parts)

    if error == 0:
        return math.inf if variance(0.0) > 0 else float(len(result.names) + 1)
    low, high = math.log((len(result.names) + 1) / result.nobs), math.log(_MOST / result.nobs)
    if variance(high) > error**2:
        return math.inf
    if variance(low) <= error**2:
        return float(len(result.names) + 1)
    root = brentq(lambda x: math.log(variance(x)) - 2 * math.log(error), low, high, xtol=1e-9)
    return float(math.ceil(result.nobs * math.exp(root)))
