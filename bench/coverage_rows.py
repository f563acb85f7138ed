"""Rows of a known law and their moments, with declared squares and products or without, for measuring coverage."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from trimask.moments.identities import ConstrainedLaw, schema_identities
from trimask.moments.moments import Moments
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema
from trimask_theory.moments.noise_law import EntriesLaw

__all__ = ["LAWS", "MEANS", "NAMES", "SIGMA", "moments", "noisy", "population", "rows", "schema"]

Array = np.ndarray[Any, Any]
NAMES = ("a", "b", "c", "d")
LOADINGS = np.array([[0.9, 0.0], [0.75, 0.2], [0.6, 0.3], [0.1, 0.7]])
SIGMA = LOADINGS @ LOADINGS.T + np.diag([0.2, 0.25, 0.3, 0.3])
MEANS = np.array([1.0, 1.0, 1.2, 0.9])
ROOT = np.linalg.cholesky(SIGMA)
_WIDTH = 40.0
_DERIVED = (
    *(Derived(f"{name}{name}", "square", (name,)) for name in NAMES),
    *(Derived(f"{one}{two}", "product", (one, two)) for one, two in combinations(NAMES, 2)),
)


def schema(law: str, *, squares: bool, width: float = _WIDTH) -> Schema:
    """The columns, with bounds of one width: those of exponential rows begin where the rows do."""
    lowest = MEANS - ROOT.sum(axis=1) - 0.01 if law == "exponential" else np.full(len(NAMES), -0.375 * width)
    attributes = tuple(
        Attribute(name, "continuous", float(low), float(low) + width)
        for name, low in zip(NAMES, lowest, strict=True)
    )
    return Schema(attributes, _DERIVED if squares else ())


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape) - 1,
    "uniform": lambda rng, shape: rng.uniform(-(3**0.5), 3**0.5, shape),
}
"""Mean 0 and variance 1 each; rows are combinations of independent ones."""


def rows(law: str, n: int, rng: np.random.Generator) -> Array:
    """n rows of the law, with means MEANS and covariance SIGMA."""
    found: Array = MEANS + LAWS[law](rng, (n, len(NAMES))) @ ROOT.T
    return found


def moments(X: Array, of: Schema) -> Moments:
    """The exact moments of rows. A few rows in a million are beyond the upper bounds, and are left so."""
    index = {name: j for j, name in enumerate(NAMES)}
    made = [np.ones(len(X)), *X.T]
    made += [X[:, index[item.of[0]]] * X[:, index[item.of[-1]]] for item in of.derived]
    Z = np.column_stack(
        [
            (column_values - column.center) / column.half_range
            for column_values, column in zip(made, of.columns, strict=True)
        ]
    )
    return Moments(of, Z.T @ Z, len(X), 0.0, label="rows drawn")


def noisy(exact: Moments, noise: float, rng: np.random.Generator) -> Moments:
    """With normal noise of this deviation on every sum of squares, the root of a half of it on products, none on the count,
    moved onto what the schema knows, as the moments suite's are."""
    p = len(exact.gram)
    variances = noise**2 * (np.eye(p) + np.ones((p, p))) / 2
    variances[0, 0] = 0.0
    law = EntriesLaw(variances)
    constrained = ConstrainedLaw(law, schema_identities(exact.schema))
    gram = constrained.project(exact.gram + law.draw(rng), exact.rows)
    return Moments(exact.schema, gram, exact.rows, noise, law=constrained, label="noisy", suite="moments")


def population(of: Schema, n: int) -> Moments:
    """Moments of n rows whose means and covariance are exactly the law's."""
    whitened = np.linalg.qr(np.column_stack([np.ones(n), rows("normal", n, np.random.default_rng(0))]))[0][
        :, 1:
    ]
    X = MEANS + whitened @ ROOT.T * np.sqrt(n - 1)
    return moments(X, of)
