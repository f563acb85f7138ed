"""The field of the moments suite: whole numbers modulo the Mersenne prime P = 2^61 - 1.

An element is 8 bytes, little-endian, below P. Uniform elements come from 64-bit little-endian words: the low 61 bits are
kept, and P itself, which is zero a second time, is rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack as _pack
from struct import unpack as _unpack
from typing import Protocol

from trimask_core.errors import ParameterError, VerificationError
from trimask_core.randomness import Stream

__all__ = [
    "ELEMENT_BYTES",
    "P",
    "batch_inverse",
    "draw",
    "expand_elements",
    "inverse",
    "pack",
    "signed",
    "unpack",
]

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
