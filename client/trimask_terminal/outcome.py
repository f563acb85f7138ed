"""What a command did, as JSON, for commands whose answer is words: what they made, and the lines they printed."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from trimask_terminal.exits import Exit
from trimask_terminal.options import add_json, print_json

__all__ = ["json_everywhere", "made", "print_failure", "run_command"]

_facts: dict[str, Any] = {}


def made(**facts: Any) -> None:
    """Note what a command made or found, for its document with --json: `made(study_id=..., file=...)`."""
    _facts.update({name: value if _plain(value) else str(value) for name, value in facts.items()})


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, list, dict))


def json_everywhere(parser: argparse.ArgumentParser, without: tuple[str, ...] = ()) -> None:
    """Give --json to every command that has none of its own; `without` names commands that run until stopped."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, nested in action.choices.items():
                if name not in without:
                    json_everywhere(nested)
            return
    if not any("--json" in action.option_strings for action in parser._actions):
        add_json(parser)
        parser.set_defaults(json_from_output=True)


def run_command(run: Callable[[argparse.Namespace], int | None], args: argparse.Namespace) -> int:
    """Run a command; one without its own JSON document gets one made from `made` and its output."""
    _facts.clear()
    if not (getattr(args, "json_from_output", False) and args.json):
        return int(run(args) or 0)
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = int(run(args) or 0)
    print_json({"ok": status == Exit.DONE, "exit": status, **_facts, "said": printed.getvalue().splitlines()})
    return status


def print_failure(message: str, problems: list[str], status: int) -> None:
    """The document of a command that failed; the message itself is on stderr."""
    failure: dict[str, Any] = {"ok": False, "exit": int(status), "error": message}
    print_json(failure | ({"problems": problems} if problems else {}))
    sys.stdout.flush()
