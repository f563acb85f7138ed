"""What fits of coefficients return: frozen, named as statsmodels names things, every error in two parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from scipy import stats

from trimask.errors import ParameterError
from trimask.fit.hypothesis import FTest, Hypothesis, constraints, wald
from trimask.fit.least_squares import Estimate
from trimask.fit.report import Block, Facts, Report, figures, noise_notes, of_data, places_for
from trimask.fit.signal import CLEAR_SIGNAL
from trimask.moments import Matrix

if TYPE_CHECKING:
    from trimask.fit.diagnostics import Diagnostics

__all__ = ["Basis", "LinearResults", "OLSResults"]

Basis = Literal["release", "naive", "rows"]
HOMOSCEDASTIC = (
    "Errors are taken as homoscedastic: robust ones need fourth moments, which second moments do not carry."
)


@dataclass(frozen=True, eq=False, repr=False)
class LinearResults(Report):
    """Coefficients of a linear model, in original units.

    `basis`: "release" (noise corrected), "naive" (noise ignored: biased, for comparison only) or "rows" (raw
    data).
    """

    formula: str
    response: str
    unit: str
    basis: Basis
    label: str
    nobs: int
    sigma: float
    names: tuple[str, ...]
    coefficients: Matrix
    cov_sampling: Matrix
    cov_privacy: Matrix

    def _series(self, values: Matrix, name: str) -> pd.Series[float]:
        return pd.Series(values, index=pd.Index(self.names), name=name, dtype=float)

    def _frame(self, values: Matrix) -> pd.DataFrame:
        return pd.DataFrame(values, index=pd.Index(self.names), columns=pd.Index(self.names))

    @cached_property
    def params(self) -> pd.Series[float]:
        """The coefficients."""
        return self._series(self.coefficients, "coef")

    @property
    def df_resid(self) -> int:
        """Rows less coefficients."""
        return self.nobs - len(self.names)

    def cov_params(self) -> pd.DataFrame:
        """The covariance of the coefficients: sampling and privacy together."""
        return self._frame(self.cov_sampling + self.cov_privacy)

    @cached_property
    def bse(self) -> pd.Series[float]:
        """Standard errors. bse^2 = bse_sampling^2 + bse_privacy^2."""
        return self._series(np.sqrt(np.diag(self.cov_sampling) + np.diag(self.cov_privacy)), "std err")

    @cached_property
    def bse_sampling(self) -> pd.Series[float]:
        """The part that raw rows would have too: other people could have been asked."""
        return self._series(np.sqrt(np.diag(self.cov_sampling)), "sampling")

    @cached_property
    def bse_privacy(self) -> pd.Series[float]:
        """The part the privacy noise adds: how far this fit may be from that on the raw rows."""
        return self._series(np.sqrt(np.diag(self.cov_privacy)), "privacy")

    @cached_property
    def tvalues(self) -> pd.Series[float]:
        """params / bse."""
        with np.errstate(divide="ignore", invalid="ignore"):  # an exact fit has standard errors of zero
            return self._series(self.coefficients / self.bse.to_numpy(), "t")

    @cached_property
    def pvalues(self) -> pd.Series[float]:
        """Two-sided, by the t distribution with `df_resid` degrees of freedom."""
        return self._series(2 * stats.t.sf(np.abs(self.tvalues.to_numpy()), self.df_resid), "P>|t|")

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals of level 1 - alpha, lower in column 0 and upper in column 1."""
        if not 0 < alpha < 1:
            raise ParameterError("alpha", "in (0, 1)", alpha)
        reach = float(stats.t.isf(alpha / 2, self.df_resid)) * self.bse.to_numpy()
        ends = np.column_stack([self.coefficients - reach, self.coefficients + reach])
        return pd.DataFrame(ends, index=pd.Index(self.names))

    def f_test(self, hypothesis: Hypothesis) -> FTest:
        """A joint test of linear hypotheses, such as "age = 0, smoker = 6" or "bmi = age" (see `hypothesis`)."""
        R, q, words = constraints(hypothesis, self.names)
        return wald(R @ self.coefficients - q, R @ self.cov_params().to_numpy() @ R.T, self.df_resid, words)

    def _tested(self) -> Sequence[pd.Series[float]]:
        return [self.tvalues, self.pvalues]

    def table(self, alpha: float = 0.05) -> pd.DataFrame:
        """The coefficient table."""
        interval = self.conf_int(alpha)
        parts = [self.params, self.bse, self.bse_sampling, self.bse_privacy, *self._tested()]
        table = {str(part.name): part for part in parts}
        return pd.DataFrame({**table, f"[{alpha / 2:g}": interval[0], f"{1 - alpha / 2:g}]": interval[1]})

    def blocks(self, alpha: float) -> list[Block]:
        """The coefficient table. Figures of one row share the decimals that suit its standard error."""
        table = self.table(alpha)
        rows = []
        for name, (coef, error, sampling, privacy, *tests, low, high) in zip(
            self.names, table.to_numpy(), strict=True
        ):
            places = places_for(error, coef)
            shown = [f"{value:.{2 + j}f}" for j, value in enumerate(tests)]
            fixed = figures([coef, error, sampling, privacy], places)
            rows.append([name, *fixed, *shown, *figures([low, high], places)])
        return [Block(["", *map(str, table.columns)], rows)]

    @property
    def facts(self) -> Facts:
        """What the table is of."""
        unit = f" ({self.unit})" if self.unit else ""
        return [
            ("model", self.formula),
            ("response", self.response + unit),
            ("data", self.label),
            ("rows", f"{self.nobs:,}"),
            ("noise sigma", f"{self.sigma:.4g}"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        interval = self.conf_int().to_numpy()
        return {
            "formula": self.formula,
            "response": self.response,
            "unit": self.unit,
            "basis": self.basis,
            "label": self.label,
            "nobs": self.nobs,
            "sigma": self.sigma,
            "coefficients": [
                {
                    "name": name,
                    "coef": float(self.params.iloc[j]),
                    "bse": float(self.bse.iloc[j]),
                    "bse_sampling": float(self.bse_sampling.iloc[j]),
                    "bse_privacy": float(self.bse_privacy.iloc[j]),
                    "low": float(interval[j, 0]),
                    "high": float(interval[j, 1]),
                }
                for j, name in enumerate(self.names)
            ],
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.formula!r} on {self.label}, {self.nobs:,} rows>"


@dataclass(frozen=True, eq=False, repr=False)
class OLSResults(LinearResults):
    """A least-squares fit."""

    estimate: Estimate
    noise_falls_with_rows: bool = True

    @property
    def title(self) -> str:
        """What was fitted, and whether the noise was corrected."""
        return {
            "release": f"Least squares {of_data(self.sigma)}",
            "naive": "Least squares on a release, noise ignored",
            "rows": "Least squares on raw rows",
        }[self.basis]

    @property
    def rsquared(self) -> float:
        """1 - RSS/TSS, from the corrected moments; NaN when the noise hides the residual variance."""
        return self.estimate.rsquared

    @property
    def scale(self) -> float:
        """The residual variance RSS / df_resid, from the corrected moments; zero when the noise hides it."""
        return max(self.estimate.residual_sum, 0.0) / self.df_resid

    @property
    def signal(self) -> float:
        """Noise standard errors by which the design's weakest direction clears zero; inf without noise."""
        return self.estimate.signal

    @property
    def condition_number(self) -> float:
        """Of the design, in scaled units."""
        return self.estimate.condition_number

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals of level 1 - alpha, lower in column 0 and upper in column 1.

        Where the noise is large they reach farther than so many `bse`: Fieller's interval at this level is joined to
        them (`trimask_theory.noisy_regression`).
        """
        plain = super().conf_int(alpha)
        if self.basis != "release":
            return plain
        reach = float(stats.t.isf(alpha / 2, self.df_resid))
        found = self.estimate.combination(np.eye(len(self.names))).interval(deviations=reach)
        return pd.DataFrame(found, index=plain.index)

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """Condition, noise-to-signal, residual variance, and whether there are rows enough."""
        from trimask.fit.diagnostics import diagnose

        return diagnose(self)

    @property
    def facts(self) -> Facts:
        """What the table is of."""
        known = "not known" if math.isnan(self.rsquared) else f"{self.rsquared:.3f}"
        return [*super().facts, ("R-squared", known)]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the table should know."""
        notes = []
        if self.basis == "naive":
            notes.append(
                "The noise was ignored: coefficients are biased, mostly towards zero; intervals miss."
            )
        if self.basis == "release" and self.sigma > 0:
            notes += noise_notes(self.sigma)
            if math.isnan(self.rsquared):
                notes.append(
                    "The noise hides the residual variance: R-squared is not known (coefficients are)."
                )
            lost = [name for name, error in self.bse.items() if math.isinf(error)]
            if lost:
                notes.append(
                    f"The release does not bound {', '.join(map(str, lost))}: fit.ridge would, pulled towards zero."
                )
            if self.signal < CLEAR_SIGNAL:
                notes.append(
                    f"Weak: the least-determined direction is {self.signal:.1f} noise errors above zero. "
                    "Intervals hold but are wide; more rows or fewer columns would help."
                )
        if self.basis != "rows":
            notes.append(HOMOSCEDASTIC)
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            **super().to_dict(),
            "rsquared": None if math.isnan(self.rsquared) else self.rsquared,
            "signal": None if math.isinf(self.signal) else self.signal,
        }
