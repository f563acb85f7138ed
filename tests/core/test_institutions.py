"""A signed directory of institutions, and which parties of a study are in it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimask_client import Client, Queue
from trimask_core.basics.errors import ConfigError, StudyError, VerificationError
from trimask_core.crypto.keys import SigningKey
from trimask_core.submit.institutions import Directory, Institution, known_parties, load_directories
from trimask_terminal.device.program import main

KEEPER = SigningKey(bytes(range(32)))


def book_of(study: Any, *roles: str) -> Directory:
    listed = tuple(
        Institution(f"The real {study.party(role).organisation}", study.party(role).identity)
        for role in roles
    )
    return Directory("A university", KEEPER.public, listed).signed_with(KEEPER)


def test_it_comes_back_from_its_text_and_every_part_is_signed(study: Any) -> None:
    book = book_of(study, "R1", "collector")
    assert Directory.from_json(book.to_json()) == book
    data = json.loads(book.to_json())
    for name, value in (("keeper", "Somebody"), ("keeper_key", "00" * 32), ("institutions", [])):
        with pytest.raises(VerificationError):
            Directory.from_json(json.dumps(data | {name: value}))
    data["institutions"][0]["identity"] = "11" * 32
    with pytest.raises(VerificationError):
        Directory.from_json(json.dumps(data))
    with pytest.raises(VerificationError, match="another keeper"):
        book.verify(SigningKey(bytes(32)).public)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "x"}', '{"format": "trimask-institutions/1"}'])
def test_what_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="not a directory"):
        Directory.from_json(text)


def test_a_key_has_one_name(study: Any) -> None:
    one = Institution("One", study.collector.identity)
    with pytest.raises(ConfigError, match="every key once"):
        Directory("K", KEEPER.public, (one, replace(one, name="Two")))
    with pytest.raises(ConfigError, match="a name and a key"):
        Institution(" ", study.collector.identity)


def test_a_client_says_whom_it_does_not_know(made_study: Any) -> None:
    study = made_study.study
    text = Client(made_study.signed).explain()
    assert "Not known to this device: Org R1 (R1)" in text
    some = Client(made_study.signed, institutions=book_of(study, "R1", "R2"))
    assert "Org R1 (R1) is known to this device as The real Org R1, by A university." in some.explain()
    assert [item.role for item in some.parties if item.known_as is None] == ["R3", "L1", "L2", "collector"]
    everybody = book_of(study, *study.parties)
    assert "Not known" not in Client(made_study.signed, institutions=[everybody]).explain()


def test_a_client_can_be_told_to_refuse_whom_it_does_not_know(made_study: Any, tmp_path: Path) -> None:
    study = made_study.study
    with pytest.raises(StudyError, match=r"does not know Org R3 \(R3\), Org L1"):
        Client(made_study.signed, institutions=book_of(study, "R1", "R2"), refuse_unknown=True)
    Client(made_study.signed, institutions=book_of(study, *study.parties), refuse_unknown=True)
    queue = Queue(tmp_path / "device", bytes(32), refuse_unknown=True)
    with pytest.raises(StudyError, match="only with institutions it knows"):
        queue.join(made_study.signed)
    assert queue.studies() == ()


def test_the_same_name_with_another_key_is_not_known(make_study: Any, study: Any) -> None:
    """One owner invented six institutions, with the names of real ones."""
    book = book_of(study, *study.parties)
    invented = make_study(label="invented").study
    assert [party.organisation for party in invented.parties.values()] == [
        party.organisation for party in study.parties.values()
    ]
    assert all(item.known_as is None for item in known_parties(invented, [book]))


def test_from_the_command_line(made_study: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, study_file, home = tmp_path / "book.json", tmp_path / "study.json", tmp_path / "home"
    study_file.write_text(made_study.signed.to_json())
    file.write_text(book_of(made_study.study, "R1").to_json())

    def run(*arguments: object) -> tuple[int, str]:
        status = main(["--home", str(home), *map(str, arguments)])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    assert "No directory yet" in run("institutions")[1]
    assert run("institutions", file)[0] == 2  # nobody has compared the keeper's key
    assert "another keeper" in run("institutions", file, "--keeper", "00" * 32)[1]
    status, out = run("institutions", file, "--keeper", KEEPER.public.hex())
    assert (status, "The real Org R1" in out) == (0, True)
    status, out = run("join", study_file, "--yes", "--known-only")
    assert (status, "does not know Org R2 (R2)" in out) == (2, True)
    status, out = run("join", study_file, "--yes")
    assert (status, "known to this device as The real Org R1" in out) == (0, True)
    assert "Not known to this device: Org R2 (R2)" in out
    (kept,) = (home / "institutions").iterdir()
    kept.write_text(kept.read_text().replace("real", "false"))
    with pytest.raises(ConfigError, match="does not verify"):
        load_directories(home / "institutions")
