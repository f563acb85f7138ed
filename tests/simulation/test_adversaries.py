"""Seeds with a hostile party: honest rows are counted once, or reported as not counted, and no study is stuck."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimask_server.collector.batches import Batches
from trimask_server.collector.ledger import Ledger
from trimask_server.suites.rows import checking
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
    counts = _run(seed, tmp_path).counts
    if adversary_of(seed) == "Sybil fleet":
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
def test_a_plan_that_is_refused_for_ever_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the simulation found: a plan that a provider refuses for good was no try, so it was never given up."""
    next_attempt, bind = Ledger.next_attempt, Batches.bind
    binding: list[bool] = []

    async def marked(self: Batches, block: object) -> bool:
        binding.append(True)
        try:
            return await bind(self, block)  # type: ignore[arg-type]
        finally:
            binding.pop()

    async def uncounted(self: Ledger, block_id: bytes) -> int:
        return 0 if binding else await next_attempt(self, block_id)

    monkeypatch.setattr(Batches, "bind", marked)
    monkeypatch.setattr(Ledger, "next_attempt", uncounted)
    assert "not over" in run_seed(16, tmp_path, adversary="equivocating collector").error


@pytest.mark.slow
def test_a_plan_that_is_declined_for_ever_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same where a provider says of every plan that it is not the drawn one."""
    (tmp_path / "kept").mkdir()
    assert not run_seed(70, tmp_path / "kept", adversary="equivocating collector").error
    monkeypatch.setattr(Batches, "_declined_for_ever", lambda *_: False)
    (tmp_path / "broken").mkdir()
    assert "not over" in run_seed(70, tmp_path / "broken", adversary="equivocating collector").error


@pytest.mark.slow
def test_a_full_disk_costs_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the simulation found: a provider whose disk stayed full failed a check so often that it was given up."""
    (tmp_path / "kept").mkdir()
    assert not run_seed(69, tmp_path / "kept", adversary="poisoning devices").error
    monkeypatch.setattr(checking, "PASSING", frozenset())
    (tmp_path / "broken").mkdir()
    assert (
        "neither counted nor reported"
        in run_seed(69, tmp_path / "broken", adversary="poisoning devices").error
    )
