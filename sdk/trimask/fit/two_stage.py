"""Two-stage least squares from noisy second moments.

Statement. Regressors Z T, instruments Z H, response Z t; with Q = H^T G H, R = H^T G T and r = H^T G t,
    beta = (R^T Q^-1 R)^-1 R^T Q^-1 r.
Write K = (R^T Q^-1 R)^-1, Pi = Q^-1 R, theta = t - T beta and q = Q^-1 H^T G theta. Differentiating the
equation R^T Q^-1 H^T G theta = 0 gives, exactly,
    dbeta = K [ T^T dG H q - Pi^T H^T dG H q + Pi^T H^T dG theta ],
so the noise covariance is that of these gradients (`trimask.fit.noise`). The sampling part is the usual
RSS/(n-k) K, for valid instruments and homoscedastic errors; RSS = theta^T G theta.

Proved: the noise covariance at given gradients. Asymptotic: the delta method, and normality, which weak
instruments break; their strength in the first stage is therefore reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from trimask.errors import FormulaError, ParameterError
from trimask.fit.design import Design, build
from trimask.fit.formula import Formula, parse
from trimask.fit.hypothesis import FTest
from trimask.fit.noise import gram_covariance, outer
from trimask.fit.ordinary import ols
from trimask.fit.report import Facts, noise_notes, of_data
from trimask.fit.results import HOMOSCEDASTIC, LinearResults
from trimask.fit.signal import check_signal
from trimask.fit.source import moments_of
from trimask.moments import Matrix, Moments

if TYPE_CHECKING:
    from trimask.fit.source import Source

__all__ = ["TSLSResults", "tsls"]

STRONG = 10.0
"""A first-stage F below this is the usual sign of weak instruments (Staiger and Stock 1997)."""


@dataclass(frozen=True, eq=False, repr=False)
class TSLSResults(LinearResults):
    """A two-stage fit: what `fit.tsls` returns.

    Attributes
    ----------
    instruments : str
        As given.
    first_stage : dict
        For each endogenous column, the F test of the excluded instruments.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> list(trimask.fit.tsls(data, "systolic ~ salt + age", instruments="leaflet + age").first_stage)
    ['salt']
    """

    instruments: str
    first_stage: dict[str, FTest]

    @property
    def title(self) -> str:
        """What was fitted."""
        return f"Two-stage least squares {of_data(self.sigma)}"

    @property
    def facts(self) -> Facts:
        """What the table is of."""
        strength = [f"{name} F = {test.fvalue:.3g}" for name, test in self.first_stage.items()]
        return [*super().facts, ("instruments", self.instruments), ("first stage", ", ".join(strength))]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        notes = noise_notes(self.sigma)
        weak = [name for name, test in self.first_stage.items() if test.fvalue < STRONG]
        if weak:
            notes.append(
                f"Weak instruments for {', '.join(weak)} (first-stage F below {STRONG:g}): do not rely on intervals."
            )
        return (*notes, "Whether instruments are valid cannot be seen from data.", HOMOSCEDASTIC)


def tsls(dataset: Source, formula: str, instruments: str) -> TSLSResults:
    """Two-stage least squares with instruments, noise corrected.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    formula : str
        "response ~ column + C(group)"; docs/researchers.md has what may be written.
    instruments : str
        The right side of a formula. It repeats the regressors that are exogenous; one that is not repeated is endogenous.

    Returns
    -------
    TSLSResults
        As of `ols`, and `first_stage`: the F test of the excluded instruments for each endogenous column.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> fit = trimask.fit.tsls(data, "systolic ~ salt", instruments="leaflet")  # leaflets were drawn by lot
    >>> fit.params["salt"].round(1), fit.first_stage["salt"].fvalue > 10
    (np.float64(1.3), True)
    """
    moments = moments_of(dataset)
    asked = parse(formula, moments.schema)
    design = build(asked, moments.schema)
    given = parse(f"{asked.response} ~ {instruments}", moments.schema)
    outside = build(given, moments.schema)
    endogenous, excluded = _roles(asked, given, design, outside)
    first = {name: ols(moments, f"{name} ~ {instruments}").f_test(excluded) for name in endogenous}
    beta, sampling, privacy = _solve(moments, design, outside)
    change = design.to_original
    return TSLSResults(
        formula=formula.strip(),
        response=design.response,
        unit=design.unit,
        basis="release",
        label=moments.label,
        nobs=moments.rows,
        sigma=moments.sigma,
        names=design.names,
        coefficients=design.offset + change @ beta,
        cov_sampling=change @ sampling @ change.T,
        cov_privacy=change @ privacy @ change.T,
        instruments=instruments.strip(),
        first_stage=first,
    )


def _roles(
    asked: Formula, given: Formula, design: Design, outside: Design
) -> tuple[Sequence[str], Sequence[str]]:
    """(endogenous regressors, excluded instruments), or what is wrong with the two sides."""
    endogenous = [name for name in design.names if name not in outside.names]
    excluded = [name for name in outside.names if name not in design.names]
    if asked.intercept != given.intercept:
        raise FormulaError("regressors and instruments must both have an intercept, or neither")
    if not endogenous:
        raise FormulaError("every regressor is among the instruments: nothing is endogenous; use ols")
    grouped = [name for name in endogenous if name.startswith("C(")]
    if grouped:
        raise FormulaError(
            f"{grouped[0]} is endogenous: name its indicator column in the formula instead of the group"
        )
    if len(excluded) < len(endogenous):
        raise FormulaError(
            f"{len(endogenous)} endogenous ({', '.join(endogenous)}) need as many instruments outside the model; "
            f"there are {len(excluded)}"
        )
    return endogenous, excluded


def _solve(moments: Moments, design: Design, outside: Design) -> tuple[Matrix, Matrix, Matrix]:
    """Coefficients and the two covariances, in working units."""
    n, k = moments.rows, len(design.names)
    if n <= len(outside.names):
        raise ParameterError("rows", f"more than the {len(outside.names)} instruments", n)
    G, T, t, H = moments.gram, design.combine, design.response_combine, outside.combine
    Q = H.T @ G @ H
    Q = (Q + Q.T) / 2
    check_signal(Q, H, moments, outside.names)
    Pi = linalg.solve(Q, H.T @ G @ T, assume_a="pos")
    fitted = Pi.T @ Q @ Pi
    fitted = (fitted + fitted.T) / 2
    # The fitted regressors are combinations of instruments, with the noise that H Pi carries.
    check_signal(fitted, H @ Pi, moments, design.names)
    K = linalg.inv(fitted)
    beta = K @ Pi.T @ (H.T @ G @ t)
    theta = t - T @ beta
    rest = H @ linalg.solve(Q, H.T @ G @ theta, assume_a="pos")
    stage = H @ Pi
    gradients = np.array([outer(stage @ row, theta) + outer((T - stage) @ row, rest) for row in K])
    residual = max(float(theta @ G @ theta), 0.0) / (n - k)
    return beta, residual * K, gram_covariance(moments, gradients)
