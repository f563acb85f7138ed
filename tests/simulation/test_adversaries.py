"""Seeds with a hostile party: honest rows are counted once, or reported as not counted, and no study is stuck."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimask_server.right import batches
from trimask_simulation.adversaries import ADVERSARIES, Adversary
from trimask_simulation.world import Result, adversary_of, right_of, run_seed


def _run(seed: int, folder: Path) -> Result:
    folder.mkdir(exist_ok=True)
    result = run_seed(seed, folder, adversary=adversary_of(seed))
    assert not result.error, (
        f"seed {seed}: {result.error}\nreplay it with its trace: make simulate ADVERSARIES=1 SEED={seed}"
    )
    return result


# One of each kind whose seed lets it do harm; the first has four right providers, so that components have
# tags. A simulated study takes two seconds, so most of them are for `make test-all`.
@pytest.mark.parametrize(
    "seed", [6, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 2, 3, 5, 7, 16))]
)
def test_honest_rows_are_counted_once_or_reported(seed: int, tmp_path: Path) -> None:
    result = _run(seed, tmp_path)
    counts = result.counts
    if adversary_of(seed) == "choosing collector":
        assert result.acts["choosing collector"]
        assert counts["published"] == counts["complete"]
    elif adversary_of(seed) == "Sybil fleet":
        assert (
            counts["published"] == counts["complete"] > 42
        )  # theirs count too; nobody else's is lost or doubled
    else:
        assert counts["published"] < counts["complete"]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(20))
def test_in_many_seeds(chunk: int, tmp_path: Path) -> None:
    for seed in range(10 * chunk, 10 * chunk + 10):
        _run(seed, tmp_path / str(seed))


def test_every_kind_has_its_seeds_with_and_without_tags() -> None:
    kinds = {(adversary_of(seed), right_of(seed)) for seed in range(2 * len(ADVERSARIES))}
    assert kinds == {(kind, right) for kind in ADVERSARIES for right in (3, 4)}
    assert not Adversary("lying U", 1).people
    assert Adversary("Sybil fleet", 5).people


@pytest.mark.slow
def test_what_is_not_refused_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that ends intake on its own, where right providers take its word."""
    (tmp_path / "kept").mkdir()
    assert not run_seed(10, tmp_path / "kept", adversary="choosing collector").error
    monkeypatch.setattr(batches, "verify_close", lambda *_: None)
    (tmp_path / "broken").mkdir()
    assert (
        "what must be refused was not"
        in run_seed(10, tmp_path / "broken", adversary="choosing collector").error
    )
