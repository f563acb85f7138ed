"""Settings (A), (B) and (C) of the masked-noise paper, and block-diagonal masks: the release itself, and its sigma.

Statement. (A) releases X + C, (B) A (X + C), (C) A X + C, with C i.i.d. N(0, sigma^2) and A Haar. As A C has the law of C
given A, (B) and (C) are one law (Lemma A.4), so `calibrate` gives both the same sigma; what differs is who adds the noise:
in (B) each person before anything leaves the device, in (C) whoever has masked. A may be block-diagonal, each block Haar
on its own rows: a row is then hidden among those of its block only, and delta is that of the smallest block (Section 4).

Assumptions: those of `masked_noise` and `local_noise`; blocks of more rows than attributes. Basis: proved, as theirs.
Draws here are for simulation, in doubles; a study's own noise is drawn on a grid.
Derivation: docs/theory/calibration.md#theorem-3-4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask_core.basics.errors import ParameterError
from trimask_theory import checks
from trimask_theory.checks import Calibration
from trimask_theory.gaussian import local_noise
from trimask_theory.gaussian.grid_gaussian import NormalSource
from trimask_theory.masking import masked_noise

Setting = Literal["A", "B", "C"]
Array = NDArray[np.float64]


def calibrate(
    epsilon: float,
    delta: float,
    blocks: int | Sequence[int],
    attributes: int,
    setting: Setting = "B",
    protect: masked_noise.Protection = "record",
    row_norm: float | None = None,
    method: masked_noise.Method = "sharp",
) -> Calibration:
    """The sigma of a setting; `blocks` is the number of rows, or the rows of each block of a block-diagonal mask."""
    checks.one_of("setting", setting, ("A", "B", "C"))
    sizes = _sizes(blocks)
    if setting == "A":
        norm = math.sqrt(attributes) if row_norm is None else checks.positive("row_norm", row_norm)
        return local_noise.calibrate(epsilon, delta, 2 * norm if protect == "record" else 1.0)
    return masked_noise.calibrate(epsilon, delta, min(sizes), attributes, protect, row_norm, method)


def mask(blocks: int | Sequence[int], normals: NormalSource) -> Array:
    """A Haar orthogonal matrix, or one with such blocks on its diagonal."""
    sizes = _sizes(blocks)
    whole = np.zeros((sum(sizes), sum(sizes)))
    start = 0
    for size in sizes:
        q, r = np.linalg.qr(normals.standard_normal((size, size)))
        # The signs of R's diagonal make the law Haar's.
        whole[start : start + size, start : start + size] = q * np.sign(np.diag(r))
        start += size
    return whole


def draw(
    rows: ArrayLike,
    sigma: float,
    normals: NormalSource,
    setting: Setting = "B",
    blocks: int | Sequence[int] | None = None,
) -> Array:
    """One release of a setting; one block if `blocks` is not given."""
    checks.one_of("setting", setting, ("A", "B", "C"))
    x = checks.matrix("rows", rows)
    sizes = _sizes(len(x) if blocks is None else blocks)
    if sum(sizes) != len(x):
        raise ParameterError("blocks", f"of {len(x)} rows in all", sum(sizes))
    noise = checks.non_negative("sigma", sigma) * normals.standard_normal(x.shape)
    if setting == "A":
        return np.asarray(x + noise)
    turn = mask(sizes, normals)
    return np.asarray(turn @ (x + noise) if setting == "B" else turn @ x + noise)


def _sizes(blocks: int | Sequence[int]) -> list[int]:
    if isinstance(blocks, int):
        return [checks.whole("blocks", blocks, 1)]
    sizes = [checks.whole("blocks", size, 1) for size in blocks]
    if not sizes:
        raise ParameterError("blocks", "a number of rows, or the rows of each block")
    return sizes
