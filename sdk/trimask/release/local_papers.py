"""M_LS and M_ALS on rows that somebody holds, as their paper states them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trimask.errors import ParameterError
from trimask.release.fits import PrivateFit
from trimask.release.local_rows import on_public_steps, one_step_price, stated
from trimask.release.papers import warn_of_sketch
from trimask_theory import least_squares

if TYPE_CHECKING:
    from trimask_theory.normal_source import NormalSource

__all__ = ["Sketch", "sketched_fit"]


@dataclass(frozen=True)
class Sketch:
    """The settings of the paper: `reduced_dim` is its r, ten times the columns if None."""

    method: str
    reduced_dim: int | None
    calibration: str
    neighbours: str
    leverage: float | None
    residual: float | None


def sketched_fit(
    rows: NDArray[np.float64],
    names: Sequence[str],
    norm: float,
    formula: str,
    price: tuple[float, float],
    sketch: Sketch,
    normals: NormalSource,
) -> PrivateFit:
    """Coefficients of the last column on the others, of rows of norm at most `norm`; warned of."""
    import pandas as pd

    r = 10 * rows.shape[1] if sketch.reduced_dim is None else sketch.reduced_dim
    d = rows.shape[1] - 1
    warn_of_sketch(sketch.method, r, len(rows))
    paid, word = one_step_price(*price, sketch.neighbours), sketch.method.removeprefix("M_")
    if sketch.leverage is None and sketch.residual is None:
        found = least_squares.calibrate(*paid, r, d, norm, sketch.calibration, word)
    elif sketch.leverage is None or sketch.residual is None:
        raise ParameterError("leverage and residual", "given together")
    else:
        found = least_squares.relative_calibrate(
            *paid, r, d, sketch.leverage, sketch.residual, norm, sketch.calibration, word
        )
    if word == "LS":
        solution = least_squares.release(rows.T @ rows, r, found.sigma, normals)
    else:
        solution = least_squares.sketch(rows, r, found.sigma, normals)
    # |e| (B'B)^{-1/2}/sqrt(r) is at least this in every direction: |e| >= sigma, and rows are at most `norm` long.
    least = found.sigma / math.sqrt(r * (len(rows) * norm**2 + found.sigma**2))
    guarantee = stated(found, norm, *price, sketch.neighbours)
    params = pd.Series(on_public_steps(solution, least), index=list(names), dtype=float)
    return PrivateFit(formula, sketch.method, params, "given", found.sigma, guarantee)
