"""From a person's answers to the bits and whole numbers z of a report, and which elements it has in which order.

The order is fixed, and devices and providers agree on it.
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

With a ball, rows are shrunk to |x| <= R on the device, and whole numbers hold them to it in the proof. Noise goes with
R^2, and a box of bounded columns has far larger corners than people's rows
(docs/theory/verified-moments.md#ball-accuracy). In whole numbers, with c_j = ceil(2^t / w_j^2) and C = floor(2^t (R^2 -
1)), a row is inside when sum_j c_j z_j^2 <= C; then sum_j x_j^2 <= C / 2^t <= R^2 - 1, whatever was rounded. t =
bit_length(max w_j^2) + 6, so 2^t / w_j^2 > 2^6 and rounding it up makes no c_j larger by more than the 2^-6th part: the
ball people get is at most that much smaller than R's. The bits of what is left, C - sum_j c_j z_j^2, are shared too, so
that the providers can check the sum in shares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache

from trimask_core.basics.errors import ImpossibleStudy, ParameterError
from trimask_core.moments.columns import (
    CLIPPED,
    Comparison,
    MomentsColumn,
    NaturalColumn,
    bit_weights,
    bits_of,
    clipped_column,
    columns_of,
    natural_columns,
    root_column,
    weighted_columns,
)
from trimask_core.moments.field import P
from trimask_core.moments.totals import EntryNoise, release_noise
from trimask_core.study.derived import natural_log
from trimask_core.study.schema import Schema
from trimask_core.study.weight import Weight

SHRINK_BITS = 20  # rows are shrunk by k / 2^20
_SPARE_BITS = 6


@dataclass(frozen=True)
class Ball:
    """t, each column's c_j, and C."""

    exponent: int
    coefficients: tuple[int, ...]
    capacity: int

    @classmethod
    def of(cls, columns: Sequence[MomentsColumn], row_norm: float) -> Ball:
        """The ball of radius `row_norm` (x_0 = 1 counted) for these columns, `clipped` among them."""
        exponent = max(column.width**2 for column in columns).bit_length() + _SPARE_BITS
        coefficients = tuple(-(-(1 << exponent) // column.width**2) for column in columns)
        # The least every row can be shrunk to: a level that is not the reference in every group, odd columns at 1.
        smallest: list[int] = []
        for column in columns:
            factors = column.factors
            smallest.append(column.least if factors is None else smallest[factors[0]] * smallest[factors[1]])
        least = _one_a_group(
            columns,
            [Fraction(c * size, 1 << exponent) for c, size in zip(coefficients, smallest, strict=True)],
        )
        _check_row_norm(row_norm, 1 + least, box_radius_squared(columns))
        capacity = math.floor((Fraction(row_norm) ** 2 - 1) * (1 << exponent))
        if (
            sum(c * column.largest**2 for column, c in zip(columns, coefficients, strict=True)) + capacity
            >= P
        ):
            widest = max(columns, key=lambda column: column.width)
            raise ImpossibleStudy(
                "row_norm",
                f"row_norm: the check of the ball does not fit into 61 bits; give coarser steps, first for {widest.name}",
            )
        return cls(exponent, coefficients, capacity)

    @property
    def weights(self) -> tuple[int, ...]:
        """Of the bits of what is left."""
        return bit_weights(self.capacity)

    def left(self, z: Sequence[int]) -> int:
        """C - sum_j c_j z_j^2; below 0 outside the ball."""
        return self.capacity - sum(c * value * value for c, value in zip(self.coefficients, z, strict=True))

    def clip(self, columns: Sequence[MomentsColumn], z: Sequence[int]) -> list[int]:
        """The row itself where it is inside; else shrunk by a k / 2^20 that fits while the next does not, and `clipped`.

        Without intervals that is the largest k that fits. A number that is shrunk is in the interval it is shrunk to.
        """
        if self.left(z) >= 0:
            return list(z)
        low, high = 0, 1 << SHRINK_BITS  # k = low fits (`of` has seen to that), k = high does not
        while high - low > 1:
            middle = (low + high) // 2
            if self.left(_shrunk(columns, z, middle)) >= 0:
                low = middle
            else:
                high = middle
        return _shrunk(columns, z, low)


def box_radius_squared(columns: Sequence[MomentsColumn]) -> Fraction:
    """R^2 of every row the bits allow: 1 for x_0, (largest / w)^2 for a column, the largest of those for a group."""
    held = [column for column in columns if column.kind != "clipped"]
    return 1 + _one_a_group(held, [Fraction(column.largest, column.width) ** 2 for column in held])


def _one_a_group(columns: Sequence[MomentsColumn], sizes: Sequence[Fraction]) -> Fraction:
    """The sum of the columns' sizes, of a group the largest alone: its other columns are 0 then."""
    groups: dict[str, Fraction] = {}
    total = Fraction()
    for column, size in zip(columns, sizes, strict=True):
        if column.group:
            groups[column.group] = max(size, groups.get(column.group, Fraction()))
        else:
            total += size
    return total + sum(groups.values(), Fraction())


def _shrunk(columns: Sequence[MomentsColumn], z: Sequence[int], k: int) -> list[int]:
    """Bounded columns times k / 2^20, towards 0 and to the parity z must have; |z| never grows with a smaller k."""
    row: list[int] = []
    for column, value in zip(columns, z, strict=True):
        if column.factors is not None:
            row.append(row[column.factors[0]] * row[column.factors[1]])
        elif column.kind == "interval":
            row.append(column.holds(columns[column.number], row[column.number]))
        elif column.shrinks:
            size = abs(value) * k >> SHRINK_BITS
            size = max(value & 1, size - ((size ^ value) & 1))
            row.append(size if value > 0 else -size)
        else:
            row.append(1 if column.kind == "clipped" else value)
    return row


def _check_row_norm(row_norm: float, least: Fraction, box: Fraction) -> None:
    if isinstance(row_norm, bool) or not isinstance(row_norm, (int, float)) or not math.isfinite(row_norm):
        raise ImpossibleStudy("row_norm", "row_norm must be a finite number")
    low, high = math.ceil(math.sqrt(least) * 1e6 + 1) / 1e6, math.floor(math.sqrt(box) * 1e6 - 1) / 1e6
    if low > high:
        raise ImpossibleStudy(
            "row_norm", "row_norm: no ball below the box holds a row of these questions; leave row_norm out"
        )
    if row_norm <= 0 or not least <= Fraction(row_norm) ** 2 < box:
        raise ImpossibleStudy(
            "row_norm", f"row_norm must be between {low:.6f} and {high:.6f}, got {row_norm:g}"
        )


@dataclass(frozen=True)
class Encoded:
    """One row: every bit, every z, whether it was shrunk to the ball, and the root s of its weight (1 without weights)."""

    bits: tuple[int, ...] = field(repr=False)
    z: tuple[int, ...] = field(repr=False)
    clipped: bool = field(repr=False)
    root: int = field(default=1, repr=False)
    proved: tuple[int, ...] = field(default=(), repr=False)
    """The columns whose products are shared and checked: z, or z, s and s z."""

    @property
    def counted(self) -> tuple[int, ...]:
        """(1, z) times s: the row whose products are added up."""
        return (self.root, *(self.root * value for value in self.z))


@dataclass(frozen=True)
class RowEncoding:
    """How a schema's answers become bits and z."""

    schema: Schema
    row_norm: float | None
    columns: tuple[MomentsColumn, ...]
    choices: tuple[tuple[int, ...], ...]  # the bits of each choice question, the reference first
    ball: Ball | None
    ball_bit: int  # the first bit of what is left of the ball: all bits before it are answers'
    comparisons: tuple[Comparison, ...] = ()  # of bins and thresholds
    weight: Weight | None = None
    root: MomentsColumn | None = None  # s of a weighted study

    def encode(self, answers: Mapping[str, object]) -> Encoded:
        """Bits and z of a person's answers, inside the ball; answers are refused as by `Schema.read`."""
        values = self.schema.read(answers)
        z: list[int] = []
        for column in self.columns:
            if column.factors is not None:
                z.append(z[column.factors[0]] * z[column.factors[1]])
            elif column.kind == "interval":
                z.append(column.holds(self.columns[column.number], z[column.number]))
            elif column.kind == "level":
                z.append(int(values[column.sources[0]] == column.level))
            elif column.kind == "clipped":
                z.append(0)
            else:
                value = float(values[column.sources[0]])
                answer = column.answer(natural_log(value) if column.kind == "log" else value)
                z.append(2 * answer - column.offset)
        if self.ball is not None:
            z = self.ball.clip(self.columns, z)
        clipped = self.ball is not None and z[-1] == 1
        bits = self._bits(z)
        if self.weight is None or self.root is None:
            return self._encoded(bits, z, clipped, 1)
        if self.weight.weights:
            # Of the level the report says: a number that was shrunk to the ball is in the interval it is shrunk to.
            held = zip(self.root.weights, bits[self.root.first_bit :], strict=False)
            return self._encoded(bits, z, clipped, sum(root * bit for root, bit in held))
        root = self.weight.whole_root(self.schema, float(values[self.weight.attribute]))
        own = bits_of(root + self.root.offset, self.root.weights)
        bits[self.root.first_bit : self.root.first_bit + len(own)] = own
        return self._encoded(bits, z, clipped, root)

    def _encoded(self, bits: Sequence[int], z: Sequence[int], clipped: bool, root: int) -> Encoded:
        proved = z if self.root is None else (*z, root, *(root * value for value in z))
        return Encoded(tuple(bits), tuple(z), clipped, root, tuple(proved))

    def _bits(self, z: Sequence[int]) -> list[int]:
        bits = [0] * self.ball_bit
        for column, value in zip(self.columns, z, strict=True):
            if column.shrinks:
                held = bits_of((value + column.offset) // 2, column.weights)
                bits[column.first_bit : column.first_bit + len(held)] = held
            elif column.factors is None:
                bits[column.first_bit] = value
        for reference, *others in self.choices:
            bits[reference] = 1 - sum(bits[other] for other in others)
        for comparison in self.comparisons:
            number = self.columns[comparison.number]
            above, below = comparison.rests((z[comparison.number] + number.offset) // 2)
            for first, rest in ((comparison.above, above), (comparison.below, below)):
                held = bits_of(rest, comparison.weights)
                bits[first : first + len(held)] = held
        return bits if self.ball is None else bits + bits_of(self.ball.left(z), self.ball.weights)


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
