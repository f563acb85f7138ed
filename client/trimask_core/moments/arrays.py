"""Many shares or reports at a time: arrays over the field of P = 2^61 - 1 elements, by numpy, for nodes and gateways.

A product of a matrix of elements with a few columns is formed by three 21-bit limbs of each side in float64: a product of
limbs has 42 bits, and up to 2^11 of them add up exactly. Multiplying by 2^s modulo P is a rotation of 61 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import VerificationError
from trimask_core.basics.randomness import Stream
from trimask_core.moments.field import ELEMENT_BYTES, P, expand_elements, inverse, node_weights

Elements = NDArray[np.uint64]
Limbs = NDArray[np.float64]
_PRIME = np.uint64(P)
_LIMB_BITS = 21
_LIMB = np.uint64((1 << _LIMB_BITS) - 1)
_LIMBS = 3
_TERMS = 1 << 11
_LOW = np.uint64(0xFFFFFFFF)
_SHARE = b"moments share"


def expand_seeds(seeds: Sequence[bytes], count: int) -> Elements:
    """One row a seed: what `trimask_core.moments.field.expand_elements` gives, for many."""
    shares = np.empty((len(seeds), count), dtype=np.uint64)
    for row, seed in zip(shares, seeds, strict=True):
        row[:] = Stream(seed, _SHARE).words(count)
    shares &= _PRIME
    for index in np.flatnonzero((shares == _PRIME).any(axis=1)).tolist():  # once in 2^61 words
        shares[index] = expand_elements(seeds[index], count)
    return shares


def read_vectors(bodies: Sequence[bytes], count: int) -> Elements:
    """One row for each body of `count` packed elements, which must be below P."""
    if any(len(body) != ELEMENT_BYTES * count for body in bodies):
        raise VerificationError(f"a share must be {count} field elements of {ELEMENT_BYTES} bytes")
    shares = np.frombuffer(b"".join(bodies), dtype="<u8").astype(np.uint64, copy=False)
    if (shares >= _PRIME).any():
        raise VerificationError("a field element must be below P = 2^61 - 1")
    return shares.reshape(len(bodies), count)


def limbs(coefficients: Elements) -> Limbs:
    """The columns of an e x f matrix as e x 3f limbs, for `product`."""
    return np.hstack(
        [_limb(coefficients, place) for place in range(_LIMBS)]
    )  # columns: all lowest limbs, then the middle ones, then the highest


def _limb(values: Elements, place: int) -> NDArray[np.float64]:
    return (values >> np.uint64(place * _LIMB_BITS) & _LIMB).astype(np.float64)


def product(values: Elements, columns: Limbs) -> Elements:
    """values (n x e) times the matrix whose `limbs` are given (e x f), modulo P."""
    n, e = values.shape
    f = columns.shape[1] // _LIMBS
    total = np.zeros((n, f), dtype=np.uint64)
    for first in range(0, e, _TERMS):
        part, side = values[:, first : first + _TERMS], columns[first : first + _TERMS]
        for place in range(_LIMBS):
            sums = (_limb(part, place) @ side).astype(np.uint64)  # whole numbers below 2^53
            for other in range(_LIMBS):
                total += _rotate(sums[:, other * f : (other + 1) * f], (place + other) * _LIMB_BITS)
                total = _reduce(total)
    return total


def sums_of_products(one: Elements, other: Elements, parts: Sequence[slice]) -> Elements:
    """For each row, and for each part of the columns, the sum of the products of `one` and `other` modulo P (n x parts)."""
    # By limb i of the one and j of the other: sums with the same i + j are rotated together.
    sums = np.zeros((len(one), len(parts), 2 * _LIMBS - 1), dtype=np.uint64)
    for place, part in enumerate(parts):
        for first in range(part.start, part.stop, _TERMS):
            columns = slice(first, min(first + _TERMS, part.stop))
            found = np.matmul(_limb_rows(one[:, columns]), _limb_rows(other[:, columns]).transpose(0, 2, 1))
            for i in range(_LIMBS):
                sums[:, place, i : i + _LIMBS] += found[:, i].astype(np.uint64)
            sums[:, place] %= _PRIME
    total = sums[..., 0]
    for shift in range(1, 2 * _LIMBS - 1):
        total = _reduce(total + _rotate(sums[..., shift], shift * _LIMB_BITS))
    return total


def _limb_rows(values: Elements) -> NDArray[np.float64]:
    """n x e elements as n x 3 x e limbs."""
    found = np.empty((len(values), _LIMBS, values.shape[1]))
    for place in range(_LIMBS):
        found[:, place] = values >> np.uint64(place * _LIMB_BITS) & _LIMB
    return found


def _rotate(values: Elements, bits: int) -> Elements:
    """values 2^bits modulo P, for values below P: the bits that leave at the top come in at the bottom."""
    bits %= 61
    if not bits:
        return values
    shift = np.uint64(bits)
    return (values << shift & _PRIME) | values >> np.uint64(61 - bits)


def _reduce(values: Elements) -> Elements:
    """Below P again, from below 2 P."""
    return np.where(values >= _PRIME, values - _PRIME, values)


def column_sums(values: Elements) -> list[int]:
    """The sum of each column modulo P, for fewer than 2^32 rows."""
    low = (values & _LOW).sum(axis=0, dtype=np.uint64).tolist()
    high = (values >> np.uint64(32)).sum(axis=0, dtype=np.uint64).tolist()
    return [((upper << 32) + lower) % P for upper, lower in zip(high, low, strict=True)]


def times(one: Elements, other: Elements) -> Elements:
    """Products modulo P, element by element, by halves of 32 bits: 2^64 is 2^3 modulo P."""
    shift = np.uint64(32)
    a, b, c, d = one >> shift, one & _LOW, other >> shift, other & _LOW
    middle = a * d + b * c  # below 2^62
    low: Elements = b * d % _PRIME
    high: Elements = (a * c << np.uint64(3)) % _PRIME
    total: Elements = _reduce(high + _rotate(middle % _PRIME, 32)) + low
    return _reduce(total)


def inverses(values: Elements) -> Elements:
    """Every inverse, none being zero: products of two, of four and so on, one inverse, and down again."""
    one = np.ones(1, dtype=np.uint64)
    levels = [values.reshape(-1)]
    while len(levels[-1]) > 1:
        if len(levels[-1]) % 2:
            levels[-1] = np.concatenate((levels[-1], one))
        levels.append(times(levels[-1][::2], levels[-1][1::2]))
    found = np.array([inverse(int(levels.pop()[0]))], dtype=np.uint64)
    for level in reversed(levels):
        below, above = np.empty_like(level), found[: len(level) // 2]
        below[::2], below[1::2] = times(above, level[1::2]), times(above, level[::2])
        found = below
    return found[: values.size].reshape(values.shape)


def bases_at(degree: int, points: Elements) -> tuple[Elements, Elements]:
    """A row for each of many points outside the nodes: what `trimask_core.moments.field.bases_at` gives for one."""
    differences = _reduce(points[:, None] + (_PRIME - np.arange(2 * degree + 1, dtype=np.uint64)))
    inverted = inverses(differences)
    low = slice(degree + 1)
    return (
        _basis(differences[:, low], inverted[:, low]),
        _basis(differences, inverted),
    )


def _basis(differences: Elements, inverted: Elements) -> Elements:
    product = differences
    while product.shape[1] > 1:
        if product.shape[1] % 2:
            product = np.hstack([product, np.ones((len(product), 1), dtype=np.uint64)])
        product = times(product[:, ::2], product[:, 1::2])
    weights = np.array(node_weights(differences.shape[1] - 1), dtype=np.uint64)
    return times(times(inverted, product), weights)
