"""Tables, histograms and sums by group as linear forms of the totals: what a provider adds up of its own shares.

A question here is a choice, a yes-or-no answer, bins or a threshold: each person has exactly one of its levels. The level's
indicator is a form in z: the column of the level; 1 less the others for a reference; (1 + z)/2 for a yes, z being +-1. A
cell is the product of one indicator a question, a polynomial in z, and each of its monomials is a column, or the shared
product of two of them where a declared product is a column itself. So a cell's total is a constant for every report and a
combination of totals, modulo P: a half is 2^-1 there, and the sum, a whole number of people, comes out exact
(docs/theory/verified-moments.md#tables). A number by group is the cell times the number, measured from the middle of its
range so that it reaches as far up as down.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.moments.columns import MomentsColumn
from trimask_core.moments.field import P
from trimask_core.moments.layout import MomentsLayout
from trimask_core.study.schema import Schema

MOST_CELLS = 50_000
"""Numbers in one answer: about 1 MB of JSON, well below the message limit, and seconds for a provider."""

_HALF = pow(2, -1, P)
_Polynomial = Mapping[tuple[int, ...], int]
"""Coefficients modulo P by monomial: its columns in order, none of them a product."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of an answer: `constant` for each report and a combination of totals (place, coefficient), modulo P.

    One report moves it by at most `width` from 0; the noise is in units of that.
    """

    constant: int
    terms: tuple[tuple[int, int], ...]
    width: int = 1

    def share(self, totals: Sequence[int], reports: int) -> int:
        """A provider's share of it; `reports` is how many for R_1, who has the constants, and 0 for the others."""
        return (
            self.constant * reports + sum(coefficient * totals[place] for place, coefficient in self.terms)
        ) % P


@dataclass(frozen=True, slots=True)
class NumberRange:
    """A number's whole numbers z: the least and greatest of any accepted report."""

    column: MomentsColumn
    low: int
    high: int

    @property
    def middle(self) -> int:
        """Where it is measured from."""
        return (self.low + self.high) // 2

    @property
    def reach(self) -> int:
        """The largest |z - middle|."""
        return max(self.high - self.middle, self.middle - self.low)

    @property
    def scaled(self) -> tuple[float, float]:
        """The ends of (z - middle) / reach."""
        return (self.low - self.middle) / self.reach, (self.high - self.middle) / self.reach


def question_levels(schema: Schema) -> dict[str, tuple[str, ...]]:
    """What a table can be of, in the schema's order: each question with its levels."""
    found: dict[str, tuple[str, ...]] = {}
    for attribute in schema.attributes:
        if attribute.kind == "categorical":
            found[attribute.name] = attribute.levels
        elif attribute.kind == "binary":
            found[attribute.name] = ("no", "yes")
    for derived in schema.derived:
        if derived.cuts:
            found[derived.name] = derived.levels or ("no", "yes")
    return found


def cell_count(schema: Schema, questions: Sequence[str]) -> int:
    """How many cells a table of these questions has; too many are refused."""
    levels = question_levels(schema)
    count = math.prod(len(levels[name]) for name in questions)
    if count > MOST_CELLS:
        raise Refused(Reason.BAD_QUESTION, f"a table has at most {MOST_CELLS} cells: name fewer questions")
    return count


def number_range(layout: MomentsLayout, name: str) -> NumberRange:
    """The range of a number, a yes-or-no answer or a logarithm; refused for what has no range of its own."""
    for j, column in enumerate(layout.columns):
        if column.name == name and column.shrinks:
            bound = layout.bound(j)
            return NumberRange(
                column, max(-column.offset, -bound), min(2 * column.steps - column.offset, bound)
            )
    known = ", ".join(column.name for column in layout.columns if column.shrinks)
    raise Refused(Reason.BAD_QUESTION, f"means are of one number, and {name!r} is none: {known}")


def table_cells(layout: MomentsLayout, questions: Sequence[str]) -> list[Cell]:
    """A cell for each combination of levels, those of the last question fastest."""
    held = _held(layout)
    return [_cell(layout, held, cell, questions) for cell in _products(layout, questions)]


def group_cells(layout: MomentsLayout, questions: Sequence[str], number: str) -> list[Cell]:
    """For each cell of the table the sum of the number, from the middle of its range; then the cells themselves."""
    span, held = number_range(layout, number), _held(layout)
    one = {(layout.columns.index(span.column),): 1, (): -span.middle % P}
    sums = [
        _cell(layout, held, _times(cell, one), [*questions, number], span.reach)
        for cell in _products(layout, questions)
    ]
    return sums + table_cells(layout, questions)


def _products(layout: MomentsLayout, questions: Sequence[str]) -> Iterable[_Polynomial]:
    cell_count(layout.schema, questions)
    for parts in itertools.product(*(_indicators(layout, name) for name in questions)):
        cell: _Polynomial = {(): 1}
        for part in parts:
            cell = _times(cell, part)
        yield cell


def _indicators(layout: MomentsLayout, name: str) -> list[_Polynomial]:
    """The indicator of each of a question's levels."""
    levels = question_levels(layout.schema)[name]
    places = {column.name: j for j, column in enumerate(layout.columns)}
    if name in places:  # yes or no: z = +-1, or a threshold's 0 and 1
        z = (places[name],)
        if layout.columns[places[name]].kind == "bounded":
            return [{(): _HALF, z: P - _HALF}, {(): _HALF, z: _HALF}]
        return [{(): 1, z: P - 1}, {z: 1}]
    columns = [places.get(f"{name}_{level}") for level in levels]
    others: dict[tuple[int, ...], int] = {(j,): P - 1 for j in columns if j is not None}
    return [{(): 1, **others} if j is None else {(j,): 1} for j in columns]


def _times(one: _Polynomial, other: _Polynomial) -> _Polynomial:
    found: dict[tuple[int, ...], int] = {}
    for (a, x), (b, y) in itertools.product(one.items(), other.items()):
        monomial = tuple(sorted(a + b))
        found[monomial] = (found.get(monomial, 0) + x * y) % P
    return found


def _held(layout: MomentsLayout) -> dict[tuple[int, ...], int]:
    """The column of each monomial that has one."""
    made: list[tuple[int, ...]] = []
    for j, column in enumerate(layout.columns):
        pair = column.factors
        made.append((j,) if pair is None else tuple(sorted(made[pair[0]] + made[pair[1]])))
    return {monomial: j for j, monomial in reversed(list(enumerate(made)))}


def _cell(
    layout: MomentsLayout,
    held: Mapping[tuple[int, ...], int],
    polynomial: _Polynomial,
    names: Sequence[str],
    width: int = 1,
) -> Cell:
    terms = [
        (_place(layout, held, monomial, names), coefficient)
        for monomial, coefficient in polynomial.items()
        if monomial and coefficient
    ]
    return Cell(polynomial.get((), 0), tuple(terms), width)


def _place(
    layout: MomentsLayout,
    held: Mapping[tuple[int, ...], int],
    monomial: tuple[int, ...],
    names: Sequence[str],
) -> int:
    """Where the total of a monomial is: a first moment, or the product of two columns."""
    if monomial in held:
        return held[monomial]
    at = range(len(monomial))
    for size in range(1, len(monomial) // 2 + 1):
        for chosen in itertools.combinations(at, size):
            one = tuple(monomial[i] for i in chosen)
            other = tuple(monomial[i] for i in at if i not in chosen)
            if one in held and other in held:
                return layout.q + layout.product(held[one], held[other]) - layout.products.start
    raise Refused(
        Reason.BAD_QUESTION,
        f"{', '.join(names)} together are not in what this study collects: it would have to declare the product of two of "
        "them. Ask for two at a time",
    )
