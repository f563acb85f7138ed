"""The researcher's benchmark on a small dataset: a real collector, a pull killed in the middle and resumed, a right fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.published import publishing
from bench.researcher import run_child

pytestmark = pytest.mark.slow  # of figures for a page, not of the product: `make test-all`


def test_a_killed_pull_is_resumed_and_the_fit_is_right(tmp_path: Path) -> None:
    with publishing((30_000,)) as (published,):  # three pieces
        run_child("cut", published, tmp_path, killed=True)
        (part,) = tmp_path.glob("datasets/*/*.part")
        here = part.stat().st_size
        assert published.file_bytes // 2 <= here < published.file_bytes
        resumed = run_child("pull", published, tmp_path)
        assert resumed["fetched"] == published.file_bytes - here
        assert not part.exists()
    fit = run_child("fit", published, tmp_path)  # the collector is gone: the cache is enough
    assert fit["worst_z"] < 6  # of 19 coefficients: above it with probability 4e-8
    assert 0 < fit["peak_mb"] < 1000
