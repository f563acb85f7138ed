"""What tag keys under a right mask show: to the first left provider nothing, to all who hold a key as much as p allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trimask_attacks import correlation
from trimask_core.basics.errors import ImpossibleStudy
from trimask_core.rows.collusion import Topology, default_unmasking, report
from trimask_core.rows.study import TAGS

SAFE = Topology(4, 2, default_unmasking(4, 2))
Simulate = Callable[..., Any]


def masked_keys(block: Any, k: int, vectors: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Z and Z B_k for one component."""
    view = block.views.right[k]
    keys = np.random.default_rng(seed).standard_normal((vectors, view.component.shape[1]))
    return keys, (keys @ view.mask.basis.T) @ view.mask.frame


def solved_mask(keys: np.ndarray, masked: np.ndarray) -> np.ndarray:
    """B_k restricted to the row space of X^k, as a matrix: the least one that takes Z to Z B_k."""
    return np.asarray(np.linalg.lstsq(keys, masked, rcond=None)[0])


def estimate(block: Any, vectors: int, seed: int) -> np.ndarray:
    """The answers, by R1 and R2, who hold the keys of the last component, with L1; R1 unmasks the third."""
    views = block.views
    keys, masked = masked_keys(block, 4, vectors, seed)
    seen = views.left[1].incoming[3] @ solved_mask(keys, masked).T
    others = np.sum([views.right[k].component for k in (1, 2, 3)], axis=0)
    if vectors < keys.shape[1]:  # then it is known along the keys alone, and so is what is subtracted
        others = others @ (np.linalg.pinv(keys) @ keys)
    return np.asarray((seen + others) @ views.device_frame.T)


def test_four_right_and_two_left_have_no_breaking_pair() -> None:
    found = report(SAFE)
    assert found.topology.tagged
    assert found.largest_safe == 2
    assert "found out" in found.altering
    assert "not found out" in report(Topology(3, 2, default_unmasking(3, 2))).altering


def test_both_holders_with_the_first_left_provider_see_rows_through_the_noise(simulate: Simulate) -> None:
    """Two keys a row fix X^4 along 2 n of p directions: answers under noise of about tau sqrt(p / 2n), as aligning from the
    right shows them. They are in the report already, as seen through the noise columns. Fixed seeds."""
    block = simulate(SAFE, 31)
    n, p = block.views.right[4].component.shape
    assert TAGS * n < p
    assert ("R1", "R2", "L1") in report(SAFE).through_noise
    assert correlation(estimate(block, TAGS * n, 1), block.answers) < 0.5


def test_as_many_keys_as_columns_would_give_the_mask_and_the_rows(simulate: Simulate) -> None:
    """Why a study with tags needs more columns than a block has keys."""
    block = simulate(SAFE, 32)
    p = block.views.right[4].component.shape[1]
    assert correlation(estimate(block, p, 2), block.answers) > 0.999


def test_a_study_with_so_few_columns_is_refused(make_study: Any) -> None:
    """In small blocks (3.5) asks for more than that; in blocks of 512 it does not."""
    large = {"block_rows": 512, "release_rows": 512}
    made = make_study(right=4, noise_columns=2100, **large).study.rows
    least = TAGS * made.max_block_rows + 1 - made.attributes
    with pytest.raises(ImpossibleStudy, match=f"at least {least} noise columns"):
        make_study(right=4, noise_columns=least - 1, **large)
    make_study(right=3, noise_columns=least - 1, **large)  # without tags it is allowed


def test_the_first_left_provider_sees_a_law_of_the_gram_matrix_alone() -> None:
    """Two components with one Gram matrix, X and X O: (X B, Z B) has the same moments for both. 4,000 draws of second and
    fourth moments of entries, and of products of both; the largest of 72 differences is beyond 5 deviations with
    probability 4e-5 (a fixed seed)."""
    rng = np.random.default_rng(5)
    n, p, draws = 2, 5, 4000
    first = rng.standard_normal((n, p)) * 10
    turn = np.linalg.qr(rng.standard_normal((p, p)))[0]
    moments = []
    for component in (first, first @ turn):
        seen = []
        for _ in range(draws):
            haar, upper = np.linalg.qr(rng.standard_normal((p, p)))
            haar = haar * np.sign(np.diag(upper))
            keys = np.rint(rng.standard_normal((n, p)) * 1e6) / 1e6
            x, z = component @ haar, keys @ haar
            cross = (x @ z.T).ravel()
            seen.append(np.concatenate([(x**2).ravel(), (z**4).ravel(), cross, cross**2, (x * z**2).ravel()]))
        moments.append(np.array(seen))
    spread = np.sqrt(moments[0].var(axis=0) / draws + moments[1].var(axis=0) / draws)
    assert np.abs((moments[0].mean(axis=0) - moments[1].mean(axis=0)) / spread).max() < 5
