"""The people all methods are measured on."""

from __future__ import annotations

import math

import numpy as np

from bench.accuracy_scores import Array

__all__ = ["ATTRIBUTES", "DELTA", "EPSILONS", "PEOPLE", "ROW_NORM", "people"]

PEOPLE, ATTRIBUTES, DELTA = 20_000, 5, 1e-6
EPSILONS = (0.1, 1.0, 5.0)
ROW_NORM = math.sqrt(ATTRIBUTES)
BETA = np.array([0.5, -0.3, 0.2, 0.1])


def people(n: int = PEOPLE, seed: int = 6) -> Array:
    """Four equally correlated features (0.5) and a response; bounds lie three standard deviations out, and clip."""
    rng = np.random.default_rng(seed)
    features = math.sqrt(0.5) * (rng.standard_normal((n, 1)) + rng.standard_normal((n, 4)))
    response = features @ BETA + 0.8 * rng.standard_normal(n)
    return np.asarray(np.clip(np.column_stack([features, response]) / 3, -1, 1))
