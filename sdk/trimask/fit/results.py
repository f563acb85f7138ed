"""What fits of coefficients return: frozen, named as statsmodels names things, every error in two parts; and joint tests.

Statement. If R beta = q, the Wald statistic (R b - q)^T (R C R^T)^-1 (R b - q) / r is F(r, df) distributed,
where C is the covariance of b, here that of sampling and privacy noise together. Asymptotic: b normal and C
known; without noise and with normal errors it is the exact F test.

Hypotheses are read from words: `C(g)[a] - C(g)[b]`, `2 * age + bmi = 3`, `C(g)`. A name is one of the fit's coefficients;
C(group) alone stands for all its coefficients at once. Nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from scipy import linalg, stats

from trimask.data.manifest import Shown
from trimask.errors import BeyondSecondMoments, FormulaError, ParameterError
from trimask.fit.design import Design
from trimask.fit.estimates import Estimates, EstimateTable
from trimask.fit.formula import nearest
from trimask.fit.least_squares import NO_SANDWICH
from trimask.fit.report import Facts
from trimask.moments.moments import Moments
from trimask_theory.mechanisms.noisy_regression import Combination
from trimask_theory.moments.noise_law import Matrix

_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_USAGE = "write such as 'age = 0', 'bmi = age', 'C(g)[a] - C(g)[b]' or '2 * age + bmi = 3'"


def split_statements(text: str) -> list[str]:
    """Statements by commas outside brackets."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def statements(item: str, names: Sequence[str]) -> list[tuple[Matrix, float, str]]:
    """(weights, value, words) of the statement weights @ beta = value; several for a whole group."""
    whole = re.fullmatch(r"C\(\s*(\w+)\s*(?:,[^()]*)?\)(?:\s*=\s*0)?", item)
    if whole is not None:
        prefix = f"C({whole[1]})["
        levels = [j for j, name in enumerate(names) if name.startswith(prefix)]
        if not levels:
            raise FormulaError(f"the fit has no group {whole[1]}; {nearest(item, list(names))}")
        return [(np.eye(len(names))[j], 0.0, f"{names[j]} = 0") for j in levels]
    left, equals, right = item.partition("=")
    if equals and ("=" in right or not right.strip()):
        raise FormulaError(f"{item!r} is not a hypothesis: {_USAGE}")
    weights, constant = _side(left, item, names)
    other, moved = _side(right, item, names) if equals else (np.zeros(len(names)), 0.0)
    weights = weights - other
    if not weights.any() or not np.isfinite(weights).all() or not np.isfinite(moved - constant):
        raise FormulaError(f"{item!r} is not a hypothesis: {_USAGE}")
    words = re.sub(r"\s+", " ", item.strip() if equals else f"{item.strip()} = 0")
    return [(weights, moved - constant, re.sub(r"\s*=\s*", " = ", words))]


def _side(text: str, item: str, names: Sequence[str]) -> tuple[Matrix, float]:
    """The weights and the constant of a sum of terms."""
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    term = re.compile(
        rf"\s*(?P<sign>[+-]?)\s*(?:(?P<factor>{_NUMBER})\s*(?P<times>\*)\s*)?"
        rf"(?:(?P<name>{known})(?![\w\[(])(?:\s*/\s*(?P<over>{_NUMBER}))?|(?P<number>{_NUMBER}))\s*"
    )
    weights, constant, at = np.zeros(len(names)), 0.0, 0
    while at < len(text):
        found = term.match(text, at)
        if found is None or (at > 0 and not found["sign"]):
            word = re.search(r"[A-Za-z_]\w*(?:\([^)]*\))?(?:\[[^\]]*\])?", text[at:])
            if word is not None and word[0] not in names and word[0].lower() not in ("nan", "inf"):
                raise FormulaError(f"the fit has no coefficient {word[0]}; {nearest(word[0], list(names))}")
            raise FormulaError(f"{item!r} is not a hypothesis: {_USAGE}")
        size = -1.0 if found["sign"] == "-" else 1.0
        if found["factor"]:
            size *= float(found["factor"])
        if found["name"] is None:
            constant += size * float(found["number"])
        else:
            weights[list(names).index(found["name"])] += size / float(found["over"] or 1)
        at = found.end()
    if not text.strip():
        raise FormulaError(f"{item!r} is not a hypothesis: {_USAGE}")
    return weights, constant


Hypothesis: TypeAlias = str | Sequence[str] | Matrix
"""'a = 0, b = c', '2 * a - b = 3', 'C(group)' (a name alone: = 0), a list of such, or a matrix R for R beta = 0."""


@dataclass(frozen=True)
class FTest(Shown):
    """A joint test: the statistic, its degrees of freedom and the p-value.

    Attributes
    ----------
    hypothesis : str
        In words.
    fvalue : float
        With the noise counted in.
    df_num : int
        Statements tested.
    df_denom : int
        Residual degrees of freedom.
    pvalue : float
        By the F law.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.ols(data, "systolic ~ age + C(activity)").f_test("C(activity)").df_num
    2
    """

    hypothesis: str
    fvalue: float
    df_num: int
    df_denom: int
    pvalue: float

    @property
    def words(self) -> str:
        """The statistic and its p-value."""
        return f"F({self.df_num}, {self.df_denom:,}) = {self.fvalue:.4g}, p = {self.pvalue:.4g}"

    def summary(self) -> str:
        """The test in a line."""
        return f"{self.words}   [{self.hypothesis}]"

    def __str__(self) -> str:
        return self.summary()


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TTest(Estimates):
    """Linear combinations of coefficients, each tested by itself against the value it is said to have.

    Attributes
    ----------
    statements : tuple
        In words.
    values : array
        What the combinations are said to be.
    df_denom : int
        Residual degrees of freedom.
    effect, sd, tvalue, pvalue : array
        The combinations, their errors, and the tests.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> fit = trimask.fit.ols(data, "systolic ~ age + C(activity)")
    >>> test = fit.t_test("C(activity)[high] - C(activity)[medium], 10 * age = 6")
    >>> test.table().shape
    (2, 8)
    """

    values: Matrix
    df_denom: int

    @classmethod
    def of(cls, statements: Sequence[str], found: Combination, values: Matrix, df: int) -> TTest:
        """The tests that the combinations `found` of these `statements` are `values`, at `df` degrees of freedom."""
        table = EstimateTable.of(statements, found, df=df, null=values, head="coef")
        return cls(
            label="", nobs=0, sigma=0.0, values=values, df_denom=df, tables={"combinations": table},
            remarks=("coef is the combination; t and P are about the value it is said to have.",),
        )  # fmt: skip

    @property
    def statements(self) -> tuple[str, ...]:
        """In words."""
        return tuple(self.estimates().index)

    @property
    def effect(self) -> Matrix:
        """The combinations."""
        return self.estimates().estimate

    @property
    def sd(self) -> Matrix:
        """Standard errors, noise and sampling together."""
        return self.estimates().errors

    @property
    def tvalue(self) -> Matrix:
        """Deviations from the value."""
        return self.estimates().statistics

    @property
    def pvalue(self) -> Matrix:
        """Two-sided."""
        return self.estimates().pvalues

    @property
    def title(self) -> str:
        """What this is."""
        return "Tests of linear combinations"

    @property
    def facts(self) -> Facts:
        """The degrees of freedom."""
        return [("df", f"{self.df_denom:,}")]


def constraints(hypothesis: Hypothesis, names: Sequence[str]) -> tuple[Matrix, Matrix, list[str]]:
    """(R, q, words) of the statements R beta = q."""
    if not isinstance(hypothesis, str) and not all(isinstance(item, str) for item in hypothesis):
        R = np.atleast_2d(np.asarray(hypothesis, dtype=float))
        if R.ndim != 2 or R.shape[1] != len(names) or not len(R):
            raise ParameterError("hypothesis", f"a matrix with {len(names)} columns", R.shape)
        return R, np.zeros(len(R)), [f"combination {i + 1} = 0" for i in range(len(R))]
    items = (
        split_statements(hypothesis) if isinstance(hypothesis, str) else [str(item) for item in hypothesis]
    )
    found = [one for item in items if item.strip() for one in statements(item.strip(), names)]
    if not found:
        raise ParameterError("hypothesis", "at least one statement such as 'age = 0'", hypothesis)
    R, q = np.array([weights for weights, _, _ in found]), np.array([value for _, value, _ in found])
    return R, q, [words for _, _, words in found]


def joint(found: Combination, df: int, words: str, gap: Matrix | None = None) -> FTest:
    """The test that combinations are zero (or that `gap` is), by their covariance of second order.

    It is the same however a model is written. Refused where the release does not bound a combination, or where one statement
    follows from the others.
    """
    covariance, gap = found.covariance, found.estimates if gap is None else gap
    scale = np.sqrt(np.diag(covariance))
    if not (np.isfinite(found.widening).all() and np.isfinite(covariance).all()):
        raise ParameterError(
            "hypothesis", "about coefficients that the release bounds; the noise hides one of these", words
        )
    if np.any(scale == 0):
        raise ParameterError("hypothesis", "about coefficients with an error; this fit is exact")
    equal = covariance / np.outer(scale, scale)
    if np.linalg.matrix_rank(equal, hermitian=True, tol=1e-10) < len(gap):
        raise ParameterError("hypothesis", "statements none of which follows from the others", words)
    z = gap / scale
    value = float(z @ linalg.solve(equal, z, assume_a="pos")) / len(gap)
    return FTest(words, value, len(gap), df, float(stats.f.sf(value, len(gap), df)))


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
