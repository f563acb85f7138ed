"""`trimask-client`, against real providers."""

from __future__ import annotations

import argparse
import json
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trimask_core.submit.invitation import Link
from trimask_terminal.device.program import build_parser, main
from trimask_terminal.exits import Exit


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run the program in this process, with a home of its own."""

    def call(*arguments: str | Path) -> Result:
        status = main(["--home", str(tmp_path / "home"), "--timeout", "5", *map(str, arguments)])
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return call


@pytest.fixture(scope="module")
def signed(device_lab: Any) -> Any:
    return device_lab.open_study("Command line")


@pytest.fixture
def study_file(signed: Any, tmp_path: Path) -> Path:
    path = tmp_path / "study.json"
    path.write_text(signed.to_json())
    return path


def test_the_whole_way(
    run: Callable[..., Result], study_file: Path, signed: Any, device_lab: Any, tmp_path: Path
) -> None:
    joined = run("join", study_file, "--id", signed.study.id.hex())
    assert joined.status == 0
    assert "Command line" in joined.out
    assert f"Joined {signed.study.id.hex()[:12]}" in joined.out
    sealed = run("answer", "hours=7.5", "active=yes")
    assert sealed.status == 0
    submission = sealed.out.split()[2].rstrip(".")
    assert "waiting" in run("status").out
    sent = run("send")
    assert (sent.status, sent.err) == (0, "")
    assert f"{submission}  Sent: all 3 providers" in sent.out
    status = json.loads(run("status", "--json").out)
    assert [item["state"] for item in status["submissions"]] == ["sent"]
    assert status["studies"] == [{"study_id": signed.study.id.hex(), "title": "Command line"}]
    kept = tmp_path / "receipt.json"
    assert run("receipt", submission[:6], "--out", kept).status == 0
    for arguments in ((), ("--study", study_file)):
        assert "Verified: 3 providers" in run("receipt", "--verify", kept, *arguments).out
    assert run("receipt").out.strip() == kept.read_text().strip()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    # On another device: from the file and from the link, which says where the study is.
    for number, given in enumerate((kept, run("receipt", "--link").out.strip())):
        done = run("--home", tmp_path / f"other{number}", "receipt", "--import", given)
        assert (done.status, submission in done.out) == (0, True), done
    assert "Nothing waits" in run("send").out
    for role in ("R1", "R2", "R3"):
        assert bytes.fromhex(submission) in device_lab.rows(role, signed.study.id)


def test_answers_from_a_file_sent_at_once(
    run: Callable[..., Result], study_file: Path, tmp_path: Path
) -> None:
    run("join", study_file, "--yes")
    answers = tmp_path / "answers.json"
    answers.write_text('{"hours": 3, "active": false}')
    sent = run("answer", "--file", answers, "--send")
    assert sent.status == 0
    assert "Sent: all 3 providers" in sent.out
    again = run("answer", "--file", answers)
    assert again.status == Exit.REFUSED
    assert "already" in again.err
    assert run("answer", "--file", answers, "--again", "hours=4").status == 0
    assert run("receipt").status == 0


def test_offline_half_way(run: Callable[..., Result], study_file: Path, device_lab: Any) -> None:
    run("join", study_file, "--yes")
    device_lab.cluster.stop("R2")
    try:
        tried = run("answer", "hours=7", "active=no", "--send")
    finally:
        device_lab.cluster.start("R2")
    assert tried.status == 1
    assert "2 of 3 providers have it" in tried.out
    assert "It will be tried again in about" in tried.out
    assert "Nothing is due" in run("send").out
    assert run("send", "--now").status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("answer", "hours=7"), Exit.USAGE, "active: an answer is needed"),
        (("answer", "hours=70", "active=no"), Exit.USAGE, "hours: must be between 0 and 14 h"),
        (
            ("answer", "hours=7", "active=no", "income=3"),
            Exit.USAGE,
            "income: this study does not ask that; it asks: hours, active",
        ),
        (("answer", "hours"), Exit.USAGE, "NAME=VALUE"),
        (("answer", "--study", "zz", "hours=7"), Exit.NOTHING, "no study that begins zz"),
        (("receipt",), Exit.NOTHING, "no sent submission"),
        (("receipt", "--verify", "nowhere.json"), Exit.USAGE, "nowhere.json: No such file"),
        (("answer", "--file", "nowhere.json"), Exit.USAGE, "nowhere.json: No such file"),
    ],
)
def test_mistakes_are_one_line(
    run: Callable[..., Result], study_file: Path, arguments: tuple[str, ...], status: Exit, words: str
) -> None:
    run("join", study_file, "--yes")
    result = run(*arguments)
    assert result.status == status
    assert words in result.err
    assert result.err.startswith("trimask-client: ")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_repro_a_wait_of_no_time_is_refused(run: Callable[..., Result], seconds: str) -> None:
    result = run("--timeout", seconds, "send")
    assert result.status == Exit.USAGE
    assert "is not a number of seconds above 0" in result.err


def test_repro_a_file_that_is_no_receipt_is_told_in_words(
    run: Callable[..., Result], study_file: Path, tmp_path: Path
) -> None:
    """It was "list indices must be integers or slices, not str"."""
    run("join", study_file, "--yes")
    path = tmp_path / "receipt.json"
    for text, said in (("[1]", "it, or a field, is of the wrong kind"), ("{}", "it has no 'study_id'")):
        path.write_text(text)
        for command in (("receipt", "--verify"), ("withdraw", "--receipt")):
            result = run(*command, path)
            assert (result.status, result.err) == (
                Exit.UNTRUE,
                f"trimask-client: this is not a receipt: {said}\n",
            )


def test_repro_a_person_is_asked_before_anything_is_withdrawn(
    run: Callable[..., Result], study_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`trimask-client withdraw` alone took the only submission back for ever, at once."""
    run("join", study_file, "--yes")
    assert run("answer", "hours=7.5", "active=yes", "--send").status == Exit.DONE
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "")
    refused = run("withdraw")
    assert (refused.status, refused.out) == (Exit.NO, "Not withdrawn.\n")
    assert "Sent: all" in run("status").out
    monkeypatch.setattr("builtins.input", lambda _: "y")
    assert "Withdrawn: all" in run("withdraw").out


def test_a_file_that_is_no_json_object(run: Callable[..., Result], study_file: Path, tmp_path: Path) -> None:
    run("join", study_file, "--yes")
    for text in ("", "[1, 2]", "3"):
        (tmp_path / "answers.json").write_text(text)
        assert "not a JSON object" in run("answer", "--file", tmp_path / "answers.json").err


def test_joining_needs_the_id_or_a_look(
    run: Callable[..., Result], study_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--id" in run("join", study_file).err  # standard input is not a terminal here
    assert "not the study of the invitation" in run("join", study_file, "--id", "ab" * 32).err
    assert "No study joined yet" in run("status").out
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for typed, status in (("n", 2), ("", 2), ("Y", 0)):
        monkeypatch.setattr("builtins.input", lambda _, typed=typed: typed)
        assert run("join", study_file).status == status


def test_an_unsigned_study_is_not_joined(run: Callable[..., Result], signed: Any, tmp_path: Path) -> None:
    from trimask_core.study.signed import SignedStudy

    path = tmp_path / "study.json"
    path.write_text(SignedStudy(signed.study, signed.approvals[:-1]).to_json())
    result = run("join", path, "--yes")
    assert result.status == 2
    assert "not approved yet by" in result.err


def test_draft_of_an_app_is_shown(
    run: Callable[..., Result], study_file: Path, signed: Any, tmp_path: Path
) -> None:
    from trimask_client import Queue, device_key

    run("join", study_file, "--yes")
    home = tmp_path / "home"
    Queue(home, device_key(home / "device.key")).save_draft(signed.study.id, {"hours": 1})
    assert "a draft, not sealed yet" in run("status").out
    assert json.loads(run("status", "--json").out)["drafts"] == [signed.study.id.hex()]


def test_as_a_module_without_grpcio_and_numpy(study_file: Path, tmp_path: Path) -> None:
    """The whole way again in a process of its own: h2 and plain Python."""
    script = (
        "import sys\n"
        "for name in ('grpc', 'numpy', 'scipy', 'pandas', 'sqlite3'): sys.modules[name] = None\n"
        "from trimask_terminal.device.program import main\n"
        "home = ['--home', sys.argv[1]]\n"
        "assert main([*home, 'join', sys.argv[2], '--yes']) == 0\n"
        "sys.exit(main([*home, 'answer', 'hours=6', 'active=yes', '--send']))"
    )
    home = str(tmp_path / "home")
    run = subprocess.run(
        [sys.executable, "-c", script, home, str(study_file)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "Sent: all 3 providers" in run.stdout
    shown = subprocess.run(
        [sys.executable, "-m", "trimask_terminal.device", "--home", home, "status"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Sent: all 3 providers" in shown.stdout


def test_every_command_takes_json() -> None:
    commands = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert {"join", "institutions", "answer", "send", "status", "budget", "receipt", "withdraw"} <= set(
        commands.choices
    )
    for name, command in commands.choices.items():
        assert any("--json" in action.option_strings for action in command._actions), name


def test_words_and_failures_are_documents_with_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--home", str(tmp_path)]
    assert main([*home, "send", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["exit"]) == (True, 0)
    assert main([*home, "join", str(tmp_path / "missing.json"), "--json"]) == 2
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert (told["ok"], told["exit"]) == (False, 2)
    assert told["error"].split()[-1] in said.err


def test_a_collector_that_does_not_answer_is_a_matter_of_the_network(run: Callable[..., Result]) -> None:
    assert run("join", str(Link("127.0.0.1:1", bytes(32)))).status == Exit.NETWORK
    assert run("join", "trimask://127.0.0.1:1/join/AAAA").status == Exit.USAGE
