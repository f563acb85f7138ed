"""When intervals hold the truth less often than they say: a condition that a release can check, a note and a warning.

Statement. Sampling errors of variances, correlations and what is made of them rest on fourth moments. Where the
columns carry them (`trimask.fit.fourth`) nothing is assumed of the rows; elsewhere rows are taken as normal, and then
errors are wrong at any number of rows if they are not. Two conditions are looked at:
- *Rows that cannot be normal*, where normal rows were assumed: a column whose mean is within 2 standard deviations of a
  declared bound. A normal one would be beyond it on more than 2.3 % of rows. (A column of exponential times is 1 deviation
  from 0; of a yes-or-no column one bound is within 1.) It does not find heavy tails on both sides.
- *Too few rows*, where fourth moments were used: a variance known to no better than a tenth of itself. The error of
  the error then counts: at 300 exponential rows, where it is about 0.15, intervals for a variance held in 92 %, not 95 %.

Both are rules of thumb: set beforehand, not tuned, then measured once (`bench/coverage.py`, docs/accuracy.md); not proved.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trimask.errors import CoverageWarning

if TYPE_CHECKING:
    from trimask.fit.covariance import Covariance

__all__ = ["FOURTH_ROWS", "NORMAL_ROWS", "doubt", "rows_notes", "warn_of"]

NORMAL_ROWS = (
    "The sampling part takes rows as normal: second moments do not carry the fourth ones that would tell. "
    "The privacy part does not."
)
FOURTH_ROWS = (
    "The sampling part is from fourth moments, which declared squares and products carry: rows need not be normal. "
    "Intervals still hold less often at few rows."
)
_BOTH = (
    "The sampling part is from fourth moments where the declared squares and products carry them, and takes rows as normal "
    "elsewhere."
)
_SHORT = "intervals are likely to hold the truth less often than they say: "
_NEAR = 2.0
_UNCERTAIN = 0.1


def doubt(
    covariance: Covariance, known: NDArray[np.bool_], assumed: str = "rows as normal"
) -> tuple[str, tuple[str, ...]]:
    """What is said where intervals are too short, and because of which columns; empty where neither condition holds.

    `known` says which of the result's sampling errors come from fourth moments, `assumed` what the others take rows for.
    """
    spread = np.sqrt(np.maximum(np.diag(covariance.S), 0.0))
    if not np.all(known):
        bounds = 1.0 - np.abs(covariance.means) if covariance.centred else np.full(len(spread), np.inf)
        near = _named(covariance.names, bounds < _NEAR * spread)
        if near:
            because = (
                f"they take {assumed}, and {_list(near)} cannot be normal (mean within 2 standard deviations of a declared "
                "bound). Squares and products declared in the study carry the fourth moments that errors need"
            )
            return _SHORT + because, near
        return "", ()
    each = np.array([np.outer(unit, unit) for unit in np.eye(len(spread))])
    variances, carried = covariance.sampling(each)
    few = _named(covariance.names, carried & (np.sqrt(variances) > _UNCERTAIN * spread**2))
    if few:
        because = (
            f"at {covariance.rows:,} rows the variance of {_list(few)} is not known to a tenth of itself, so errors made of "
            "fourth moments are uncertain too"
        )
        return _SHORT + because, few
    return "", ()


def warn_of(said: tuple[str, tuple[str, ...]]) -> None:
    """Raise the warning, if there is something to say. Called by the function that a researcher calls."""
    message, columns = said
    if message:
        warnings.warn(CoverageWarning(columns, message), stacklevel=3)


def rows_notes(known: NDArray[np.bool_], said: tuple[str, tuple[str, ...]]) -> tuple[str, ...]:
    """What a summary says of the rows' law."""
    first = FOURTH_ROWS if np.all(known) else _BOTH if np.any(known) else NORMAL_ROWS
    message = said[0]
    return (first, f"Caution: {message}.") if message else (first,)


def _named(names: Sequence[str], which: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(name for name, there in zip(names, which, strict=True) if there)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
