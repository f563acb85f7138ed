"""Commands of a study's owner given the wrong file, folder or number: what is wrong is named, and what to give instead."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from rich.console import Console

from trimask.data.connection import StudyStatus
from trimask_cli import invitations
from trimask_cli.status_watch import render_status
from trimask_cli.study_file import bundled_definition, read_signed
from trimask_client.grpc_channel import plain_errors
from trimask_core.basics.errors import ConfigError, ConnectionFailed, Refused
from trimask_core.basics.randomness import SystemRandom
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import SigningKey
from trimask_core.study.definition import Study
from trimask_core.submit.invitation import Invitation, Link
from trimask_terminal.study_view import approval_words
from trimask_theory.planning.study_definition import load_definition

Run = Callable[..., Any]


def test_repro_a_definition_is_not_a_study_and_a_study_no_definition(
    trimask: Run, study_folder: Path
) -> None:
    """`Expecting value: line 1 column 1 (char 0)`, with no file named."""
    done = trimask("study", "show", study_folder / "study.toml")
    assert done.status == 2
    assert f"{study_folder / 'study.toml'} is a study's definition; this needs the study" in done.err
    (study_folder / "other.json").write_text("{}")
    assert (
        f"{study_folder / 'other.json'}: this is not a signed study"
        in trimask("study", "show", study_folder / "other.json").err
    )
    done = trimask("study", "new", study_folder / "study.json", "--keys", study_folder / "keys")
    assert f"{study_folder / 'study.json'} is not TOML" in done.err
    assert "a definition is a .toml file" in done.err


def test_repro_a_definition_saved_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    """Windows editors write one; it was `Invalid statement (at line 1, column 1)`."""
    path = tmp_path / "study.toml"
    path.write_text(bundled_definition(), encoding="utf-8-sig")
    assert load_definition(path).title == load_definition(bundled_definition()).title


def test_repro_a_folder_without_keys_is_named(trimask: Run, study_folder: Path) -> None:
    """`keys/identity.key: No such file or directory`, and `give --keys DIR` to somebody who had given it."""
    keys, study = study_folder / "keys", study_folder / "study.json"
    done = trimask("study", "approve", study, "--keys", keys, "--yes")
    assert (done.status, done.err) == (
        2,
        f"trimask: {keys} has no identity.key: give the folder of one party's own keys, such as keys/R1\n",
    )
    done = trimask("study", "new", study_folder / "study.toml", "--keys", study_folder / "none")
    assert f"{study_folder / 'none'} has no folders of nodes, with node.json in each" in done.err
    made = ("study", "new", study_folder / "study.toml", "--keys", keys, "--out", study_folder / "other.json")
    done = trimask(*made, "--owner", study_folder / "none")
    assert f"--owner {study_folder / 'none'}: there is no such folder" in done.err
    assert not (study_folder / "other.json").exists()
    done = trimask("study", "close", study, "--owner", study_folder / "none", "--yes")
    assert done.status == 3  # the collector is asked first
    done = trimask("study", "propose", study, "--owner", study_folder / "none")
    assert "has no tls.pem and no tls.key: --owner is the owner's folder of keys" in done.err


@pytest.mark.parametrize("option", ["--participants", "--block-size", "--release-size"])
@pytest.mark.parametrize("number", ["0", "-5", "many"])
def test_repro_a_demo_of_nobody_is_refused(trimask: Run, option: str, number: str) -> None:
    """-5 participants were a traceback of NumPy, and 0 were 1,024."""
    done = trimask("demo", f"{option}={number}")
    assert done.status == 2
    assert f"argument {option}: {number!r} is not a whole number from 1 on" in done.err


def test_repro_a_block_that_is_not_given_up_is_a_document_too(trimask: Run, study_folder: Path) -> None:
    """Standard output was empty."""
    study, owner = study_folder / "study.json", study_folder / "keys" / "owner"
    done = trimask("study", "abandon", study, "abcd", "--owner", owner, "--json")
    assert done.status == 1
    told = json.loads(done.out)
    assert (told["ok"], told["exit"]) == (False, 1)
    done = trimask("study", "abandon", study, "zz", "--owner", owner)
    assert "'zz' is neither how a block's id begins" in done.err


def test_an_approval_reads_as_sentences(study_folder: Path) -> None:
    words = approval_words(read_signed(study_folder / "study.json").study, "R1")
    assert (
        "People are asked: Systolic blood pressure; Age; Body mass index; Salt a day; Do you smoke?; "
        in words[2]
    )
    assert words[2].endswith("How active are you?")
    (honest,) = [sentence for sentence in words if "of the others are honest" in sentence]
    assert " - " not in honest


def _invited(folder: Path) -> Study:
    return replace(read_signed(folder / "study.json").study, admission="invited", admission_signer="R1")


def _link(address: str, study: Study) -> Link:
    drawn = Invitation.draw(study.id, 10**13, SystemRandom())
    return Link(address, study.id, drawn.signed_with(SigningKey.generate()))


def test_repro_reminders_read_links_to_a_page(study_folder: Path) -> None:
    """Invitations to a study with a page are https links, of which `--made` said that no trimask:// link is in them."""
    study = _invited(study_folder)
    links = [_link(address, study) for address in ("https://survey.example", "127.0.0.1:7400")]
    path = study_folder / "people.csv"
    lines = [f"Ada,https://www.example.org/about#us,{link},2027-01-31" for link in links]
    path.write_text("\n".join(["name,homepage,link,expires", *lines]) + "\n")
    made = invitations.read_made(path, study.id)
    assert [line for line, _, _ in made.lines] == lines
    assert [key for _, key, _ in made.lines] == [
        link.invitation.key.public for link in links if link.invitation
    ]
    path.write_text("name,homepage\nAda,https://www.example.org/about\n")
    with pytest.raises(ConfigError, match="line 2: there is no invitation link in it"):
        invitations.read_made(path, study.id)


def test_repro_providers_that_do_not_answer_are_a_matter_of_the_network(
    study_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 2, as if an argument were wrong; and an open study was said not to be answered for."""
    study, owner = read_signed(study_folder / "study.json").study, study_folder / "keys" / "owner"
    with pytest.raises(ConfigError, match="this study is open"):
        invitations.ask(study, owner, with_keys=False)
    study = _invited(study_folder)

    def fails(error: Exception) -> Callable[..., Any]:
        def ask_one(*_: object, **__: object) -> Any:
            raise error

        return ask_one

    monkeypatch.setattr(invitations, "_ask_one", fails(ConnectionFailed("away")))
    with pytest.raises(ConnectionFailed, match="no right provider answered; R1: away; R2: away"):
        invitations.ask(study, owner, with_keys=False)
    monkeypatch.setattr(invitations, "_ask_one", fails(Refused(Reason.NOT_YOUR_ROLE, "not you")))
    with pytest.raises(Refused, match="not you"):
        invitations.ask(study, owner, with_keys=False)


class _Unreached(grpc.RpcError):
    """What gRPC raises where nothing listens."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7400: "
            "Failed to connect to remote host: Connection refused"
        )

    def trailing_metadata(self) -> tuple[()]:
        return ()


def test_repro_a_node_that_is_not_there_is_said_in_one_short_line() -> None:
    """The address stood in the line twice, with gRPC's words for it."""
    with pytest.raises(ConnectionFailed) as caught, plain_errors("127.0.0.1:7400"):
        raise _Unreached
    assert str(caught.value) == "127.0.0.1:7400 could not be reached: Connection refused"


def test_repro_one_block_is_not_one_blocks(study_folder: Path) -> None:
    status = StudyStatus("open", 0, 0, 32, 0, 1, 0, 1, "", {})
    console = Console(width=100)
    with console.capture() as shown:
        console.print(render_status(read_signed(study_folder / "study.json").study, status))
    assert "32 rows (1 block so far)" in shown.get()
    assert "0 rows in 1 release " in shown.get()


def test_people_sent_by_an_institution_are_no_refusals(study_folder: Path) -> None:
    counts, together = {"R1": {"malformed": 2}}, {"R1": 1200, "R2": 1100}
    status = StudyStatus(
        "open", 0, 0, 32, 0, 1, 0, 1, "", {"R1": {}, "R2": {}}, study_refusals=counts, sent_together=together
    )
    console = Console(width=120)
    with console.capture() as shown:
        console.print(render_status(read_signed(study_folder / "study.json").study, status))
    rows = [" ".join(line.split()) for line in shown.get().splitlines()]
    assert [row for row in rows if "R1" in row or "R2" in row] == [
        "people whose answers an institution has, submitted together 1,200 to R1, 1,100 to R2",
        "refused by R1, in this study malformed 2",
    ]
