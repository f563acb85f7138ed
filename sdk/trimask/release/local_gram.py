"""A noisy Gram matrix of rows that somebody holds, as a source of fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimask.errors import ParameterError
from trimask.identities import schema_identities
from trimask.moments import row_moments
from trimask.release.results import PrivateGram
from trimask.release.source import AskedColumns, ObservedGram, gram_law
from trimask_core.schema import Attribute, Schema
from trimask_theory import noisy_gram
from trimask_theory.calibration import Calibration
from trimask_theory.noise_law import EntriesLaw
from trimask_theory.normal_source import NormalSource

__all__ = ["of_answers", "of_rows"]

Array = NDArray[np.float64]
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
