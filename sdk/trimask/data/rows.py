"""The rows in a release's Parquet file, in scaled units: read a batch at a time, or added up to their Gram matrix.

For tools that want rows there are some made from moments: F R with R^T R the moments and F a frame of orthonormal columns.

Nobody's answers are in them and no noise has to be taken out: their sums of products are the moments that a fit uses,
made positive semidefinite where noise had made them otherwise. They carry nothing that the moments do not, and their
errors are not those that a program computes which takes them for people. F is drawn from a seed, so that the same dataset
has the same rows wherever they are made; it is no secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from trimask.data.manifest import DATA_FILE, Manifest
from trimask.errors import VerificationError
from trimask.moments.moments import Moments
from trimask_theory.moments.noise_law import Matrix

BATCH_ROWS = 65_536


def stored_batches(path: Path, manifest: Manifest, batch_rows: int = BATCH_ROWS) -> Iterator[Matrix]:
    """The rows, at most `batch_rows` at a time: never the whole file in memory."""
    for block in _read(path, manifest, batch_rows):
        _require_finite(block)
        yield block.copy(order="F")


def stored_gram(path: Path, manifest: Manifest) -> Matrix:
    """The Gram matrix of all rows, noise and all."""
    gram = np.zeros((len(manifest.columns),) * 2)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below, in words
        for block in _read(path, manifest, BATCH_ROWS):
            gram += block.T @ block  # numpy sees the transpose and calls dsyrk: half the work of dgemm
    # A value that is not finite makes its column's square so; one check here saves one of every value.
    _require_finite(gram)
    return (gram + gram.T) / 2


def _read(path: Path, manifest: Manifest, batch_rows: int) -> Iterator[Matrix]:
    """The batches, unchecked, in one buffer that the next batch overwrites: fresh memory costs as much as reading."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        names, count = list(file.schema_arrow.names), file.metadata.num_rows
        if names != [column.name for column in manifest.columns] or count != manifest.stored_rows:
            raise VerificationError(f"{DATA_FILE} has other columns or rows than the manifest says")
        buffer = np.empty((min(batch_rows, count), len(names)), order="F")
        for batch in file.iter_batches(batch_size=batch_rows):
            block = buffer[: batch.num_rows]
            for j in range(len(names)):
                block[:, j] = batch.column(j).to_numpy(zero_copy_only=False)
            yield block


def _require_finite(values: Matrix) -> None:
    if not np.all(np.isfinite(values)):
        raise VerificationError(f"{DATA_FILE} has values that are not finite numbers")


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
