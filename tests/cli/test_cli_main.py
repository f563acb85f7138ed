"""The program as a whole: fast help, one-line errors."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from trimask_core.basics.errors import StudyError
from trimask_terminal import program
from trimask_terminal.exits import Exit, Interrupted
from trimask_terminal.running import CommandParser, run_program

Run = Callable[..., Any]  # the `trimask` fixture: arguments to status, out and err
ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "scipy", "grpc", "cryptography", "matplotlib", "pandas", "rich", "trimask_server.runtime")


def test_help_imports_nothing_heavy() -> None:
    check = (
        "import sys; from trimask_terminal.program import build_parser; build_parser(); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_one_command_registers_alone() -> None:
    shown = program.build_parser("study").format_help()
    assert "study" in shown
    assert "left provider" not in shown


def test_help_groups_commands_by_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["--help"])
    shown = capsys.readouterr().out
    owners, _, nodes = shown.partition("for nodes and their operators (trimask-server):")
    assert "for study owners and researchers (trimask):" in owners
    assert "make, approve, show, open and close a study" in owners
    assert "run a left provider" in nodes
    assert "pip install" not in shown


@pytest.fixture(autouse=True)
def _looked_up_anew() -> Iterator[None]:
    """The program looks once which distributions there are."""
    program._installed.cache_clear()
    yield
    program._installed.cache_clear()


def _without(monkeypatch: pytest.MonkeyPatch, distribution: str) -> None:
    """As if a distribution were not installed."""
    there = entry_points(group=program.GROUP)
    kept = [point for point in there if point.dist is None or point.dist.name != distribution]
    assert len(kept) < len(there)
    monkeypatch.setattr(program, "entry_points", lambda group: kept if group == program.GROUP else [])


@pytest.mark.parametrize(
    ("command", "distribution"),
    [("right", "trimask-server"), ("keys", "trimask-server"), ("plan", "trimask")],
)
def test_a_command_of_a_missing_distribution_names_it(
    trimask: Run, monkeypatch: pytest.MonkeyPatch, command: str, distribution: str
) -> None:
    _without(monkeypatch, distribution)
    result = trimask(command)
    assert (result.status, result.out) == (2, "")
    assert result.err == (
        f"trimask: `trimask {command}` comes with {distribution}, which is not installed: pip install {distribution}\n"
    )


def test_help_names_what_a_missing_distribution_would_add(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _without(monkeypatch, "trimask-server")
    with pytest.raises(SystemExit):
        program.main(["--help"])
    shown = capsys.readouterr().out
    assert "`pip install trimask-server` adds collector, right, left, node, keys." in shown
    assert "run a left provider" not in shown


def test_a_distribution_of_others_adds_commands(
    trimask: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "others_command.py").write_text(
        "def register(subparsers):\n"
        "    parser = subparsers.add_parser('greet', help='say hello')\n"
        "    parser.set_defaults(run=lambda args: print('hello'))\n"
    )
    metadata = tmp_path / "trimask_greetings-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: trimask-greetings\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[{program.GROUP}]\ngreet = others_command:register\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert trimask("greet").out == "hello\n"
    with pytest.raises(SystemExit):
        program.main(["--help"])
    assert "trimask-greetings:\n  greet" in capsys.readouterr().out


def test_version_names_every_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["--version"])
    version = (ROOT / "VERSION").read_text().strip()
    names = ("trimask-client", "trimask-theory", "trimask-server", "trimask")
    assert capsys.readouterr().out.splitlines() == [f"{name} {version}" for name in names]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        program.main(["--help"])
    assert caught.value.code == 0
    first_words = {line.split(maxsplit=1)[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert {"demo", "plan", "keys", "study", "collector", "right", "left"} <= first_words


def test_a_misspelt_command_gets_a_suggestion(trimask: Run) -> None:
    result = trimask("stduy")
    assert (result.status, result.err) == (2, "trimask: there is no command 'stduy'; did you mean 'study'?\n")


def test_an_unknown_command_is_refused(trimask: Run) -> None:
    result = trimask("zzz")
    assert (result.status, result.err) == (
        2,
        "trimask: there is no command 'zzz'; `trimask --help` lists them.\n",
    )


def test_the_demo_says_that_it_needs_the_server(trimask: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from trimask_cli import demo

    monkeypatch.setattr(demo, "find_spec", lambda _: None)
    result = trimask("demo")
    assert result.status == 2
    assert "pip install 'trimask[demo]'" in result.err


def test_a_collector_says_that_it_needs_pyarrow(
    trimask: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trimask_server.commands import roles

    monkeypatch.setattr(roles, "find_spec", lambda _: None)
    result = trimask("collector", "--config", tmp_path / "node.toml")
    assert result.status == 2
    assert "pip install 'trimask-server[collector]'" in result.err
    assert "node.toml" in trimask("left", "--config", tmp_path / "node.toml").err


def test_deliberate_error_is_one_line(trimask: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trimask_cli.commands import study

    def fail(_: object) -> int:
        raise StudyError("first line\n  and second")

    monkeypatch.setattr(study, "run_show", fail)
    result = trimask("study", "show", tmp_path / "x.json")
    assert (result.status, result.out) == (2, "")
    assert result.err == "trimask: first line and second\n"


def test_missing_file_is_one_line(trimask: Run, tmp_path: Path) -> None:
    result = trimask("study", "show", tmp_path / "none.json")
    assert result.status == 2
    assert result.err == f"trimask: {tmp_path / 'none.json'}: No such file or directory\n"


def test_bug_keeps_its_traceback(trimask: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from trimask_cli.commands import study

    monkeypatch.setattr(study, "run_example", lambda _: [][1])
    with pytest.raises(IndexError):
        trimask("study", "example")


def test_interrupt_is_quiet(trimask: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from trimask_cli.commands import study

    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "run_example", interrupted)
    result = trimask("study", "example")
    assert (result.status, result.err) == (130, "")


def test_closed_pipe_is_quiet() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "trimask_terminal", "study", "example"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # nobody reads: writing fails as under `| head`
        assert process.stderr.read() == b""
        assert process.wait() == 1


@pytest.mark.parametrize("role", ["collector", "right", "left"])
def test_node_command_hands_over_role_and_file(
    trimask: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    import trimask_server.programs.roles

    called: list[tuple[str, Path]] = []

    def run_node(given: str, config: Path, own: Mapping[str, object]) -> int:
        assert not own
        called.append((given, config))
        return 7

    monkeypatch.setattr(trimask_server.programs.roles, "run_node", run_node)
    assert trimask(role, "--config", tmp_path / "node.toml").status == 7
    assert called == [(role, tmp_path / "node.toml")]


def test_node_with_unknown_setting_says_the_nearest(trimask: Run, tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text('name = "L1"\npeer_lisen = "127.0.0.1:1"\n')
    result = trimask("left", "--config", config)
    assert result.status == 2
    assert "did you mean 'peer_listen'" in result.err


def test_repro_a_signal_while_a_class_is_made_is_that_signal() -> None:
    """Python 3.11 wraps what is raised then, and a node that was told to end while it imported printed a traceback."""

    def run(_: argparse.Namespace) -> int:
        raise RuntimeError("Error calling __set_name__") from Interrupted(signal.SIGTERM)

    parser = CommandParser(prog="trimask")
    parser.set_defaults(run=run)
    assert run_program(parser, []) == Exit.ENDED
