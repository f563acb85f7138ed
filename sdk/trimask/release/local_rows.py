"""Rows that somebody holds, checked against the bound that was promised, and the prices and guarantees of the papers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimask.errors import ParameterError
from trimask.release.results import PrivateSum
from trimask_core.guarantee import Guarantee
from trimask_core.randomness import SystemRandom
from trimask_core.rows.normal import SecureNormals
from trimask_theory import grid_gaussian, record, vector_sum
from trimask_theory.calibration import Calibration

if TYPE_CHECKING:
    from trimask_theory.normal_source import NormalSource

__all__ = [
    "NEIGHBOURS",
    "normals_of",
    "on_public_steps",
    "one_of",
    "one_step_price",
    "place_of",
    "positive",
    "private_sum",
    "rows_of",
    "stated",
    "wide",
]

Array = NDArray[np.float64]
NEIGHBOURS = ("record", "add-remove")


def one_of(name: str, value: str, choices: Sequence[str]) -> str:
    """The value, or `ParameterError` naming what there is."""
    if value not in choices:
        raise ParameterError(name, "one of " + ", ".join(map(repr, choices)), value)
    return value


def positive(name: str, value: float) -> float:
    """A finite number above zero."""
    if not (math.isfinite(value) and value > 0):
        raise ParameterError(name, "a finite number > 0", value)
    return float(value)


def normals_of(given: NormalSource | None) -> NormalSource:
    """Where noise comes from: cryptographic unless said otherwise."""
    return SecureNormals(SystemRandom()) if given is None else given


def on_public_steps(values: Array, scale: float) -> Array:
    """Without the low digits in which floating-point numbers of two data sets could differ; `scale` is public."""
    return grid_gaussian.on_steps(values, scale) if scale else values


def rows_of(data: Any, row_norm: float | None = None) -> tuple[Array, list[str]]:
    """The rows as numbers and the columns' names; refused where a row is longer than was promised."""
    given = data.to_numpy() if hasattr(data, "to_numpy") else data
    try:
        rows = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("data", "numbers only") from None
    if rows.ndim != 2 or rows.size == 0 or not np.isfinite(rows).all():
        raise ParameterError("data", "a matrix of finite numbers, one row a person")
    if row_norm is not None:
        limit = positive("row_norm", row_norm)
        # The guarantee rests on the bound, so longer rows are refused; the message names none of them.
        if float(np.sqrt(np.max(np.einsum("ij,ij->i", rows, rows)))) > limit * (1 + 1e-12):
            raise ParameterError("data", f"of rows of norm at most row_norm = {limit:g}; scale or clip them")
    names = getattr(data, "columns", None)
    return rows, [f"x{i}" for i in range(rows.shape[1])] if names is None else [str(name) for name in names]


def wide(values: ArrayLike, size: int) -> Array:
    """One number a column."""
    return np.broadcast_to(np.asarray(values, dtype=np.float64), (size,))


def place_of(names: Sequence[str], which: str | int) -> int:
    """A column's place."""
    place = names.index(which) if isinstance(which, str) and which in names else which
    if isinstance(place, bool) or not isinstance(place, int) or not -len(names) <= place < len(names):
        raise ParameterError("column", "one of " + ", ".join(names), which)
    return place % len(names)


def one_step_price(epsilon: float, delta: float, neighbours: str) -> tuple[float, float]:
    """The add/remove price the theory calibrates for."""
    if one_of("neighbours", neighbours, NEIGHBOURS) == "record":
        return record.one_step(epsilon, delta)
    return epsilon, delta


def stated(found: Calibration, row_norm: float, epsilon: float, delta: float, neighbours: str) -> Guarantee:
    """The guarantee for the neighbours asked for."""
    if neighbours == "add-remove":
        return found.guarantee
    return record.two_steps(found.guarantee, row_norm, epsilon=float(epsilon), delta=float(delta))


def private_sum(found: vector_sum.SumRelease, names: list[str], rows: int) -> PrivateSum:
    """A sum as it is returned."""
    import pandas as pd

    return PrivateSum(
        pd.Series(found.value, index=names, dtype=float),
        pd.Series(found.noise, index=names, dtype=float),
        rows,
        found.guarantee,
    )
