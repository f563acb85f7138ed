"""Theorems 3.6 and 3.7 of the triple matrix-masking paper by construction, and Lemma 3.3 over every permutation."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import ortho_group

from trimask_core.basics.errors import ParameterError
from trimask_theory.papers import triple_masking as preimage

RNG = np.random.default_rng(11)
N, P1, P2 = 5, 2, 9
ANSWERS = RNG.integers(0, 2, (N, P1)).astype(float)
NOISE = 20 * RNG.standard_normal((N, P2))
LEFT = ortho_group(N, seed=1).rvs()
RIGHT = ortho_group(P1 + P2, seed=2).rvs()
SEEN = np.hstack([ANSWERS, NOISE]) @ RIGHT


@pytest.mark.parametrize("seed", range(5))
def test_theorem_3_6_every_turned_data_set_has_an_invertible_mask(seed: int) -> None:
    turn = ortho_group(N, seed=seed).rvs()
    mask = np.random.default_rng(seed).standard_normal((P1 + P2, P1 + P2))
    found = preimage.with_invertible_mask(ANSWERS, NOISE, mask, turn)
    assert np.hstack([found.answers, found.noise]) @ found.right_mask == pytest.approx(
        np.hstack([ANSWERS, NOISE]) @ mask, abs=1e-8
    )
    assert np.linalg.matrix_rank(found.right_mask) == P1 + P2
    assert (LEFT @ turn.T) @ found.answers == pytest.approx(LEFT @ ANSWERS, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_theorem_3_7_every_turned_data_set_has_an_orthogonal_mask(seed: int) -> None:
    turn = ortho_group(N, seed=seed).rvs()
    found = preimage.with_orthogonal_mask(ANSWERS, NOISE, RIGHT, turn)
    assert found.right_mask @ found.right_mask.T == pytest.approx(np.eye(P1 + P2), abs=1e-10)
    assert np.hstack([found.answers, found.noise]) @ found.right_mask == pytest.approx(SEEN, abs=1e-8)
    assert found.answers == pytest.approx(turn @ ANSWERS)


def test_lemma_3_3_all_120_permutations_of_binary_answers_stay_possible() -> None:
    for order in permutations(range(N)):
        turn = np.eye(N)[list(order)]
        found = preimage.with_orthogonal_mask(ANSWERS, NOISE, RIGHT, turn)
        assert set(found.answers.ravel()) <= {0.0, 1.0}
        assert np.hstack([found.answers, found.noise]) @ found.right_mask == pytest.approx(SEEN, abs=1e-8)


def test_without_condition_3_5_or_with_too_few_columns_it_is_refused() -> None:
    turn = ortho_group(N, seed=1).rvs()
    with pytest.raises(ParameterError, match=r"condition \(3.5\)"):
        preimage.with_orthogonal_mask(ANSWERS, 1e-3 * NOISE, RIGHT, turn)
    few = ortho_group(P1 + 2, seed=3).rvs()
    with pytest.raises(ParameterError, match="rank n"):
        preimage.with_invertible_mask(ANSWERS, NOISE[:, :2], few, turn)
    with pytest.raises(ParameterError, match="turn"):
        preimage.with_orthogonal_mask(ANSWERS, NOISE, RIGHT, 2 * turn)
    # Small noise rules data sets out: for some P there is then nothing left to be noise.
    small = 1e-3 * NOISE
    seen = ANSWERS @ ANSWERS.T + small @ small.T
    turned = turn @ ANSWERS
    assert np.linalg.eigvalsh(seen - turned @ turned.T)[0] < 0
