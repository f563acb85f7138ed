"""Rows made from moments, for tools that want rows: F R with R^T R the moments and F a frame of orthonormal columns.

Nobody's answers are in them and no noise has to be taken out: their sums of products are the moments that a fit uses,
made positive semidefinite where noise had made them otherwise. They carry nothing that the moments do not, and their
errors are not those that a program computes which takes them for people. F is drawn from a seed, so that the same dataset
has the same rows wherever they are made; it is no secret.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trimask.moments import Moments
from trimask_theory.noise_law import Matrix

__all__ = ["derived_rows"]


def derived_rows(moments: Moments, seed: bytes, batch_rows: int) -> Iterator[Matrix]:
    """As many rows as people (at least as many as columns), in scaled units, a batch at a time."""
    values, vectors = np.linalg.eigh(moments.repaired().gram)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    p = len(root)
    rows = max(moments.rows, p)
    # Two passes over the same draws: the first finds what makes their columns orthonormal.
    inner = np.zeros((p, p))
    for block in _draws(seed, rows, p, batch_rows):
        inner += block.T @ block
    change = np.linalg.solve(np.linalg.cholesky(inner).T, root)
    for block in _draws(seed, rows, p, batch_rows):
        yield block @ change


def _draws(seed: bytes, rows: int, columns: int, batch_rows: int) -> Iterator[Matrix]:
    generator = np.random.default_rng(int.from_bytes(seed, "big"))
    for start in range(0, rows, batch_rows):
        yield generator.standard_normal((min(batch_rows, rows - start), columns))
