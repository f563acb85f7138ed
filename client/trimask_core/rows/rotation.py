"""Haar-distributed orthogonal matrices and frames from a 32-byte seed, never formed.

The first k columns of a Haar matrix on O(p) are H_1 ... H_k E_k D: H_i reflects along a Gaussian vector of length
p - i + 1 and D holds the signs that make the triangular factor's diagonal positive (Stewart 1980; the sign fix is
Mezzadri's). Drawing the Gaussians directly replaces a QR factorisation; products of reflections are applied a
panel at a time as I - V T V^T (compact WY), which is matrix multiplication throughout and costs what one product
with the explicit matrix would.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trimask_core.errors import ParameterError
from trimask_core.rows.normal import NormalStream

__all__ = ["HaarFrame", "Matrix", "haar_rotate"]

Matrix = NDArray[np.float64]
_PANEL = 64
_CHUNK = 1024
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
    for start in range(0, columns, _CHUNK):
        M[:, start : start + _CHUNK] = A @ M[:, start : start + _CHUNK]
    return M
