"""Rows that somebody holds: checked against the bound that was promised, with the papers' prices and guarantees.

A noisy Gram matrix of them is a source of fits; M_LS and M_ALS are as their paper states them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from trimask.errors import ParameterError
from trimask.moments.identities import schema_identities
from trimask.moments.moments import row_moments
from trimask.release.results import PrivateFit, PrivateGram, PrivateSum, warn_of_sketch
from trimask.release.source import AskedColumns, ObservedGram, gram_law
from trimask_core.basics.randomness import SystemRandom
from trimask_core.rows.arrays import SecureNormals
from trimask_core.study.guarantee import Guarantee
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.checks import Calibration, one_of, positive
from trimask_theory.gaussian import grid_gaussian
from trimask_theory.gaussian.grid_gaussian import NormalSource
from trimask_theory.mechanisms import least_squares, noisy_gram, record, vector_sum
from trimask_theory.moments.noise_law import EntriesLaw

Array = NDArray[np.float64]
NEIGHBOURS = ("record", "add-remove")


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


def codes_of(data: Any, levels: Mapping[str, Sequence[object]]) -> NDArray[np.int64]:
    """Each person's level of each question, by its place; refused where somebody has none of the public levels."""
    if not levels or isinstance(levels, str):
        raise ParameterError("levels", "each question with its levels", levels)
    frame = pd.DataFrame(data)
    found = []
    for name, of in levels.items():
        known = list(of)
        if name not in frame.columns or len(known) < 2 or len(set(known)) != len(known):
            raise ParameterError(
                "levels", f"columns of the data, with two different levels or more; see {name}"
            )
        codes = pd.Index(known).get_indexer(pd.Index(frame[name]))
        if (codes < 0).any():  # the message names no answer
            raise ParameterError("data", f"one of the stated levels of {name} in every row")
        found.append(codes.astype(np.int64))
    if not len(frame):
        raise ParameterError("data", "at least one row")
    return np.column_stack(found)


def cells_of(
    codes: NDArray[np.int64], levels: Mapping[str, Sequence[object]], weights: Array | None = None
) -> Array:
    """The people in each cell, or the sum of their weights; the last question's levels fastest."""
    shape = tuple(len(of) for of in levels.values())
    flat = np.ravel_multi_index(tuple(codes.T), shape)
    return np.bincount(flat, weights, math.prod(shape)).astype(np.float64)


def number_of(data: Any, name: str, lower: float, upper: float) -> Array:
    """A column within its public bounds; refused where it is not."""
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise ParameterError("upper", "finite and above lower", upper)
    frame = pd.DataFrame(data)
    if name not in frame.columns:
        raise ParameterError("number", "a column of the data", name)
    try:
        values = frame[name].to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("data", f"numbers in {name}") from None
    if not ((values >= lower) & (values <= upper)).all():  # also where one is missing
        raise ParameterError("data", f"{name} between lower and upper in every row")
    return values


def private_sum(found: vector_sum.SumRelease, names: list[str], rows: int) -> PrivateSum:
    """A sum as it is returned."""
    return PrivateSum(
        pd.Series(found.value, index=names, dtype=float),
        pd.Series(found.noise, index=names, dtype=float),
        rows,
        found.guarantee,
    )


Price = tuple[float | None, float | None, float | None]


def of_answers(
    data: Any, schema: Schema, columns: Sequence[str], price: Price, normals: NormalSource
) -> PrivateGram:
    """Of raw answers, a DataFrame or mappings, within the bounds that the schema declares."""
    asked = AskedColumns.of(schema, columns)
    exact = row_moments(data, schema)
    names = [column.name for column in schema.columns]
    at = [names.index(name) for name in asked.names]
    found = _calibrated(price, asked.schema.row_norm)
    noisy = noisy_gram.release(exact.gram[np.ix_(at, at)], found.sigma, asked.schema.row_norm, normals)
    observed = ObservedGram(
        asked.schema, noisy, gram_law(found.sigma, len(at)), schema_identities(schema, False, asked.names),
        asked.from_scaled(schema.columns), exact.rows, found.sigma, found.guarantee,
    )  # fmt: skip
    return PrivateGram(observed.moments("private Gram matrix of raw answers"), found.guarantee)


def of_rows(
    rows: Array, names: Sequence[str], row_norm: float, intercept: bool, price: Price, normals: NormalSource
) -> PrivateGram:
    """Of rows of numbers of norm at most `row_norm`, without the intercept's 1, which is added."""
    schema = Schema(
        tuple(Attribute(name, "continuous", -row_norm, row_norm) for name in names), ones=intercept
    )
    whole = np.column_stack([np.ones((len(rows), int(intercept))), rows])
    norm = math.hypot(row_norm, 1.0) if intercept else row_norm
    found = _calibrated(price, norm)
    noisy = noisy_gram.release(whole.T @ whole, found.sigma, norm, normals)
    # The schema's scaled columns are these over row_norm.
    scale = np.array([1.0] * intercept + [row_norm] * len(names))
    law = EntriesLaw(gram_law(found.sigma, len(scale)).variances / np.outer(scale, scale) ** 2)
    observed = ObservedGram(
        schema, noisy / np.outer(scale, scale), law, schema_identities(schema), np.eye(len(scale)), len(rows),
        found.sigma, found.guarantee,
    )  # fmt: skip
    return PrivateGram(observed.moments("private Gram matrix of rows"), found.guarantee)


def _calibrated(price: Price, norm: float) -> Calibration:
    epsilon, delta, mu = price
    if mu is not None and epsilon is None and delta is None:
        return noisy_gram.calibrate_mu(mu, norm)
    if mu is None and epsilon is not None and delta is not None:
        return noisy_gram.calibrate(epsilon, delta, norm)
    raise ParameterError("price", "epsilon and delta, or mu")


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
