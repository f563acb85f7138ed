"""Joint tests of linear hypotheses on coefficients.

Statement. If R beta = q, the Wald statistic (R b - q)^T (R C R^T)^-1 (R b - q) / r is F(r, df) distributed,
where C is the covariance of b, here that of sampling and privacy noise together. Asymptotic: b normal and C
known; without noise and with normal errors it is the exact F test.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import linalg, stats

from trimask.errors import FormulaError, ParameterError
from trimask.fit.formula import nearest
from trimask.moments import Matrix
from trimask_theory.noisy_regression import Combination

__all__ = ["FTest", "Hypothesis", "constraints", "joint", "wald"]

Hypothesis: TypeAlias = str | Sequence[str] | Matrix
"""'a = 0, b = c' (a name alone: = 0), a list of such, or a matrix R for R beta = 0."""


@dataclass(frozen=True)
class FTest:
    """The statistic, its degrees of freedom and the p-value."""

    hypothesis: str
    fvalue: float
    df_num: int
    df_denom: int
    pvalue: float

    def summary(self) -> str:
        """The test in a line."""
        return (
            f"F({self.df_num}, {self.df_denom:,}) = {self.fvalue:.4g}, p = {self.pvalue:.4g}   "
            f"[{self.hypothesis}]"
        )

    def __str__(self) -> str:
        return self.summary()


def constraints(hypothesis: Hypothesis, names: Sequence[str]) -> tuple[Matrix, Matrix, str]:
    """(R, q, words) of the hypothesis R beta = q."""
    if not isinstance(hypothesis, str) and not all(isinstance(item, str) for item in hypothesis):
        R = np.atleast_2d(np.asarray(hypothesis, dtype=float))
        if R.ndim != 2 or R.shape[1] != len(names) or not len(R):
            raise ParameterError("hypothesis", f"a matrix with {len(names)} columns", R.shape)
        return R, np.zeros(len(R)), f"{len(R)} linear combinations = 0"
    # A comma inside C(group)[level] does not occur: coefficient names drop the reference.
    items = hypothesis.split(",") if isinstance(hypothesis, str) else [str(item) for item in hypothesis]
    items = [item.strip() for item in items if item.strip()]
    if not items:
        raise ParameterError("hypothesis", "at least one statement such as 'age = 0'", hypothesis)
    R, q = np.zeros((len(items), len(names))), np.zeros(len(items))
    for i, item in enumerate(items):
        left, equals, right = (part.strip() for part in item.partition("="))
        R[i, _index(left, names)] = 1.0
        if not equals:
            continue
        try:
            q[i] = float(right)
        except ValueError:
            R[i, _index(right, names)] -= 1.0
        if not math.isfinite(q[i]) or not R[i].any():
            raise FormulaError(f"{item!r} is not a hypothesis: write 'name = number' or 'name = name'")
    words = [item if "=" in item else f"{item} = 0" for item in items]
    return R, q, ", ".join(re.sub(r"\s*=\s*", " = ", word) for word in words)


def _index(name: str, names: Sequence[str]) -> int:
    if name not in names:
        raise FormulaError(f"the fit has no coefficient {name}; {nearest(name, list(names))}")
    return list(names).index(name)


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
