"""A left provider that spoils every try at one block: the others go on, closing ends, and the block is given up by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from trimask_cli import owner
from trimask_client import Client
from trimask_core.study.definition import Study
from trimask_lab import Lab, some_people
from trimask_rogue import refused_with
from trimask_server.suites.rows.provider_masking import LeftMaskingServicer
from trimask_terminal.program import main

StartLab = Callable[[int], Lab]


@pytest.fixture
def start_lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StartLab]:
    """Two right providers, a left one, and a collector that gives a block up after so many tries."""
    with ExitStack() as stack:

        def start(max_attempts: int) -> Lab:
            lab = Lab(tmp_path / "lab", right=2, left=1)
            file = lab.folder / "collector" / "node.toml"
            file.write_text(f"max_attempts = {max_attempts}\n" + file.read_text())
            stack.enter_context(lab.in_thread(request))
            return lab

        yield start


def spoil_the_first_block(patch: pytest.MonkeyPatch) -> list[bytes]:
    """L_1 doubles a row of the first block it meets, in every try; that block's id, once there is one."""
    honest, first = LeftMaskingServicer._mask, list[bytes]()

    async def mask(servicer: Any, study: Study, j: int, attempt: Any, incoming: Any) -> None:
        first[:] = first or [attempt.block_id]
        if first == [attempt.block_id]:
            incoming.stacked[0] *= 2
        await honest(servicer, study, j, attempt, incoming)

    patch.setattr(LeftMaskingServicer, "_mask", mask)
    return first


def test_other_blocks_go_on_and_the_owner_gives_one_up(
    start_lab: StartLab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, the driver took up the first block for ever, and nothing was pooled after it."""
    spoiled = spoil_the_first_block(monkeypatch)
    lab = start_lab(10_000)
    signed = lab.open_study(release_rows=24)
    study, file = signed.study, lab.folder / "study.json"
    file.write_text(signed.to_json())
    with Client(signed) as client:
        for person in some_people(96, seed=6):
            client.submit(person)
    status = lab.wait(study, lambda status: status.pooled_blocks >= 2 and status.failed_attempts >= 2)
    assert status.masking_rows == 24
    block = spoiled[0].hex()
    command = ["study", "abandon", str(file), block[:12], "--owner", str(lab.owner)]
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert main(command) == 1
    assert f"Block {block[:12]} with its 24 rows is in attempt " in capsys.readouterr().out
    assert main([*command[:3], "00000000", *command[4:], "--yes"]) == 5  # there is no such block
    capsys.readouterr()
    assert main([*command, "--yes", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["block"], said["rows"]) == (block, 24)
    status = lab.close(study)
    assert [(lost.id, lost.rows) for lost in status.abandoned_blocks] == [(block, 24)]
    assert "owner" in status.abandoned_blocks[0].why
    assert sum(dataset.rows for dataset in lab.datasets(study)) == 72
    assert main(["study", "status", str(file)]) == 0
    assert f"block {block[:12]} with 24 rows" in " ".join(capsys.readouterr().out.split())
    (kinds,) = {
        tuple(
            row[0]
            for row in lab.query("collector", "SELECT kind FROM audit WHERE kind LIKE 'block_given_up%'")
        )
    }
    assert kinds == ("block_given_up",)


def test_repro_a_block_under_way_is_not_given_up_by_mistake(
    start_lab: StartLab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = list[bytes]()

    async def never_ends(_: Any, __: Study, ___: int, attempt: Any, ____: Any) -> None:
        started.append(attempt.block_id)
        await asyncio.Event().wait()

    monkeypatch.setattr(LeftMaskingServicer, "_mask", never_ends)
    lab = start_lab(10_000)
    signed = lab.open_study(release_rows=24)
    file = lab.folder / "study.json"
    file.write_text(signed.to_json())
    with Client(signed) as client:
        for person in some_people(48, seed=6):
            client.submit(person)
    lab.until(lambda: started)
    command = ["study", "abandon", str(file), started[0].hex()[:12], "--owner", str(lab.owner), "--yes"]
    assert main(command) == 1
    assert "none has failed: attempt 1 is under way" in capsys.readouterr().out
    with refused_with("not_yet"):
        owner.abandon_block(signed.study, started[0], lab.owner)
    assert main([*command, "--healthy"]) == 0
    status = lab.wait(signed.study, lambda status: bool(status.abandoned_blocks))
    assert "though nothing had failed" in status.abandoned_blocks[0].why


def test_intake_ends_and_closing_too_whatever_a_block_does(
    start_lab: StartLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a study with such a block took submissions in after it was closed, and closing never ended."""
    spoiled = spoil_the_first_block(monkeypatch)
    lab = start_lab(4)
    signed = lab.open_study(release_rows=24)
    study = signed.study
    with Client(signed) as client:
        for person in some_people(30, seed=7):
            client.submit(person)
        late = client.prepare({"x": 1.0, "y": 1.0})
        owner.close_study(study, lab.owner)
        lab.wait(study, lambda status: status.failed_attempts > 0)
        with refused_with("study_closed"):
            client.send(late)
    status = lab.wait(study, lambda status: status.state == "closed")
    ((lost,),) = ([*status.abandoned_blocks],)
    assert (lost.id, lost.rows) == (spoiled[0].hex(), 30)
    assert "it failed 4 times, last: gram_changed" in lost.why
    assert lab.datasets(study) == []
    for role in ("R1", "R2"):
        assert lab.query(role, "SELECT count(*) FROM submissions WHERE payload IS NOT NULL") == [(0,)]
