"""Counts and means by group as they are answered: an `EstimateTable` whose errors are the noise's.

They are of the people in the study, so the noise is their only error. What is published for a question adds up to a noisy
number of people; that number is public, so the difference is shared out evenly: the least-squares estimate, with noise of
sigma sqrt(1 - 1/K) on each of K cells. Counts below zero are left so, because sums of them are then right; intervals end at
zero. A mean by group is a ratio of two noisy numbers; its interval is Fieller's, which covers at its level however small
the group is, and is the whole range where the noise hides the group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from trimask.errors import ParameterError
from trimask.fit.crosstab import effects_of, within
from trimask.fit.estimates import EstimateTable
from trimask.fit.report import Block, Facts, Report
from trimask.release.results import Answer
from trimask_core.study.guarantee import Guarantee

Array = NDArray[np.float64]
Levels = Mapping[str, Sequence[object]]


@dataclass(frozen=True, eq=False, repr=False)
class PrivateTable(Report):
    """How many people gave each answer, or combination of answers.

    `estimates` has a row a cell: of a table, which is `joint`, by one level a question; of histograms by question and level.
    `sigma` is the noise of a cell before the number of people was taken into account.
    """

    questions: tuple[str, ...]
    estimates: EstimateTable
    sigma: float
    rows: int
    guarantee: Guarantee
    answer: Answer | None = field(default=None, repr=False)
    joint: bool = True

    @property
    def counts(self) -> pd.Series[float] | pd.DataFrame:
        """By level; of a table of two questions the first in rows, the second in columns."""
        found = pd.Series(self.estimates.estimate, index=self.estimates.index, name="people")
        return found.unstack(sort=False) if self.joint and len(self.questions) == 2 else found

    def effects(self, outcome: Any = None, reference: Any = None) -> dict[str, EstimateTable]:
        """Of a table of two questions: "risk difference", "risk ratio" and "odds ratio", as `trimask.fit.crosstab` has them.

        `outcome` is the level of the second question whose share is compared, the last by default; `reference` the level
        of the first it is compared with, by default the first. These are of the population: errors hold sampling too.
        """
        table = self.counts
        if not isinstance(table, pd.DataFrame):
            raise ParameterError("effects", "asked of a table of two questions")
        outcome = table.columns[-1] if outcome is None else outcome
        reference = table.index[0] if reference is None else reference
        for what, given, known in (
            ("outcome", outcome, table.columns),
            ("reference", reference, table.index),
        ):
            if given not in known:
                raise ParameterError(what, f"one of {', '.join(map(str, known))}", given)
        share = np.maximum(table.to_numpy().ravel(), 0.0) / self.rows
        sampling = self.rows * (np.diag(share) - np.outer(share, share))
        return effects_of(
            table, (sampling, self.sigma**2 * (np.eye(share.size) - 1 / share.size)), outcome, reference
        )

    @property
    def title(self) -> str:
        """What this is."""
        return f"Private counts of {(' by ' if self.joint else ', ').join(self.questions)}"

    @property
    def facts(self) -> Facts:
        """How many people are in it."""
        return [("rows", f"{self.rows:,}")]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it, and the guarantee."""
        notes = ["Counts of these people: the noise is their only error."]
        if (self.estimates.estimate < 0).any():
            notes.append("A count below zero is one that the noise exceeds; its interval ends at zero.")
        return (*notes, str(self.guarantee))

    def blocks(self, alpha: float) -> list[Block]:
        """The cells."""
        return self.estimates.blocks(alpha)


@dataclass(frozen=True, eq=False, repr=False)
class PrivateMeans(Report):
    """The mean of `number` in each group of `by`: `estimates`, with how many people are in it beside."""

    number: str
    by: tuple[str, ...]
    estimates: EstimateTable
    rows: int
    guarantee: Guarantee
    answer: Answer | None = field(default=None, repr=False)
    clipped: bool = False

    @property
    def title(self) -> str:
        """What this is."""
        return f"Private means of {self.number} by {', '.join(self.by)}"

    @property
    def facts(self) -> Facts:
        """How many people are in it."""
        return [("rows", f"{self.rows:,}")]

    @property
    def notes(self) -> tuple[str, ...]:
        """How to read it, and the guarantee."""
        notes = ["Means of these people: the noise is their only error."]
        if self.clipped:
            notes.append("Caution: rows were shrunk to the study's ball; means may be too near its centre.")
        return (*notes, str(self.guarantee))

    def blocks(self, alpha: float) -> list[Block]:
        """The groups."""
        return self.estimates.blocks(alpha)


def private_counts(
    levels: Levels,
    values: ArrayLike,
    sigma: float,
    rows: int,
    guarantee: Guarantee,
    answer: Answer | None = None,
    *,
    joint: bool,
    order: Sequence[str] = (),
) -> PrivateTable:
    """What was published, in the order of `levels`, moved onto the number of people and put in the `order` asked for."""
    order, given = tuple(order) or tuple(levels), np.asarray(values, dtype=np.float64)
    joint = joint or len(order) == 1
    if joint:
        cells = _onto(given, rows).reshape([len(of) for of in levels.values()])
        found = cells.transpose([list(levels).index(name) for name in order]).ravel()
        index = _index({name: levels[name] for name in order})
        sizes = np.full(given.size, given.size)
    else:
        ends = np.cumsum([len(of) for of in levels.values()])[:-1]
        parts = dict(zip(levels, np.split(given, ends), strict=True))
        found = np.concatenate([_onto(parts[name], rows) for name in order])
        index = pd.MultiIndex.from_tuples([(name, level) for name in order for level in levels[name]])
        sizes = np.concatenate([np.full(len(parts[name]), len(parts[name])) for name in order])
    noise = sigma * np.sqrt(1 - 1 / sizes)
    table = EstimateTable(
        index, found, np.zeros_like(found), noise, ends=within(found, noise, rows), head="people", style=1, join=", "
    )  # fmt: skip
    return PrivateTable(order, table, sigma, rows, guarantee, answer, joint)


def private_means(
    number: str,
    levels: Levels,
    values: ArrayLike,
    noise: tuple[float, float],
    span: tuple[float, float],
    rows: int,
    guarantee: Guarantee,
    answer: Answer | None = None,
    *,
    clipped: bool = False,
) -> PrivateMeans:
    """From sums and counts: sums of the number less its `middle`, over `half` its range, which are `span`.

    `noise` is a sum's and a count's standard deviation.
    """
    index, (middle, half) = _index(levels), span
    size, given = len(index), np.asarray(values, dtype=np.float64)
    sums, counts = given[:size], _onto(given[size:], rows)
    of_sum, of_count = noise[0], noise[1] * math.sqrt(1 - 1 / size)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(counts > 0, sums / counts, np.nan)
        error = np.hypot(of_sum, np.clip(mean, -1, 1) * of_count) / counts
    error = np.where(counts > 2 * of_count, error, np.inf)  # else to first order it says nothing

    def ends(reach: float) -> Array:
        found = [_fieller(s, n, reach * of_sum, reach * of_count) for s, n in zip(sums, counts, strict=True)]
        return middle + half * np.array(found)

    table = EstimateTable(
        index, middle + half * mean, np.zeros(size), half * error, ends=ends, bounds=(middle - half, middle + half),
        head="mean", after={"people": counts}, join=", ",
    )  # fmt: skip
    return PrivateMeans(number, tuple(levels), table, rows, guarantee, answer, clipped)


def _fieller(total: float, count: float, a: float, b: float) -> tuple[float, float]:
    """Every ratio m with |total - m count| <= sqrt(a^2 + m^2 b^2); all of them where that is no interval."""
    lead = count * count - b * b
    if count <= 0 or lead <= 0:
        return -math.inf, math.inf
    root = math.sqrt(max(0.0, total * total * b * b + a * a * lead))
    return (total * count - root) / lead, (total * count + root) / lead


def _onto(values: Array, rows: int) -> Array:
    """Moved, all by the same, to add up to the number of people."""
    found: Array = values + (rows - values.sum()) / len(values)
    return found


def _index(levels: Levels) -> pd.Index[Any]:
    if len(levels) == 1:
        ((name, of),) = levels.items()
        return pd.Index(list(of), name=name)
    return pd.MultiIndex.from_product([list(of) for of in levels.values()], names=list(levels))
