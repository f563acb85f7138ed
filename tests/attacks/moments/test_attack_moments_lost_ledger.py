"""A right provider restored without its ledger of deliveries: the same reports again, with fresh noise each time."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trimask_cli import owner
from trimask_client import Client
from trimask_lab import Lab
from trimask_moments import moments_people, open_moments
from trimask_rogue import RogueCollector, back_up, batch_name, refused_with, restore
from trimask_server.suites.moments.deliveries import Deliveries
from trimask_terminal.program import main

Rogue = Callable[..., Any]
SIGMA = 3.0
TIMES = 4


def disaster(collector: RogueCollector, folder: Path) -> None:
    """R2's machine is lost. Its keys come from the copy that was made once, its store from before the release. R1 is with
    the collector: it goes back too, and says that its ledger is the one it ran with.
    """
    for role in ("R1", "R2"):
        shutil.rmtree(collector.lab.folder / role / "moments", ignore_errors=True)
    restore(collector.lab, "R1", folder / "R1.backup")
    restore(collector.lab, "R2", folder / "R2.backup", ledger_kept=False)


def release_again(collector: RogueCollector, time: int) -> list[int]:
    """The same reports in a batch of another name."""
    batch = collector.add(f"batch {time}", collector.pending("R1"))
    return collector.opened(collector.release(collector.totals(1, [batch])))


def backed_up(rogue: Rogue, folder: Path) -> RogueCollector:
    collector, _ = rogue(sigma=SIGMA)
    for role in ("R1", "R2"):
        back_up(collector.lab, role, folder / f"{role}.backup")
    assert isinstance(collector, RogueCollector)
    return collector


def test_repro_a_restore_without_the_ledger_gives_no_fresh_noise(rogue: Rogue, tmp_path: Path) -> None:
    """A provider that was restored without the ledger it last ran with delivers nothing of what its store holds, neither
    the release it had delivered nor another (docs/theory/verified-moments.md#noise-once).
    """
    collector = backed_up(rogue, tmp_path)
    release_again(collector, 0)
    for time in (1, 2, 0):
        disaster(collector, tmp_path)
        with refused_with("ledger_lost"):
            release_again(collector, time)
    # Said later, it is no proof: a store that has been without its ledger once stays so.
    back_up(collector.lab, "R2", tmp_path / "lost.backup")
    restore(collector.lab, "R2", tmp_path / "lost.backup")
    with refused_with("ledger_lost"):
        collector.commit("R2", collector.totals(1, [batch_name("batch 0")]))


@pytest.mark.slow
def test_without_the_mark_every_restore_buys_fresh_noise(
    rogue: Rogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The average of such releases would be the totals."""

    async def kept(deliveries: Deliveries, study: Any, asked: bytes) -> None:
        pass

    monkeypatch.setattr(Deliveries, "_require_ledger", kept)
    collector = backed_up(rogue, tmp_path)
    found = [release_again(collector, 0)]
    for time in range(1, TIMES):
        disaster(collector, tmp_path)
        found.append(release_again(collector, time))
    assert len({tuple(totals) for totals in found}) == TIMES


# The operator is mistaken: what is put back with `--ledger-kept` is a copy


def mistaken(rogue: Rogue, folder: Path) -> tuple[RogueCollector, Any]:
    """R2 goes back to before release 2, with the ledger of that time, and its operator says that it is the live one.
    R1 and R3 are honest. What a second release of the same reports would be.
    """
    collector, _ = rogue(right=3, sigma=SIGMA)
    ids = collector.pending("R1")
    collector.release(collector.totals(1, [collector.add("first", ids[:6])]))
    ledger = collector.lab.folder / "R2" / "moments"
    shutil.copytree(ledger, folder / "moments")
    second = collector.add("second", ids[6:])
    back_up(collector.lab, "R2", folder / "R2.backup")
    collector.release(collector.totals(2, [second]))
    shutil.rmtree(ledger)
    shutil.copytree(folder / "moments", ledger)
    restore(collector.lab, "R2", folder / "R2.backup")
    return collector, collector.totals(3, [second])


def test_the_other_right_providers_know_what_a_ledger_lacks(rogue: Rogue, tmp_path: Path) -> None:
    """Deliveries are joint: each right provider has those of the others in its own ledger, and refuses a restored one
    whose ledger lacks one (docs/theory/verified-moments.md#noise-once). With the ledger back, everything goes on.
    """
    collector, again = mistaken(rogue, tmp_path)
    for _ in range(2):
        with refused_with("ledger_lost"):
            collector.commit("R2", again)
    assert collector.lab.query("R1", "SELECT 1 FROM audit WHERE kind = 'ledger_behind'")
    # The one it lacks may be asked for: it would send the same bytes.
    collector.commit("R2", collector.totals(2, [batch_name("second")]))


@pytest.mark.slow
def test_without_the_comparison_a_mistaken_provider_commits_to_a_second_release(
    rogue: Rogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def agreed(deliveries: Deliveries, study: Any, caller: str, delivered: Any, asked: bytes) -> None:
        pass

    monkeypatch.setattr(Deliveries, "compare", agreed)
    collector, again = mistaken(rogue, tmp_path)
    assert collector.commit("R2", again).accepted_count == 6


# The honest operator, whose ledger is lost for good


def test_after_a_true_disaster_the_study_ends_and_others_go_on(
    make_lab: Callable[[int], Lab], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Node log and doctor say what to do; the release is given up, the study closes, and a new one is published."""
    lab = make_lab(2)
    signed = open_moments(lab, sigma=SIGMA, release_rows=6)
    study, file = signed.study, tmp_path / "study.json"
    file.write_text(signed.without_seed().to_json())
    with Client(signed) as client:
        for person in moments_people(6):
            client.submit(person)
    lab.wait(
        study, lambda status: status.pooled_rows == 6
    )  # a batch that the backup lacks would be lost, not refused
    back_up(lab, "R2", tmp_path / "backup")
    capsys.readouterr()
    restore(lab, "R2", tmp_path / "backup", ledger_kept=False)
    assert "deliver nothing more" in capsys.readouterr().out
    owner.close_study(study, lab.owner)
    lab.wait(study, lambda status: "abandon STUDY.json release-1" in status.note)
    logged = [line for line in capsys.readouterr().err.splitlines() if "trimask.R2: refused" in line]
    assert "trimask study abandon STUDY.json release-N" in logged[0]
    main(["node", "doctor", "--config", str(lab.folder / "R2" / "node.toml"), "--json"])
    assert f"study {study.id.hex()[:12]} was restored without its ledger" in capsys.readouterr().out
    assert main(["study", "abandon", str(file), "release-1", "--owner", str(lab.owner), "--yes"]) == 0
    status = lab.wait(study, lambda status: status.state == "closed")
    assert (status.published_rows, sum(block.rows for block in status.abandoned_blocks)) == (0, 6)
    later = open_moments(lab, sigma=SIGMA, release_rows=6)
    with Client(later) as client:
        for person in moments_people(6):
            client.submit(person)
    assert lab.close(later.study).published_rows == 6
    main(["node", "doctor", "--config", str(lab.folder / "R2" / "node.toml"), "--json"])
    assert "without its ledger" not in capsys.readouterr().out
