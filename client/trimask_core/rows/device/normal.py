"""Standard normals from random words: the operations of `trimask_core.rows.normal` in their order, so the same bits."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from trimask_core.randomness import RandomSource, Stream

__all__ = ["PureNormals", "normals_from_words", "secure_normals"]

_LN2 = float.fromhex("0x1.62e42fefa39efp-1")
_SQRT_HALF = math.sqrt(0.5)
_QUARTER_TURN = math.pi / 2
_FRACTION_BITS = (1 << 62) - 1
# Coefficients as in trimask_core.rows.normal: 1/(2k+1), and (-1)^k/(2k+1)!, (-1)^k/(2k)!. One name each, for Horner's rule
# written out: a loop over them would take three times as long, and a phone draws 25,000 normals for a row.
A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11 = (1.0 / (2 * k + 1) for k in range(12))
S0, S1, S2, S3, S4, S5, S6, S7, S8, S9 = ((-1.0) ** k / math.factorial(2 * k + 1) for k in range(10))
C0, C1, C2, C3, C4, C5, C6, C7, C8, C9 = ((-1.0) ** k / math.factorial(2 * k) for k in range(10))


def _pair(radius_word: int, angle_word: int) -> tuple[float, float]:
    """Two normals from two words by Box-Muller; see `trimask_core.rows.normal` for why nothing here may be rearranged."""
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
