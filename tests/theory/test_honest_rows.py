"""epsilon as a function of honest rows."""

from __future__ import annotations

import numpy as np
import pytest

from trimask_theory.masking import masked_noise

SIGMA, NORM, DELTA = 0.8, 1.5, 1e-5


def at(honest: int, attributes: int = 4) -> float:
    return masked_noise.honest_epsilon(DELTA, SIGMA, honest, attributes, "record", NORM)


def test_fewer_honest_rows_promise_less() -> None:
    found = [at(honest) for honest in (4000, 2000, 400, 40, 5, 4, 1)]
    assert found == sorted(found)
    assert found[0] == masked_noise.epsilon(DELTA, SIGMA, 4000, 4, "record", NORM)
    assert found[-1] == found[-2]  # no more than a row of its own, from as many rows as columns down


def test_half_the_rows_of_a_release_are_a_release_of_half_the_rows() -> None:
    table = masked_noise.honest_table(4000, 400, DELTA, SIGMA, 4, "record", NORM, "sharp")
    assert [rows for rows, _ in table] == [4000, 2000, 400, 200, 1]
    assert dict(table)[2000] == masked_noise.epsilon(DELTA, SIGMA, 2000, 4, "record", NORM)


@pytest.mark.parametrize("cosine", [0.0, 0.4, 0.9])
def test_one_row_up_to_its_sign_is_no_more_than_stated(cosine: float) -> None:
    """The worst that a release of one row can do, integrated over the plane of two people's rows."""
    x = np.array([NORM, 0.0])
    y = NORM * np.array([cosine, np.sqrt(1 - cosine**2)])
    grid = np.linspace(-NORM - 9 * SIGMA, NORM + 9 * SIGMA, 1201)
    points = np.stack(np.meshgrid(grid, grid), axis=-1)

    def density(mean: np.ndarray) -> np.ndarray:
        both = sum(np.exp(-((points - s * mean) ** 2).sum(axis=-1) / (2 * SIGMA**2)) for s in (1, -1))
        return np.asarray(both) / (4 * np.pi * SIGMA**2)

    stated = at(1, attributes=2)
    gain = np.maximum(density(x) - np.exp(stated) * density(y), 0.0)
    assert gain.sum() * (grid[1] - grid[0]) ** 2 <= DELTA
