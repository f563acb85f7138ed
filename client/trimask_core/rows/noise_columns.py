"""How large the noise columns of a block must be so that X B_0 excludes nothing in the orbit O_n X1.

That is condition (3.5) of Ding, Miao and Wu: p1 < n <= p1 + p2 and lambda_min(X2 X2^T) > lambda_max(X1 X1^T). It does
not make the whole orbit equally likely, as their Theorem 3.8 has it; what is true in its place is `noise_columns_mu`
(docs/theory/collection.md#claim). The condition is proved, for every n (docs/theory/collection.md#condition): by
Davidson and Szarek, P[sigma_min(X2) < tau (sqrt(p2) - sqrt(n) - t)] <= exp(-t^2/2) for X2 with i.i.d. N(0, tau^2)
entries, so

    tau > lambda_max(X1 X1^T)^(1/2) / (sqrt(p2) - sqrt(n) - t),   t = sqrt(2 ln(1/failure)).

Rows of norm at most R give lambda_max^(1/2) <= R sqrt(n); noise of scale sigma on the answers adds
sigma (sqrt(n) + sqrt(p1) + t), the same theorem from above. This replaces Appendix C, whose constant nobody knows.

The frame F of `trimask_core.rows.arrays` for one row at a time, by its reflections, without numpy.

F = E_k^T D H_k ... H_1 for the reflections H_i = I - v_i v_i^T / h_i with h_i = |v_i|^2 / 2: O(k p) a row, and no matrix.
Sums are added up from left to right: whether the builtin `sum` compensates its rounding depends on the version of Python.
Standard normals from random words are those of `trimask_core.rows.arrays`: its operations in their order, so the same
bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import reduce
from operator import add, mul

from trimask_core.basics.errors import ImpossibleStudy, ParameterError
from trimask_core.basics.randomness import RandomSource, Stream

_LN2 = float.fromhex("0x1.62e42fefa39efp-1")
_SQRT_HALF = math.sqrt(0.5)
_QUARTER_TURN = math.pi / 2
_FRACTION_BITS = (1 << 62) - 1
# Coefficients as in trimask_core.rows.arrays: 1/(2k+1), and (-1)^k/(2k+1)!, (-1)^k/(2k)!. One name each, for Horner's rule
# written out: a loop over them would take three times as long, and a phone draws 25,000 normals for a row.
A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11 = (1.0 / (2 * k + 1) for k in range(12))
S0, S1, S2, S3, S4, S5, S6, S7, S8, S9 = ((-1.0) ** k / math.factorial(2 * k + 1) for k in range(10))
C0, C1, C2, C3, C4, C5, C6, C7, C8, C9 = ((-1.0) ** k / math.factorial(2 * k) for k in range(10))


def _pair(radius_word: int, angle_word: int) -> tuple[float, float]:
    """Two normals from two words by Box-Muller; see `trimask_core.rows.arrays` for why nothing here may be rearranged."""
    mantissa, exponent = math.frexp((float(radius_word) + 1.0) * 2.0**-64)
    if mantissa < _SQRT_HALF:
        mantissa *= 2.0
        exponent -= 1
    f = (mantissa - 1.0) / (mantissa + 1.0)
    x = f * f
    t = A11 * x + A10
    t = ((((t * x + A9) * x + A8) * x + A7) * x + A6) * x + A5
    t = ((((t * x + A4) * x + A3) * x + A2) * x + A1) * x + A0
    log_uniform = exponent * _LN2 + 2.0 * f * t
    radius = math.sqrt(max(-2.0 * log_uniform, 0.0))

    quadrant = angle_word >> 62
    angle = ((angle_word & _FRACTION_BITS) * 2.0**-62 - 0.5) * _QUARTER_TURN
    x = angle * angle
    t = (((S9 * x + S8) * x + S7) * x + S6) * x + S5
    sine = angle * (((((t * x + S4) * x + S3) * x + S2) * x + S1) * x + S0)
    t = (((C9 * x + C8) * x + C7) * x + C6) * x + C5
    cosine = ((((t * x + C4) * x + C3) * x + C2) * x + C1) * x + C0
    if quadrant & 2:
        radius = -radius
    if quadrant & 1:
        return radius * -sine, radius * cosine
    return radius * cosine, radius * sine


def normals_from_words(words: Sequence[int]) -> list[float]:
    """One standard normal for each word of an even number of words."""
    normals: list[float] = []
    for radius_word, angle_word in zip(words[::2], words[1::2], strict=True):
        normals += _pair(radius_word, angle_word)
    return normals


class PureNormals:
    """Standard normals expanded from a 32-byte seed."""

    __slots__ = ("_stream",)

    def __init__(self, seed: bytes, label: bytes) -> None:
        self._stream = Stream(seed, label)

    def __repr__(self) -> str:
        return "PureNormals(<secret>)"

    def standard_normal(self, count: int) -> list[float]:
        """The next normals. An odd count discards the last of its pair."""
        even = count + (count & 1)
        return normals_from_words(struct.unpack(f"<{even}Q", self._stream.read(8 * even)))[:count]


def secure_normals(source: RandomSource) -> PureNormals:
    """Standard normals under a fresh seed nobody keeps."""
    return PureNormals(source.seed(), b"secure normals")


_PANEL = (
    64  # trimask_core.rows.arrays draws its normals a panel at a time; the same seed must give the same frame
)
_LABEL = b"haar frame"


class RowFrame:
    """F: k orthonormal rows in R^p, uniformly distributed."""

    __slots__ = ("columns", "reflections", "rows", "signs")

    def __init__(self, seed: bytes, rows: int, columns: int) -> None:
        if not 1 <= rows <= columns:
            raise ParameterError("rows", f"between 1 and columns = {columns}", rows)
        self.rows = rows
        self.columns = columns
        self.signs: list[float] = []  # the diagonal of D
        # The first coordinate, h and v of each H_i, whose v is zero before that coordinate.
        self.reflections: list[tuple[int, float, list[float]]] = []
        normals = PureNormals(seed, _LABEL)
        for start in range(0, rows, _PANEL):
            width, length = min(_PANEL, rows - start), columns - start
            drawn = normals.standard_normal(width * length)
            for i in range(width):
                # What lies before the reflection's first coordinate is drawn and not part of it.
                v = drawn[i * length + i : (i + 1) * length]
                first, norm = v[0], math.sqrt(_dot(v, v))
                sign = -1.0 if first < 0 else 1.0
                v[0] = first + sign * norm
                self.signs.append(-sign)
                self.reflections.append((start + i, norm * (norm + abs(first)), v))

    def __repr__(self) -> str:
        return f"RowFrame(<secret>, rows={self.rows}, columns={self.columns})"

    def apply(self, row: Sequence[float]) -> list[float]:
        """x F, for x with `rows` entries."""
        out = [*map(mul, row, self.signs), *[0.0] * (self.columns - self.rows)]
        for reflection in reversed(self.reflections):
            _reflect(out, *reflection)
        return out

    def unapply(self, row: Sequence[float]) -> list[float]:
        """x F^T, for x with `columns` entries."""
        work = list(row)
        for reflection in self.reflections:
            _reflect(work, *reflection)
        return list(map(mul, work, self.signs))


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    total: float = reduce(add, map(mul, one, other))
    return total


def _reflect(row: list[float], start: int, half_square: float, v: list[float]) -> None:
    part = row[start:]
    share = _dot(part, v) / half_square
    row[start:] = [value - share * entry for value, entry in zip(part, v, strict=True)]


CHECK_DIRECTIONS = 32
"""How many directions among the noise columns right providers open to check a row, and take out of it
(docs/theory/collection.md#row-check)."""
_LEAST_LEFT = 96
"""How many noise columns the check must leave for what it says about them."""


def tail(failure: float) -> float:
    """t with exp(-t^2/2) = failure."""
    return math.sqrt(2 * math.log(1 / failure))


def default_noise_columns(rows: int, failure: float) -> int:
    """p2 for blocks of `rows`, whose last may have up to 2 rows - 1: at least four a row, room to spare, and those that
    the check of each row takes away."""
    wanted = math.sqrt(2 * rows - 1) + tail(failure / 2) + math.sqrt(rows) / 4
    return CHECK_DIRECTIONS + max(_LEAST_LEFT, 4 * rows, math.ceil(wanted * wanted))


def refuse_too_few_columns(rows: int, attributes: int, noise_columns: int) -> None:
    """p < n is refused: the attack of Appendix A of the TM2 paper works there."""
    if attributes + noise_columns < rows:
        raise ImpossibleStudy(
            "too_few_columns",
            f"p = {attributes} + {noise_columns} columns are fewer than the {rows} rows a block may have: rows of X B "
            "would satisfy the linear relations of rows of X, which reveals answers (Appendix A of the TM2 paper). "
            f"Give noise_columns of at least {rows - attributes}, or smaller blocks.",
        )


def least_tau(
    rows: int,
    attributes: int,
    noise_columns: int,
    row_norm: float,
    sigma: float,
    failure: float,
    opened: int = 0,
) -> float:
    """The least tau for a block of `rows`, rounded up; `ImpossibleStudy` if there are too few noise columns.

    `opened` of them are taken away by the check of each row: in a study, `CHECK_DIRECTIONS`. With noise on the answers
    two events can go wrong, so each gets half of `failure`.
    """
    refuse_too_few_columns(rows, attributes, noise_columns)
    t = tail(failure / 2 if sigma else failure)
    spread = math.sqrt(max(0, noise_columns - opened)) - math.sqrt(rows) - t
    enough = noise_columns - opened >= (_LEAST_LEFT if opened else 0)
    if spread <= 0 or not enough:
        least = math.floor((math.sqrt(rows) + t) ** 2) + 1
        if opened:
            least = opened + max(_LEAST_LEFT, least)
        raise ImpossibleStudy(
            "too_few_noise_columns",
            f"{noise_columns} noise columns cannot hide {rows} rows with failure probability {failure:g}: "
            f"give at least {least} noise columns, or smaller blocks.",
        )
    answers = row_norm * math.sqrt(rows)
    if sigma:
        answers += sigma * (math.sqrt(rows) + math.sqrt(attributes) + t)
    return math.nextafter(answers / spread * (1 + 1e-15), math.inf)


def noise_columns_mu(
    rows: int,
    attributes: int,
    noise_columns: int,
    row_norm: float,
    sigma: float,
    tau: float,
    failure: float,
    opened: int = 0,
) -> float:
    """mu of two answers of one person in X B_0 of `rows` people, for a party without B_0 that knows all other rows.

    But for probability `failure`, shared by five events: the other rows are no longer than `least_tau` says; the person's
    own noise in the direction that counts; a chi-square of p2 - n + 2, a normal, and a chi-square of p2 - n + 1 degrees.
    Infinite where there are too few noise columns to say anything. Proved: docs/theory/collection.md#claim.
    """
    free = noise_columns - opened - rows + 1
    if free < 3 or not tau > 0:
        return math.inf
    share = failure / 5
    t = tail(share)
    others = row_norm * math.sqrt(rows)
    longer = row_norm * row_norm
    if sigma:
        others += sigma * (math.sqrt(rows) + math.sqrt(attributes) + t)
        longer += 4 * row_norm * sigma * t
    return row_mu(2 * row_norm * others, longer, free, tau, share)


def row_mu(products: float, longer: float, free: int, tau: float, share: float) -> float:
    """mu of two rows whose products with the others' differ by a vector of length `products`, and whose squares by `longer`.

    But for three events of probability `share`, with `free` = p2 - n + 1 noise columns beyond the others'.
    """
    first = products / (tau * tau * math.sqrt(_least_chi_square(free + 1, share)))
    shift = longer / (tau * tau) + first * first + 2 * first * tail(share)
    least = _least_smooth(free, share)
    if not least > 0:
        return math.inf
    second = shift * math.sqrt(0.5 * free - 1) / least
    return math.hypot(first, second) * (1 + 1e-9)


def _least_chi_square(degrees: int, failure: float) -> float:
    """Below it a chi-square is with probability at most `failure`, by Chernoff."""
    wanted = 2 * math.log(1 / failure) / degrees
    low, high = 0.0, 1.0  # a - 1 - ln a falls on (0, 1)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if middle - 1 - math.log(middle) < wanted else (middle, high)
    return low * degrees if low else math.exp(-1 - wanted) * degrees


def _least_smooth(degrees: int, failure: float) -> float:
    """r below which the chi-square density may be replaced by one that bends no more than at r, for `failure` at most.

    f(r) / (log f)'(r) bounds what lies below, of either; log f is concave.
    """
    half = 0.5 * degrees
    constant = half * math.log(2) + math.lgamma(half)
    low, high = 0.0, degrees - 2.0  # the mode
    for _ in range(60):
        middle = 0.5 * (low + high)
        slope = (half - 1) / middle - 0.5
        below = (half - 1) * math.log(middle) - 0.5 * middle - constant - math.log(slope)
        low, high = (low, middle) if below > math.log(failure) else (middle, high)
    return low
