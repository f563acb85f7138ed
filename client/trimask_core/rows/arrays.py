"""Rows of many people by numpy, for nodes and gateways: Haar frames that mask them, and components, expanded from seeds.

Haar-distributed orthogonal matrices and frames stand for a 32-byte seed and are never formed.

The first k columns of a Haar matrix on O(p) are H_1 ... H_k E_k D: H_i reflects along a Gaussian vector of length
p - i + 1 and D holds the signs that make the triangular factor's diagonal positive (Stewart 1980; the sign fix is
Mezzadri's). Drawing the Gaussians directly replaces a QR factorisation; products of reflections are applied a
panel at a time as I - V T V^T (compact WY), which is matrix multiplication throughout and costs what one product
with the explicit matrix would.

Standard normals from random words are the same to the last bit on every machine. A right provider expands a component
from a seed that a phone expanded before it, and the two must agree exactly. The C library's log and cos differ between
machines in the last bit, so they are not used: Box-Muller is evaluated with additions, multiplications, divisions, square
roots and frexp alone, which IEEE 754 defines to the bit and NumPy never fuses. The radius has 64 bits of uniform (|z| up
to 9.4; the mass beyond is 5e-21), the angle 64 more, so that the values r cos(a) leave no gaps a rounding to 2^-28 would
show.

A row is the sum of K1 components, K1 - 1 of them seeds.

Components 1..K1-1 are expanded from 32-byte seeds, Gaussian of scale s on the grid; component K1 is the row minus
their sum, in exact integers. A coalition that lacks one component sees the row plus N(0, s^2 I): mu-Gaussian DP with
mu = |r - r'|/s (docs/theory/collection.md#shares), so a study states mu and derives s = 2 R / mu.

Each value is a normal rounded to 2^20 steps plus 20 uniform low bits. A floating-point normal alone has gaps in
its tails, and a sum that falls in one gives the row away; with the low bits every integer nearby is reachable.

Tags of many components are made, and checked, by arrays too: the same numbers as `trimask_core.rows.payloads` gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import ParameterError
from trimask_core.basics.randomness import RandomSource, RoundedGaussian, Stream
from trimask_core.rows.payloads import (
    COMPONENT,
    ELEMENT_BYTES,
    KEY_SCALE,
    LOW_BITS,
    NORMALS,
    PRIME,
    SPARE,
    Tagged,
    add_elements,
    check_payload,
    form_of,
    key_offsets,
    split_payload,
)
from trimask_core.rows.study import EXACT_INTEGERS, TAGS
from trimask_core.study.definition import Study

_CHUNK = 1 << 13  # pairs handled at a time: the temporaries stay in cache
_LN2 = float.fromhex("0x1.62e42fefa39efp-1")  # written out: math.log is the C library's
_SQRT_HALF = math.sqrt(0.5)
_HIGHEST, _FRACTION = np.uint64(1 << 63), (1 << 62) - 1
# log m = 2 atanh f = 2 f (1 + f^2/3 + f^4/5 + ...), |f| <= 0.172 for m in [sqrt 1/2, sqrt 2): 12 terms are 1e-20.
_ATANH = tuple(1.0 / (2 * k + 1) for k in range(12))
_SIN = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(10))
_COS = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(10))


def _horner(coefficients: tuple[float, ...], x: NDArray[np.float64]) -> NDArray[np.float64]:
    total = x * coefficients[-1]
    total += coefficients[-2]
    for coefficient in reversed(coefficients[:-2]):
        total *= x
        total += coefficient
    return total


def _pairs(
    radius_words: NDArray[np.uint64], angle_words: NDArray[np.uint64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    # In place wherever the value before is needed no more: what is touched stays in cache. Factors that are powers of two
    # are put together, and signs are flipped as bits: neither rounds.
    uniform = radius_words.astype(np.float64)  # in (0, 1]
    uniform += 1.0
    uniform *= 2.0**-64
    mantissa, powers = np.frexp(uniform)
    low = mantissa < _SQRT_HALF
    square_radius = np.subtract(powers, low, out=uniform)
    square_radius *= -2.0 * _LN2
    mantissa *= 1.0 + low
    f = mantissa - 1.0
    mantissa += 1.0
    f /= mantissa
    rest = _horner(_ATANH, np.multiply(f, f, out=mantissa))
    f *= -4.0
    rest *= f
    square_radius += rest
    np.maximum(square_radius, 0.0, out=square_radius)
    radius = np.sqrt(square_radius, out=square_radius)
    radius_bits = radius.view(np.uint64)
    radius_bits ^= angle_words & _HIGHEST

    angle = (angle_words & np.uint64(_FRACTION)).astype(np.float64)
    angle *= 2.0**-62
    angle -= 0.5
    angle *= math.pi / 2
    square = np.multiply(angle, angle, out=rest)
    sine = _horner(_SIN, square)
    sine *= angle
    cosine = _horner(_COS, square)
    turned = (angle_words & np.uint64(_FRACTION + 1)).astype(bool)
    first = np.where(turned, -sine, cosine)
    second = np.where(turned, cosine, sine)
    first *= radius
    second *= radius
    return first, second


def normals_from_words(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """One standard normal for each word of an even number of words."""
    half = words.size // 2
    out = np.empty(2 * half)
    for start in range(0, half, _CHUNK):
        stop = min(start + _CHUNK, half)
        out[2 * start : 2 * stop : 2], out[2 * start + 1 : 2 * stop : 2] = _pairs(
            words[2 * start : 2 * stop : 2], words[2 * start + 1 : 2 * stop : 2]
        )
    return out


class NormalStream:
    """Standard normals expanded from a 32-byte seed."""

    __slots__ = ("_stream",)

    def __init__(self, seed: bytes, label: bytes) -> None:
        self._stream = Stream(seed, label)

    def __repr__(self) -> str:
        return "NormalStream(<secret>)"

    def standard_normal(self, shape: int | tuple[int, ...]) -> NDArray[np.float64]:
        """The next normals, in the given shape. An odd count discards the last of its pair."""
        count = math.prod(shape) if isinstance(shape, tuple) else shape
        return normals_from_words(self._stream.words(count + (count & 1)))[:count].reshape(shape)


class SecureNormals(NormalStream):
    """Standard normals under a fresh seed nobody keeps: what the release mechanisms draw their noise from."""

    __slots__ = ("_rounded",)

    def __init__(self, source: RandomSource) -> None:
        super().__init__(source.seed(), b"secure normals")
        self._rounded = RoundedGaussian(source)

    def __deepcopy__(self, _: object) -> SecureNormals:
        # A copy would draw the same noise twice, which cancels it: copies share the stream instead.
        return self

    def rounded_normal(self, sigmas: Sequence[int]) -> list[int]:
        """round(sigma Z) for each whole sigma, sampled exactly: noise for numbers on a grid."""
        return [self._rounded.sample(sigma) for sigma in sigmas]


Matrix = NDArray[np.float64]
_PANEL = 64
_ROTATION_CHUNK = 1024
_LABEL = b"haar frame"


@dataclass(frozen=True)
class _Panel:
    """Reflections start..start+b of the product, as I - V T V^T on coordinates start..p."""

    start: int
    V: Matrix = field(repr=False)
    T: Matrix = field(repr=False)


class HaarFrame:
    """F: k orthonormal rows in R^p, uniformly distributed; for k = p a Haar matrix on O(p)."""

    __slots__ = ("_panels", "_signs", "columns", "rows")

    def __init__(self, seed: bytes, rows: int, columns: int) -> None:
        if not 1 <= rows <= columns:
            raise ParameterError("rows", f"between 1 and columns = {columns}", rows)
        self.rows = rows
        self.columns = columns
        self._signs = np.empty(rows)
        self._panels: list[_Panel] = []
        normals = NormalStream(seed, _LABEL)
        for start in range(0, rows, _PANEL):
            width = min(_PANEL, rows - start)
            length = columns - start
            # One draw a panel; what lies above each vector's first coordinate is not part of it.
            V = normals.standard_normal((width, length)).T.copy()
            V[:width][np.triu_indices(width, 1)] = 0.0
            diagonal = np.arange(width)
            first = V[diagonal, diagonal]
            sign = np.where(first < 0, -1.0, 1.0)
            norms = np.sqrt(np.einsum("ij,ij->j", V, V))
            V[diagonal, diagonal] = first + sign * norms
            self._signs[start : start + width] = -sign
            # |v|^2 / 2 = |x|^2 + |x| |x_1|, the reciprocal of the reflection's coefficient.
            half_square = norms * (norms + np.abs(first))
            T_inverse: Matrix = np.triu(V.T @ V, 1)
            T_inverse[diagonal, diagonal] = half_square
            self._panels.append(_Panel(start, V, np.asarray(np.linalg.inv(T_inverse))))

    def __repr__(self) -> str:
        return f"HaarFrame(<secret>, rows={self.rows}, columns={self.columns})"

    def apply(self, M: Matrix) -> Matrix:
        """M F, for M with `rows` columns."""
        self._check(M, self.rows)
        out = np.zeros((M.shape[0], self.columns))
        np.multiply(M, self._signs, out=out[:, : self.rows])
        return self._reflected(out)

    def _reflected(self, out: Matrix) -> Matrix:
        for panel in reversed(self._panels):
            part = out[:, panel.start :]
            part -= ((part @ panel.V) @ panel.T.T) @ panel.V.T
        return out

    def unapply(self, M: Matrix) -> Matrix:
        """M F^T, for M with `columns` columns."""
        self._check(M, self.columns)
        work = np.array(M, dtype=np.float64)
        for panel in self._panels:
            part = work[:, panel.start :]
            part -= ((part @ panel.V) @ panel.T) @ panel.V.T
        return work[:, : self.rows] * self._signs

    def beside(self, M: Matrix) -> Matrix:
        """M G for the rows G that make F a square orthogonal matrix: combinations of what F leaves free, none of F."""
        self._check(M, self.columns - self.rows)
        out = np.zeros((M.shape[0], self.columns))
        out[:, self.rows :] = M
        return self._reflected(out)

    def rotate(self, M: Matrix) -> Matrix:
        """F^T M for a square frame: the Haar rotation of M's columns, in place when M is float64."""
        if self.rows != self.columns:
            raise ParameterError("rows", "equal to columns for a rotation", self.rows)
        M *= self._signs[:, None]
        for panel in reversed(self._panels):
            part = M[panel.start :]
            part -= panel.V @ (panel.T @ (panel.V.T @ part))
        return M

    @staticmethod
    def _check(M: Matrix, width: int) -> None:
        # NumPy would broadcast a single column without a word.
        if M.ndim != 2 or M.shape[1] != width:
            raise ParameterError("M", f"a matrix of {width} columns", M.shape)

    def matrix(self) -> Matrix:
        """F as an explicit matrix, for small frames and tests."""
        return self.apply(np.eye(self.rows))


def device_frame(study: Study) -> HaarFrame:
    """F, the first p1 rows of the device mask B_0, as `RowsSettings.row_frame` and for many rows at a time."""
    return _frame(study.rows.device_seed, study.attributes, study.rows.columns)


@lru_cache(maxsize=8)
def _frame(seed: bytes, rows: int, columns: int) -> HaarFrame:
    return HaarFrame(seed, rows, columns)


def haar_rotate(seed: bytes, M: Matrix) -> Matrix:
    """A M for the Haar matrix A on O(n) that `seed` stands for; M is overwritten.

    A matrix much wider than A is cheaper to multiply by A itself, formed once, than to pass through every reflection:
    the same flops, but one sweep over memory instead of one for each panel.
    """
    rows, columns = M.shape
    frame = HaarFrame(seed, rows, rows)
    if columns <= 2 * rows:
        return frame.rotate(M)
    A = frame.rotate(np.eye(rows))
    for start in range(0, columns, _ROTATION_CHUNK):
        M[:, start : start + _ROTATION_CHUNK] = A @ M[:, start : start + _ROTATION_CHUNK]
    return M


Wide = NDArray[np.uint32]
"""Elements of the field of tags, four 32-bit words each, the lowest first: rows, values, words."""
_WORDS, _WORD = 4, np.uint64(0xFFFFFFFF)
_KEY_PIECES = 3
_DIGITS = 3  # times 64 bits: 16 bits each of 8 pieces of an element and 3 of a key's entry
_BIAS = 1 << 58
_BIASES = _BIAS * sum(1 << 16 * place for place in range(4 * _DIGITS))
_PART = 1 << 27
_TOP = np.uint64((1 << 63) - 1)
_IN_CACHE = 1 << 14  # values


def expand_component(seed: bytes, columns: int, scale_steps: float) -> NDArray[np.int64]:
    """The component a seed stands for. The same integers on every machine."""
    component: NDArray[np.int64] = expand_components([seed], columns, scale_steps)[0]
    return component


def expand_components(seeds: Sequence[bytes], columns: int, scale_steps: float) -> NDArray[np.int64]:
    """The components that seeds stand for, a row each: many at once cost little more than one."""
    components: NDArray[np.int64] = np.empty((len(seeds), columns), dtype=np.int64)
    even = columns + (columns & 1)
    for some in in_cache(len(seeds), columns):
        streams = [Stream(seed, COMPONENT) for seed in seeds[some]]
        words = np.concatenate([stream.words(even) for stream in streams])
        normals = normals_from_words(words).reshape(len(streams), even)[:, :columns]
        coarse = np.rint(normals * (scale_steps * 2.0**-LOW_BITS)).astype(np.int64)
        bits = np.frombuffer(b"".join(stream.read(4 * columns) for stream in streams), dtype="<u4")
        low = (bits & np.uint32((1 << LOW_BITS) - 1)).reshape(len(streams), columns)
        components[some] = (coarse << LOW_BITS) + low.astype(np.int64) - (1 << (LOW_BITS - 1))
    return components


def in_cache(rows: int, columns: int) -> Iterator[slice]:
    """A few rows at a time, so that what is worked out of them stays in cache."""
    step = max(1, _IN_CACHE // columns)
    for first in range(0, rows, step):
        yield slice(first, first + step)


def expand_keys(seeds: Sequence[bytes], columns: int) -> Matrix:
    """The vectors of the tag keys that seeds stand for, `TAGS` rows each: those of `trimask_core.rows.payloads.expand_key`.

    Whole numbers below 2^47, which float64 holds exactly.
    """
    keys: Matrix = np.empty((len(seeds), TAGS, columns))
    for some in in_cache(len(seeds), TAGS * columns):
        words = [Stream(seed, NORMALS).words(TAGS * columns) for seed in seeds[some]]  # an even number
        normals = normals_from_words(np.concatenate(words)).reshape(-1, TAGS, columns)
        normals *= KEY_SCALE
        np.rint(normals, out=keys[some])
    return keys


def expand_spares(seeds: Sequence[bytes], columns: int) -> Wide:
    """The spare vectors that seeds stand for: those of `trimask_core.rows.payloads.expand_spare`."""
    data = b"".join(Stream(seed, SPARE).read(ELEMENT_BYTES * columns) for seed in seeds)
    spares = read_wide(data, columns).copy()
    spares[..., -1] &= np.uint32((1 << 31) - 1)
    return spares


def read_wide(data: bytes, columns: int) -> Wide:
    """Field elements as they travel, a row for every so many."""
    return np.frombuffer(data, dtype="<u4").reshape(-1, columns, _WORDS)


def inner_products(vectors: NDArray[np.int64] | Wide, keys: Matrix) -> list[list[int]]:
    """For each row of components, or of field elements, its products with the vectors of a key of its own, modulo the prime.

    Both sides are split into 16 bits, the highest of a signed number signed: products of two have 32 bits, so that up to
    2^20 of them add up exactly in float64 (a component is below 2^53, an entry of a key below 2^47). The sums are digits
    of the answer, made positive by `_BIAS` each.
    """
    n, tags, columns = keys.shape
    digits = np.full((n, tags, _DIGITS, 4), _BIAS, dtype="<i8")
    for some in in_cache(n, 2 * columns):  # an element has eight pieces
        _add_products(digits[some].reshape(-1, tags, 4 * _DIGITS), vectors[some], keys[some])
    # Every fourth digit is 64 bits from the one before: together they are one number, without a carry.
    lanes = np.ascontiguousarray(digits.reshape(n * tags, _DIGITS, 4).transpose(0, 2, 1))
    found = [
        (sum(int.from_bytes(lane, "little") << 16 * at for at, lane in enumerate(row)) - _BIASES) % PRIME
        for row in lanes
    ]
    return [found[at : at + tags] for at in range(0, n * tags, tags)]


def _add_products(digits: NDArray[np.int64], vectors: NDArray[np.int64] | Wide, keys: Matrix) -> None:
    n, tags, columns = keys.shape
    one = _pieces(vectors.view("<u2").reshape(n, columns, -1), signed=vectors.dtype == np.int64)
    wanted = keys.astype("<i8").view("<u2").reshape(n, tags * columns, 4)[..., :_KEY_PIECES]
    other = _pieces(wanted, signed=True).reshape(n, _KEY_PIECES * tags, columns)
    sums = (one @ other.transpose(0, 2, 1)).astype(np.int64)
    for piece in range(one.shape[1]):
        part = sums[:, piece].reshape(n, _KEY_PIECES, tags).transpose(0, 2, 1)
        digits[..., piece : piece + _KEY_PIECES] += part


def _pieces(halves: NDArray[np.uint16], *, signed: bool) -> NDArray[np.float64]:
    """(rows, values, pieces) of 16 bits as (rows, pieces, values)."""
    pieces = np.ascontiguousarray(halves.transpose(0, 2, 1), dtype=np.float64)
    if signed:
        pieces[:, -1] -= (pieces[:, -1] >= 1 << 15) * float(1 << 16)
    return pieces


def combined(components: NDArray[np.int64], spares: Wide, e: int) -> Wide:
    """e x + y modulo the prime, place by place, for components x, spare vectors y and one e."""
    found = np.empty((*components.shape, 2), dtype="<u8")
    for some in in_cache(*components.shape):
        _combine(components[some], spares[some], e, found[some])
    return found.view("<u4")


def _combine(components: NDArray[np.int64], spares: Wide, e: int, out: NDArray[np.uint64]) -> None:
    """x + 2^53, in two parts of 27 bits, times the 32-bit digits of e and of 2^27 e: below 2^60 together, so that digits are
    carried once and what is above 2^127 is added at the bottom."""
    shifted = (components + EXACT_INTEGERS).view(np.uint64)
    low, high = shifted & np.uint64(_PART - 1), shifted >> np.uint64(_PART.bit_length() - 1)
    words: list[NDArray[np.uint64]] = []
    for place, (one, other, constant) in enumerate(
        zip(*(_digits(value) for value in (e, e * _PART, -e * EXACT_INTEGERS)), strict=True)
    ):
        word = low * one
        word += high * other
        word += spares[..., place]
        word += constant
        if words:
            word += words[-1] >> np.uint64(32)
        words.append(word)
    above = words[3] >> np.uint64(31)
    words[3] &= _WORD >> np.uint64(1)
    for half in range(2):
        words[2 * half] &= _WORD
        words[2 * half + 1] <<= np.uint64(32)
        words[2 * half] |= words[2 * half + 1]
    bottom, top = words[0], words[2]
    for _ in range(2):  # the second time what is above is 1 at most
        bottom += above
        top += bottom < above
        above = top >> np.uint64(63)
        top &= _TOP
    whole = (bottom == np.uint64(PRIME & (1 << 64) - 1)) & (top == _TOP)
    bottom[whole] = top[whole] = 0
    out[..., 0], out[..., 1] = bottom, top


def _digits(value: int) -> list[np.uint64]:
    return [np.uint64(value % PRIME >> 32 * place & 0xFFFFFFFF) for place in range(_WORDS)]


def tag_components(
    components: NDArray[np.int64], spares: Sequence[bytes], keys: Sequence[Sequence[bytes]]
) -> list[Tagged]:
    """Tags of components and of their spare vectors under each holder's key: `trimask_core.rows.payloads.tag_component` for
    many, a row each. `keys`: for each row the seeds of its keys."""
    count, columns = components.shape
    vectors = expand_spares(spares, columns)
    made: list[tuple[list[list[int]], list[list[int]]]] = [([], []) for _ in range(count)]
    for held in zip(*keys, strict=True):  # one holder's, of every row
        expanded = expand_keys(held, columns)
        found = zip(inner_products(components, expanded), inner_products(vectors, expanded), strict=True)
        for (tags, spare_tags), seed, (own, of_spare) in zip(made, held, found, strict=True):
            offsets, spare_offsets = key_offsets(seed)
            tags.append(add_elements([own, offsets]))
            spare_tags.append(add_elements([of_spare, spare_offsets]))
    return [Tagged(tags, spare, spare_tags) for (tags, spare_tags), spare in zip(made, spares, strict=True)]


def read_component(study: Study, provider: int, payload: bytes) -> NDArray[np.int64]:
    """The component in one opened payload for right provider `provider` (1..K1); its form is checked."""
    component: NDArray[np.int64] = read_components(study, provider, [payload])[0]
    return component


def read_components(study: Study, provider: int, payloads: Sequence[bytes]) -> NDArray[np.int64]:
    """The components in opened payloads for right provider `provider` (1..K1), a row each; their form is checked."""
    form, columns = form_of(study, provider), study.rows.columns
    for payload in payloads:
        check_payload(form, payload)
    bodies = [split_payload(form, payload)[1] for payload in payloads]
    if provider < len(study.right) and bodies:
        return expand_components(bodies, columns, study.rows.share_steps)
    values = np.frombuffer(b"".join(bodies), dtype="<i8").reshape(len(bodies), columns)
    components: NDArray[np.int64] = values.astype(np.int64)
    return components
