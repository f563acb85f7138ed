"""Whether a row has the noise columns a device adds, judged by a few directions among them that providers open.

A row is y = x F + g with g ~ N(0, tau^2) in every direction that F leaves free. For d orthonormal directions z in that
space, drawn after the row is in, |y Z|^2 / tau^2 is chi-square(d), whatever the answers x: an honest row is outside
`ACCEPTED` with probability at most 2^-40 (Chernoff), and one that weighs 64 times what it should, or a 256th, is inside
with probability at most 2^-20 (docs/theory/collection.md#row-check). What is opened is noise and says nothing about x;
the directions are taken out of the row before it is masked, so nothing that follows depends on it either.

Components are added up exactly: directions are rounded to whole numbers of 2^-30, and products of whole numbers are
added in float64 a few bits at a time, below 2^53.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimask_core.errors import VerificationError
from trimask_core.rows.obfuscation import CHECK_DIRECTIONS
from trimask_core.rows.rotation import HaarFrame, Matrix
from trimask_core.study import Study

__all__ = [
    "ACCEPTED",
    "VALUE_BYTES",
    "chi_square_factor",
    "directions",
    "judge",
    "open_component",
    "pack_openings",
    "take_out",
    "unpack_openings",
]

VALUE_BYTES = 16
_SCALE_BITS = 30
_COMPONENT_BITS = 18  # three pieces hold a component's 53 bits and its sign
_DIRECTION_BITS = 15  # and two a direction's 31
_MOST_COLUMNS = 1 << 20  # _COMPONENT_BITS + _DIRECTION_BITS + 20 = 53
_MOST_DIRECTIONS = 64
_DIRECTIONS: dict[
    tuple[bytes, bytes], Matrix
] = {}  # by study and seed; worked out from them again when wanted
_REFUSAL_BITS = (
    41  # an honest row is refused with probability 2^-41 for too much noise, and 2^-41 for too little
)


def chi_square_factor(degrees: int, bits: float, *, upper: bool) -> float:
    """a with P[chi-square(degrees) beyond a * degrees] <= 2^-bits: a - 1 - ln a = 2 bits ln 2 / degrees (Chernoff)."""
    target = 2 * bits * math.log(2) / degrees
    low, high = (1.0, 2.0 + 2 * target) if upper else (math.exp(-1 - target), 1.0)
    for _ in range(200):
        middle = (low + high) / 2
        if (middle - 1 - math.log(middle) < target) == upper:
            low = middle
        else:
            high = middle
    return high if upper else low


ACCEPTED = (
    CHECK_DIRECTIONS * chi_square_factor(CHECK_DIRECTIONS, _REFUSAL_BITS, upper=False),
    CHECK_DIRECTIONS * chi_square_factor(CHECK_DIRECTIONS, _REFUSAL_BITS, upper=True),
)
"""Between these |y Z|^2 / tau^2 of a row must lie."""


def directions(study: Study, seed: bytes) -> Matrix:
    """Z: d orthonormal rows, uniform among those orthogonal to F. Not to be written to."""
    # A block has rows of many checks, and the next block has rows of the same.
    key = (study.id, seed)
    Z = _DIRECTIONS.get(key)
    if Z is None:
        Z = study.rows.frame.beside(HaarFrame(seed, CHECK_DIRECTIONS, study.rows.noise_columns).matrix())
        Z.flags.writeable = False
        while len(_DIRECTIONS) >= _MOST_DIRECTIONS:
            _DIRECTIONS.pop(next(iter(_DIRECTIONS)), None)
        _DIRECTIONS[key] = Z
    return Z


def open_component(component: NDArray[np.int64], Z: Matrix) -> NDArray[np.object_]:
    """X^k Z' in whole numbers, for Z' = Z in whole steps of 2^-30; exact."""
    if component.shape[1] > _MOST_COLUMNS:
        raise VerificationError(f"rows of more than {_MOST_COLUMNS} columns cannot be checked exactly")
    whole = np.rint(np.ldexp(Z.T, _SCALE_BITS)).astype(np.int64)
    total: NDArray[np.object_] = np.zeros((component.shape[0], Z.shape[0]), dtype=object)
    for i, left in enumerate(_pieces(component, _COMPONENT_BITS, 3)):
        for j, right in enumerate(_pieces(whole, _DIRECTION_BITS, 3)):
            part = (left @ right).astype(np.int64).astype(object)
            total = total + part * (1 << (_COMPONENT_BITS * i + _DIRECTION_BITS * j))
    return total


def _pieces(values: NDArray[np.int64], bits: int, count: int) -> list[Matrix]:
    """Whole numbers as pieces of so many bits, the lowest first; the last one has the sign."""
    pieces = [(values >> (bits * i)) & ((1 << bits) - 1) for i in range(count - 1)]
    return [piece.astype(np.float64) for piece in (*pieces, values >> (bits * (count - 1)))]


def pack_openings(openings: NDArray[np.object_]) -> bytes:
    """For the wire: row by row, 16 bytes each."""
    return b"".join(int(value).to_bytes(VALUE_BYTES, "little", signed=True) for value in openings.flat)


def unpack_openings(data: bytes, rows: int) -> NDArray[np.object_]:
    """What `pack_openings` wrote for so many rows."""
    if len(data) != rows * CHECK_DIRECTIONS * VALUE_BYTES:
        raise VerificationError("openings have one value for each row and direction")
    values = [
        int.from_bytes(data[at : at + VALUE_BYTES], "little", signed=True)
        for at in range(0, len(data), VALUE_BYTES)
    ]
    return np.array(values, dtype=object).reshape(rows, CHECK_DIRECTIONS)


def judge(study: Study, openings: Sequence[NDArray[np.object_]]) -> list[bool]:
    """Whether each row is accepted, from what all right providers opened of it."""
    total = openings[0]
    for other in openings[1:]:
        total = total + other
    unit = math.ldexp(study.rows.tau, _SCALE_BITS - study.rows.grid_exponent)
    energy = np.sum(np.square(total.astype(np.float64) / unit), axis=1)
    return [bool(ACCEPTED[0] <= value <= ACCEPTED[1]) for value in energy]


def take_out(component: Matrix, Z: Matrix) -> Matrix:
    """The rows without their parts along Z."""
    taken: Matrix = component - (component @ Z.T) @ Z
    return taken
