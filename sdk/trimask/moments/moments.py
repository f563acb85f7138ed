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
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np

from trimask.data.catalogue import Shown
from trimask.moments.identities import ConstrainedLaw
from trimask_core.basics.errors import ParameterError
from trimask_core.study.derived import ONES, Column
from trimask_core.study.schema import Schema
from trimask_theory.moments.noise_law import Matrix, NoiseLaw, RowsLaw, positive_part

if TYPE_CHECKING:
    from trimask_core.study.definition import SuiteName
    from trimask_core.study.guarantee import Protection
    from trimask_core.study.schema import Schema
    from trimask_core.study.weight import Weight
    from trimask_theory.moments.noise_law import Matrix


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
        return Moments(
            self.schema,
            gram,
            self.rows,
            0.0,
            self.protection,
            self.label,
            suite=self.suite,
            weight=self.weight,
            weighted_by=self.weighted_by,
        )

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


def pool(parts: Sequence[Moments]) -> Moments:
    """The moments of several releases of one study: what was published is added up, then read like one release.

    A release given twice would count its people twice, and releases of other studies are other questions: both
    are refused.
    """
    first, *others = parts
    if not others:
        return first
    if any(part.suite == "answer" for part in parts):
        raise ParameterError(
            "dataset", "one Gram matrix: another answer of the study is about the same people"
        )
    for part in parts:
        if part.weighted_by and part.weight is None:  # each on a scale and with a law of noise of its own
            raise ParameterError(
                "dataset",
                f"releases as they were published; {part.label or 'one'} is weighted. Weight them together: "
                "fit.weighted([first, second], ...)",
            )
    for part in others:
        if (part.schema, part.sigma, part.protection, part.suite, part.weight) != (
            first.schema, first.sigma, first.protection, first.suite, first.weight,
        ):  # fmt: skip
            raise ParameterError(
                "dataset", f"releases of one study; {part.label or 'one'} is of another than {first.label}"
            )
    labels = [part.label for part in parts if part.label]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ParameterError("dataset", f"different releases; {twice[0]} is given twice")
    label = " + ".join(labels)
    observed = [part.observed for part in parts if part.observed is not None]
    if len(observed) == len(parts):
        return observed[0].pooled(observed[1:]).moments(label)
    # Weighted ones were brought to a scale of their own each.
    moved = first.weight is not None or any(isinstance(part.law, ConstrainedLaw) for part in parts)
    if first.suite != "rows" or moved:
        raise ParameterError("dataset", "releases as they were published; repaired moments do not pool")
    gram = np.sum([part.gram for part in parts], axis=0)
    rows = sum(part.rows for part in parts)
    return Moments(first.schema, gram, rows, first.sigma, first.protection, label)


def row_moments(rows: Any, schema: Schema, label: str = "raw rows", weight: Weight | None = None) -> Moments:
    """The exact moments of raw answers: a DataFrame with a column an attribute, or mappings, one a person.

    With a study's `weight` people count by it, as in its releases.
    """
    total = np.zeros((len(schema.columns),) * 2)
    count = 0
    batch: list[list[float]] = []
    for answers in answers_of(rows, schema):
        row = schema.encode(answers)
        if weight is not None:
            used = weight.used(schema, weight.of(schema, answers)) / weight.bounds(schema)[1]
            row = [value * used**0.5 for value in row]
        batch.append(row)
        if len(batch) == _BATCH:
            total, count = _fold(total, count, batch)
            batch = []
    if batch:
        total, count = _fold(total, count, batch)
    if not count:
        raise ParameterError("rows", "at least one row")
    if weight is None:
        return Moments(schema, total, count, 0.0, label=label)
    worth, factor = effective(weight, schema, total, count)
    named = weighted_label(label, weight, worth, count)
    return Moments(schema, factor * total, worth, 0.0, label=named, weight=weight)


def _fold(total: Matrix, count: int, batch: list[list[float]]) -> tuple[Matrix, int]:
    block = np.array(batch)
    return total + block.T @ block, count + len(batch)


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
