"""Haar-distributed orthogonal matrices and frames from a 32-byte seed, never formed.

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
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import ParameterError
from trimask_core.basics.noise import RoundedGaussian
from trimask_core.basics.randomness import RandomSource, Stream

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
