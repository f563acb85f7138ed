"""Ridge regression from noisy second moments.

Statement. In scaled units (every column in [-1, 1] by its declared bounds) the fit minimises
    RSS / n + penalty * (sum of squared slopes),
the intercept left free: beta = (T^T G T + n penalty P)^-1 T^T G t, P the diagonal of zeros and ones. Its noise covariance
is that of its gradient, dbeta = K T^T dG theta with K the inverse above and theta = t - T beta
(`trimask_theory.moments.noise_law`). The sampling part is K T^T G T K
times the residual variance, for independent homoscedastic errors; where the products of all columns of the model are
declared it is from fourth moments (`trimask.fit.covariance`), a sandwich that assumes neither and counts that the
penalised target moves with the rows.

A penalty can be chosen from the release itself, at no cost in privacy. *gcv*: the residual sum of a noisy fit falls short
of that on the true moments by 2 tr(K V) on average, V the noise covariance of the score T^T D theta; with that added,
    (RSS + 2 tr(K V)) / (n (1 - d/n)^2),   d = tr(K T^T G T),
is generalised cross-validation, least over a grid. *adassp*, for large noise: n penalty = s (sqrt(2 k) + 2) less the
smallest eigenvalue of T^T G T, and at least 0, s the largest noise deviation of a direction: the noise's spectral norm is
seldom larger, so that the penalised matrix is positive definite (as in AdaSSP, Wang 2018, whose extra spend is not needed:
the law of the noise is public). Errors do not count the choice.

The estimate is pulled towards zero on purpose, so errors are about what ridge aims at, not about the true
coefficients: there are no t values or p-values, and an interval is one for the penalised coefficient. Fitting a
release as if it were the data is ridge with penalty sigma^2, on the intercept too.

Proved: the noise covariance of the score. Asymptotic: the delta method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import linalg

from trimask.errors import ParameterError
from trimask.fit.clipping import marked
from trimask.fit.covariance import covariance_of, doubt, fourth_moments, warn_of
from trimask.fit.design import INTERCEPT, build
from trimask.fit.estimates import EstimateTable
from trimask.fit.formula import parse
from trimask.fit.noise import Source, check_signal, moments_of, outer
from trimask.fit.results import HOMOSCEDASTIC, ROBUST, LinearResults, described
from trimask.moments.moments import Moments
from trimask_theory.mechanisms.noisy_regression import outers
from trimask_theory.moments.noise_law import Matrix

Choice = Literal["gcv", "adassp"]
_GRID = (0.0, *np.geomspace(1e-6, 10.0, 57))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RidgeResults(LinearResults):
    """A ridge fit. Errors are about the penalised coefficients; nothing is tested.

    Attributes
    ----------
    penalty : float
        In scaled units.
    chosen : str
        How it was chosen: "", "gcv" or "adassp".
    robust : bool
        Whether the sampling part is from fourth moments.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.ridge(data, "systolic ~ age", "gcv").chosen
    'gcv'
    """

    what: str = "Ridge regression"
    penalty: float
    chosen: str = ""
    robust: bool = False

    def _table(self, **more: Any) -> EstimateTable:
        return super()._table(null=None, **more)

    def f_test(self, hypothesis: Any) -> Any:
        """Refused, whatever the `hypothesis`: a penalised fit is biased, so the F test does not hold for it."""
        raise ParameterError("f_test", "asked of an ols fit; a ridge fit is biased on purpose", hypothesis)


@marked
def ridge(dataset: Source, formula: str, penalty: float | Choice) -> RidgeResults:
    """Ridge regression, noise corrected. It answers where `ols` must refuse, if the penalty outweighs the noise.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    formula : str
        "response ~ column + C(group)"; docs/researchers-reference.md has what may be written.
    penalty : float, "gcv" or "adassp"
        In scaled units: a number, the least error of prediction with the noise counted in, or just enough to outweigh
        the noise. "adassp" is for where `ols` refuses: where it answers it was nearer in three of four settings tried.

    Returns
    -------
    RidgeResults
        Errors are about the penalised coefficients; nothing is tested.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> fit = trimask.fit.ridge(data, "systolic ~ age + salt", 0.01)
    >>> fit.params["age"] < trimask.fit.ols(data, "systolic ~ age + salt").params["age"]
    np.True_
    >>> trimask.fit.ridge(data, "systolic ~ age + salt", "adassp").penalty
    0.0
    """
    if isinstance(penalty, str):
        if penalty not in get_args(Choice):
            raise ParameterError("penalty", "a number, 'gcv' or 'adassp'", penalty)
    elif not (np.isfinite(penalty) and penalty >= 0):
        raise ParameterError("penalty", "finite and >= 0, 'gcv' or 'adassp'", penalty)
    moments = moments_of(dataset)
    design = build(parse(formula, moments.schema), moments.schema, moments.gram)
    n, k = moments.rows, len(design.names)
    if n <= k:
        raise ParameterError("rows", f"more than the {k} coefficients of the model", n)
    T, t = design.combine, design.response_combine
    gram = T.T @ moments.gram @ T
    gram = (gram + gram.T) / 2
    free = np.array([0.0 if name == INTERCEPT else 1.0 for name in design.names])
    chosen = penalty if isinstance(penalty, str) else ""
    if chosen == "gcv":
        penalty = _least_gcv(moments, T, t, free)
    elif chosen == "adassp":
        penalty = _outweighing(moments, T, gram)
    penalty = float(penalty)
    penalised = gram + np.diag(n * penalty * free)
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
    fourth = fourth_moments(moments, gradients).covariance(moments)
    if fourth is not None:
        spread = fourth
    said = _doubt(moments, T, t) if penalty > 0 and fourth is None else ("", ())
    warn_of(said)
    how = f" (scaled units{chosen and f', by {chosen}'})"
    return RidgeResults(
        **described(moments, design, formula),
        coefficients=design.offset + change @ beta,
        cov_sampling=change @ spread @ change.T,
        cov_privacy=change @ moments.law.covariance(gradients) @ change.T,
        penalty=penalty,
        chosen=chosen,
        robust=fourth is not None,
        about=[("penalty", f"{penalty:.4g}{how}")],
        remarks=(
            "Pulled towards zero on purpose: errors and intervals are for the penalised coefficients"
            + (", and do not count that the penalty was chosen." if chosen else "."),
            HOMOSCEDASTIC if fourth is None else ROBUST,
            *([f"Caution: {said[0]}."] if said[0] else []),
        ),
    )


def _doubt(moments: Moments, T: Matrix, t: Matrix) -> tuple[str, tuple[str, ...]]:
    """The penalised target moves with the rows, which homoscedastic errors leave out: it counts where rows are skewed."""
    used = np.any(T != 0, axis=1) | (t != 0)
    numbers = {item.name for item in moments.schema.attributes if item.kind in ("integer", "continuous")}
    names = [
        column.name
        for column, there in zip(moments.columns, used, strict=True)
        if there and column.name in numbers
    ]
    if not names:
        return "", ()
    return doubt(
        covariance_of(moments, names),
        np.zeros(1, dtype=bool),
        "errors as homoscedastic and the penalty's pull as fixed",
    )


def _least_gcv(moments: Moments, T: Matrix, t: Matrix, free: Matrix) -> float:
    """The penalty of least generalised cross-validation, the noise's optimism added."""
    n, G = moments.rows, moments.gram
    gram = T.T @ G @ T
    best, found = np.inf, _GRID[-1]
    for penalty in _GRID:
        penalised = gram + np.diag(n * penalty * free)
        if np.linalg.eigvalsh(penalised)[0] <= 0:
            continue
        K = linalg.inv(penalised)
        theta = t - T @ (K @ (T.T @ G @ t))
        left, used = float(theta @ G @ theta), float(np.sum(K * gram))
        if not moments.exact:
            left += 2 * float(np.sum(K * moments.law.covariance(outers(T.T, theta))))
        if left > 0 and used < n:
            score = left / (1 - used / n) ** 2
            if score < best:
                best, found = score, penalty
    return float(found)


def _outweighing(moments: Moments, T: Matrix, gram: Matrix) -> float:
    """The least penalty that lifts the smallest eigenvalue, in scaled units, above what noise alone may have taken."""
    if moments.exact:
        return 0.0
    values, vectors = linalg.eigh(gram, T.T @ T)
    directions = (T @ vectors).T
    noise = float(np.sqrt(np.max(moments.law.variance(np.einsum("ai,aj->aij", directions, directions)))))
    return float(max(noise * (np.sqrt(2 * len(gram)) + 2) - values[0], 0.0) / moments.rows)
