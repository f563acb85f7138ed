"""Principal components from noisy second moments, and where the noise floor lies.

Statement. For C = S, or the correlation matrix R of S, with C v_a = l_a v_a,
    dl_a = v_a^T dC v_a,   dv_a = sum_{b != a} v_b (v_b^T dC v_a) / (l_a - l_b),
where for R, writing u_a for v_a over the standard deviations,
    v_b^T dR v_a = u_b^T dS u_a - (l_a + l_b)/2 sum_i v_ai v_bi dS_ii/S_ii.
Errors follow from these gradients by `trimask.fit.covariance`. They hold for an eigenvalue that is clear of its
neighbours; close ones push each other apart and their loadings are not determined, so they get no error (NaN).
The gap is judged by its estimate. Measured on six columns with four eigenvalues too close: errors were withheld in
94% to 100% of releases, and where chance made the gap look clear the intervals held in 18% to 50% only.

Noise floor: noise alone, a matrix X with the covariance that the law of the noise has without data, makes eigenvalues
of C of at most about
    2 |E X^2|^(1/2),   |.| the spectral norm,
the edge of the semicircle. Noise is not the same in every direction (a yes-or-no column's variance is known), so each
component has a floor of its own, 2 (v_a^T E X^2 v_a)^(1/2), at most that one. A component below it cannot be told from
noise.

Asymptotic: all of it. Assumed: normal rows, for the sampling part where there are no fourth moments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from trimask.errors import ParameterError
from trimask.fit.clipping import marked
from trimask.fit.covariance import Covariance, covariance_of, doubt, rows_notes, select, warn_of
from trimask.fit.estimates import Estimates, EstimateTable, Framed
from trimask.fit.noise import Source, moments_of, outer
from trimask.fit.report import Block
from trimask_theory.moments.noise_law import Matrix

CLEAR_GAP = 5.0
"""Standard errors between eigenvalues from which errors hold (measured)."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Loadings(Estimates):
    """Loadings with their errors: sampling, privacy and both together."""

    loadings: pd.DataFrame
    loadings_bse: pd.DataFrame
    loadings_bse_sampling: pd.DataFrame
    loadings_bse_privacy: pd.DataFrame


def loading_frames(
    values: Matrix, sampling: Matrix, privacy: Matrix, names: Sequence[str], labels: pd.Index
) -> dict[str, pd.DataFrame]:
    """The fields of `Loadings`, from variances."""
    parts = (values, np.sqrt(sampling + privacy), np.sqrt(sampling), np.sqrt(privacy))
    frames = [pd.DataFrame(part, index=pd.Index(names), columns=labels) for part in parts]
    return dict(
        zip(
            ["loadings", *(f"loadings_bse{part}" for part in ("", "_sampling", "_privacy"))],
            frames,
            strict=True,
        )
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PCAResults(Loadings):
    """Components in order of variance. There are no scores: rows are not people.

    All errors are NaN where a component is not clear of its neighbours.

    Attributes
    ----------
    eigenvalues : DataFrame
        A row a component: estimate, std err, sampling and privacy parts.
    loadings : DataFrame
        Unit vectors, a column a component, the largest entry positive.
    loadings_bse : DataFrame
        Their errors; `loadings_bse_sampling` and `loadings_bse_privacy` are its parts.
    noise_floors : Series
        The variance below which noise alone may reach, in each component's direction.
    total_variance : float
        Of all columns.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.pca(data, ["age", "salt", "systolic"], components=2)
    >>> found.loadings.shape, found.conf_int().columns.tolist()
    ((3, 2), [0, 1])
    """

    standardize: bool
    total_variance: float
    noise_floors: pd.Series[float]

    eigenvalues = Framed()

    @property
    def explained_variance_ratio(self) -> pd.Series[float]:
        """The share of the total variance."""
        return (self.eigenvalues["estimate"] / self.total_variance).rename("share")

    @property
    def noise_floor(self) -> float:
        """The highest of the floors of the components shown."""
        return float(self.noise_floors.max())

    @property
    def above_floor(self) -> int:
        """How many components stand above their noise floor."""
        return int((self.eigenvalues["estimate"] > self.noise_floors).sum())

    def blocks(self, alpha: float) -> list[Block]:
        """Eigenvalues, then loadings with their errors in brackets."""
        return [*super().blocks(alpha), loadings_block(self.loadings, self.loadings_bse)]


def loadings_block(loadings: pd.DataFrame, errors: pd.DataFrame, **more: pd.Series[float]) -> Block:
    """Loadings with their standard errors in brackets, and more columns."""
    rows = [
        [str(name), *map(_with_error, loadings.loc[name], errors.loc[name]), *(f"{one[name]:.3f}" for one in more.values())]
        for name in loadings.index
    ]  # fmt: skip
    return Block(["", *map(str, loadings.columns), *more], rows, "loadings (standard errors)")


def _with_error(value: float, error: float) -> str:
    return f"{value:.3f} (-)" if math.isnan(error) else f"{value:.3f} ({error:.3f})"


@marked
def pca(
    dataset: Source,
    columns: Sequence[str] | None = None,
    *,
    components: int | None = None,
    standardize: bool = True,
) -> PCAResults:
    """Principal components, noise corrected, of the correlations (or of the covariances in scaled units).

    Parameters
    ----------
    dataset : Dataset, Moments, PrivateGram, Simulated, or a list of datasets
        What is fitted; releases of one study in a list are pooled.
    columns : list of str, optional
        By default all numeric columns but squares and products.
    components : int, optional
        How many to show; all by default.
    standardize : bool
        Correlations (default), or covariances in scaled units.

    Returns
    -------
    PCAResults
        Eigenvalues and loadings with errors, and the noise floor of each; no scores, since rows are not people.

    Examples
    --------
    >>> import trimask
    >>> data = trimask.example()
    >>> found = trimask.fit.pca(data, ["age", "salt", "systolic"])
    >>> found.explained_variance_ratio.round(1).tolist(), found.above_floor
    ([0.6, 0.3, 0.1], 3)
    """
    moments = moments_of(dataset)
    names = select(moments.schema, columns)
    k = len(names)
    count = k if components is None else components
    if not 1 <= count <= k:
        raise ParameterError("components", f"between 1 and the {k} columns", count)
    covariance = covariance_of(moments, names)
    d = covariance.deviations() if standardize else np.ones(k)
    C = covariance.S / np.outer(d, d)
    values, vectors = np.linalg.eigh(C)
    values, vectors = values[::-1], vectors[:, ::-1]
    vectors = vectors * np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(k)])

    pull = np.array(
        [[_pull(vectors, values, a, b, d, standardize) for b in range(k)] for a in range(count)]
    )  # gradient of v_b^T C v_a
    own = pull[np.arange(count), np.arange(count)]
    labels = pd.Index([f"PC{a + 1}" for a in range(count)])
    (sampling, known), privacy = covariance.sampling(own), covariance.privacy_variance(own)
    errors = np.sqrt(sampling + privacy)
    unclear = [a for a in range(count) if _gap(values, a) < CLEAR_GAP * errors[a]]
    errors[unclear] = sampling[unclear] = privacy[unclear] = np.nan
    parts = _loading_errors(covariance, values, vectors, pull, errors)
    said = doubt(covariance, known)
    warn_of(said)
    floors = _noise_floors(covariance, d, vectors[:, :count])
    notes = [*rows_notes(known, said)]
    below = int((values[:count] <= floors).sum())
    if below and moments.sigma:
        notes.append(f"{below} of the components shown cannot be told from noise (below its noise floor).")
    if unclear:
        close = ", ".join(labels[unclear])
        notes.append(f"{close}: too close to a neighbour for errors to hold, so none are given.")
    ends = dict.fromkeys(f"{value:.4g}" for value in (floors.min(), floors.max()))
    of = "correlations" if standardize else "covariances (scaled units)"
    total = float(np.trace(C))
    shares = [f"{value / total:.1%}" for value in values[:count]]
    table = EstimateTable(
        labels, values[:count], np.sqrt(sampling), np.sqrt(privacy), head="eigenvalue", caption="variances",
        after={"share": shares},
    )  # fmt: skip
    return PCAResults(
        what="Principal components", label=moments.label, nobs=moments.rows, sigma=moments.sigma,
        tables={"eigenvalues": table}, about=[("of", of), ("noise floor", " to ".join(ends))], remarks=tuple(notes),
        standardize=standardize, total_variance=total, noise_floors=pd.Series(floors, index=labels, name="noise floor"),
        **loading_frames(vectors[:, :count], *parts, names, labels),
    )  # fmt: skip


def _noise_floors(covariance: Covariance, d: Matrix, vectors: Matrix) -> Matrix:
    """2 (v^T E X^2 v)^(1/2) for each vector, X the noise in C that would be there without data."""
    k, W = len(d), covariance.W / d / math.sqrt(covariance.degrees)
    pairs = [(i, j) for i in range(k) for j in range(i, k)]
    place = np.zeros((k, k), dtype=int)
    for at, (i, j) in enumerate(pairs):
        place[i, j] = place[j, i] = at
    gradients = np.array([outer(W[:, i], W[:, j]) for i, j in pairs])
    spread = covariance.moments.law.fixed.covariance(gradients)
    square = np.array([[spread[place[i], place[j]].sum() for j in range(k)] for i in range(k)])
    found: Matrix = 2 * np.sqrt(np.maximum(np.einsum("ia,ij,ja->a", vectors, square, vectors), 0.0))
    return found


def _pull(vectors: Matrix, values: Matrix, a: int, b: int, d: Matrix, standardize: bool) -> Matrix:
    """The gradient of v_b^T C v_a with respect to S, the vectors held."""
    found = outer(vectors[:, a] / d, vectors[:, b] / d)
    if standardize:
        both = vectors[:, a] * vectors[:, b] / d**2
        found = found - np.diag((values[a] + values[b]) / 2 * both)
    return found


def _gap(values: Matrix, a: int) -> float:
    """The distance of an eigenvalue to its nearest neighbour."""
    return float(np.min(np.abs(np.delete(values, a) - values[a]), initial=math.inf))


def _loading_errors(
    covariance: Covariance, values: Matrix, vectors: Matrix, pull: Matrix, errors: Matrix
) -> tuple[Matrix, Matrix]:
    """Sampling and privacy variances of the loadings (columns x components); NaN where not determined."""
    count, k = pull.shape[:2]
    found = np.full((2, k, count), np.nan)
    for a in range(count):
        if math.isnan(errors[a]):
            continue
        gap = values[a] - values
        others = [b for b in range(k) if b != a]
        weights = np.array([vectors[:, b] / gap[b] for b in others]).reshape(len(others), k)
        gradients = np.einsum("bi,bjl->ijl", weights, pull[a, others])
        found[0, :, a] = covariance.sampling_variance(gradients)
        found[1, :, a] = covariance.privacy_variance(gradients)
    return found[0], found[1]
