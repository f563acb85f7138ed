"""A bounded share of the seeds; `make simulate SEEDS=...` runs as many as one likes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from trimask_simulation.faults import KINDS
from trimask_simulation.moments_people import exact_totals, people_in
from trimask_simulation.people import PEOPLE, answers_of, make_study, multiplicities
from trimask_simulation.world import Result, right_of, run_seed, suite_of, withdrawing_of

HERE = Path(__file__).parent
_CHUNK = 6


def _run(seed: int, folder: Path) -> Result:
    folder.mkdir()
    result = run_seed(seed, folder)
    assert not result.error, (
        f"seed {seed}: {result.error}\nreplay it with its trace: make simulate SEED={seed}"
    )
    return result


def _run_chunk(chunk: int, folder: Path) -> None:
    faults: Counter[str] = Counter()
    for seed in range(chunk * _CHUNK, (chunk + 1) * _CHUNK):
        result = _run(seed, folder / str(seed))
        faults += result.faults
        refused = result.counts.get("refused", 0)  # false reports, of a study of the moments suite
        if not withdrawing_of(seed):
            assert result.counts["published"] in (0, result.counts["complete"] - refused)
        assert result.counts["checks"] > 100
    # Not everything in every chunk, but a simulation in which little goes wrong shows little.
    assert len(set(faults) & set(KINDS)) >= 9, faults


@pytest.mark.parametrize("chunk", range(1))
def test_every_accepted_row_once(chunk: int, tmp_path: Path) -> None:
    _run_chunk(chunk, tmp_path)


def _run_workers(seeds: range, folder: Path) -> Counter[str]:
    faults: Counter[str] = Counter()
    for seed in seeds:
        (folder / str(seed)).mkdir()
        result = run_seed(seed, folder / str(seed), workers=2)
        assert not result.error, f"{result.error}\nreplay it: make simulate WORKERS=2 SEED={seed}"
        faults += result.faults
    return faults


def test_two_workers_of_every_node_on_one_store(tmp_path: Path) -> None:
    """One seed of each suite, in which workers are suspended and connections to the store lost at a commit."""
    faults = _run_workers(range(2, 4), tmp_path)
    assert faults["worker suspended"]
    assert faults["database connection lost"]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(20))
def test_two_workers_of_every_node_in_many_seeds(chunk: int, tmp_path: Path) -> None:
    _run_workers(range(10 * chunk, 10 * chunk + 10), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(20))
def test_what_is_announced_counted_and_published_agrees(chunk: int, tmp_path: Path) -> None:
    """People withdraw until the end. Some studies stay open, because what was announced is no longer there."""
    counts: Counter[str] = Counter()
    for seed in range(10 * chunk, 10 * chunk + 10):
        (tmp_path / str(seed)).mkdir()
        result = run_seed(seed, tmp_path / str(seed), withdrawing=True)
        assert not result.error, f"{result.error}\nreplay it: make simulate WITHDRAWALS=1 SEED={seed}"
        counts += Counter(result.counts)
    assert counts["withdrawn"]
    assert counts["closed: as announced"]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(1, 34))
def test_every_accepted_row_once_in_many_seeds(chunk: int, tmp_path: Path) -> None:
    _run_chunk(chunk, tmp_path)


def test_a_seed_replays_bit_for_bit_and_another_does_not(tmp_path: Path) -> None:
    """In this process and in another, whose sets are ordered differently: people withdraw. The other seed has tags."""
    seed, other = 4, 8
    assert (withdrawing_of(seed), right_of(other)) == (True, 4)
    here = _run(seed, tmp_path / "one")
    program = (
        "import sys, pytest; from pathlib import Path; from trimask_simulation.world import run_seed;"
        f"result = run_seed({seed}, Path(sys.argv[1])); print(result.digest, sum(result.faults.values()))"
    )
    (tmp_path / "two").mkdir()
    path = os.pathsep.join([str(HERE), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "two")],
        env=os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "99"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [here.digest, str(sum(here.faults.values()))]
    assert sum(here.faults.values()) > 0
    assert here.counts["withdrawn"]
    assert _run(other, tmp_path / "three").digest != here.digest


def test_a_failing_seed_says_how_to_replay_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from trimask_simulation import __main__ as program

    monkeypatch.setattr("trimask_server.suites.rows.suite.fold", _doubling)
    monkeypatch.setattr(sys, "argv", ["simulate", "--seeds", "1", "--first", "0"])
    assert program.main() == 1
    said = capsys.readouterr().out
    assert "make simulate SEED=0" in said
    assert "2 times, its blocks 1 times" in said


def _doubling(factor: np.ndarray | None, block: np.ndarray) -> np.ndarray:
    from trimask_server.suites.rows.math import fold

    once = fold(factor, block)
    return fold(once, block)


def test_people_can_be_told_from_second_moments() -> None:
    study = make_study()[0].study
    rows = np.array([study.schema.encode(answers_of(person)) for person in range(PEOPLE)])
    often = [person % 3 for person in range(PEOPLE)]
    repeated = np.repeat(rows, often, axis=0)
    assert multiplicities(repeated.T @ repeated) == often
    with pytest.raises(AssertionError, match=r"not of these people|digits differ"):
        multiplicities(0.9 * repeated.T @ repeated)


def test_people_can_be_told_from_totals() -> None:
    often = [person % 3 for person in range(PEOPLE)]
    first, products = exact_totals([person for person in range(PEOPLE) for _ in range(often[person])])
    assert people_in(first, products) == often
    with pytest.raises(AssertionError, match=r"not of these people|more rows"):
        people_in([value + 1 for value in first], products)


def test_every_second_seed_is_of_the_moments_suite() -> None:
    assert [suite_of(seed) for seed in range(4)] == ["rows", "moments", "rows", "moments"]
