"""relative against data sets with a row really taken away or added, and what the NDIS paper says of its sets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimask_core.basics.errors import ParameterError
from trimask_theory.gaussian import gaussian_pair, local_noise
from trimask_theory.mechanisms import least_squares
from trimask_theory.papers import relative


def data(rows: int = 30, features: int = 3, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    b = rng.standard_t(3, (rows, features))
    return np.column_stack([b, b @ np.arange(1.0, features + 1) + rng.standard_normal(rows)])


def solution(rows: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(rows[:, :-1], rows[:, -1])[0]


def hat(matrix: np.ndarray) -> np.ndarray:
    return np.diag(matrix @ np.linalg.pinv(matrix))


def test_definitions_6_and_7_over_every_pair_of_the_set() -> None:
    """Every data set of X is formed, each with a row taken away or added once more, and the largest number looked up."""
    rows = data()
    found = relative.of_rows(rows)
    larger = [rows, *(np.vstack([rows, row]) for row in rows)]
    lost = [range(len(rows)), *([len(rows)] for _ in rows)]
    leverage, features, residual, moved = [], [], [], []
    for matrix, indices in zip(larger, lost, strict=True):
        b, errors = matrix[:, :-1], matrix[:, -1] - matrix[:, :-1] @ solution(matrix)
        for i in indices:
            leverage.append(hat(matrix)[i])
            features.append(hat(b)[i])
            residual.append(errors[i] ** 2 / (errors @ errors))
            moved.append(np.linalg.norm(solution(np.delete(matrix, i, 0)) - solution(matrix)))
    assert found.leverage == pytest.approx(max(leverage), rel=1e-10)
    assert found.feature_leverage == pytest.approx(max(features), rel=1e-10)
    assert found.residual == pytest.approx(max(residual), rel=1e-10)
    assert found.sensitivity == pytest.approx(max(moved), rel=1e-9)
    assert found.row_norm == pytest.approx(np.linalg.norm(rows, axis=1).max())


def test_the_inherent_delta_is_that_of_the_pair_of_normals() -> None:
    """Theorem 4 row by row, against the spectrum of the two normals for every row that is taken away."""
    rows, r, epsilon = data(60), 40, 0.5

    def normal(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        errors = matrix[:, -1] - matrix[:, :-1] @ solution(matrix)
        return solution(matrix), errors @ errors / r * np.linalg.inv(matrix[:, :-1].T @ matrix[:, :-1])

    full = normal(rows)
    deltas = []
    for i in range(len(rows)):
        less = normal(np.delete(rows, i, 0))
        deltas.append(max(gaussian_pair.spectrum(*full, *less, [epsilon]).worst))
    found = relative.of_rows(rows)
    assert relative.inherent_delta(found, epsilon, r) == pytest.approx(max(deltas), rel=1e-8)
    box = least_squares.delta(epsilon, found.feature_leverage + found.residual, found.feature_leverage, r, 3)
    assert relative.inherent_delta(found, epsilon, r) < box


def test_the_relative_gaussian_mechanism_is_the_analytic_gaussian_at_the_sets_sensitivity() -> None:
    found = relative.of_rows(data())
    noise = relative.gaussian_calibrate(found, 1.0, 1e-3)
    assert noise.sigma == local_noise.calibrate(1.0, 1e-3, found.sensitivity).sigma
    assert "holds only between the data set at hand" in noise.guarantee.because
    rows = data()
    drawn = relative.gaussian_release(rows.T @ rows, 0.0, np.random.default_rng(0))
    assert drawn == pytest.approx(solution(rows))


def test_a_row_alone_in_its_direction_has_leverage_one() -> None:
    rows = np.vstack([data()[:, [0, 1, 3]], [0.0, 0.0, 0.0]])
    rows = np.column_stack([np.eye(len(rows))[-1], rows])
    rows[-1, -1] = 2.0
    found = relative.of_rows(rows)
    assert found.feature_leverage == pytest.approx(1.0)
    assert relative.inherent_delta(found, 1.0, 10) == pytest.approx(1.0)
    with pytest.raises(ParameterError, match="full column rank"):
        relative.of_rows(np.column_stack([rows, rows[:, 0]]))
    with pytest.raises(ParameterError, match="finite"):
        relative.of_rows([[1.0, math.nan]])
