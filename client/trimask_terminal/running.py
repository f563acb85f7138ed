"""Run a command of one of the programs: parsing, signals, errors, exit status, and what it did as JSON.

A usage error is raised, not printed, and a misspelt word is answered with the nearest one. Of a command whose answer is
words, the JSON says what it made, and the lines it printed.
"""

from __future__ import annotations

import argparse
import difflib
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, NoReturn

from trimask_core.basics.errors import ConfigError, SeveralProblems, TrimaskError
from trimask_terminal.exits import Exit, exit_of, raising_signals
from trimask_terminal.options import add_json, print_json

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


SHELLS = ("bash", "fish", "zsh")


def run_program(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> int:
    """Parse and run; what went wrong is on stderr, and the exit status says of what kind it is (`exits`)."""
    wants_json = "--json" in arguments
    try:
        args = parse(parser, arguments)
        with raising_signals():
            status = run_command(args.run, args)
        sys.stdout.flush()  # flushed here, where a closed pipe can still be handled
    except BrokenPipeError:
        # The reader of our output has gone: point stdout elsewhere, or exit flushes into it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.NO
    except KeyboardInterrupt as error:
        return exit_of(error)
    except RuntimeError as error:
        # Python 3.11 wraps whatever is raised while it makes a class, a signal's exception too.
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        return exit_of(error.__cause__)
    except TrimaskError as error:
        return report_failure(parser.prog, error, wants_json)
    except OSError as error:
        if error.filename is None and not isinstance(error, ConnectionError):
            raise
        return report_failure(parser.prog, error, wants_json)
    return status


def exit_program(status: int) -> NoReturn:
    """End the process. After a signal at once: everything is cleaned up by then, and Python would take longer to unload
    its modules than the command took to clean up."""
    if status in (Exit.HUNG_UP, Exit.INTERRUPTED, Exit.ENDED):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads any more
                stream.flush()
        os._exit(status)
    sys.exit(status)


def print_completion(parser: argparse.ArgumentParser, shell: str) -> int:
    """The script by which a shell completes this program's commands, options and files (shtab, of the extra `terminal`)."""
    try:
        import shtab
    except ModuleNotFoundError:
        missing = ConfigError("completion needs shtab: pip install 'trimask-client[terminal]'")
        return report_failure(parser.prog, missing, wants_json=False)
    parsers = [parser]
    for each in parsers:
        for action in each._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
            elif action.type is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell))
    return Exit.DONE


def report_failure(program: str, error: BaseException, wants_json: bool) -> int:
    """Say what went wrong, on stderr and with --json as a document too; the exit status of it."""
    status, message = exit_of(error), _one_line(error)
    problems = list(error.problems) if isinstance(error, SeveralProblems) else []
    if wants_json:
        print_failure(message, problems, status)
    if isinstance(error, UsageError):
        print(error.shown, end="", file=sys.stderr)
        program = error.program
    print(f"{program}: {message}", *(f"  {problem}" for problem in problems), sep="\n", file=sys.stderr)
    return status


def _one_line(error: BaseException) -> str:
    if isinstance(error, SeveralProblems):
        return " ".join(error.heading.split())
    if isinstance(error, OSError) and error.filename is not None and not isinstance(error, TrimaskError):
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())
