"""The noise in a fit: its covariance, by the law the moments come with, and whether the columns stand out of it.

A model can be fitted to a dataset, moments, a private Gram matrix, or several releases of one study together.

Statement. Let M be the second moments of working columns Z T, and G_T the estimate of M. In a direction T v the
estimate v^T G_T v has the variance that the law of the noise gives the gradient T v v^T T^T
(`trimask_theory.moments.noise_law`).
Eigenvalues are taken relative to T^T T, scaled units; a smallest one below zero means that the noise exceeds the signal:
no number is returned. How many standard errors the weakest direction clears zero by is the signal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from scipy import linalg

from trimask.errors import CollinearColumns, NoiseExceedsSignal, ParameterError
from trimask.moments.moments import Moments
from trimask.moments.waves import pooled
from trimask_theory.moments.noise_law import Matrix


def outer(u: Matrix, v: Matrix) -> Matrix:
    """The symmetric A with tr(A D) = u^T D v."""
    both: Matrix = (np.outer(u, v) + np.outer(v, u)) / 2
    return both


def counted(moments: Moments, gradients: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Counts of people with these gradients (m x p x p), and their covariances: the multinomial's, and the noise's."""
    counts: Matrix = np.einsum("aij,ij->a", gradients, moments.gram)
    share = np.maximum(counts, 0.0) / moments.rows
    return counts, moments.rows * (np.diag(share) - np.outer(share, share)), moments.law.covariance(gradients)


class HasMoments(Protocol):
    """A `trimask.Dataset`, or what `trimask.release.gram` returns."""

    @property
    def moments(self) -> Moments:
        """What every fit starts from."""


Source: TypeAlias = HasMoments | Moments | Sequence[HasMoments | Moments]


def moments_of(source: Source) -> Moments:
    """The moments behind a source; several releases are pooled, and so are waves of different people."""
    if isinstance(source, (list, tuple)):
        if not source:
            raise ParameterError("dataset", "at least one release")
        return pooled([_one(item) for item in source])
    return _one(source)


def _one(item: object) -> Moments:
    if isinstance(item, Moments):
        return item
    found = getattr(item, "moments", None)
    if not isinstance(found, Moments):
        raise ParameterError(
            "dataset",
            "a trimask.Dataset or what release.gram returns (raw rows go to ols_from_rows)",
            type(item).__name__,
        )
    return found


# A smallest eigenvalue (columns of unit length) below this is zero: R^2 of one column on the others is 1 - 1e-9.
COLLINEAR = 1e-9
# Smallest eigenvalue this many noise standard errors above zero: intervals hold (measured).
CLEAR_SIGNAL = 4.0


def check_signal(
    gram: Matrix, T: Matrix, moments: Moments, names: tuple[str, ...], *, ridge: bool = False
) -> float:
    """Standard errors by which the weakest direction clears zero, or an error naming the columns.

    `gram` estimates the moments of the columns Z T; with `ridge` the error names that remedy, and a penalty.
    """
    scale = np.sqrt(np.abs(np.diag(gram)))
    dead = [name for name, size in zip(names, scale, strict=True) if size == 0]
    if dead:
        raise CollinearColumns(dead, f"{', '.join(dead)}: zero on every row, or always the same")
    equal = gram / np.outer(scale, scale)
    values, vectors = linalg.eigh(equal)
    if abs(values[0]) <= COLLINEAR * len(scale):
        among = involved(vectors[:, 0], names)
        raise CollinearColumns(
            among, f"{', '.join(among)} are collinear in this data: leave one of them out of the model"
        )
    if moments.exact:
        return math.inf
    values, vectors = linalg.eigh(gram, T.T @ T)
    directions = (T @ vectors).T
    noise = np.sqrt(moments.law.variance(np.einsum("ai,aj->aij", directions, directions)))
    if values[0] <= 0:
        raise _too_noisy(
            float(values[0]), float(noise[0]), involved(vectors[:, 0], names), moments, ridge=ridge
        )
    with np.errstate(divide="ignore"):  # a direction without noise, such as the number of people
        return float(np.min(values / noise))


def involved(direction: Matrix, names: tuple[str, ...]) -> list[str]:
    """The columns with a real share in a direction."""
    share = np.abs(direction) / np.max(np.abs(direction))
    return [name for name, part in zip(names, share, strict=True) if part > 0.1]


def hidden(moments: Moments, columns: Sequence[str], what: str) -> NoiseExceedsSignal:
    """That the noise hides what is asked for, where it cannot be told how many people it would take."""
    return NoiseExceedsSignal(columns, moments.rows + 1, None, f"the noise exceeds the signal: {what}")


def _too_noisy(
    least: float, noise: float, columns: list[str], moments: Moments, *, ridge: bool
) -> NoiseExceedsSignal:
    """What would help. The eigenvalue grows as n; its noise is sqrt(2n) s^2, or that of an entry in the moments suite.

    Sharp calibration has s^2 proportional to 1/(epsilon sqrt(n)), so the noise stays as n grows and the ratio
    grows as n, and as epsilon; so it is in the moments suite. Theorem 3.4's sigma does not fall with n: the ratio then
    grows as sqrt(n). The eigenvalue is taken at the upper end of what the release allows, so both numbers are the least
    that could do. A ridge penalty lifts the eigenvalue by n times itself.
    """
    noise = max(noise, abs(least) * 1e-9)
    factor = CLEAR_SIGNAL * noise / max(least + 2 * noise, noise / 2)
    rows = math.ceil(moments.rows * (factor if moments.noise_falls_with_rows else factor**2))
    public = None if moments.protection is None else moments.protection.public
    epsilon = None if public is None or public.epsilon is None else public.epsilon * factor
    advice = f"a pooled release of at least about {rows:,} rows at the same epsilon"
    if epsilon is not None:
        advice += f", or an epsilon of at least about {epsilon:.2g} at {moments.rows:,} rows"
    penalty = (CLEAR_SIGNAL * noise - least) / moments.rows
    remedy = (
        f", and fit.ridge with a penalty of about {penalty:.2g} answers, pulled towards zero" if ridge else ""
    )
    groups = [name.partition(")")[0] for name in columns if name.startswith("C(")]
    merged = (
        f", and so does a rare level merged with another, {groups[0]}, merge=[level, level])"
        if groups
        else ""
    )
    return NoiseExceedsSignal(
        columns, rows, epsilon,
        f"the noise exceeds the signal: with sigma = {moments.sigma:.3g} and {moments.rows:,} rows the "
        f"corrected Gram matrix is not positive definite, and {', '.join(columns)} cannot be told apart. "
        f"It would take {advice}, and may take far more (`trimask plan --study` says how many); fewer columns help "
        f"too{merged}{remedy}.",
    )  # fmt: skip
