"""The second moments of a study's columns: all that a release carries, all that a linear fit needs.

A release of the rows suite is Y = A (X + C) with A orthogonal and C i.i.d. N(0, sigma^2), so E[Y^T Y] = X^T X + rows
sigma^2 I in scaled units (every column in [-1, 1]); note that `rows` is the number of rows masked together, whatever
number is stored. One of the moments suite is X^T X itself with noise on every entry. Either way moments come with the
law of their noise, and are moved onto what the schema knows (`trimask.moments.identities`) where a dataset is read.
A value in original units is center * one + half_range * scaled. The mask mixes rows, so the constant `center` enters
through the ones column.

Statement (rows that devices weighted, docs/theory/collection.md#weights). A weighted release has G = sum of u x x^T over
people, u = w / w_max. Fits read it scaled to Kish's effective number of people, n_eff = (sum u)^2 / sum u^2, as
`fit.weighted` does: estimates are weighted least squares', whatever the scale, and sampling errors are taken at n_eff.
**Approximate**: right where weights have nothing to do with the residuals' spread; a design-based (sandwich) error needs
fourth moments, which nobody published. The noise of the two sums is left out of the scale (second order), and n_eff is
held between N and the least that the study's bounds allow.

sum u^2 is a combination of G's own entries: sum_l u_l <l, l> for a table by levels, and <one, w> / w_max where the weight
is an attribute.

What each suite publishes (`ObservedRows`, `ObservedMoments`) is in the columns its noise was drawn in: the start of a
dataset's `Moments`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np

from trimask.data.manifest import Shown
from trimask.moments.identities import ConstrainedLaw, layout_identities, schema_identities
from trimask_core.basics.errors import ParameterError
from trimask_core.moments.columns import CLIPPED
from trimask_core.moments.totals import entry_noise
from trimask_core.study.derived import ONES, Column
from trimask_core.study.schema import Schema
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
    from trimask_core.study.guarantee import Protection
    from trimask_core.study.weight import Weight


def effective(weight: Weight, schema: Schema, gram: Matrix, people: int) -> tuple[int, float]:
    """n_eff of a weighted Gram matrix in scaled units, and the factor that brings the matrix to it."""
    names = [column.name for column in schema.columns]
    one = names.index(ONES)
    low, high = weight.bounds(schema)
    total = float(np.clip(gram[one, one], people * low / high, people))
    if weight.weights:
        places = {
            names.index(f"{weight.attribute}_{level}"): used / high
            for level, used in weight.table(schema).items()
        }
        squares = sum(share * float(gram[at, at]) for at, share in places.items())
    else:
        at = names.index(weight.attribute)
        column = schema.columns[at]
        squares = float(column.center * gram[one, one] + column.half_range * gram[one, at]) / high
    least = people / weight.design_effect(schema)
    found = float(np.clip(total**2 / squares if squares > 0 else people, least, people))
    rows = max(1, round(found))
    return rows, rows / total


def weighted_label(label: str, weight: Weight, rows: int, people: int) -> str:
    """What results say they are of, and what their errors are not: every summary has it."""
    worth = f"{rows:,} of {people:,} people in effect; errors are at that number, and not design-based"
    return f"{label}, weighted by {weight.attribute} ({worth})".lstrip(", ")


SHRUNK = "rows shrunk to norm "
"""Stands in the label of every result of a clipped release: reports and plots look for it."""
Units = Literal["original", "scaled"]
_BATCH = 4096


def check_units(units: str) -> None:
    """Refuse anything but the two words."""
    if units not in get_args(Units):
        raise ParameterError("units", "'original' or 'scaled'", units)


def original_map(columns: Sequence[Column]) -> Matrix:
    """T with (original row) = (scaled row) T; its column j is half_range_j e_j + center_j e_one."""
    names = [column.name for column in columns]
    change = np.diag([column.half_range for column in columns])
    for j, column in enumerate(columns):
        if column.center:
            if ONES not in names:
                raise ParameterError(
                    "units",
                    f"'scaled': the study has no ones column to move {column.name} to its center with",
                )
            change[names.index(ONES), j] += column.center
    return change


class Observed(Protocol):
    """Published moments in the columns their noise was drawn in, as `Moments` keeps them for pooling."""

    def pooled(self, others: Sequence[Any]) -> Observed:
        """The sum of this and others of its kind."""

    def moments(self, label: str) -> Moments:
        """The moments of the schema's columns, moved onto what the schema knows."""

    def uncorrected(self) -> Matrix:
        """The Gram matrix of somebody who takes what is published for the data."""


@dataclass(frozen=True, eq=False)
class Moments(Shown):
    """Second moments of a study's columns: a source for every fit.

    Parameters
    ----------
    schema : Schema
        The columns.
    gram : array
        Estimates X^T X in scaled units, without bias.
    rows : int
        People; with a `weight`, how many they are worth in effect (`trimask.moments.moments`).
    sigma : float
        The noise the study declares.
    protection : Protection, optional
        What the study promises.
    label : str
        What it is of, in words.
    law : NoiseLaw
        That of the noise left in `gram`; None: that of the rows suite, not moved onto anything.
    suite : str
        The study's, or "answer" for a private Gram matrix.
    observed : Observed, optional
        What a release published, before it was moved onto what the schema knows.
    weight : Weight, optional
        What devices weighted their rows by.
    weighted_by : str
        The attribute that people count by, weighted by devices or by `fit.weighted`; "" where all count the same.

    Examples
    --------
    >>> import trimask
    >>> moments = trimask.example().moments
    >>> moments.rows, moments.exact, moments.columns[1].name
    (2000, False, 'age')
    """

    schema: Schema
    gram: Matrix
    rows: int
    sigma: float
    protection: Protection | None = None
    label: str = ""
    law: NoiseLaw = field(default=None, repr=False)  # type: ignore[assignment]  # set below
    suite: SuiteName | Literal["answer"] = "rows"
    observed: Observed | None = field(default=None, repr=False)
    weight: Weight | None = None
    weighted_by: str = ""

    def __post_init__(self) -> None:
        if self.weight is not None:
            object.__setattr__(self, "weighted_by", self.weight.attribute)
        if self.law is None:
            law = RowsLaw(positive_part(self.gram) if self.sigma else self.gram, self.rows, self.sigma)
            object.__setattr__(self, "law", law)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, in the order of `gram`."""
        return self.schema.columns

    @property
    def exact(self) -> bool:
        """Whether there is no noise."""
        return self.law.exact

    @property
    def noise_falls_with_rows(self) -> bool:
        """Whether more rows in a release mean less noise beside them: not by Theorem 3.4's calibration, nor the bound's."""
        return self.protection is None or self.protection.method not in ("theorem", "bound")

    def ignoring_noise(self) -> Moments:
        """The moments as somebody sees them who takes what is published for the data: the noise left in, and forgotten."""
        if self.observed is None:
            gram = self.gram + self.rows * self.sigma**2 * np.eye(len(self.gram))
        else:
            gram = self.observed.uncorrected()
        return replace(self, gram=gram, sigma=0.0, law=None, observed=None)  # type: ignore[arg-type]  # set anew

    def repaired(self) -> Moments:
        """The nearest positive semidefinite moments in scaled units, labelled so; errors stay those of the noise.

        For what cannot work without, such as rows. Fits do not ask for it: it is biased where it changes anything, and
        what the schema knows holds only nearly afterwards.
        """
        gram = positive_part(self.gram)
        if gram is self.gram:
            return self
        label = f"{self.label}, made positive semidefinite".lstrip(", ")
        return replace(self, gram=gram, label=label, observed=None)


def row_moments(rows: Any, schema: Schema, label: str = "raw rows", weight: Weight | None = None) -> Moments:
    """The exact moments of raw answers: a DataFrame with a column an attribute, or mappings, one a person.

    With a study's `weight` people count by it, as in its releases.
    """

    def row_of(answers: Mapping[str, object]) -> list[float]:
        row = schema.encode(answers)
        if weight is None:
            return row
        used = weight.used(schema, weight.of(schema, answers)) / weight.bounds(schema)[1]
        return [value * used**0.5 for value in row]

    total, count = np.zeros((len(schema.columns),) * 2), 0
    people = map(row_of, answers_of(rows, schema))
    while batch := list(islice(people, _BATCH)):
        block = np.array(batch)
        total, count = total + block.T @ block, count + len(batch)
    if not count:
        raise ParameterError("rows", "at least one row")
    if weight is None:
        return Moments(schema, total, count, 0.0, label=label)
    worth, factor = effective(weight, schema, total, count)
    named = weighted_label(label, weight, worth, count)
    return Moments(schema, factor * total, worth, 0.0, label=named, weight=weight)


def answers_of(rows: Any, schema: Schema) -> Iterator[Mapping[str, object]]:
    """One mapping a row; columns of a frame that the study does not ask for are left out."""
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
        asked = [attribute.name for attribute in schema.attributes]
        missing = [name for name in asked if name not in rows.columns]
        if missing:
            raise ParameterError("rows", f"a frame with the study's attributes; {missing[0]} is missing")
        yield from rows[asked].to_dict("records")
    elif isinstance(rows, Iterable):
        yield from rows
    else:
        raise ParameterError("rows", "a DataFrame or mappings, one a person", type(rows).__name__)


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
