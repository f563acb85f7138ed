"""What fits of coefficients return: frozen, named as statsmodels names things, every error in two parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NoReturn

import numpy as np
import pandas as pd
from scipy import stats

from trimask.errors import BeyondSecondMoments
from trimask.fit.hypothesis import FTest, Hypothesis, TTest, constraints, joint
from trimask.fit.noise import critical_value
from trimask.fit.report import Block, Facts, Report, figures, places_for
from trimask_theory.mechanisms.noisy_regression import Combination
from trimask_theory.moments.noise_law import Matrix

Basis = Literal["release", "naive", "rows"]
HOMOSCEDASTIC = (
    "Errors are taken as homoscedastic: robust ones need fourth moments, which second moments do not carry."
)
ROBUST = "The sampling part is a sandwich from fourth moments, which the declared squares and products carry."


@dataclass(frozen=True, eq=False, repr=False)
class LinearResults(Report):
    """Coefficients of a linear model, in original units, with errors in two parts.

    Attributes
    ----------
    params : Series
        The coefficients.
    bse : Series
        Standard errors: bse^2 = bse_sampling^2 + bse_privacy^2.
    tvalues : Series
        params / bse.
    pvalues : Series
        Two-sided, by the t law.
    basis : str
        "release" (noise corrected), "naive" (noise ignored: biased, for comparison only) or "rows" (raw data).
    nobs : int
        People.
    formula : str
        What was fitted.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> fit = trimask.fit.ols(data, "systolic ~ age")
    >>> bool(((fit.bse_sampling**2 + fit.bse_privacy**2).round(9) == (fit.bse**2).round(9)).all())
    True
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
        """Intervals, lower in column 0 and upper in column 1.

        Parameters
        ----------
        alpha : float
            One less the level: 0.05 for 95 %.

        Returns
        -------
        DataFrame
            A row a coefficient.
        """
        reach = critical_value(alpha, self.df_resid) * self.bse.to_numpy()
        ends = np.column_stack([self.coefficients - reach, self.coefficients + reach])
        return pd.DataFrame(ends, index=pd.Index(self.names))

    def combination(self, weights: Matrix) -> Combination:
        """Linear combinations of the coefficients, with their errors.

        Parameters
        ----------
        weights : array
            A row a combination, a column a coefficient.

        Returns
        -------
        Combination
        """
        A = np.atleast_2d(np.asarray(weights, dtype=float))
        sampling, privacy = A @ self.cov_sampling @ A.T, A @ self.cov_privacy @ A.T
        quadratics = np.zeros((len(A), 3))
        quadratics[:, 0] = np.diag(sampling + privacy)
        return Combination(A @ self.coefficients, privacy, sampling, quadratics)

    def t_test(self, hypothesis: Hypothesis) -> TTest:
        """Each linear statement by itself, with its estimate, error and interval.

        A combination has an error of its own, the same however the model is written: a contrast of two levels does not
        depend on the reference.

        Parameters
        ----------
        hypothesis : str, or an array
            Statements with a comma between: "C(g)[a] - C(g)[b]", "2 * age + bmi = 3". A name alone, or a group C(g), is
            tested to be
            zero; an array has a row a statement and a column a coefficient.

        Returns
        -------
        TTest
        """
        R, q, words = constraints(hypothesis, self.names)
        found = self.combination(R)
        return TTest(tuple(words), found.estimates, found, q, self.df_resid)

    def f_test(self, hypothesis: Hypothesis) -> FTest:
        """A joint test of linear statements.

        Parameters
        ----------
        hypothesis : str, or an array
            Statements with a comma between: "C(g)[a] - C(g)[b]", "2 * age + bmi = 3". A name alone, or a group C(g), is
            tested to be
            zero; an array has a row a statement and a column a coefficient.

        Returns
        -------
        FTest
        """
        R, q, words = constraints(hypothesis, self.names)
        found = self.combination(R)
        return joint(found, self.df_resid, ", ".join(words), found.estimates - q)

    def get_robustcov_results(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: a sandwich needs fourth moments x x^T e^2, which a release has only where all products are declared."""
        raise BeyondSecondMoments(
            "robust (sandwich, clustered) standard errors cannot be had from this fit: they need the sum of x x' e^2, "
            "fourth moments. Where a study declares all squares and products of the columns, fit.ridge(..., penalty=0) has "
            "errors from them. Otherwise: declare those in the next study, model the spread you suspect (a group, a "
            "square), or state that errors are taken as homoscedastic"
        )

    @property
    def tested(self) -> bool:
        """Whether t values and p-values mean anything; not for a penalised fit."""
        return bool(self._tested())

    def _tested(self) -> Sequence[pd.Series[float]]:
        return [self.tvalues, self.pvalues]

    def table(self, alpha: float = 0.05) -> pd.DataFrame:
        """The coefficient table.

        Parameters
        ----------
        alpha : float
            One less the level of the intervals: 0.05 for 95 %.

        Returns
        -------
        DataFrame
            A row a coefficient: coef, std err and its parts, t, P>|t| (where there are tests), and the interval.
        """
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
