"""How much the answers of a block can weigh, so that answers far out of range are not pooled.

Column j of A (X + C) has the sum of squares of column j of X + C, since A is orthogonal. Scaled answers are at most R_j = 1
in absolute value, and rows at most R in norm, so for noise of scale sigma

    sum of squares of column j  <=  n R_j^2 + 2 sigma sqrt(n) R_j z + sigma^2 n a,

but for the chance that the normal x . c / |x| is beyond z sigma or a chi-square(n) beyond n a; the trace likewise, with R
and n p1 degrees. Each event has probability at most 2^-bits, and `bits` is such that a block of honest rows is refused with
probability at most 2^-40 (docs/theory/collection.md#answer-bound). Proved for Gaussian noise; the grid is finer than it by
orders. What a lie below the bound can do is said there, too.
"""

from __future__ import annotations

import math

import numpy as np

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_core.rows.rotation import Matrix
from trimask_core.study import Study
from trimask_server.protocol.row_check import chi_square_factor

__all__ = ["column_bound", "refuse_heavy", "trace_bound"]

_REFUSAL_BITS = 40
_ROUNDING = 1 + 1e-6  # of the grid and of float64, far less than this


def _bound(norm: float, sigma: float, rows: int, degrees: int, bits: float) -> float:
    if not sigma:
        return rows * norm**2 * _ROUNDING
    z = math.sqrt(2 * bits * math.log(2))
    noise = sigma**2 * degrees * chi_square_factor(degrees, bits, upper=True)
    return (rows * norm**2 + 2 * sigma * math.sqrt(rows) * norm * z + noise) * _ROUNDING


def _bits(study: Study) -> float:
    """Two events for each column and two for the trace share 2^-40."""
    return _REFUSAL_BITS + math.log2(2 * (study.attributes + 1))


def column_bound(study: Study, rows: int) -> float:
    """The largest sum of squares of a column of so many rows."""
    return _bound(min(1.0, study.protection.row_norm), study.rows.published_sigma, rows, rows, _bits(study))


def trace_bound(study: Study, rows: int) -> float:
    """The largest sum of squares of all columns."""
    degrees = rows * study.attributes
    return _bound(study.protection.row_norm, study.rows.published_sigma, rows, degrees, _bits(study))


def refuse_heavy(study: Study, answers: Matrix) -> None:
    """Refuse a block's A (X + C) if it weighs more than rows in range can."""
    rows = answers.shape[0]
    weights = np.sum(np.square(answers), axis=0)
    most = column_bound(study, rows)
    for column, weight in zip(study.schema.columns, weights, strict=True):
        if not weight <= most:
            raise Refused(
                Reason.IMPLAUSIBLE_ANSWERS,
                f"its answers are out of range: column {column.name!r} weighs {weight:.3g}, and {rows} rows at most "
                f"{most:.3g}",
            )
    if not weights.sum() <= trace_bound(study, rows):
        raise Refused(
            Reason.IMPLAUSIBLE_ANSWERS,
            f"its answers are out of range: they weigh {weights.sum():.3g}, and {rows} rows at most "
            f"{trace_bound(study, rows):.3g}",
        )
