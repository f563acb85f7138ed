"""Each rule of the collusion report as linear algebra, alone: what it must recover, and what it must not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from trimask_attacks import (
    align_left_mask,
    align_right_mask,
    alignment_correlation,
    beyond_chance,
    binary_columns,
    correlation,
    left_mask_from_triangular_basis,
    solve_left_mask,
)
from trimask_core.basics.errors import ParameterError
from trimask_core.rows.collusion import Topology

RING = Topology(4, 3, ("R2", "R3", "R4", "R1"))
Simulate = Callable[..., Any]


@pytest.fixture(scope="module")
def block(simulate: Simulate) -> Any:
    return simulate(RING, 11)


def left_product(block: Any, low: int, high: int) -> np.ndarray:
    product = np.eye(block.answers.shape[0])
    for j in range(low + 1, high + 1):
        product = block.views.left[j].mask @ product
    return product


# Linear solves


def test_component_before_and_after_gives_the_left_mask(block: Any) -> None:
    """Section 3.5 as published: R_k knows X^k and is sent A X^k back."""
    for k in (1, 4):
        found = solve_left_mask(block.views.right[k].component, block.views.unmasking[k].unmasked)
        np.testing.assert_allclose(found, left_product(block, 0, 3), atol=1e-13)


def test_left_mask_solve_needs_as_many_columns_as_rows() -> None:
    with pytest.raises(ParameterError):
        solve_left_mask(np.ones((3, 2)), np.ones((3, 2)))


@pytest.mark.parametrize("j", [1, 2, 3])
def test_known_component_at_a_left_provider_gives_the_prefix(block: Any, j: int) -> None:
    """R_k tells L_j what X^k B_k was; L_j saw A_(j-1)..A_1 X^k B_k."""
    own = block.views.right[2]
    found = solve_left_mask(own.mask.apply(own.component), block.views.left[j].incoming[1])
    np.testing.assert_allclose(found, left_product(block, 0, j - 1), atol=1e-13)


def test_first_and_last_left_provider_skip_the_one_between(block: Any) -> None:
    found = solve_left_mask(block.views.left[1].incoming[0], block.views.left[3].outgoing[0])
    np.testing.assert_allclose(found, left_product(block, 0, 3), atol=1e-13)


def test_rows_from_the_left_mask_and_the_total(block: Any) -> None:
    rows = left_product(block, 0, 3).T @ block.views.collector @ block.views.device_frame.T
    np.testing.assert_allclose(rows, block.answers, atol=1e-6)


def test_rows_from_all_components(block: Any) -> None:
    total = sum(view.component for view in block.views.right.values())
    np.testing.assert_allclose(total @ block.views.device_frame.T, block.answers, atol=1e-6)


def test_masked_component_and_its_mask_give_the_component(block: Any) -> None:
    own = block.views.right[3]
    found = block.views.unmasking[3].mask.remove(block.views.left[1].incoming[2])
    np.testing.assert_allclose(found, own.component, atol=1e-14 * np.abs(own.component).max())


# The basis an unmasking node is given


@pytest.mark.parametrize("rotated", [False, True])
def test_triangular_basis_would_give_the_left_mask(simulate: Simulate, rotated: bool) -> None:
    """With Q straight from a thin LQ, U_k alone reads A off A L; with a random basis of the same space, nothing.

    In the second case |found^T A| is that of independent Haar matrices of size 64: entries have standard deviation
    1/8 and the diagonal's mean absolute value is 0.1 with standard deviation 0.0094, so that 0.2 is beyond it by ten.
    """
    block = simulate(RING, 12, rotated_basis=rotated)
    view = block.views.unmasking[1]
    found = left_mask_from_triangular_basis(view.mask, view.returned)
    overlap = np.abs(np.diag(found.T @ left_product(block, 0, 3))).mean()
    assert overlap < 0.2 if rotated else overlap > 1 - 1e-9


# Alignment


def sums(block: Any, known: list[int], masked: list[int]) -> tuple[np.ndarray, np.ndarray]:
    start = sum(block.views.right[k].component for k in known)
    end = sum(block.views.unmasking[k].unmasked for k in masked)
    return start, end


def test_complementary_sums_estimate_the_answers(simulate: Simulate) -> None:
    """K and V together everything: correlation 0.4-0.5 at n = 64, tau = 1.7 R, p2 = 4 n.

    One block's correlation has standard deviation 0.05; the mean of 8 leaves (0.38, 0.55) with probability 1e-4,
    and one block falls below 4.5 standard deviations of chance (its mean is 8, its deviation 1) with 2e-3 in 8.
    """
    found, chance = [], []
    for seed in range(8):
        block = simulate(RING, 100 + seed)
        start, end = sums(block, [1, 3], [2, 4])
        mask = align_left_mask(start, -end)
        estimate = (start + mask.T @ end) @ block.views.device_frame.T
        found.append(correlation(estimate, block.answers))
        chance.append(beyond_chance(estimate, block.answers))
    assert 0.38 < np.mean(found) < 0.55
    assert min(chance) > 4.5
    # Half the answers are uniform on [-1, 1] and half are -1 or 1.
    rows, columns = start.shape
    expected = np.average(
        [alignment_correlation(rows, columns, block.tau, spread) for spread in (3**-0.5, 1.0)], weights=[3, 2]
    )
    assert np.mean(found) == pytest.approx(expected, abs=0.07)


def test_stronger_noise_columns_blur_the_alignment(simulate: Simulate) -> None:
    """Means of 4 blocks, apart by 0.3 with standard deviation 0.035: false failure below 1e-9."""

    def mean_correlation(tau_over_norm: float) -> float:
        found = []
        for seed in range(4):
            block = simulate(RING, 200 + seed, tau_over_norm=tau_over_norm)
            start, end = sums(block, [1, 3], [2, 4])
            estimate = (start + align_left_mask(start, -end).T @ end) @ block.views.device_frame.T
            found.append(correlation(estimate, block.answers))
        return float(np.mean(found))

    assert mean_correlation(1.0) > mean_correlation(4.0) + 0.1


def test_known_total_makes_the_alignment_exact(block: Any) -> None:
    start, end = sums(block, [1, 3], [2, 4])
    found = solve_left_mask(start, block.views.collector - end)
    np.testing.assert_allclose(found, left_product(block, 0, 3), atol=1e-12)


def test_last_component_is_correlated_with_every_other(block: Any) -> None:
    """X^1 and A X^4 alone estimate A, for X^4 is minus the sum of the rest; X^1 and A X^2 do not.

    Trace of a Haar matrix: standard deviation 1, so an overlap of 0.1 n = 6.4 has probability 2e-10.
    """
    n = block.answers.shape[0]
    truth = left_product(block, 0, 3)

    def overlap(known: int, masked: int) -> float:
        start, end = sums(block, [known], [masked])
        return float((align_left_mask(start, -end) * truth).sum() / n)

    assert overlap(1, 4) > 0.7
    assert overlap(4, 2) > 0.7
    assert abs(overlap(1, 2)) < 0.1
    assert abs(overlap(3, 1)) < 0.1


def test_alignment_from_the_right_shows_answers_only_through_the_noise_columns(simulate: Simulate) -> None:
    """All components but one, and that one masked. Not nothing: over many blocks a correlation of 0.05 shows.

    One block's correlation has mean 0.05 and standard deviation 0.07 at n = 32, so the mean of 80 is outside
    (0.01, 0.10) with probability 1e-6. A single block at n = 64 shows nothing.
    """
    found = []
    for seed in range(80):
        block = simulate(RING, 300 + seed, people=32)
        known = sum(block.views.right[k].component for k in (1, 3, 4))
        masked = block.views.left[1].incoming[1]
        estimate = (known + align_right_mask(masked, -known).remove(masked)) @ block.views.device_frame.T
        found.append(correlation(estimate, block.answers))
    assert 0.01 < np.mean(found) < 0.10


# Appendix A: linear relations when p < n


def masked_binary(rng: np.random.Generator, people: int, noise_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """One yes/no answer, noise columns, a Haar right mask."""
    answer = rng.integers(0, 2, people)
    answer[:2] = 0, 1
    p = 1 + noise_columns
    mask = np.linalg.qr(rng.standard_normal((p, p)))[0]
    return answer, np.column_stack([answer, 5 * rng.standard_normal((people, noise_columns))]) @ mask


def test_appendix_a_example_reveals_the_answer() -> None:
    """The paper's own case: three people, one noise column, the first answered yes."""
    angle = 0.7
    mask = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    X = np.array([[1.0, 0.8], [0.0, -1.3], [0.0, 2.1]])
    (found,) = binary_columns(X @ mask)
    np.testing.assert_array_equal(found, [1, 0, 0])


@pytest.mark.parametrize(("people", "noise_columns"), [(12, 5), (20, 10), (14, 12)])
def test_linear_relations_reveal_binary_answers_when_p_is_below_n(people: int, noise_columns: int) -> None:
    """A wrong column fits 1e-6 in each of n - p relations by accident: 2^p 1e-6^(n - p), at most 8e-3 (14, 12)."""
    answer, masked = masked_binary(np.random.default_rng(people), people, noise_columns)
    (found,) = binary_columns(masked)
    np.testing.assert_array_equal(found, answer)


@pytest.mark.parametrize(("people", "noise_columns"), [(8, 7), (8, 32)])
def test_linear_relations_say_nothing_when_p_is_at_least_n(people: int, noise_columns: int) -> None:
    """A valid study: every one of the 2^n columns lies in the column space, the truth as well as any other."""
    answer, masked = masked_binary(np.random.default_rng(1), people, noise_columns)
    assert binary_columns(masked) == []
    projection = masked @ np.linalg.pinv(masked)
    for column in (answer, 1 - answer, np.roll(answer, 1)):
        np.testing.assert_allclose(projection @ column, column, atol=1e-9)


def test_blocks_that_share_the_device_mask_fall_once_they_are_more_than_p_people() -> None:
    """Two valid blocks of 8 people, p = 10: alone neither says anything, pooled by all right providers both fall."""
    answer, masked = masked_binary(np.random.default_rng(2), 16, 9)
    blocks = (masked[:8], masked[8:])
    assert all(binary_columns(part) == [] for part in blocks)
    (found,) = binary_columns(np.vstack(blocks))
    np.testing.assert_array_equal(found, answer)


def test_linear_relations_refuse_what_cannot_be_enumerated() -> None:
    with pytest.raises(ParameterError):
        binary_columns(np.random.default_rng(3).standard_normal((40, 30)))


# The yardstick


def test_chance_is_measured_rightly() -> None:
    """Estimates that know nothing, with columns as correlated as can be: z has mean 0 and standard deviation 1.

    400 draws: the standard deviation's own is 0.035, the mean's 0.05; 5 of them each, false failure 1e-6.
    """
    rng = np.random.default_rng(4)
    z = []
    for _ in range(400):
        answers = rng.standard_normal((40, 1)) + 0.3 * rng.standard_normal((40, 5))
        z.append(beyond_chance(rng.standard_normal((40, 1)) + 0.2 * rng.standard_normal((40, 5)), answers))
    assert abs(np.mean(z)) < 0.25
    assert 0.82 < np.std(z) < 1.18


def test_correlation_ignores_columns_that_do_not_vary() -> None:
    answers = np.column_stack([np.ones(5), np.arange(5.0)])
    noisy_ones = answers + np.outer(np.arange(5) % 2, [1e-8, 0])
    assert correlation(noisy_ones, answers) == pytest.approx(1)
    steps = [correlation(answers * [1, s], answers) for s in (1.0, 3.0)]
    assert all(a == pytest.approx(b) for a, b in pairwise(steps))
