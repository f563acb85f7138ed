"""What fits of coefficients return: frozen, named as statsmodels names things, every error in two parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from trimask.errors import BeyondSecondMoments
from trimask.fit.design import Design
from trimask.fit.estimates import Estimates, EstimateTable
from trimask.fit.hypothesis import FTest, Hypothesis, TTest, constraints, joint
from trimask.fit.least_squares import NO_SANDWICH
from trimask.fit.report import Facts
from trimask.moments.moments import Moments
from trimask_theory.mechanisms.noisy_regression import Combination
from trimask_theory.moments.noise_law import Matrix

Basis = Literal["release", "naive", "rows"]
HOMOSCEDASTIC = (
    "Errors are taken as homoscedastic: robust ones need fourth moments, which second moments do not carry."
)
ROBUST = "The sampling part is a sandwich from fourth moments, which the declared squares and products carry."


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LinearResults(Estimates):
    """Coefficients of a linear model, in original units, with errors in two parts.

    Attributes
    ----------
    params : Series
        The coefficients.
    bse : Series
        Standard errors: bse^2 = bse_sampling^2 + bse_privacy^2.
    tvalues : Series
        Deviations from zero, by the law of the intervals.
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
    basis: Basis = "release"
    names: tuple[str, ...]
    coefficients: Matrix
    cov_sampling: Matrix
    cov_privacy: Matrix
    tables: Mapping[str, EstimateTable] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", {"coefficients": self._table()})

    def _table(self, **more: Any) -> EstimateTable:
        """The coefficients' table; a fit with more to say of its intervals gives it."""
        parts = [np.sqrt(np.diag(part)) for part in (self.cov_sampling, self.cov_privacy)]
        return EstimateTable(
            pd.Index(self.names), self.coefficients, *parts,
            **{"df": self.df_resid, "null": 0.0, "head": "coef", **more},
        )  # fmt: skip

    def _series(self, values: Matrix, name: str) -> pd.Series[float]:
        return pd.Series(values, index=pd.Index(self.names), name=name, dtype=float)

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
        names = pd.Index(self.names)
        return pd.DataFrame(self.cov_sampling + self.cov_privacy, index=names, columns=names)

    @cached_property
    def bse(self) -> pd.Series[float]:
        """Standard errors. bse^2 = bse_sampling^2 + bse_privacy^2."""
        return self._series(self.estimates().errors, "std err")

    @cached_property
    def bse_sampling(self) -> pd.Series[float]:
        """The part that raw rows would have too: other people could have been asked."""
        return self._series(self.estimates().sampling, "sampling")

    @cached_property
    def bse_privacy(self) -> pd.Series[float]:
        """The part the privacy noise adds: how far this fit may be from that on the raw rows."""
        return self._series(self.estimates().privacy, "privacy")

    @cached_property
    def tvalues(self) -> pd.Series[float]:
        """Deviations at which the interval reaches zero: params / bse, a little more where Fieller's is one-sided."""
        return self._series(self.estimates().statistics, "t")

    @cached_property
    def pvalues(self) -> pd.Series[float]:
        """Two-sided, by the t distribution with `df_resid` degrees of freedom: 0.05 where a 95 % interval ends at zero."""
        return self._series(self.estimates().pvalues, "P>|t|")

    def combination(self, weights: Matrix) -> Combination:
        """Linear combinations of the coefficients, with their errors: a row of `weights` each."""
        A = np.atleast_2d(np.asarray(weights, dtype=float))
        sampling, privacy = A @ self.cov_sampling @ A.T, A @ self.cov_privacy @ A.T
        quadratics = np.zeros((len(A), 3))
        quadratics[:, 0] = np.diag(sampling + privacy)
        return Combination(A @ self.coefficients, privacy, sampling, quadratics)

    def t_test(self, hypothesis: Hypothesis) -> TTest:
        """Each linear statement by itself, with its estimate, error and interval.

        A combination has an error of its own, the same however the model is written: a contrast of two levels does not
        depend on the reference.

        `hypothesis` has statements with a comma between: "C(g)[a] - C(g)[b]", "2 * age + bmi = 3". A name alone, or a group
        C(g), is tested to be zero; an array has a row a statement and a column a coefficient.
        """
        R, q, words = constraints(hypothesis, self.names)
        return TTest.of(tuple(words), self.combination(R), q, self.df_resid)

    def f_test(self, hypothesis: Hypothesis) -> FTest:
        """A joint test of linear statements, a `hypothesis` as `t_test` takes it."""
        R, q, words = constraints(hypothesis, self.names)
        found = self.combination(R)
        return joint(found, self.df_resid, ", ".join(words), found.estimates - q)

    def get_robustcov_results(self, *_: Any, **__: Any) -> Any:
        """Refused: a sandwich needs fourth moments x x^T e^2; `ols` has it where the products are declared."""
        raise BeyondSecondMoments(NO_SANDWICH)

    @property
    def tested(self) -> bool:
        """Whether t values and p-values mean anything; not for a penalised fit."""
        return self.estimates().null is not None

    @property
    def facts(self) -> Facts:
        """What the table is of."""
        unit = f" ({self.unit})" if self.unit else ""
        return [("model", self.formula), ("response", self.response + unit), *super().facts]

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


def described(moments: Moments, design: Design, formula: str) -> dict[str, Any]:
    """What every result of a formula says of it."""
    return {
        "formula": formula.strip(), "response": design.response, "unit": design.unit, "names": design.names,
        "label": moments.label, "nobs": moments.rows, "sigma": moments.sigma,
    }  # fmt: skip
