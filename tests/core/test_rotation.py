"""Haar frames: orthonormal, the right reflections, the right law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from trimask_core.basics.errors import ParameterError
from trimask_core.rows.arrays import HaarFrame, NormalStream, haar_rotate

Matrix = NDArray[np.float64]
SHAPES = [(1, 1), (1, 2), (3, 3), (5, 40), (63, 64), (64, 64), (65, 65), (64, 200), (130, 150), (200, 200)]


def seed(number: int) -> bytes:
    return number.to_bytes(32, "big")


def one_reflection_at_a_time(key: bytes, rows: int, columns: int) -> Matrix:
    """F from the same Gaussians, each reflection formed and applied by itself (Stewart 1980)."""
    normals = NormalStream(key, b"haar frame")
    Q = np.eye(columns)
    signs = np.empty(rows)
    for start in range(0, rows, 64):
        drawn = normals.standard_normal((min(64, rows - start), columns - start))
        for i, full in enumerate(drawn):
            x = np.zeros(columns)
            x[start + i :] = full[i:]
            v = x.copy()
            sign = -1.0 if x[start + i] < 0 else 1.0
            v[start + i] += sign * np.linalg.norm(x)
            Q = Q - np.outer(Q @ v, v) * (2 / (v @ v))
            signs[start + i] = -sign
    return (Q[:, :rows] * signs).T


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_rows_are_orthonormal(rows: int, columns: int) -> None:
    F = HaarFrame(seed(1), rows, columns).matrix()
    assert F.shape == (rows, columns)
    assert np.abs(F @ F.T - np.eye(rows)).max() < 1e-13


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 3), (5, 40), (65, 65), (70, 90), (130, 150)])
def test_panels_are_the_product_of_their_reflections(rows: int, columns: int) -> None:
    F = HaarFrame(seed(2), rows, columns).matrix()
    assert np.abs(F - one_reflection_at_a_time(seed(2), rows, columns)).max() < 1e-12


def test_the_triangular_factor_has_a_positive_diagonal() -> None:
    """Mezzadri's sign fix: the first row of F is the first Gaussian vector, normalised, with its own sign."""
    for number in range(20):
        x = NormalStream(seed(number), b"haar frame").standard_normal((1, 7))[0]
        assert np.allclose(HaarFrame(seed(number), 1, 7).matrix()[0], x / np.linalg.norm(x), atol=1e-14)


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_apply_and_unapply(rows: int, columns: int) -> None:
    frame = HaarFrame(seed(3), rows, columns)
    F = frame.matrix()
    rng = np.random.default_rng(3)
    short, wide = rng.standard_normal((4, rows)), rng.standard_normal((4, columns))
    kept = wide.copy()
    assert np.abs(frame.apply(short) - short @ F).max() < 1e-12
    assert np.abs(frame.unapply(wide) - wide @ F.T).max() < 1e-12
    assert np.abs(frame.unapply(frame.apply(short)) - short).max() < 1e-12
    assert np.array_equal(wide, kept)


@pytest.mark.parametrize("size", [1, 3, 64, 65, 150])
def test_rotate_is_the_matrix_in_place(size: int) -> None:
    M = np.random.default_rng(4).standard_normal((size, 9))
    A = HaarFrame(seed(4), size, size).matrix().T
    work = M.copy()
    out = haar_rotate(seed(4), work)
    assert out is work
    assert np.abs(out - A @ M).max() < 1e-12
    assert np.abs(out.T @ out - M.T @ M).max() < 1e-11


def test_wide_matrices_are_rotated_alike() -> None:
    """A formed once, or reflections one after the other: the same A."""
    work = np.random.default_rng(5).normal(size=(20, 2100))
    expected = HaarFrame(seed(6), 20, 20).rotate(work.copy())
    assert np.allclose(haar_rotate(seed(6), work), expected, atol=1e-12)


def test_shapes_that_cannot_be() -> None:
    for rows, columns in ((0, 3), (4, 3), (-1, 3)):
        with pytest.raises(ParameterError, match="rows"):
            HaarFrame(seed(0), rows, columns)
    with pytest.raises(ParameterError, match="rotation"):
        HaarFrame(seed(0), 2, 3).rotate(np.eye(2))
    frame = HaarFrame(seed(0), 2, 3)
    with pytest.raises(ValueError, match="2 columns"):
        frame.apply(np.ones((4, 3)))
    with pytest.raises(ValueError, match="3 columns"):
        frame.unapply(np.ones((4, 2)))


def sample(count: int, rows: int, columns: int) -> Matrix:
    return np.stack([HaarFrame(seed(10_000 + i), rows, columns).matrix() for i in range(count)])


def check_entries(frames: Matrix) -> None:
    """Each entry's square is Beta(1/2, (p-1)/2) and its sign fair: KS and binomial, set for 1e-7 each."""
    count, rows, p = frames.shape
    for i in range(rows):
        for j in range(p):
            entry = frames[:, i, j]
            assert stats.kstest(entry**2, stats.beta(0.5, (p - 1) / 2).cdf).pvalue > 1e-7
            assert stats.binomtest(int((entry > 0).sum()), count).pvalue > 1e-7


def check_traces(frames: Matrix) -> None:
    """Haar on O(4) (Diaconis and Shahshahani): E tr = 0, E tr^2 = 1, E tr^4 = 3, E tr(A^2) = 1, det fair; 1e-6 each."""
    trace = np.einsum("nii->n", frames)
    square = np.einsum("nij,nji->n", frames, frames)
    for values, mean in ((trace, 0.0), (trace**2, 1.0), (trace**3, 0.0), (trace**4, 3.0), (square, 1.0)):
        # The sample's own deviation stands for the true one: these are bounded and there are thousands of them.
        assert abs(values.mean() - mean) < 5.2 * values.std() / math.sqrt(values.size)
    assert stats.binomtest(int((np.linalg.det(frames) > 0).sum()), trace.size).pvalue > 1e-6


def test_law_of_entries_and_traces() -> None:
    check_entries(sample(2_000, 2, 3))
    check_traces(sample(3_000, 4, 4))


def test_law_across_panels() -> None:
    """An entry that the second panel made: rows 64.. of O(66). KS, set for 1e-7."""
    entries = np.array([HaarFrame(seed(50_000 + i), 66, 66).matrix()[65, [0, 64, 65]] for i in range(400)])
    for column in entries.T:
        assert stats.kstest(column**2, stats.beta(0.5, 32.5).cdf).pvalue > 1e-7
        assert stats.binomtest(int((column > 0).sum()), len(entries)).pvalue > 1e-7


def test_turning_a_frame_changes_nothing() -> None:
    """Invariance: a fixed direction's image is uniform on the sphere whichever direction it is (1e-7)."""
    direction = np.array([3.0, -1.0, 2.0, 0.5]) / np.linalg.norm([3.0, -1.0, 2.0, 0.5])
    frames = sample(2_000, 4, 4)
    for image in (np.einsum("nij,i->nj", frames, direction), np.einsum("nij,j->ni", frames, direction)):
        for column in image.T:
            assert stats.kstest(column**2, stats.beta(0.5, 1.5).cdf).pvalue > 1e-7


def test_a_product_of_two_masks_has_the_law_of_one() -> None:
    """Lemma 3.5 of the triple matrix-masking paper: A_1 A_2, whoever drew them, is Haar on O(4) again (1e-6 each)."""
    frames = sample(4_000, 4, 4)
    check_traces(frames[:2_000] @ frames[2_000:])


@pytest.mark.slow
def test_law_at_length() -> None:
    check_entries(sample(60_000, 3, 3))
    check_traces(sample(60_000, 4, 4))
