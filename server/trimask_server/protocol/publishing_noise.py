"""The noise of publishing: N(0, (2h)^2) by each party that passes masked rows on, h the grid step.

Devices' noise is discrete, and what a mask adds to its privacy is proved for Gaussian noise: with this on top it is that
within 30 digits (docs/theory/calibration.md#discrete-noise). Unmasking nodes add it to what they deliver, the collector to
what it publishes; a study without noise has none.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trimask_core.rows.normal import NormalStream
from trimask_core.rows.rotation import Matrix
from trimask_server.protocol.pool import fold

__all__ = ["publishing_noise", "with_publishing_noise"]

_LABEL = b"noise of publishing"
_ROWS = 1 << 14  # at a time


def publishing_noise(scale: float, shape: tuple[int, ...], seed: bytes) -> Matrix:
    """Independent N(0, scale^2), from a seed that nobody keeps."""
    return scale * NormalStream(seed, _LABEL).standard_normal(shape)


def with_publishing_noise(factor: Matrix, rows: int, scale: float, seed: bytes) -> Matrix:
    """The factor of A [factor; 0] + G for `rows` rows of noise G: A is Haar, so that of [factor; 0] + G is one."""
    if not scale:
        return factor
    blocks = _blocks(rows, factor.shape[1], scale, seed)
    first = next(blocks)
    first[: len(factor)] += factor
    found = fold(None, first)
    for block in blocks:
        found = fold(found, block)
    return found


def _blocks(rows: int, columns: int, scale: float, seed: bytes) -> Iterator[Matrix]:
    normals = NormalStream(seed, _LABEL)
    for start in range(0, rows, _ROWS):
        yield np.multiply(scale, normals.standard_normal((min(_ROWS, rows - start), columns)))
