"""What scripts rest on: exit statuses, --json everywhere, completion, and the nearest word for a misspelt one."""

from __future__ import annotations

import argparse
import json
import runpy
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trimask_client.transport import Unreachable
from trimask_core.basics.errors import ConfigError, ConnectionFailed, Refused, TrimaskError, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_terminal.device.program import main as device_main
from trimask_terminal.exits import Exit, NothingThere, exit_of
from trimask_terminal.program import build_parser, main

ROOT = Path(__file__).parents[2]
ENDLESS = {("collector",), ("right",), ("left",)}


def _leaves(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, nested in action.choices.items():
                yield from _leaves(nested, (*path, name))
            return
    yield path, parser


def test_every_command_takes_json() -> None:
    found = dict(_leaves(build_parser()))
    assert ("study", "from-csv") in found
    assert ("study", "new") in found
    without = {
        path
        for path, parser in found.items()
        if not any("--json" in a.option_strings for a in parser._actions)
    }
    assert without == ENDLESS


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("x"), Exit.USAGE),
        (FileNotFoundError(2, "no", "x"), Exit.USAGE),
        (ConnectionFailed("x"), Exit.NETWORK),
        (Unreachable("x"), Exit.NETWORK),
        (Refused(Reason.STUDY_CLOSED, "x"), Exit.REFUSED),
        (Refused(Reason.UNKNOWN_STUDY, "x"), Exit.NOTHING),
        (NothingThere("x"), Exit.NOTHING),
        (VerificationError("x"), Exit.UNTRUE),
        (TrimaskError("x"), Exit.USAGE),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
    ],
)
def test_statuses_tell_what_kind_of_failure_it_is(error: BaseException, status: Exit) -> None:
    assert exit_of(error) is status


def test_the_page_is_what_the_program_does() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "command_line.py"))
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert page == script["render_page"](), "run python scripts/command_line.py > docs/command-line.md"


def test_a_failure_is_a_document_too(trimask: Callable[..., Any], tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    table.write_text("systolic,age\n")
    done = trimask("study", "from-csv", table, "--json")
    assert done.status == Exit.USAGE
    assert json.loads(done.out) == {"ok": False, "exit": 2, "error": f"{table} has no rows below its header"}
    assert done.err == f"trimask: {table} has no rows below its header\n"


def test_commands_without_an_answer_say_what_they_made(
    trimask: Callable[..., Any], made: Path, tmp_path: Path
) -> None:
    out = tmp_path / "study.json"
    done = trimask("study", "new", made / "study.toml", "--keys", made / "keys", "--out", out, "--json")
    told = json.loads(done.out)
    assert (told["ok"], told["exit"], told["file"]) == (True, 0, str(out))
    assert len(told["study_id"]) == 64
    assert any("Written to" in line for line in told["said"])


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["study", "stauts", "x"], "did you mean 'status'?"),
        (["study", "example", "--siute", "rows"], "did you mean --suite?"),
        (["study", "example", "--suite", "row"], "did you mean 'rows'?"),
    ],
)
def test_misspelt_words_get_the_nearest(
    capsys: pytest.CaptureFixture[str], arguments: list[str], hint: str
) -> None:
    assert main(arguments) == Exit.USAGE
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("run", [main, device_main])
def test_a_usage_error_is_a_document_too(
    capsys: pytest.CaptureFixture[str], run: Callable[[list[str]], int]
) -> None:
    for arguments in (["receipt", "--jsn", "--json"], ["stauts", "--json"], ["--json"]):
        assert run(arguments) == Exit.USAGE
        told = capsys.readouterr()
        document = json.loads(told.out)
        assert (document["ok"], document["exit"]) == (False, Exit.USAGE)
        assert document["error"] in told.err


@pytest.mark.parametrize(("run", "command"), [(main, "demo"), (device_main, "withdraw")])
def test_without_a_command_the_help_is_shown(
    capsys: pytest.CaptureFixture[str], run: Callable[[list[str]], int], command: str
) -> None:
    assert run([]) == Exit.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"\n    {command} " in shown.err or f"\n  {command} " in shown.err


_IN_SHELLS = {
    "bash": "source {script}; COMP_WORDS=({words}); COMP_CWORD={last}; _shtab_{word}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
    "fish": "source {script}; complete -C '{words}'",
}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("trimask study inv", {"invitations", "invite"}),
        ("trimask study from-csv --suite mom", {"moments"}),
        ("trimask study from-csv a_table", {"a_table.csv"}),
        ("trimask-client withdraw --re", {"--receipt"}),
    ],
)
@pytest.mark.parametrize("shell", _IN_SHELLS)
def test_a_shell_completes_words(
    shell: str, words: str, found: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the shell itself, where it is installed: commands, options, choices and files."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program, *more = words.split()
    assert (main if program == "trimask" else device_main)(["--completion", shell]) == 0
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)
    (tmp_path / "a_table.csv").touch()
    ask = _IN_SHELLS[shell].format(script=script, words=words, word=program.replace("-", "_"), last=len(more))
    options = {"bash": ["--norc", "-c"], "fish": ["--no-config", "-c"]}[shell]
    done = subprocess.run([shell, *options, ask], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found <= set(done.stdout.split()), done.stderr
