"""The program as a whole: fast help, one-line errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trimask_cli import main as program
from trimask_core.errors import StudyError

HEAVY = ("numpy", "scipy", "grpc", "cryptography", "matplotlib", "pandas", "rich", "trimask_server")


@pytest.mark.parametrize("command", ["plan", "keys", "study", "collector", "right", "left", "demo", None])
def test_help_imports_nothing_heavy(command: str | None) -> None:
    check = (
        "import sys; from trimask_cli.main import build_parser; "
        f"build_parser({command!r}); print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        program.main(["--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    for command in ("demo", "plan", "keys", "study", "collector", "right", "left"):
        assert f"\n    {command} " in shown


def test_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        program.main(["stduy"])
    assert caught.value.code == 2
    assert "invalid choice: 'stduy'" in capsys.readouterr().err


def test_deliberate_error_is_one_line(trimask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    from trimask_cli.commands import study

    def fail(_: object) -> int:
        raise StudyError("first line\n  and second")

    monkeypatch.setattr(study, "run_show", fail)
    result = trimask("study", "show", tmp_path / "x.json")
    assert (result.status, result.out) == (2, "")
    assert result.err == "trimask: first line and second\n"


def test_missing_file_is_one_line(trimask, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    result = trimask("study", "show", tmp_path / "none.json")
    assert result.status == 2
    assert result.err == f"trimask: {tmp_path / 'none.json'}: No such file or directory\n"


def test_bug_keeps_its_traceback(trimask, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    from trimask_cli.commands import study

    monkeypatch.setattr(study, "run_example", lambda _: [][1])
    with pytest.raises(IndexError):
        trimask("study", "example")


def test_interrupt_is_quiet(trimask, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    from trimask_cli.commands import study

    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "run_example", interrupted)
    result = trimask("study", "example")
    assert (result.status, result.err) == (130, "")


def test_closed_pipe_is_quiet() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "trimask_cli", "study", "example"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # nobody reads: writing fails as under `| head`
        assert process.stderr.read() == b""


@pytest.mark.parametrize("role", ["collector", "right", "left"])
def test_node_command_hands_over_role_and_file(trimask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str) -> None:  # type: ignore[no-untyped-def]
    import trimask_server.run

    called: list[tuple[str, Path]] = []

    def run_node(given: str, config: Path) -> int:
        called.append((given, config))
        return 7

    monkeypatch.setattr(trimask_server.run, "run_node", run_node)
    assert trimask(role, "--config", tmp_path / "node.toml").status == 7
    assert called == [(role, tmp_path / "node.toml")]


def test_node_with_unknown_setting_says_the_nearest(trimask, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    config = tmp_path / "node.toml"
    config.write_text('name = "L1"\npeer_lisen = "127.0.0.1:1"\n')
    result = trimask("left", "--config", config)
    assert result.status == 2
    assert "did you mean 'peer_listen'" in result.err
