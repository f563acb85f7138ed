"""Which elements a report has, in one fixed order that devices and providers agree on.

m bits and q columns (in a weighted study 2q + 1: `columns`) make 2m + q(q+1)/2 + q + 4 elements of the field:

    b_1..b_m            bits: attributes in the schema's order (a choice: every level, the reference first); logarithms,
                        bins and thresholds in theirs (every interval, then `above` and `below`); `clipped`; the root of an
                        answered weight; what is left of the ball
    T_jl, j <= l        products z_j z_l, upper triangle row by row
    rho                 uniform; hides s in the check
    rho z_1..rho z_q
    rho^2
    f(0)                uniform; hides phi in the check. f has degree m, f(k) = b_k
    h(0), h(m+1)..h(2m) h = f^2 - f, which is zero at 1..m when every bit is 0 or 1

Every z_j is linear in the elements: `terms` has its indices and coefficients, and -offset is its constant. The constants
of a report belong to one share only, that of R_1; the constants of N added reports are N times those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from trimask_core.basics.errors import ImpossibleStudy, ParameterError
from trimask_core.moments.columns import (
    CLIPPED,
    MomentsColumn,
    NaturalColumn,
    clipped_column,
    columns_of,
    natural_columns,
    root_column,
    weighted_columns,
)
from trimask_core.moments.encoding import Ball, RowEncoding, box_radius_squared
from trimask_core.moments.field import P
from trimask_core.moments.totals import EntryNoise, release_noise
from trimask_core.study.schema import Schema
from trimask_core.study.weight import Weight

_LARGEST_PRODUCT = 2**59  # sums are decoded as signed numbers below P / 2, with room for noise


@dataclass(frozen=True, slots=True)
class LinearCheck:
    """sum of coefficient * element over `terms` (index, coefficient) must be `total`."""

    terms: tuple[tuple[int, int], ...]
    total: int


@dataclass(frozen=True)
class MomentsLayout(RowEncoding):
    """Bits, columns, products and linear checks of a schema; made by `of`."""

    @staticmethod
    def of(schema: Schema, row_norm: float | None = None, weight: Weight | None = None) -> MomentsLayout:
        """The layout of a schema, with a ball of radius `row_norm` and with weights where they are given."""
        return _layout(schema, row_norm, weight)

    @property
    def q(self) -> int:
        """How many columns there are, beside x_0 = 1."""
        return len(self.columns)

    @cached_property
    def proved(self) -> tuple[MomentsColumn, ...]:
        """The columns whose products a report has: the q columns; in a weighted study s and s z_1..s z_q after them."""
        if self.root is None:
            return self.columns
        bounds = [self.bound(j) for j in range(self.q)]
        return (*self.columns, *weighted_columns(self.columns, bounds, self.root))

    @property
    def size(self) -> int:
        """How many columns the proof has."""
        return self.q if self.root is None else 2 * self.q + 1

    @property
    def published(self) -> tuple[MomentsColumn, ...]:
        """The columns whose products are opened in sums; in a weighted study s stands first, for x_0."""
        return self.columns if self.root is None else self.proved[self.q :]

    @property
    def published_bounds(self) -> tuple[int, ...]:
        """No accepted report has larger ones."""
        if self.root is None:
            return tuple(self.bound(j) for j in range(self.q))
        return tuple(column.largest for column in self.published)

    @property
    def firsts(self) -> int:
        """How many of a release's totals are of the row of x_0: sums of z, or of s^2 and s^2 z."""
        return len(self.published)

    @property
    def totals(self) -> int:
        """How many totals a release has."""
        return self.q * (self.q + 1) // 2 + self.q + (self.root is not None)

    def noises(self, sigma: float, honest: int) -> list[EntryNoise]:
        """One provider's noise on each total of a release; the sum of all weights has some, the number of people none."""
        widths = [column.width for column in self.published]
        found = release_noise(widths, sigma, honest)
        return found if self.root is None else found[len(widths) :]

    @cached_property
    def bits(self) -> int:
        """m: every bit."""
        return self.ball_bit + (0 if self.ball is None else len(self.ball.weights))

    @property
    def elements(self) -> int:
        """How many field elements a report has."""
        return 2 * self.bits + self.size * (self.size + 1) // 2 + self.size + 4

    @property
    def products(self) -> range:
        """Where T is."""
        return range(self.bits, self.bits + self.size * (self.size + 1) // 2)

    @property
    def rho(self) -> int:
        """Where rho is."""
        return self.products.stop

    @property
    def rho_products(self) -> range:
        """Where rho times each column of the proof is."""
        return range(self.rho + 1, self.rho + 1 + self.size)

    @property
    def rho_squared(self) -> int:
        """Where rho^2 is."""
        return self.rho_products.stop

    @property
    def f_zero(self) -> int:
        """Where f(0) is."""
        return self.rho_squared + 1

    @property
    def h_values(self) -> range:
        """Where h(0), h(m+1)..h(2m) are."""
        return range(self.f_zero + 1, self.elements)

    def product(self, j: int, k: int) -> int:
        """Where T_jk is, for columns j and k from 0 in either order."""
        if not (0 <= j < self.size and 0 <= k < self.size):
            raise ParameterError("column", f"from 0 to {self.size - 1}")
        low, high = min(j, k), max(j, k)
        return self.bits + low * self.size - low * (low - 1) // 2 + high - low

    @cached_property
    def terms(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each column, z_j + offset_j as (index, coefficient) pairs over a report's elements."""
        return tuple(self._terms(column) for column in self.proved)

    def _terms(self, column: MomentsColumn) -> tuple[tuple[int, int], ...]:
        if column.factors is not None:
            return ((self.product(*column.factors), 1),)
        each = 2 if column.shrinks else 1
        return tuple((column.first_bit + i, each * weight) for i, weight in enumerate(column.weights))

    @cached_property
    def linear_checks(self) -> tuple[LinearCheck, ...]:
        """Each choice question has one level; each number is in the interval it says; then the ball."""
        checks = [LinearCheck(tuple((bit, 1) for bit in bits), 1) for bits in self.choices]
        for comparison in self.comparisons:
            number = self.columns[comparison.number]
            answer = [(number.first_bit + i, weight) for i, weight in enumerate(number.weights)]
            for sign, ends, first_bit in (
                (1, comparison.first, comparison.above),
                (-1, comparison.last, comparison.below),
            ):
                held = [(bit, -sign * end) for bit, end in zip(comparison.bits, ends, strict=True) if end]
                rest = [(first_bit + i, -weight) for i, weight in enumerate(comparison.weights)]
                terms = [(index, sign * coefficient) for index, coefficient in answer]
                checks.append(LinearCheck((*terms, *held, *rest), 0))
        if self.ball is not None:
            squares = tuple((self.product(j, j), c) for j, c in enumerate(self.ball.coefficients))
            left = tuple((self.ball_bit + i, weight) for i, weight in enumerate(self.ball.weights))
            checks.append(LinearCheck((*squares, *left), self.ball.capacity))
        return tuple(checks)

    @cached_property
    def radius_squared(self) -> Fraction:
        """R^2 >= |x|^2 of every row the check accepts, x_0 = 1 counted: the box's, or the ball's."""
        if self.row_norm is not None:
            return Fraction(self.row_norm) ** 2
        return box_radius_squared(self.columns)

    @cached_property
    def natural(self) -> tuple[NaturalColumn, ...]:
        """The schema's own columns, each a constant and a linear combination of z."""
        return natural_columns(self.schema, self.columns)

    def bound(self, j: int) -> int:
        """|z_j| is at most this in every accepted report."""
        largest = self.columns[j].largest
        if self.ball is None:
            return largest
        return min(largest, math.isqrt(self.ball.capacity // self.ball.coefficients[j]))

    def largest(self, j: int, k: int) -> int:
        """|T_jk| is at most this in every accepted report: with N of them a sum is at most N times it."""
        return self.bound(j) * self.bound(k)

    def totals_of(self, elements: Sequence[int], reports: int = 0) -> tuple[list[int], list[int]]:
        """First moments z (q of them) and products T (upper triangle) in one report, share or sum of those, modulo P.

        Of a weighted study the products of s and s z: those with s first, then the others. `reports` is how many
        reports' constants to add: 1 for a whole report, N for R_1's sum of N, 0 for the others'.
        """
        if len(elements) != self.elements:
            raise ParameterError("elements", f"{self.elements} field elements", len(elements))
        if self.root is not None:
            chosen = range(self.q, self.size)
            found = [elements[self.product(j, k)] % P for j in chosen for k in chosen if k >= j]
            return found[: self.firsts], found[self.firsts :]
        first = [
            (sum(elements[index] * coefficient for index, coefficient in terms) - reports * column.offset) % P
            for column, terms in zip(self.columns, self.terms, strict=True)
        ]
        return first, [value % P for value in elements[self.products.start : self.products.stop]]


@lru_cache(maxsize=64, typed=True)  # typed: True is refused, though it is equal to 1.0
def _layout(schema: Schema, row_norm: float | None, weight: Weight | None) -> MomentsLayout:
    found = columns_of(schema)
    columns, used = found.columns, found.bits
    ball = None
    if row_norm is not None:
        if CLIPPED in [column.name for column in schema.columns]:
            raise ImpossibleStudy(
                "bad_name", f"{CLIPPED} is a column of its own with row_norm; name yours otherwise"
            )
        columns = (*columns, clipped_column(used))
        used += 1
        ball = Ball.of(columns, row_norm)
    root = None
    if weight is not None:
        root = root_column(schema, weight, found.choices, used)
        used += 0 if weight.weights else len(root.weights)
    layout = MomentsLayout(
        schema, row_norm, columns, found.choices, ball, used, found.comparisons, weight, root
    )
    layout.natural  # noqa: B018 - refused here if the schema's own columns could not be found from z
    for column, bound in zip(layout.published, layout.published_bounds, strict=True):
        if bound * bound >= _LARGEST_PRODUCT:
            raise ImpossibleStudy(
                "overflow", f"{column.name}: its squares do not fit; give coarser steps (step)"
            )
    return layout
