"""Joint tests of linear hypotheses on coefficients.

Statement. If R beta = q, the Wald statistic (R b - q)^T (R C R^T)^-1 (R b - q) / r is F(r, df) distributed,
where C is the covariance of b, here that of sampling and privacy noise together. Asymptotic: b normal and C
known; without noise and with normal errors it is the exact F test.

Hypotheses are read from words: `C(g)[a] - C(g)[b]`, `2 * age + bmi = 3`, `C(g)`. A name is one of the fit's coefficients;
C(group) alone stands for all its coefficients at once. Nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import linalg, stats

from trimask.data.catalogue import Shown
from trimask.errors import FormulaError, ParameterError
from trimask.fit.estimates import Estimates, EstimateTable
from trimask.fit.formula import nearest
from trimask.fit.report import Facts
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

    It is the same however a model is written. Where the release does not bound a combination it is refused.
    """
    if not np.all(np.isfinite(found.widening)):
        raise ParameterError(
            "hypothesis", "about coefficients that the release bounds; the noise hides one of these", words
        )
    return wald(found.estimates if gap is None else gap, found.covariance, df, words)


def wald(gap: Matrix, covariance: Matrix, df: int, words: str) -> FTest:
    """The test; redundant statements are refused."""
    scale = np.sqrt(np.diag(covariance))
    if not np.all(np.isfinite(covariance)):
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
