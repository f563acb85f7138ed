"""Pooling: the running triangular factor of a release.

R^T R is the sum over blocks of (A_b X_b)^T (A_b X_b) (docs/theory/masking-and-pooling.md#pooling). Folding a block in
is a QR factorisation of the old factor stacked on the block; nothing else of the block is kept. Published as F R with
F a fresh Haar frame, the release has the law of one Haar mask over all its rows, so sigma is calibrated with rows = N.
"""

from __future__ import annotations

import numpy as np

from trimask_core.rows.rotation import HaarFrame, Matrix

__all__ = ["factor_from_bytes", "factor_to_bytes", "fold", "masked_release"]


def fold(factor: Matrix | None, block: Matrix) -> Matrix:
    """The p1 x p1 factor with a block (or another factor) folded in."""
    stacked = block if factor is None else np.vstack((factor, block))
    triangular: Matrix = np.asarray(np.linalg.qr(stacked, mode="r"))
    p1 = block.shape[1]
    if triangular.shape[0] < p1:
        triangular = np.vstack((triangular, np.zeros((p1 - triangular.shape[0], p1))))
    return triangular


def factor_to_bytes(factor: Matrix) -> bytes:
    """For the store."""
    return factor.astype("<f8").tobytes()


def factor_from_bytes(data: bytes) -> Matrix:
    """From the store."""
    size = round((len(data) // 8) ** 0.5)
    return np.frombuffer(data, dtype="<f8").reshape(size, size).astype(np.float64)


def masked_release(factor: Matrix, rows: int, seed: bytes) -> Matrix:
    """A_0 applied: `rows` masked rows with the factor's second moments."""
    p1 = factor.shape[1]
    return HaarFrame(seed, p1, rows).apply(factor.T).T
