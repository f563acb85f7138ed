"""The program as a whole: fast help, one-line errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trimask_cli import main as program
from trimask_core.errors import StudyError

Run = Callable[..., Any]  # the `trimask` fixture: arguments to status, out and err
HEAVY = ("numpy", "scipy", "grpc", "cryptography", "matplotlib", "pandas", "rich", "trimask_server")


def test_help_imports_nothing_heavy() -> None:
    check = (
        "import sys; from trimask_cli.main import build_parser; build_parser(); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_one_command_registers_alone() -> None:
    shown = program.build_parser("study").format_help()
    assert "study" in shown
    assert "left provider" not in shown


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        program.main(["--help"])
    assert caught.value.code == 0
    first_words = {line.split(maxsplit=1)[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert {"demo", "plan", "keys", "study", "collector", "right", "left"} <= first_words


def test_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        program.main(["stduy"])
    assert caught.value.code == 2
    assert "invalid choice: 'stduy'" in capsys.readouterr().err


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
    command = [sys.executable, "-m", "trimask_cli", "study", "example"]
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
    import trimask_server.programs.run

    called: list[tuple[str, Path]] = []

    def run_node(given: str, config: Path, worker_listen: str) -> int:
        assert worker_listen == ""
        called.append((given, config))
        return 7

    monkeypatch.setattr(trimask_server.programs.run, "run_node", run_node)
    assert trimask(role, "--config", tmp_path / "node.toml").status == 7
    assert called == [(role, tmp_path / "node.toml")]


def test_node_with_unknown_setting_says_the_nearest(trimask: Run, tmp_path: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text('name = "L1"\npeer_lisen = "127.0.0.1:1"\n')
    result = trimask("left", "--config", config)
    assert result.status == 2
    assert "did you mean 'peer_listen'" in result.err
