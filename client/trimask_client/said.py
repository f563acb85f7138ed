"""`--json` for commands whose answer is words: the lines they printed, and how they ended, as one document."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout

__all__ = ["json_for_all", "run_said", "said_failure"]


def json_for_all(commands: dict[str, argparse.ArgumentParser]) -> None:
    """Give --json to every command that has none of its own."""
    for command in commands.values():
        if not any("--json" in action.option_strings for action in command._actions):
            command.add_argument("--json", action="store_true", help="for programs")
            command.set_defaults(said=True)


def run_said(run: Callable[[], int], args: argparse.Namespace) -> int:
    """Run a command; with --json, one that has no document of its own gets one made of what it printed."""
    if not (args.json and getattr(args, "said", False)):
        return run()
    lines = io.StringIO()
    with redirect_stdout(lines):
        status = run()
    print(json.dumps({"ok": status == 0, "exit": status, "said": lines.getvalue().splitlines()}, indent=1))
    return status


def said_failure(message: str, status: int) -> None:
    """The document of a command that failed; the message itself goes to stderr."""
    print(json.dumps({"ok": False, "exit": status, "error": message}, indent=1))
