"""What each suite publishes, in the columns its noise was drawn in: the start of a dataset's `Moments`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from trimask.data.catalogue import Shown
from trimask.moments.identities import ConstrainedLaw, layout_identities, schema_identities
from trimask.moments.moments import SHRUNK, Moments, effective, weighted_label
from trimask_core.moments.columns import CLIPPED
from trimask_core.moments.totals import entry_noise
from trimask_theory.moments.noise_law import (
    CorrectedLaw,
    EntriesLaw,
    MappedLaw,
    Matrix,
    NoiseLaw,
    RowsLaw,
    positive_part,
)
from trimask_theory.planning.pilot import schema_map

if TYPE_CHECKING:
    from trimask_core.study.definition import Study, SuiteName


@dataclass(frozen=True, eq=False)
class ObservedRows:
    """Y^T Y of the rows suite, in scaled units."""

    study: Study
    products: Matrix
    rows: int

    def pooled(self, others: Sequence[ObservedRows]) -> ObservedRows:
        """Rows of several releases under one another: noise stays sigma on every row."""
        products = np.sum([self.products, *(other.products for other in others)], axis=0)
        return replace(self, products=products, rows=self.rows + sum(other.rows for other in others))

    def uncorrected(self) -> Matrix:
        """Y^T Y, on the scale of the moments."""
        if self.study.weight is None:
            return self.products
        gram, _ = self._projected
        return effective(self.study.weight, self.study.schema, gram, self.rows)[1] * self.products

    @cached_property
    def _projected(self) -> tuple[Matrix, NoiseLaw]:
        """The noise's mean taken off, then moved onto what the schema knows."""
        # With the little that nodes add: at the coarsest grid a thousandth of the noise, mostly nothing.
        study, sigma, n = self.study, self.study.rows.published_sigma, self.rows
        raw = self.products - n * sigma**2 * np.eye(len(self.products))
        added = _Added.of(study, n)
        gram, law = raw + added.gram, added.law(RowsLaw(raw, n, sigma))
        if sigma:
            # With the pilot's correction the sum of ones is N again, but for the correction's error.
            shortened = study.clips and study.pilot is None
            identities = schema_identities(study.schema, shortened, weight=study.weight)
            corrected = gram
            # The law depends on the moments: those of a first round are better ones to take it at.
            for _ in range(2):
                law = ConstrainedLaw(
                    added.law(RowsLaw(positive_part(gram - added.gram), n, sigma)), identities
                )
                gram = law.project(corrected, n)
        return gram, law

    def moments(self, label: str) -> Moments:
        """Moved onto what the schema knows, and weighted ones brought to the people they are worth."""
        return _moments_of(self, *self._projected, label, "rows")


@dataclass(frozen=True)
class ClippedShare(Shown):
    """The estimated share of people whose row was shrunk to the ball, and its privacy standard error."""

    estimate: float
    error: float

    def interval(self, deviations: float = 1.96) -> tuple[float, float]:
        """The share within so many standard errors, and within [0, 1]."""
        reach = deviations * self.error
        return max(0.0, self.estimate - reach), min(1.0, max(0.0, self.estimate + reach))

    def __str__(self) -> str:
        low, high = self.interval()
        return f"{max(self.estimate, 0.0):.1%} (95 % interval {low:.1%} to {high:.1%})"


@dataclass(frozen=True, eq=False)
class ObservedMoments:
    """The noisy moments of (1, z_1 / w_1, .., z_q / w_q), and the variances of their noise.

    Of a weighted study: of these times s / S.
    """

    study: Study
    gram: Matrix
    variances: Matrix
    rows: int

    @classmethod
    def of_totals(
        cls, study: Study, first: Sequence[int], products: Sequence[int], rows: int
    ) -> ObservedMoments:
        """From the published whole numbers: sums of z_j, and of z_j z_l for j <= l, each on the grid of its noise.

        Of a weighted study the sum of s^2 first.
        """
        settings, widths = study.moments, _widths(study)
        noises = settings.layout.noises(settings.sigma, settings.honest_providers)
        steps = [
            math.ldexp(total, -noise.shift) for total, noise in zip((*first, *products), noises, strict=True)
        ]
        upper = iter(steps if study.weight is not None else [rows, *steps])
        gram = np.zeros((len(widths),) * 2)
        for j, width in enumerate(widths):
            for k, other in enumerate(widths[j:], j):
                gram[j, k] = next(upper) / (width * other)
        gram = np.triu(gram) + np.triu(gram, 1).T
        return cls(study, gram, entry_variances(study), rows)

    def pooled(self, others: Sequence[ObservedMoments]) -> ObservedMoments:
        """Totals and variances add up."""
        return replace(
            self,
            gram=np.sum([self.gram, *(other.gram for other in others)], axis=0),
            variances=np.sum([self.variances, *(other.variances for other in others)], axis=0),
            rows=self.rows + sum(other.rows for other in others),
        )

    def uncorrected(self) -> Matrix:
        """The noise has mean zero: there is nothing to correct, and nothing to leave in."""
        if self.study.weight is None:
            return self.unscaled()
        natural = self._natural
        gram = natural @ self._projected[0] @ natural.T
        return effective(self.study.weight, self.study.schema, gram, self.rows)[1] * self.unscaled()

    def unscaled(self) -> Matrix:
        """In the schema's columns, as published."""
        natural = self._natural
        found: Matrix = natural @ self.gram @ natural.T
        return found

    @cached_property
    def _natural(self) -> Matrix:
        return schema_map(self.study.moments.layout)

    @cached_property
    def _projected(self) -> tuple[Matrix, NoiseLaw]:
        base = EntriesLaw(self.variances)
        if base.exact:
            return self.gram, base
        law = ConstrainedLaw(base, layout_identities(self.study.moments.layout))
        return law.project(self.gram, self.rows), law

    def moments(self, label: str) -> Moments:
        """Moved onto what the schema knows, then in the schema's columns."""
        gram, law = self._projected
        L = self._natural
        natural: Matrix = L @ gram @ L.T
        added = _Added.of(self.study, self.rows)
        corrected = (natural + natural.T) / 2 + added.gram
        return _moments_of(self, corrected, added.law(MappedLaw(law, L)), label, "moments")

    @property
    def clipped(self) -> ClippedShare | None:
        """From the `clipped` column, where the study has a ball."""
        columns = self.study.moments.layout.columns
        names = [column.name for column in columns]
        if self.study.moments.ball_norm is None:
            return None
        j = names.index(CLIPPED)
        gram, law = self._projected
        gradient = np.zeros((1, *gram.shape))
        gradient[0, 0, j + 1] = gradient[0, j + 1, 0] = columns[j].width / (2 * gram[0, 0])
        share = float(np.sum(gradient[0] * gram))
        return ClippedShare(share, math.sqrt(float(law.variance(gradient)[0])))


COUNTED = 2.0
"""The covariance of the pilot's mean counts once as itself and once as the bias that it may leave
(`trimask_theory.planning.pilot`)."""


@dataclass(frozen=True, eq=False)
class _Added:
    """What a study's pilot adds to the moments of its people, and to the law of their noise; nothing without one."""

    gram: Matrix
    factors: Matrix
    rest: float

    @classmethod
    def of(cls, study: Study, people: int) -> _Added:
        p, pilot = study.attributes, study.pilot
        if pilot is None:
            return cls(np.zeros((p, p)), np.zeros((0, p, p)), 0.0)
        upper = np.triu_indices(p)
        found = np.zeros((1 + len(pilot.factors), p, p))
        found[:, upper[0], upper[1]] = [pilot.mean, *pilot.factors]
        found[:, upper[1], upper[0]] = found[:, upper[0], upper[1]]
        return cls(
            people * found[0], math.sqrt(COUNTED) * people * found[1:], COUNTED * people**2 * pilot.rest
        )

    def law(self, base: NoiseLaw) -> NoiseLaw:
        """With the correction's own error."""
        return CorrectedLaw(base, self.factors, self.rest) if len(self.factors) or self.rest else base


NOT_CORRECTED = "not corrected: intervals leave that bias out"


def clipped_label(label: str, study: Study, *, corrected: bool) -> str:
    """What results of a clipped release say they are of: every summary, table and plot has it."""
    if not study.clips:
        return label
    norm = study.moments.ball_norm if study.suite.name == "moments" else study.protection.row_norm
    how = NOT_CORRECTED
    if corrected and study.pilot is not None:
        how = f"corrected by a pilot of {study.pilot.people:,} people"
        if study.pilot.release:
            how = "corrected by what an earlier release of others lets one expect"
    return f"{label}, {SHRUNK}{norm:.3g} ({how})".lstrip(", ")


def entry_variances(study: Study) -> Matrix:
    """Of the noise on the moments of (1, z / w): every provider's rounded Gaussian; the number of people has none,
    the sum of their weights has.
    """
    settings = study.moments
    widths = _widths(study)
    found = np.zeros((len(widths),) * 2)
    for j, width in enumerate(widths):
        for k, other in enumerate(widths):
            if j + k == 0 and study.weight is None:
                continue
            noise = entry_noise(settings.sigma, width, other, settings.honest_providers, j == k)
            found[j, k] = noise.variance(settings.right) / (width * other) ** 2
    return found


def _widths(study: Study) -> list[int]:
    """Of the columns whose products are published, x_0 before them."""
    widths = [column.width for column in study.moments.layout.published]
    return widths if study.weight is not None else [1, *widths]


def _moments_of(
    observed: ObservedRows | ObservedMoments, gram: Matrix, law: NoiseLaw, label: str, suite: SuiteName
) -> Moments:
    """Moments of the schema's columns; weighted ones are brought to Kish's effective number of people."""
    study, rows = observed.study, observed.rows
    if study.weight is not None:
        rows, factor = effective(study.weight, study.schema, gram, observed.rows)
        gram, law = factor * gram, MappedLaw(law, math.sqrt(factor) * np.eye(len(gram)))
        label = weighted_label(label, study.weight, rows, observed.rows)
    label = clipped_label(label, study, corrected=True)
    gram.flags.writeable = False
    protection = study.protection
    return Moments(
        study.schema, gram, rows, protection.sigma, protection, label, law, suite, observed, study.weight
    )
