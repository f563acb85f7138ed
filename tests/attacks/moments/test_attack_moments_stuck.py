"""A right provider that would hold a study up for ever: what it spoils is given up by name, and the study ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trimask_cli import owner
from trimask_client import Client
from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_lab import Lab
from trimask_moments import moments_people, open_moments
from trimask_server.suites.moments.batch_check import Rounds
from trimask_server.suites.moments.deliveries import Deliveries
from trimask_terminal.program import main

TRIES = 3


@pytest.fixture(scope="module")
def stuck_lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Two right providers, and a collector that gives a batch up after three tries."""
    lab = Lab(tmp_path_factory.mktemp("stuck"), right=2, left=0)
    file = lab.folder / "collector" / "node.toml"
    file.write_text(f"max_attempts = {TRIES}\n" + file.read_text())
    with lab.in_thread(request):
        yield lab


def send(lab: Lab, count: int, **settings: Any) -> Any:
    signed = open_moments(lab, **settings)
    with Client(signed) as client:
        for person in moments_people(count):
            client.submit(person)
    return signed


def test_a_provider_that_sends_unreadable_forms_costs_its_batch_alone(
    stuck_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the batch was checked again for ever, and the study never closed."""
    honest, first = Rounds.sealed_forms, list[bytes]()

    async def unreadable(rounds: Rounds, study: Study, attempt: Any, caller: str, ids: bytes) -> bytes:
        if rounds._node.config.name == "R2":
            first[:] = first or [attempt.block_id]
            if attempt.block_id == first[0]:
                return b"not a form"
        return await honest(rounds, study, attempt, caller, ids)

    monkeypatch.setattr(Rounds, "sealed_forms", unreadable)
    signed = send(stuck_lab, 24, release_rows=12)
    status = stuck_lab.close(signed.study)
    (block,) = status.abandoned_blocks
    assert bytes.fromhex(block.id) == first[0]
    assert f"it failed {TRIES} times" in block.why
    assert status.published_rows == 24 - block.rows


def test_the_owner_gives_up_a_release_that_a_provider_refuses(
    stuck_lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, the study waited for ever for a provider whose ledger is lost for good."""
    honest = Deliveries.commit

    async def lost(deliveries: Any, study: Any, totals: Any) -> Any:
        if deliveries._node.config.name == "R2":
            raise Refused(Reason.LEDGER_LOST, "the folder with the ledger is gone")
        return await honest(deliveries, study, totals)

    monkeypatch.setattr(Deliveries, "commit", lost)
    signed = send(stuck_lab, 12, release_rows=12)
    study, file = signed.study, tmp_path / "study.json"
    file.write_text(signed.without_seed().to_json())
    owner.close_study(study, stuck_lab.owner)
    waiting = stuck_lab.wait(study, lambda status: "abandon STUDY.json release-1" in status.note)
    assert waiting.state == "closing"
    command = ["study", "abandon", str(file), "release-1", "--owner", str(stuck_lab.owner), "--yes"]
    assert main(command) == 0
    assert "Release 1 is given up: its 12 rows" in capsys.readouterr().out
    status = stuck_lab.wait(study, lambda status: status.state == "closed")
    assert (status.published_rows, sum(block.rows for block in status.abandoned_blocks)) == (0, 12)
    assert "the study's owner gave release 1 up" in status.abandoned_blocks[0].why
    assert stuck_lab.query("collector", "SELECT 1 FROM audit WHERE kind = 'release_given_up'")
    assert main(command) != 0  # it is given up already
    assert "no release 1 of this study waits" in capsys.readouterr().err


def test_repro_a_healthy_release_is_not_given_up_by_mistake(
    stuck_lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, `--yes` erased it without a word. The collector decides, whatever the owner's program does."""
    signed = send(stuck_lab, 12, release_rows=12, several=True)
    study, file = signed.study, tmp_path / "study.json"
    file.write_text(signed.without_seed().to_json())
    stuck_lab.wait(study, lambda status: status.pooled_rows == 12)
    command = ["study", "abandon", str(file), "release-1", "--owner", str(stuck_lab.owner), "--yes"]
    assert main(command) == 1
    said = capsys.readouterr().out
    assert "Release 1 with its 12 rows is complete and waits to be published." in said
    assert "Nothing was done. Nothing is wrong with it" in said
    assert main([*command, "--json"]) == 1
    assert "is complete" in capsys.readouterr().out
    with pytest.raises(Refused) as refused:
        owner.abandon_block(study, 1, stuck_lab.owner)
    assert refused.value.reason is Reason.NOT_YET
    assert not stuck_lab.wait(study, lambda status: status.pooled_rows == 12).abandoned_blocks
    assert main([*command, "--healthy"]) == 0
    status = stuck_lab.close(study)
    assert sum(block.rows for block in status.abandoned_blocks) == 12
    assert "though nothing had failed" in status.abandoned_blocks[0].why
