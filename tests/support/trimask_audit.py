"""An empirical audit of a masked release: many releases on neighbouring data and a likelihood-ratio attacker.

Statement. For any event E, (epsilon, delta)-DP implies P[E] - e^epsilon P'[E] <= delta. The attacker knows
both neighbours and takes E = {L > epsilon}, L the log likelihood ratio, which is the best event there is when
every other row is zero. E is counted in independent releases of either data set; Clopper-Pearson intervals
for the two counts bound P[E] - e^epsilon P'[E] at the confidence asked for.
A release enters through Y^T Y = (X + C)^T (X + C), which is sufficient and does not depend on the mask; only
its part in span(x, x') bears on x, so two columns are simulated whatever the number of attributes.
Basis: the interval is exact for the counts. A lower end above delta refutes a calibration; a lower end below
it proves nothing more than that this attacker did not succeed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from trimask_core.basics.errors import ParameterError
from trimask_theory import checks
from trimask_theory.masking.hypergeometric import log_0f1

Array = NDArray[np.float64]

_CHUNK = 1 << 22
"""Normal variates held at once."""


@dataclass(frozen=True, slots=True)
class Audit:
    """How often the attacker's event happened, and the delta it shows."""

    epsilon: float
    releases: int
    hits: int
    false_hits: int
    confidence: float

    @property
    def estimate(self) -> float:
        """The observed P[E] - e^epsilon P'[E]."""
        return (self.hits - math.exp(self.epsilon) * self.false_hits) / self.releases

    @property
    def lower(self) -> float:
        """The delta that was exceeded, at the confidence stated."""
        return self._end(self.hits, upper=False) - math.exp(self.epsilon) * self._end(
            self.false_hits, upper=True
        )

    @property
    def upper(self) -> float:
        """What this event can show at most, at the confidence stated."""
        return self._end(self.hits, upper=True) - math.exp(self.epsilon) * self._end(
            self.false_hits, upper=False
        )

    def _end(self, count: int, *, upper: bool) -> float:
        """A Clopper-Pearson end: four of them share the failure probability."""
        tail = (1 - self.confidence) / 4
        if upper:
            return (
                1.0
                if count == self.releases
                else float(betaincinv(count + 1, self.releases - count, 1 - tail))
            )
        return 0.0 if count == 0 else float(betaincinv(count, self.releases - count + 1, tail))


def run(
    epsilon: float,
    sigma: float,
    rows: int,
    row: ArrayLike,
    neighbour: ArrayLike,
    releases: int,
    generator: np.random.Generator,
    others: ArrayLike | None = None,
    confidence: float = 0.999,
) -> Audit:
    """Attack `releases` releases of `rows` rows with `row` in the data, and as many with `neighbour` instead.

    `others` are the other rows - 1 rows, zero by default. With them L is no longer the log likelihood
    ratio, and the attacker sets the threshold by as many further releases; any threshold makes a valid
    attack. `generator` is no source of privacy here.
    """
    epsilon = checks.positive("epsilon", epsilon)
    sigma = checks.positive("sigma", sigma)
    releases = checks.whole("releases", releases, 1)
    confidence = checks.probability("confidence", confidence)
    rows = checks.whole("rows", rows, 3)
    first, second = (np.asarray(value, dtype=np.float64) for value in (row, neighbour))
    if first.ndim != 1 or first.shape != second.shape or not np.isfinite([*first, *second]).all():
        raise ParameterError("row and neighbour", "finite vectors of the same length")
    basis = np.linalg.qr(np.stack([first, second], axis=1))[0]
    rest = None if others is None else np.asarray(others, dtype=np.float64) @ basis / sigma
    if rest is not None and rest.shape[0] != rows - 1:
        raise ParameterError("others", f"a matrix of {rows - 1} rows", rest.shape[0])
    x, y = first @ basis / sigma, second @ basis / sigma

    def losses(mean: Array) -> Array:
        size = max(1, _CHUNK // (x.size * (4 if rest is None else rows)))
        parts = [min(size, releases - begin) for begin in range(0, releases, size)]
        return np.concatenate([_loss(_gram(mean, rest, rows, part, generator), x, y, rows) for part in parts])

    threshold = epsilon if rest is None else _best_threshold(losses(x), losses(y), math.exp(epsilon))
    hits, false_hits = (int(np.count_nonzero(losses(mean) > threshold)) for mean in (x, y))
    return Audit(epsilon, releases, hits, false_hits, confidence)


def _best_threshold(first: Array, second: Array, weight: float) -> float:
    """The threshold with the largest observed P[L > t] - weight P'[L > t]."""
    merged = np.concatenate([first, second])
    order = np.argsort(-merged)
    gains = np.cumsum(np.where(order < first.size, 1.0, -weight))
    place = int(np.argmax(gains))
    return float(np.nextafter(merged[order[place]], -np.inf))


def _gram(mean: Array, rest: Array | None, rows: int, size: int, generator: np.random.Generator) -> Array:
    """Gram matrices of `rows` unit-variance rows, one of mean `mean`, less the others' own."""
    width = mean.size
    if rest is not None:
        noisy = generator.standard_normal((size, rows, width))
        noisy[:, 0] += mean
        noisy[:, 1:] += rest
        noisy_gram: Array = np.einsum("sri,srj->sij", noisy, noisy) - rest.T @ rest
        return noisy_gram
    # Bartlett: the Gram matrix of the rows without a mean, from its triangular factor.
    factor = np.zeros((size, width, width))
    for column in range(width):
        factor[:, column, column] = np.sqrt(generator.chisquare(rows - 1 - column, size))
        factor[:, column, :column] = generator.standard_normal((size, column))
    single = generator.standard_normal((size, width)) + mean
    return factor @ factor.transpose(0, 2, 1) + single[:, :, None] * single[:, None, :]


def _loss(gram: Array, x: Array, y: Array, rows: int) -> Array:
    """The log likelihood ratio of x to y when every other row is zero (docs/theory/sharp-calibration.md#privacy-loss)."""
    forms = [np.sqrt(np.maximum(np.einsum("i,sij,j->s", v, gram, v), 0.0)) for v in (x, y)]
    shift = 0.5 * float(y @ y - x @ x)
    result: Array = shift + log_0f1(0.5 * rows, forms[0]) - log_0f1(0.5 * rows, forms[1])
    return result
