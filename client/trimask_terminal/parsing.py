"""Parsers of the programs: a usage error is raised, not printed, and a misspelt word is answered with the nearest one."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import NoReturn

from trimask_core.errors import TrimaskError

__all__ = ["CommandParser", "UsageError", "parse"]


class UsageError(TrimaskError):
    """Arguments that `program` cannot use; `shown` is its usage, or the whole help where no command was given."""

    def __init__(self, program: str, message: str, shown: str) -> None:
        super().__init__(message)
        self.program = program
        self.shown = shown


class CommandParser(argparse.ArgumentParser):
    """The parser of a program or of one of its commands."""

    def error(self, message: str) -> NoReturn:
        """Raise the error, so that the program can also report it as JSON."""
        if message.endswith(": COMMAND"):  # argparse names what is missing by its metavar
            raise UsageError(self.prog, "give one of these commands", self.format_help())
        raise UsageError(self.prog, message, self.format_usage())

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(known)}"
            what = "command" if isinstance(action, argparse._SubParsersAction) else "choice"
            raise argparse.ArgumentError(action, f"there is no {what} {value!r}; {hint}")


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed arguments; an unknown option is answered with the nearest known one."""
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        near = difflib.get_close_matches(unknown[0].split("=")[0], sorted(_options(parser)), n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]}?" if near else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    return args


def _options(parser: argparse.ArgumentParser) -> set[str]:
    found = {name for action in parser._actions for name in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found = found.union(*(_options(nested) for nested in action.choices.values()))
    return found
