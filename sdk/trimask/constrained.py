"""Noisy second moments moved onto what the schema knows, by generalised least squares with the noise's covariance.

Statement. Let the noise D of G have the map S (`trimask_theory.noise_law`), and let the true moments satisfy
K vec(M) = k. Among the matrices that do, the one nearest to G in the metric of the noise is
    P = G - S(K^T a),   a = (K S K^T)^+ (K vec(G) - k),
unbiased, and of the smallest variance of all unbiased linear estimates, in every direction at once (Gauss and Markov).
A function of P with gradient A has the noise variance tr(A' S(A')) with A' = A - K^T (K S K^T)^+ K S(A).
The moments are not made positive semidefinite by it; see `Moments.repaired`.

Proved for a known S. The rows suite's S depends on the moments, of which an estimate is used; the error of that is of
second order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trimask.identities import Identities
from trimask_theory.noise_law import Matrix, NoiseLaw

__all__ = ["ConstrainedLaw"]

_BATCH = 64
# Equations that hold whatever the noise (their variance is rounding) have nothing to move.
_NOTHING, _DEPENDENT = 1e-14, 1e-11


@dataclass(frozen=True, eq=False)
class ConstrainedLaw(NoiseLaw):
    """The law of moments with the law `base` after they were moved onto the identities."""

    base: NoiseLaw
    identities: Identities

    @property
    def exact(self) -> bool:
        """The base is."""
        return self.base.exact

    @property
    def fixed(self) -> NoiseLaw:
        """The base's fixed part, of the same combination of entries."""
        return _Reweighted(self.base.fixed, self)

    def image(self, gradients: Matrix) -> Matrix:
        """S(A')."""
        return self.base.image(self.reduced(gradients))

    def covariance(self, gradients: Matrix) -> Matrix:
        """By A' on both sides, which cannot come out negative."""
        return self.base.covariance(self.reduced(gradients))

    def variance(self, gradients: Matrix) -> Matrix:
        """As `covariance`."""
        return self.base.variance(self.reduced(gradients))

    def draw(self, rng: np.random.Generator) -> Matrix:
        """What the projection leaves of the base's noise."""
        return self.project(self.base.draw(rng), 0)

    def reduced(self, gradients: Matrix) -> Matrix:
        """A'."""
        if not len(self.identities):
            return gradients
        found: Matrix = gradients - self.identities.combine(
            self._solved(self.identities.values(self.base.image(gradients)))
        )
        return found

    def project(self, gram: Matrix, people: int) -> Matrix:
        """P of G; twice, so that what rounding left the first time is taken too."""
        for _ in range(2 if len(self.identities) else 0):
            gap = self.identities.values(gram[None]) - people * self.identities.ones
            gram = gram - self.base.image(self.identities.combine(self._solved(gap)))[0]
        return (gram + gram.T) / 2

    def _solved(self, values: Matrix) -> Matrix:
        scale, vectors, weights = self._inverse
        return ((values * scale) @ vectors * weights) @ vectors.T * scale

    @cached_property
    def _inverse(self) -> tuple[Matrix, Matrix, Matrix]:
        """(K S K^T)^+ = scale V weights V^T scale, equations brought to variance one."""
        count = len(self.identities)
        inner = np.empty((count, count))
        for start in range(0, count, _BATCH):
            some = np.eye(count)[start : start + _BATCH]
            inner[start : start + _BATCH] = self.identities.values(
                self.base.image(self.identities.combine(some))
            )
        spread = np.diag(inner)
        least = _NOTHING * float(np.max(spread, initial=0.0))
        scale = np.zeros(count)
        np.divide(1.0, np.sqrt(np.maximum(spread, 0.0)), out=scale, where=spread > least)
        values, vectors = np.linalg.eigh((inner + inner.T) / 2 * np.outer(scale, scale))
        weights = np.zeros(count)
        np.divide(1.0, values, out=weights, where=values > _DEPENDENT)
        return scale, vectors, weights


@dataclass(frozen=True, eq=False)
class _Reweighted(NoiseLaw):
    """Part of a constrained law: another covariance, the same A'."""

    part: NoiseLaw
    whole: ConstrainedLaw

    @property
    def exact(self) -> bool:
        return self.part.exact

    @property
    def fixed(self) -> NoiseLaw:
        return self

    def image(self, gradients: Matrix) -> Matrix:
        # S of the part comes with its adjoint: K^T (K S K^T)^+ K S taken off on the way back too.
        found = self.part.image(self.whole.reduced(gradients))
        moved = self.whole.identities
        if not len(moved):
            return found
        back: Matrix = found - self.whole.base.image(moved.combine(self.whole._solved(moved.values(found))))
        return back

    def draw(self, rng: np.random.Generator) -> Matrix:
        return self.whole.project(self.part.draw(rng), 0)

    def covariance(self, gradients: Matrix) -> Matrix:
        return self.part.covariance(self.whole.reduced(gradients))

    def variance(self, gradients: Matrix) -> Matrix:
        return self.part.variance(self.whole.reduced(gradients))
