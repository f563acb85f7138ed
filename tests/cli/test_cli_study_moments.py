"""`trimask study` for the moments suite without a network: from a definition to a study every party signed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from trimask.data.connection import StudyStatus
from trimask_cli.status_watch import view
from trimask_cli.study_file import bundled_definition, read_signed
from trimask_core.moments.report import MomentsSecret
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import upload_bytes_of
from trimask_server.local.keys import make_keys, node_places
from trimask_terminal.program import main
from trimask_theory.planning.study_definition import load_definition

Run = Callable[..., Any]  # the `trimask` fixture: arguments to status, out and err
ROLES = ["R1", "R2", "collector"]


@pytest.fixture(scope="session")
def moments_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """keys/ of two right providers and a collector, study.toml and study.json, not to be written to."""
    folder = tmp_path_factory.mktemp("cli-moments")
    make_keys(folder / "keys", node_places(2, 0, "127.0.0.1", 7400))
    (folder / "study.toml").write_text(bundled_definition("moments"))
    made = ["study", "new", folder / "study.toml", "--keys", folder / "keys", "--out", folder / "study.json"]
    assert main([str(word) for word in made]) == 0
    return folder


@pytest.fixture
def folder(moments_made: Path, tmp_path: Path) -> Path:
    """A copy for one test."""
    return shutil.copytree(moments_made, tmp_path / "study")


def approve_all(trimask: Run, folder: Path) -> None:
    for role in ROLES:
        done = trimask("study", "approve", folder / "study.json", "--keys", folder / "keys" / role, "--yes")
        assert done.status == 0, done.err


def test_keys_without_left_providers(trimask: Run, tmp_path: Path) -> None:
    assert trimask("keys", tmp_path / "keys", "--right", "2", "--left", "0").status == 0
    names = {path.parent.name for path in (tmp_path / "keys").glob("*/node.json")}
    assert names == set(ROLES)
    assert (tmp_path / "keys" / "R1" / "moments.key").is_file()
    assert not (tmp_path / "keys" / "collector" / "moments.key").exists()


def test_example_asks_the_same_questions_in_both_suites(trimask: Run) -> None:
    rows, moments = trimask("study", "example", "--suite", "rows"), trimask("study", "example")
    assert rows.out == bundled_definition()
    one, other = load_definition(rows.out), load_definition(moments.out)
    assert (one.collection.suite, other.collection.suite) == ("rows", "moments")
    assert [a.name for a in one.schema.attributes] == [a.name for a in other.schema.attributes]
    assert [a.bounds for a in one.schema.attributes] == [a.bounds for a in other.schema.attributes]
    assert (other.privacy.epsilon, other.privacy.row_norm) == (4.0, 2.2)
    assert other.schema.attributes[2].step == 0.1
    assert other.schema.attributes[3].centre == 9


def test_the_example_says_its_noise(moments_made: Path) -> None:
    study = read_signed(moments_made / "study.json").study
    assert f"sigma = {study.protection.sigma:.3g} on" in bundled_definition("moments")


def test_new_study_has_no_seed(trimask: Run, moments_made: Path, tmp_path: Path) -> None:
    out = tmp_path / "study.json"
    made = trimask("study", "new", moments_made / "study.toml", "--keys", moments_made / "keys", "--out", out)
    assert made.status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]
    assert "stays with you" not in made.out
    signed = read_signed(out)
    assert list(signed.missing) == ROLES
    assert signed.study.left == ()
    assert "(4, 1e-06)-differential privacy" in made.out


def test_approvals_of_right_providers_commit(trimask: Run, folder: Path) -> None:
    approve_all(trimask, folder)
    signed = read_signed(folder / "study.json")
    study = signed.verify()
    given = {approval.role: approval.commitment for approval in signed.approvals}
    for role in ("R1", "R2"):
        assert given[role] == MomentsSecret.load(folder / "keys" / role).commitment(study.id)
    assert given["collector"] == b""
    assert len(study.binding) == 32


def test_approving_without_the_moments_key_names_it(trimask: Run, folder: Path) -> None:
    (folder / "keys" / "R1" / "moments.key").unlink()
    before = (folder / "study.json").read_bytes()
    done = trimask("study", "approve", folder / "study.json", "--keys", folder / "keys" / "R1", "--yes")
    assert done.status == 2
    assert "moments.key is missing" in done.err
    assert (folder / "study.json").read_bytes() == before


def test_a_study_that_claims_more_is_not_approved(trimask: Run, folder: Path) -> None:
    data = json.loads((folder / "study.json").read_text())
    data["study"]["protection"]["sigma"] /= 2
    (folder / "study.json").write_text(json.dumps(data))
    done = trimask("study", "approve", folder / "study.json", "--keys", folder / "keys" / "R1", "--yes")
    assert done.status == 2
    assert "do not approve it" in done.err


def test_show_says_suite_ball_and_whom_it_protects_from(trimask: Run, folder: Path) -> None:
    study = read_signed(folder / "study.json").study
    shown = trimask("study", "show", folder / "study.json").out
    size = f"{upload_bytes_of(study) / 1000:.1f} kB"
    for words in (f"moments; a device uploads {size}", "ball of norm 2.2", "towards everybody",
                  "one right provider adds its noise"):  # fmt: skip
        assert words in shown
    told = json.loads(trimask("study", "show", folder / "study.json", "--json").out)
    assert (told["suite"], told["honest_providers"], told["ball_norm"]) == ("moments", 1, 2.2)
    assert told["upload_bytes"] == upload_bytes_of(study)
    assert "block_rows" not in told


def test_collusion_of_a_study_and_of_numbers(trimask: Run, folder: Path) -> None:
    told = json.loads(trimask("study", "collusion", folder / "study.json", "--json").out)
    assert [item["parties"] for item in told["coalitions"]] == [["R1", "R2"]]
    shown = trimask("study", "collusion", "--right", "3", "--left", "0").out
    assert "R1 + R2 + R3" in shown
    for wrong in (("--right", "1", "--left", "0"), ("--left", "0"), (folder / "study.json", "--suggest")):
        refused = trimask("study", "collusion", *wrong)
        assert (refused.status, refused.out) == (2, "")


def test_left_providers_are_refused(trimask: Run, moments_made: Path, made: Path, tmp_path: Path) -> None:
    done = trimask(
        "study", "new", moments_made / "study.toml", "--keys", made / "keys", "--out", tmp_path / "s.json"
    )
    assert done.status == 2
    assert "no left ones" in done.err


def test_open_writes_the_device_file_without_a_seed(
    trimask: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approve_all(trimask, folder)
    opened: list[tuple[SignedStudy, Path]] = []
    monkeypatch.setattr(
        "trimask_cli.owner.open_study", lambda signed, owner, _at: opened.append((signed, owner))
    )
    done = trimask("study", "open", folder / "study.json", "--owner", folder / "keys" / "owner")
    assert done.status == 0, done.err
    assert [owner for _, owner in opened] == [folder / "keys" / "owner"]
    device = folder / "study.device.json"
    assert str(device) in done.out
    assert "mask_seed" not in json.loads(device.read_text())
    assert read_signed(device).verify().id == opened[0][0].study.id


def test_watching_shows_no_blocks(moments_made: Path) -> None:
    study = read_signed(moments_made / "study.json").study
    status = StudyStatus("open", 3, 0, 5, 1, 0, 0, 0, "", {"R1": {}, "R2": {}})
    console = Console(width=100, force_terminal=False)
    with console.capture() as capture:
        console.print(view(study, status))
    assert "release at close" in capture.get()
    assert "next block" not in capture.get()
