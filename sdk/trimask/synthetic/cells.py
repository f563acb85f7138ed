"""Attributes as a few cells each, and what every entry of a Gram matrix says about the cells of one or two of them.

Rule. A choice has a cell a level, a yes-or-no answer two, a whole number with at most `bins` values a cell a value. Any
other number has the intervals that the study declares (cuts of its bins and thresholds). Where it declares none, it has
`bins` intervals over its declared bounds, with inner edges at equal distances from 1.5 standard deviations below the
release's mean to 2.5 above, as far as the bounds allow; a whole number has its minimum as a cell of its own, since counts
are often zero. Within a cell answers are taken as uniform.

A column of the row is a function of one attribute or a few. So the product of two columns that involve the attributes a
and b alone is a function on the cells of (a, b), and its sum over people, an entry of the Gram matrix, is linear in their
two-way table:
    G_ij = sum over cells c of T(c) f_ij(c),   f_ij(c) = mean of x_i x_j over the answers in c.
For choices f is 0 or 1 and the entries are the table itself; for numbers they are its moments. Which columns involve which
attributes is found by encoding answers with the study's own schema, so whatever the schema derives is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimask.moments import Matrix
from trimask_core.schema import Attribute, Schema

__all__ = ["Cells", "Statistics", "cells_of", "statistics"]

_POINTS = 3  # answers of an interval that f is averaged over: their spread is 0.94 of a uniform one's


@dataclass(frozen=True)
class Cells:
    """An attribute's cells: names, and the answers that stand for each when columns are formed."""

    attribute: Attribute
    names: tuple[str, ...]
    edges: tuple[float, ...]
    answers: tuple[tuple[Any, ...], ...]

    @property
    def name(self) -> str:
        """The attribute's."""
        return self.attribute.name

    def __len__(self) -> int:
        return len(self.names)

    def draw(self, cells: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
        """An answer for each cell: the level or value, or one drawn uniformly from the interval."""
        item = self.attribute
        if item.kind in ("categorical", "binary") or not self.edges:
            return np.array([one[0] for one in self.answers], dtype=object)[cells]
        low, high = np.array(self.edges[:-1])[cells], np.array(self.edges[1:])[cells]
        if item.kind == "integer":
            first, last = np.ceil(low), np.where(cells == len(self) - 1, np.floor(high), np.ceil(high) - 1)
            return np.asarray(first + np.floor(rng.random(len(cells)) * (last - first + 1))).astype(np.int64)
        return np.asarray(low + rng.random(len(cells)) * (high - low))


def cells_of(schema: Schema, attribute: Attribute, bins: int, mean: float, deviation: float) -> Cells:
    """By the rule above; mean and deviation are the release's, in original units."""
    if attribute.kind == "categorical":
        return Cells(attribute, attribute.levels, (), tuple((level,) for level in attribute.levels))
    if attribute.kind == "binary":
        return Cells(attribute, ("no", "yes"), (), ((0,), (1,)))
    low, high = attribute.bounds
    whole = attribute.kind == "integer"
    if whole and high - low + 1 <= bins:
        values = [int(low) + k for k in range(int(high - low) + 1)]
        return Cells(attribute, tuple(map(str, values)), (), tuple((value,) for value in values))
    cuts = sorted(
        {
            float(cut)
            for item in schema.derived
            if item.of[0] == attribute.name
            for cut in getattr(item, "cuts", ())
            if low < cut < high
        }
    )
    edges = [float(low), *cuts, float(high)] if cuts else _edges(low, high, bins, mean, deviation, whole)
    answers = tuple(_points(a, b, whole, last=b == edges[-1]) for a, b in itertools.pairwise(edges))
    names = tuple(f"{a:.6g} to {b:.6g}" for a, b in itertools.pairwise(edges))
    return Cells(attribute, names, tuple(map(float, edges)), answers)


def _edges(low: float, high: float, bins: int, mean: float, deviation: float, whole: bool) -> list[float]:
    """Bounds and inner edges, without those that no answer lies between."""
    reach = max(deviation, (high - low) / 50)
    middle = min(max(mean, low), high)
    start, end = max(low, middle - 1.5 * reach), min(high, middle + 2.5 * reach)
    inner = np.linspace(start, end, bins + 1 if (start, end) == (low, high) else bins)
    if whole:
        inner = np.unique(np.r_[low + 1, np.ceil(inner)])
    return [float(low), *(float(edge) for edge in inner if low < edge < high), float(high)]


def _points(low: float, high: float, whole: bool, *, last: bool) -> tuple[Any, ...]:
    if not whole:
        return tuple(float(low + (high - low) * (2 * k + 1) / (2 * _POINTS)) for k in range(_POINTS))
    inside = np.arange(int(np.ceil(low)), int(np.floor(high) if last else np.ceil(high) - 1) + 1)
    chosen = np.unique(np.linspace(0, len(inside) - 1, min(len(inside), _POINTS)).round().astype(int))
    return tuple(int(value) for value in inside[chosen])


@dataclass(frozen=True)
class Statistics:
    """Entries of the Gram matrix that are about the cells of one or two attributes and no others.

    `entries` are (i, j) with i <= j; `features` has a row an entry and a column a cell, in scaled units. `blur` is how far
    an entry's products lie apart within a cell, on average over cells: what the rule of uniform answers may be wrong about.
    """

    attributes: tuple[str, ...]
    entries: tuple[tuple[int, int], ...]
    features: Matrix
    blur: Matrix


def statistics(schema: Schema, cells: Sequence[Cells]) -> list[Statistics]:
    """Of every attribute, and of every two of them."""
    involved = _involved(schema, cells)
    base = {one.name: one.answers[0][0] for one in cells}
    found = []
    for group in [*((one,) for one in cells), *itertools.combinations(cells, 2)]:
        names = tuple(one.name for one in group)
        columns = [j for j, needs in enumerate(involved) if needs <= set(names)]
        pairs = [
            (i, j)
            for i, j in itertools.combinations_with_replacement(columns, 2)
            if involved[i] | involved[j] == set(names)
        ]
        if pairs:
            found.append(Statistics(names, tuple(pairs), *_features(schema, group, base, pairs)))
    return found


def _features(
    schema: Schema, group: Sequence[Cells], base: Mapping[str, Any], pairs: Sequence[tuple[int, int]]
) -> tuple[Matrix, Matrix]:
    first, second = np.array(pairs).T
    found = np.empty((len(pairs), int(np.prod([len(one) for one in group]))))
    blur = np.zeros(len(pairs))
    for place, chosen in enumerate(itertools.product(*(one.answers for one in group))):
        rows = np.array(
            [
                schema.encode({**base, **dict(zip((one.name for one in group), answers, strict=True))})
                for answers in itertools.product(*chosen)
            ]
        )
        products = rows[:, first] * rows[:, second]
        found[:, place] = products.mean(axis=0)
        blur += products.std(axis=0)
    return found, blur / found.shape[1]


def _involved(schema: Schema, cells: Sequence[Cells]) -> list[set[str]]:
    """Which attributes move each column: seen by moving one at a time, from several people's answers."""
    rng = np.random.default_rng(1)
    found: list[set[str]] = [set() for _ in schema.columns]
    for _ in range(12):
        base = {one.name: one.answers[k][0] for one in cells for k in [int(rng.integers(len(one)))]}
        start = np.array(schema.encode(base))
        for one in cells:
            for answers in one.answers:
                moved = np.array(schema.encode({**base, one.name: answers[0]}))
                for j in np.flatnonzero(np.abs(moved - start) > 1e-12):
                    found[j].add(one.name)
    return found
