"""Standard normals from random words, the same to the last bit on every machine.

A right provider expands a component from a seed that a phone expanded before it, and the two must agree exactly.
The C library's log and cos differ between machines in the last bit, so they are not used: Box-Muller is evaluated
with additions, multiplications, divisions, square roots and frexp alone, which IEEE 754 defines to the bit and
NumPy never fuses. The radius has 64 bits of uniform (|z| up to 9.4; the mass beyond is 5e-21), the angle 64 more,
so that the values r cos(a) leave no gaps a rounding to 2^-28 would show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimask_core.noise import RoundedGaussian
from trimask_core.randomness import RandomSource, Stream

__all__ = ["NormalStream", "SecureNormals", "normals_from_words"]

_CHUNK = 1 << 14  # pairs handled at a time: the temporaries stay in cache
_LN2 = float.fromhex("0x1.62e42fefa39efp-1")  # written out: math.log is the C library's
_SQRT_HALF = math.sqrt(0.5)
# log m = 2 atanh f = 2 f (1 + f^2/3 + f^4/5 + ...), |f| <= 0.172 for m in [sqrt 1/2, sqrt 2): 12 terms are 1e-20.
_ATANH = tuple(1.0 / (2 * k + 1) for k in range(12))
_SIN = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(10))
_COS = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(10))


def _horner(coefficients: tuple[float, ...], x: NDArray[np.float64]) -> NDArray[np.float64]:
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total


def _pairs(
    radius_words: NDArray[np.uint64], angle_words: NDArray[np.uint64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    uniform = (radius_words.astype(np.float64) + 1.0) * 2.0**-64  # in (0, 1]
    mantissa, exponent = np.frexp(uniform)
    low = mantissa < _SQRT_HALF
    mantissa[low] *= 2.0
    exponent = exponent.astype(np.float64)
    exponent[low] -= 1.0
    f = (mantissa - 1.0) / (mantissa + 1.0)
    log_uniform = exponent * _LN2 + 2.0 * f * _horner(_ATANH, f * f)
    radius = np.sqrt(np.maximum(-2.0 * log_uniform, 0.0))

    quadrant = angle_words >> np.uint64(62)
    fraction = (angle_words & np.uint64((1 << 62) - 1)).astype(np.float64) * 2.0**-62
    angle = (fraction - 0.5) * (math.pi / 2)
    square = angle * angle
    sine = angle * _horner(_SIN, square)
    cosine = _horner(_COS, square)
    turned = (quadrant & np.uint64(1)).astype(bool)
    first = np.where(turned, -sine, cosine)
    second = np.where(turned, cosine, sine)
    sign = 1.0 - 2.0 * (quadrant >> np.uint64(1)).astype(np.float64)
    radius *= sign
    return radius * first, radius * second


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
