"""The law of verified moments by their widths alone, and the share of a level by it: for releases that are drawn here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_theory.moments.moments_noise import entries
from trimask_theory.moments.noise_law import EntriesLaw


def moments_law(sigma: float, widths: Sequence[int], providers: int, honest: int = 1) -> EntriesLaw:
    """The law of verified moments in scaled units x = z / w, column 0 the constant: all providers' noise, rounded."""
    scale = np.array([1.0, *widths])
    V = np.zeros((len(scale), len(scale)))
    for j, index, noise in entries(sigma, widths, honest):
        V[j, index] = V[index, j] = noise.variance(providers) / (scale[j] * scale[index]) ** 2
    return EntriesLaw(V)


def level_share(
    gram: ArrayLike, law: EntriesLaw, column: int, width: int, rows: int
) -> tuple[NDArray[np.float64], float]:
    """The share of people with a level (such as `clipped`), and its standard error, from moments in scaled units.

    A level's sum and its sum of squares are the same count; the two published numbers are weighted by their precisions.
    `gram` may be a stack of releases.
    """
    G, V = np.asarray(gram, dtype=np.float64), law.variances
    first, square = width / rows, width * width / rows
    precisions = 1 / np.array([V[0, column] * first**2, V[column, column] * square**2])
    found = G[..., 0, column] * first * precisions[0] + G[..., column, column] * square * precisions[1]
    return found / precisions.sum(), 1 / float(np.sqrt(precisions.sum()))
