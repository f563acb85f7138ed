"""Lasso and elastic net from noisy second moments.

Statement. With every column centred and of deviation one, R the correlations of the regressors and r those with the
response, all from the corrected moments, the fit minimises
    b^T R b / 2 - r^T b + penalty (mix |b|_1 + (1 - mix) |b|^2 / 2),
which for a positive semidefinite R is the elastic net on the rows. Noise may leave R indefinite; it is then replaced by the
nearest positive semidefinite matrix (Datta and Zou 2017, in another norm), and the summary says so. Found by coordinate
descent, to 1e-12.

Penalty "bic" minimises over a path, s the number of slopes,
    g(b)^T V^-1 g(b) + s log n,    g(b) = r - R b,
V the variance of g at the end of the path: the residual variance times R / n, and the noise's by its law. Without noise the
first term is n (RSS(b) / RSS - 1), the quadratic form of n log RSS(b) (Wang and Leng 2007), so this is the BIC; with noise,
a slope is kept for what clears sampling and noise together, where R^2 alone keeps every slope that noise makes. Asymptotic.

No standard errors: a selection has none of first order. `fit.bootstrap` of these coefficients shows how they vary; `fit.ols`
of the chosen columns has errors that do not know of the choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from trimask.errors import FormulaError, ParameterError
from trimask.fit.covariance import Covariance, covariance_of
from trimask.fit.design import INTERCEPT, build
from trimask.fit.formula import parse
from trimask.fit.noise import Source, moments_of
from trimask.fit.report import Block, Facts, Report, of_data, places_for
from trimask_core.study.derived import ONES
from trimask_theory.mechanisms.noisy_regression import outers
from trimask_theory.moments.noise_law import Matrix, positive_part

Choice = Literal["bic"]
_STEPS = 100_000
_PATH_STEPS = 3_000  # a point of the path: near-singular correlations would take minutes to the last digit


@dataclass(frozen=True, eq=False, repr=False)
class SparseResults(Report):
    """What `fit.lasso` and `fit.elastic_net` found.

    Attributes
    ----------
    params : Series
        In original units.
    standardized : Series
        In deviations.
    selected : list
        The columns with a slope.
    penalty : float
        In units of correlations.
    rsquared : float
        From the corrected moments.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.lasso(data, "systolic ~ age + salt", penalty=1.0).selected
    []
    """

    formula: str
    response: str
    label: str
    nobs: int
    sigma: float
    penalty: float
    mix: float
    chosen: bool
    repaired: bool
    params: pd.Series[float]
    standardized: pd.Series[float]
    rsquared: float

    @property
    def selected(self) -> list[str]:
        """The coefficients that are not zero."""
        return [str(name) for name, value in self.standardized.items() if value != 0]

    @property
    def title(self) -> str:
        """What was fitted."""
        return f"{'Lasso' if self.mix == 1 else 'Elastic net'} {of_data(self.sigma)}"

    @property
    def facts(self) -> Facts:
        """What the table is of."""
        how = (
            " (least BIC, the noise counted in)"
            if self.chosen and self.sigma
            else " (least BIC)"
            if self.chosen
            else ""
        )
        return [
            ("model", self.formula),
            ("data", self.label),
            ("rows", f"{self.nobs:,}"),
            ("penalty", f"{self.penalty:.4g}{how}, mix {self.mix:g} (deviations)"),
            ("selected", f"{len(self.selected)} of {len(self.standardized)}"),
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it."""
        notes = [
            "Pulled towards zero on purpose, and no standard errors: fit.bootstrap shows how a selection varies."
        ]
        if self.repaired:
            notes.append(
                "The noise left the correlations indefinite; the nearest positive semidefinite ones were used."
            )
        if any(name.startswith("C(") for name in self.standardized.index):
            notes.append("Which levels are chosen depends on the reference level.")
        return tuple(notes)

    def blocks(self, alpha: float) -> list[Block]:  # noqa: ARG002  no intervals
        """A row a coefficient; a dash where it is zero."""
        rows = []
        for name, value in self.params.items():
            slope = float(self.standardized.get(name, math.nan))
            gone = name != INTERCEPT and slope == 0
            shown = "-" if gone else f"{value:.{places_for(0, value)}f}"
            rows.append([str(name), shown, "-" if gone or math.isnan(slope) else f"{slope:.4f}"])
        return [Block(["", "coef", "in deviations"], rows)]

    def __repr__(self) -> str:
        return f"<SparseResults {self.formula!r}: {len(self.selected)} of {len(self.standardized)} selected>"


def lasso(dataset: Source, formula: str, penalty: float | Choice = "bic") -> SparseResults:
    """The lasso, noise corrected: `elastic_net` with mix = 1.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    formula : str
        With an intercept.
    penalty : float or "bic"
        In units of correlations: 0 is least squares, 1 leaves nothing; "bic" chooses, the noise counted in.

    Returns
    -------
    SparseResults
        `params`, `standardized`, `selected`; no errors.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> trimask.fit.lasso(data, "systolic ~ age + salt + leaflet", penalty=0.2).selected
    ['age', 'salt']
    """
    return elastic_net(dataset, formula, penalty)


def elastic_net(
    dataset: Source, formula: str, penalty: float | Choice = "bic", *, mix: float = 1.0
) -> SparseResults:
    """Elastic net from the Gram matrix, noise corrected, columns standardised by the release's own deviations.

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    formula : str
        With an intercept.
    penalty : float or "bic"
        In units of correlations: 0 is least squares, 1 leaves nothing; "bic" chooses, the noise counted in.
    mix : float
        The share of the absolute values, above 0 and at most 1: 1 is the lasso.

    Returns
    -------
    SparseResults
        `params`, `standardized`, `selected`; no errors.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.elastic_net(data, "systolic ~ age + salt + leaflet", penalty=0.3, mix=0.5)
    >>> found.selected
    ['age', 'salt']
    """
    if not 0 < mix <= 1:
        raise ParameterError("mix", "above 0 and at most 1; fit.ridge is for 0", mix)
    if penalty != "bic" and not (
        isinstance(penalty, (int, float)) and math.isfinite(penalty) and penalty >= 0
    ):
        raise ParameterError("penalty", "finite and >= 0, or 'bic'", penalty)
    moments = moments_of(dataset)
    design = build(parse(formula, moments.schema), moments.schema, moments.gram)
    if INTERCEPT not in design.names:
        raise FormulaError(f"{formula.strip()!r}: columns are centred here, which needs the intercept")
    columns = [name for name in design.columns if name != ONES]
    if any("+" in name for name in columns):
        raise FormulaError(f"{formula.strip()!r}: a selection takes levels as they are; leave merge= out")
    if not columns:
        raise FormulaError(f"{formula.strip()!r} has no column to choose")
    spread = covariance_of(moments, [*columns, design.response])
    d = spread.deviations()
    C = spread.S / np.outer(d, d)
    repaired = positive_part(C)
    R, r = repaired[:-1, :-1], repaired[:-1, -1]
    if penalty == "bic":
        value, b = _least_bic(R, r, mix, moments.rows, lambda slopes: _noise_of_score(spread, d, slopes))
    else:
        value = float(penalty)
        b = _descend(R, r, value, mix, np.zeros(len(r)))
    half = np.array([column.half_range for column in moments.columns])
    center = np.array([column.center for column in moments.columns])
    names = [column.name for column in moments.columns]
    at = [names.index(name) for name in [*columns, design.response]]
    scale, middle = d * half[at], center[at] + half[at] * spread.means
    slopes = b * scale[-1] / scale[:-1]
    intercept = middle[-1] - float(slopes @ middle[:-1])
    called = [name for name in design.names if name != INTERCEPT]
    return SparseResults(
        formula=formula.strip(),
        response=design.response,
        label=moments.label,
        nobs=moments.rows,
        sigma=moments.sigma,
        penalty=value,
        mix=float(mix),
        chosen=penalty == "bic",
        repaired=repaired is not C,
        params=pd.Series([intercept, *slopes], index=pd.Index([INTERCEPT, *called])),
        standardized=pd.Series(b, index=pd.Index(called)),
        rsquared=float(2 * r @ b - b @ R @ b),
    )


def _descend(R: Matrix, r: Matrix, penalty: float, mix: float, start: Matrix, steps: int = _STEPS) -> Matrix:
    """Coordinate descent from `start`."""
    b, thin, ridge = start.copy(), penalty * mix, penalty * (1 - mix)
    left = r - R @ b
    for _ in range(steps):
        moved = 0.0
        for j in range(len(b)):
            size = R[j, j] + ridge
            pull = left[j] + R[j, j] * b[j]
            new = math.copysign(max(abs(pull) - thin, 0.0), pull) / size if size > 0 else 0.0
            if new != b[j]:
                left -= R[:, j] * (new - b[j])
                moved = max(moved, abs(new - b[j]))
                b[j] = new
        if moved < 1e-12:
            break
    return b


def _least_bic(
    R: Matrix, r: Matrix, mix: float, n: int, noise: Callable[[Matrix], Matrix]
) -> tuple[float, Matrix]:
    largest = max(float(np.max(np.abs(r))) / mix, 1e-9)
    path, b = [], np.zeros(len(r))
    for value in np.geomspace(largest, largest / 1000, 60):
        b = _descend(R, r, float(value), mix, b, _PATH_STEPS)
        path.append((float(value), b))
    left = max(1 - float(2 * r @ b - b @ R @ b), 1e-12)
    inverse = np.linalg.pinv(left * R / n + noise(b), hermitian=True)
    scores = [
        float((r - R @ slopes) @ inverse @ (r - R @ slopes)) + np.count_nonzero(slopes) * math.log(n)
        for _, slopes in path
    ]
    value, b = path[int(np.argmin(scores))]
    return value, _descend(R, r, value, mix, b)


def _noise_of_score(spread: Covariance, d: Matrix, b: Matrix) -> Matrix:
    """The covariance of r - R b that the noise brings; deviations and b are held, the former by g's being near zero."""
    if spread.moments.exact:
        return np.zeros((len(b), len(b)))
    turned = spread.W / d
    residual = turned @ np.r_[-b, 1.0]
    return spread.moments.law.covariance(outers(turned[:, :-1].T, residual) / spread.degrees)
