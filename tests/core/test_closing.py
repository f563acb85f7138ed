"""What closing would do, by counts; `tests/end_to_end/test_closing.py` compares it with what a collector does."""

from __future__ import annotations

from typing import Any

import pytest

from trimask_core.study.progress import closing_of


# block_rows = 16, release_rows = 32
@pytest.mark.parametrize(
    ("pending", "masking", "pooled", "published", "erased", "missing"),
    [
        (0, 0, 0, 0, 0, 0),
        (31, 0, 0, 0, 31, 1),
        (32, 0, 0, 32, 0, 0),
        (15, 16, 16, 32, 15, 0),  # fifteen make no block
        (16, 16, 16, 48, 0, 0),
        (15, 0, 31, 0, 46, 1),  # one is wanted for the release, but sixteen for a block
        (0, 16, 0, 0, 16, 16),
        (20, 0, 11, 0, 31, 1),
    ],
)
def test_rows(
    made_study: Any, pending: int, masking: int, pooled: int, published: int, erased: int, missing: int
) -> None:
    found = closing_of(made_study.study, pending=pending, masking=masking, pooled=pooled)
    assert (found.published, found.erased, found.missing) == (published, erased, missing)
    if missing:  # so many more are enough indeed, and one fewer is not
        assert closing_of(
            made_study.study, pending=pending + missing, masking=masking, pooled=pooled
        ).published
        assert not closing_of(
            made_study.study, pending=pending + missing - 1, masking=masking, pooled=pooled
        ).published
    assert ("erased for ever" in " ".join(found.sentences)) == bool(erased)


def test_moments_publish_any_number_with_noise(make_study: Any) -> None:
    noisy = make_study(suite="moments", right=2, sigma=30.0).study
    few = closing_of(noisy, pending=3, masking=0, pooled=0)
    assert (few.published, few.erased) == (3, 0)
    assert "less precise" in few.why
    assert closing_of(noisy, pending=0, masking=0, pooled=40).why == ""


def test_moments_without_noise_open_no_small_sum(make_study: Any) -> None:
    exact = make_study(suite="moments", right=2, sigma=0.0).study
    few = closing_of(exact, pending=3, masking=0, pooled=20)
    assert (few.published, few.erased, few.missing) == (0, 23, 9)
    assert closing_of(exact, pending=12, masking=0, pooled=20).published == 32
