"""Two-stage least squares and mediation from noisy second moments.

Statement. Regressors Z T, instruments Z H, response Z t; with Q = H^T G H, R = H^T G T and r = H^T G t,
    beta = (R^T Q^-1 R)^-1 R^T Q^-1 r.
Write K = (R^T Q^-1 R)^-1, Pi = Q^-1 R, theta = t - T beta and q = Q^-1 H^T G theta. Differentiating the
equation R^T Q^-1 H^T G theta = 0 gives, exactly,
    dbeta = K [ T^T dG H q - Pi^T H^T dG H q + Pi^T H^T dG theta ],
so the noise covariance is that of these gradients (`trimask.fit.noise`). The sampling part is the usual
RSS/(n-k) K, for valid instruments and homoscedastic errors; RSS = theta^T G theta.

Proved: the noise covariance at given gradients. Asymptotic: the delta method, and normality, which weak
instruments break; their strength in the first stage is therefore reported.

Statement (mediation: how much of an effect goes through another column). m = .. + a x + e and y = .. + c x + b m + f by
least squares with the same other regressors; the indirect effect is a b, the direct one c, the total a b + c. The noise
covariance of (a, b, c) is that of their gradients together, grown where those of the fits are; residuals of the two
models are uncorrelated, so sampling adds Var(a) and Cov(b, c) without terms between. Sobel's variance is b^2 Var(a) + a^2
Var(b) + 2 a b Cov(a, b). A product is not normal, so bootstrap intervals (`trimask.fit.bootstrap`) stand beside it. What
is estimated is an effect only if nobody's x, m and y share another cause.

Proved: the noise covariance at given gradients. Asymptotic: the rest; coverage is measured in tests/sdk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import linalg

from trimask.errors import FormulaError, ParameterError
from trimask.fit.bootstrap import BootstrapResults, bootstrap
from trimask.fit.clipping import marked
from trimask.fit.design import Design, build, find_column
from trimask.fit.estimates import Estimates, EstimateTable
from trimask.fit.formula import Formula, parse
from trimask.fit.least_squares import Estimate, solve
from trimask.fit.noise import Source, check_signal, moments_of, outer
from trimask.fit.ols_results import ols
from trimask.fit.results import HOMOSCEDASTIC, FTest, LinearResults, described
from trimask.moments.moments import Moments
from trimask_theory.moments.noise_law import Matrix

STRONG = 10.0
"""A first-stage F below this is the usual sign of weak instruments (Staiger and Stock 1997)."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
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

    what: str = "Two-stage least squares"
    instruments: str
    first_stage: dict[str, FTest]


@marked
def tsls(dataset: Source, formula: str, instruments: str) -> TSLSResults:
    """Two-stage least squares with instruments, noise corrected.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    formula : str
        "response ~ column + C(group)"; docs/researchers-reference.md has what may be written.
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
    (np.float64(1.5), True)
    """
    moments = moments_of(dataset)
    asked = parse(formula, moments.schema)
    design = build(asked, moments.schema, moments.gram)
    given = parse(f"{asked.response} ~ {instruments}", moments.schema)
    outside = build(given, moments.schema, moments.gram)
    endogenous, excluded = _roles(asked, given, design, outside)
    first = {name: ols(moments, f"{name} ~ {instruments}").f_test(excluded) for name in endogenous}
    beta, sampling, privacy = _solve(moments, design, outside)
    change = design.to_original
    strength = [f"{name} F = {test.fvalue:.3g}" for name, test in first.items()]
    weak = [name for name, test in first.items() if test.fvalue < STRONG]
    said = (
        f"Weak instruments for {', '.join(weak)} (first-stage F below {STRONG:g}): do not rely on intervals."
    )
    return TSLSResults(
        **described(moments, design, formula),
        about=[("instruments", instruments.strip()), ("first stage", ", ".join(strength))],
        remarks=(
            *([said] if weak else []),
            "Whether instruments are valid cannot be seen from data.",
            HOMOSCEDASTIC,
        ),
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
    return beta, residual * K, moments.law.covariance(gradients)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MediationResults(Estimates):
    """What `fit.mediation` found: the tables "sobel", which is normal, and "bootstrap".

    Attributes
    ----------
    effects : DataFrame
        indirect, direct, total and the two paths: estimate, std err, sampling and privacy parts, by Sobel.
    simulated : BootstrapResults, optional
        Their bootstrap.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.mediation(data, "systolic", "leaflet", "salt", draws=0)
    >>> found.sobel[1] < 0.001
    True
    """

    effects: pd.DataFrame
    simulated: BootstrapResults | None

    @property
    def proportion(self) -> float:
        """The indirect effect over the total."""
        indirect, _, total = (float(value) for value in self.effects["estimate"].iloc[:3])
        return indirect / total if total else float("nan")

    @property
    def sobel(self) -> tuple[float, float]:
        """Sobel's z of the indirect effect, and its p-value."""
        table = self.estimates("sobel")
        return float(table.statistics[0]), float(table.pvalues[0])


@marked
def mediation(
    dataset: Source, y: str, x: str, m: str, *, given: str = "", draws: int = 400, seed: int | None = None
) -> MediationResults:
    """The effect of `x` on `y` through `m`: indirect, direct and total, by Sobel and by a parametric bootstrap.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    y : str
        The response, a column.
    x : str
        The exposure, a column.
    m : str
        The mediator, a column.
    given : str
        The right side of a formula with what both models hold fixed, such as "age + C(region)".
    draws : int
        Of the bootstrap; 0 for none.
    seed : int, optional
        Of the bootstrap.

    Returns
    -------
    MediationResults
        `effects`, `sobel`, `proportion`, `conf_int(of="sobel")` or "bootstrap".

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.mediation(data, "systolic", "leaflet", "salt", draws=20, seed=1)
    >>> found.effects["estimate"].round().to_dict()
    {'indirect': -5.0, 'direct': 0.0, 'total': -5.0, 'leaflet to salt': -3.0, 'salt to systolic': 1.0}
    """
    moments = moments_of(dataset)
    for name in (y, x, m):
        find_column(name, moments.schema)
    if len({x, y, m}) < 3:
        raise FormulaError("mediation takes three different columns: y, x and m")
    rest = f" + {given}" if given.strip() else ""
    first = build(parse(f"{m} ~ {x}{rest}", moments.schema), moments.schema, moments.gram)
    second = build(parse(f"{y} ~ {x} + {m}{rest}", moments.schema), moments.schema, moments.gram)
    fits = solve(moments, first), solve(moments, second)
    at = (first.names.index(x), second.names.index(m), second.names.index(x))
    a, b, c = (float(one.params[j]) for one, j in zip((fits[0], fits[1], fits[1]), at, strict=True))
    sampling = np.zeros((3, 3))
    sampling[0, 0] = fits[0].cov_sampling[at[0], at[0]]
    sampling[1:, 1:] = fits[1].cov_sampling[np.ix_(at[1:], at[1:])]
    privacy = np.zeros((3, 3)) if moments.exact else _noise(moments, fits, at)
    change = np.array([[b, a, 0], [0, 0, 1], [b, a, 1], [1, 0, 0], [0, 1, 0]], dtype=float)
    parts = [np.sqrt(np.diag(change @ part @ change.T)) for part in (sampling, privacy)]
    names = ["indirect", "direct", "total", f"{x} to {m}", f"{m} to {y}"]
    table = EstimateTable(
        pd.Index(names), np.array([a * b, c, a * b + c, a, b]), *parts, null=0.0, caption="by Sobel"
    )
    tables, simulated = {"sobel": table}, None
    if draws:

        def drawn(moments: Moments) -> pd.Series[float]:
            """The effects, without the errors that a fit would compute."""
            one, two = (_slopes(moments, design) for design in (first, second))
            a, b, c = one[at[0]], two[at[1]], two[at[2]]
            return pd.Series([a * b, c, a * b + c, a, b], index=pd.Index(names))

        simulated = bootstrap(moments, drawn, draws=draws, seed=seed)
        tables = {"bootstrap": replace(simulated.estimates(), caption="by bootstrap"), **tables}
    path = f"{x} -> {m} -> {y}" + (f" given {given.strip()}" if rest else "")
    share = f"{a * b / (a * b + c):.1%}" if a * b + c else "not known"
    return MediationResults(
        what="Mediation,", label=moments.label, nobs=moments.rows, sigma=moments.sigma, tables=tables,
        about=[("path", path), ("mediated", share)], effects=table.frame, simulated=simulated,
        remarks=(
            "An effect only if x, m and y share no cause that is not in the model; errors are taken as homoscedastic.",
        ),
    )  # fmt: skip


def _noise(moments: Moments, fits: tuple[Estimate, Estimate], at: tuple[int, int, int]) -> Matrix:
    """The noise covariance of (a, b, c), by their gradients together."""
    picked = list(zip((fits[0], fits[1], fits[1]), at, strict=True))
    grown = np.array([one.grown[j] for one, j in picked])
    gradients = np.array([one.gradients[j] for one, j in picked])
    return moments.law.covariance(gradients) * np.outer(grown, grown)


def _slopes(moments: Moments, design: Design) -> Matrix:
    T = design.combine
    found: Matrix = design.to_original @ np.linalg.solve(
        T.T @ moments.gram @ T, T.T @ moments.gram @ design.response_combine
    )
    return found
