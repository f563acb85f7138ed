"""The field of the moments suite: whole numbers modulo the Mersenne prime P = 2^61 - 1.

An element is 8 bytes, little-endian, below P. Uniform elements come from 64-bit little-endian words: the low 61 bits are
kept, and P itself, which is zero a second time, is rejected.

Polynomials are given by their values at 0, 1, 2, ..., so that the difference of any two nodes is a small number. The
Lagrange polynomial of node k among 0..d is L_k(x) = w_k prod_(i != k) (x - i), w_k = (-1)^(d-k) / (k! (d-k)!).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from operator import mul
from struct import pack as _pack
from struct import unpack as _unpack
from typing import Protocol

from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.randomness import Stream

P = 2**61 - 1
ELEMENT_BYTES = 8
_SHARE = b"moments share"


class _Bytes(Protocol):
    def read(self, count: int) -> bytes: ...


def inverse(value: int, p: int = P) -> int:
    """1 / value. Zero has none."""
    if value % p == 0:
        raise ParameterError("value", "an element other than 0")
    return pow(value, -1, p)


def batch_inverse(values: Sequence[int], p: int = P) -> list[int]:
    """Every inverse for the price of one and three products each."""
    before = [1]
    for value in values:
        before.append(before[-1] * value % p)
    left = inverse(before[-1], p)
    inverses = [0] * len(values)
    for place in range(len(values) - 1, -1, -1):
        inverses[place] = left * before[place] % p
        left = left * values[place] % p
    return inverses


def draw(source: _Bytes) -> int:
    """One uniform element, from a `RandomSource` or a `Stream`."""
    while True:
        value = int.from_bytes(source.read(ELEMENT_BYTES), "little") & P
        if value != P:
            return value


def expand_elements(seed: bytes, count: int) -> list[int]:
    """The `count` uniform elements a 32-byte seed stands for: one provider's share of a report."""
    stream = Stream(seed, _SHARE)
    kept: list[int] = []
    while (missing := count - len(kept)) > 0:
        words = _unpack(f"<{missing}Q", stream.read(ELEMENT_BYTES * missing))
        kept += [value for word in words if (value := word & P) != P]
    return kept


def pack(elements: Sequence[int]) -> bytes:
    """Elements as bytes, 8 each."""
    if elements and not (min(elements) >= 0 and max(elements) < P):
        raise ParameterError("elements", "whole numbers from 0 to P - 1")
    return _pack(f"<{len(elements)}Q", *elements)


def unpack(data: bytes) -> list[int]:
    """The elements in bytes; a broken length or a value of P and above is refused."""
    if len(data) % ELEMENT_BYTES:
        raise VerificationError(
            f"field elements take {ELEMENT_BYTES} bytes each; {len(data)} bytes are not whole"
        )
    elements = list(_unpack(f"<{len(data) // ELEMENT_BYTES}Q", data))
    if elements and max(elements) >= P:
        raise VerificationError("a field element must be below P = 2^61 - 1")
    return elements


def signed(value: int, p: int = P) -> int:
    """The whole number in (-P/2, P/2) that an element stands for."""
    value %= p
    return value - p if value > p // 2 else value


@lru_cache(maxsize=64)
def _small_inverses(largest: int, p: int) -> tuple[int, ...]:
    """(0, 1/1, 1/2, ..., 1/largest): p = (p // n) n + p % n gives each from an earlier one."""
    if largest >= p:
        raise ParameterError("nodes", "fewer than the field has elements")
    inverses = [0, 1]
    for n in range(2, largest + 1):
        inverses.append((p - p // n) * inverses[p % n] % p)
    return tuple(inverses[: largest + 1])


@lru_cache(maxsize=64)
def node_weights(degree: int, p: int = P) -> tuple[int, ...]:
    """w_0..w_d."""
    inverses = _small_inverses(degree, p)
    one_over_factorial = [1, *accumulate(inverses[1:], lambda product, factor: product * factor % p)]
    return tuple(
        (-1) ** (degree - k) * one_over_factorial[k] * one_over_factorial[degree - k] % p
        for k in range(degree + 1)
    )


def extend(values: Sequence[int], p: int = P) -> list[int]:
    """From a polynomial's values at 0..d, its degree being at most d, those at d+1..2d. Time d^2, memory d."""
    degree = len(values) - 1
    if degree < 1:
        return []
    weighted = [value * weight % p for value, weight in zip(values, node_weights(degree, p), strict=True)]
    falling = _small_inverses(2 * degree, p)[:0:-1]  # 1/(2d), ..., 1/1
    product = 1  # prod_i (x - i) over the nodes, first at x = d + 1
    for difference in range(2, degree + 2):
        product = product * difference % p
    further = []
    for x in range(degree + 1, 2 * degree + 1):
        # 1/(x - k) for k = 0..d: the differences x, x - 1, ..., x - d
        total = sum(map(mul, weighted, falling[2 * degree - x :]))
        further.append(product * total % p)
        product = product * (x + 1) * _small_inverses(2 * degree, p)[x - degree] % p
    return further


def basis_at(degree: int, x: int, p: int = P) -> list[int]:
    """L_0(x)..L_d(x) for an x that is not a node."""
    return _basis(degree, *_differences(degree, x, p), p)


def bases_at(degree: int, x: int, p: int = P) -> tuple[list[int], list[int]]:
    """The values at x of the bases over 0..d and over 0..2d, for which x - 0, x - 1, ... are inverted once."""
    differences, inverses = _differences(2 * degree, x, p)
    low = degree + 1
    return _basis(degree, differences[:low], inverses[:low], p), _basis(2 * degree, differences, inverses, p)


def _differences(degree: int, x: int, p: int) -> tuple[list[int], list[int]]:
    """x - 0, ..., x - d and the inverse of each."""
    if 0 <= x % p <= degree:
        raise ParameterError("x", f"outside the nodes 0..{degree}")
    differences = [(x - k) % p for k in range(degree + 1)]
    return differences, batch_inverse(differences, p)


def _basis(degree: int, differences: Sequence[int], inverses: Sequence[int], p: int) -> list[int]:
    product = 1
    for difference in differences:
        product = product * difference % p
    return [
        product * weight % p * inverted % p
        for weight, inverted in zip(node_weights(degree, p), inverses, strict=True)
    ]
