"""Run a command of one of the programs: signals, errors, exit status, and failures as JSON."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from trimask_core.errors import ConfigError, SeveralProblems, TrimaskError
from trimask_terminal.exits import Exit, exit_of
from trimask_terminal.interruption import raising_signals
from trimask_terminal.outcome import print_failure, run_command
from trimask_terminal.parsing import UsageError, parse

__all__ = ["SHELLS", "exit_program", "print_completion", "report_failure", "run_program"]

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
