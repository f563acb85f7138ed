"""B_k: it comes off again, hides the rows from whoever takes it off, and shows every alteration."""

from __future__ import annotations

import numpy as np
import pytest

from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.rows.arrays import haar_rotate
from trimask_server.suites.rows.math import apply_right_mask, check_gram, remove_right_mask

N, P = 40, 170


@pytest.fixture
def component() -> np.ndarray:
    return np.random.default_rng(0).normal(scale=1e7, size=(N, P))


def test_mask_comes_off_after_left_masking(component: np.ndarray) -> None:
    masked, mask = apply_right_mask(component, DeterministicRandom("mask"))
    rotated = haar_rotate(b"a" * 32, masked.copy())
    expected = haar_rotate(b"a" * 32, component.copy())
    assert np.abs(remove_right_mask(rotated, mask) - expected).max() < 1e-14 * 1e7 * N


def test_masked_matrix_is_an_isometry_of_the_rows(component: np.ndarray) -> None:
    masked, _ = apply_right_mask(component, DeterministicRandom("isometry"))
    assert np.allclose(masked @ masked.T, component @ component.T, rtol=1e-12)


def test_basis_does_not_show_a_row(component: np.ndarray) -> None:
    """Gram-Schmidt of the rows would hand R_1's row over up to scale. Under O no basis row aligns with a data row.

    |cos| of two independent directions in the 40-dimensional row space exceeds 0.95 with probability below 1e-18;
    1,600 pairs.
    """
    _, mask = apply_right_mask(component, DeterministicRandom("basis"))
    rows = component / np.linalg.norm(component, axis=1, keepdims=True)
    assert np.abs(rows @ mask.basis.T).max() < 0.95
    plain = np.linalg.qr(component.T)[0].T
    assert np.abs(rows @ plain.T).max() > 1 - 1e-12  # what is avoided


@pytest.mark.parametrize(
    "tamper",
    [
        lambda m: np.vstack((m[:-1], 0 * m[-1:])),  # a row dropped
        lambda m: np.vstack((m[:-1], m[:1])),  # a row doubled
        lambda m: m + np.eye(*m.shape) * 5.0,  # data-sized changes: 5 where entries are 1e7
        lambda m: m * (1 + 1e-9),
        lambda m: np.vstack((m[0] + m[1], m[1:])),  # rows mixed, not orthogonally
    ],
)
def test_alteration_is_caught(component: np.ndarray, tamper: object) -> None:
    masked, mask = apply_right_mask(component, DeterministicRandom("tamper"))
    rotated = haar_rotate(b"b" * 32, masked.copy())
    check_gram(rotated, mask)
    with pytest.raises(Refused, match="Gram") as caught:
        remove_right_mask(tamper(rotated), mask)  # type: ignore[operator]
    assert caught.value.reason == "gram_changed"


def test_wrong_shape_is_refused(component: np.ndarray) -> None:
    masked, mask = apply_right_mask(component, DeterministicRandom("shape"))
    with pytest.raises(Refused, match="40 x 170"):
        remove_right_mask(masked[:-1], mask)


def test_mask_is_not_in_the_repr(component: np.ndarray) -> None:
    _, mask = apply_right_mask(component, DeterministicRandom("repr"))
    assert repr(mask) == "RightMask()"
