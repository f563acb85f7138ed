"""A row as the sum of K1 components, K1 - 1 of them seeds: what nodes and gateways do with them, by numpy.

Components 1..K1-1 are expanded from 32-byte seeds, Gaussian of scale s on the grid; component K1 is the row minus
their sum, in exact integers. A coalition that lacks one component sees the row plus N(0, s^2 I): mu-Gaussian DP with
mu = |r - r'|/s (docs/theory/collection.md#shares), so a study states mu and derives s = 2 R / mu.

Each value is a normal rounded to 2^20 steps plus 20 uniform low bits. A floating-point normal alone has gaps in
its tails, and a sum that falls in one gives the row away; with the low bits every integer nearby is reachable.

Tags of many components are made, and checked, by arrays too: the same numbers as `trimask_core.rows.tags` gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import VerificationError
from trimask_core.basics.randomness import Stream
from trimask_core.rows.grid import EXACT_INTEGERS
from trimask_core.rows.payloads import COMPONENT, LOW_BITS
from trimask_core.rows.rotation import Matrix, normals_from_words
from trimask_core.rows.tags import (
    ELEMENT_BYTES,
    KEY_SCALE,
    NORMALS,
    PRIME,
    SPARE,
    TAGS,
    Tagged,
    add_elements,
    key_offsets,
)

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
    """The vectors of the tag keys that seeds stand for, `TAGS` rows each: those of `trimask_core.rows.tags.expand_key`.

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
    """The spare vectors that seeds stand for: those of `trimask_core.rows.tags.expand_spare`."""
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
    """Tags of components and of their spare vectors under each holder's key: `trimask_core.rows.tags.tag_component` for
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


def check_headroom(component: NDArray[np.int64]) -> None:
    """Refuse a component that float64 cannot hold exactly (12 standard deviations away; it never wraps)."""
    # Not by np.abs: the least int64 is its own absolute value.
    if component.size and not -EXACT_INTEGERS < component.min() <= component.max() < EXACT_INTEGERS:
        raise VerificationError(
            "a component does not fit 53 bits; the study's grid leaves too little headroom"
        )
