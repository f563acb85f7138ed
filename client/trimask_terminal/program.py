"""The `trimask` program. It has no commands of its own: installed distributions bring them.

A distribution names its commands in the entry-point group `trimask.commands`, each with a function
`register(subparsers)` that adds the command's parser and sets its `run`. A module with such a function imports argparse
and little else at its top, so that `trimask --help` and a mistyped option answer at once.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import NoReturn

from trimask_core.basics.errors import ConfigError
from trimask_terminal.running import (
    SHELLS,
    CommandParser,
    exit_program,
    json_everywhere,
    print_completion,
    report_failure,
    run_program,
)

GROUP = "trimask.commands"
_ENDLESS = ("collector", "right", "left")  # run until they are stopped
# Which distribution has which command, to be named when it is not installed; and the heading of each in the help.
_COMMANDS = {
    "trimask": ("demo", "plan", "privacy", "study", "pull", "table-one", "receipt", "release", "web"),
    "trimask-server": ("collector", "right", "left", "node", "keys"),
}
_HEADINGS = {
    "trimask": "for study owners and researchers (trimask)",
    "trimask-server": "for nodes and their operators (trimask-server)",
}
_DISTRIBUTIONS = ("trimask-client", "trimask-theory", "trimask-server", "trimask")


class _Parser(CommandParser):
    """Commands in its help are grouped by the distribution they come with."""

    sections: dict[str, dict[str, str]]

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        formatter.start_section("options")
        formatter.add_arguments(
            action for action in self._actions if not isinstance(action, argparse._SubParsersAction)
        )
        formatter.end_section()
        for heading, commands in self.sections.items():
            formatter.start_section(heading)
            for name, what in commands.items():
                formatter.add_argument(argparse.Action([], name, nargs=0, metavar=name, help=what))
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser with one command, or with all that are installed when no such command is named."""
    found = _installed()
    parser = _Parser(
        prog="trimask",
        description="Collect personal data so that no institution is given it.",
        epilog=_epilog(found),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_versions())
    parser.add_argument("--completion", choices=SHELLS, help="print the shell's completion script")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=CommandParser)
    parser.sections = {}
    for heading, points in _grouped([found[command]] if command in found else found.values()):
        before = len(subparsers._choices_actions)
        for value in dict.fromkeys(point.value for point in points):
            next(point for point in points if point.value == value).load()(subparsers)
        added = subparsers._choices_actions[before:]
        parser.sections[heading] = {action.dest: str(action.help or "") for action in added}
    json_everywhere(parser, _ENDLESS)
    return parser


def run() -> NoReturn:
    """The program as a process of its own."""
    exit_program(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; what went wrong is on stderr, and the exit status says of what kind it is (`exits`)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) == 2 and arguments[0] == "--completion" and arguments[1] in SHELLS:
        return print_completion(build_parser(), arguments[1])
    command = arguments[0] if arguments and not arguments[0].startswith("-") else None
    if command is not None and command not in _installed():
        return report_failure("trimask", ConfigError(_not_here(command)), "--json" in arguments)
    return run_program(build_parser(command), arguments)


@functools.cache
def _installed() -> dict[str, EntryPoint]:
    """Every command of the installed distributions; if two define the same name, the first on the path wins."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, point)
    return found


def _grouped(points: Iterable[EntryPoint]) -> list[tuple[str, list[EntryPoint]]]:
    """By distribution: ours first, in the order of `_COMMANDS`, then others by name."""
    by_distribution: dict[str, list[EntryPoint]] = {}
    for point in points:
        by_distribution.setdefault(point.dist.name if point.dist else "others", []).append(point)
    order = [word for words in _COMMANDS.values() for word in words]
    for found in by_distribution.values():
        found.sort(key=lambda point: order.index(point.name) if point.name in order else len(order))
    ours = [name for name in _COMMANDS if name in by_distribution]
    others = sorted(set(by_distribution) - set(ours))
    return [(_HEADINGS.get(name, name), by_distribution[name]) for name in (*ours, *others)]


def _missing(found: dict[str, EntryPoint]) -> dict[str, list[str]]:
    """Known commands that are not installed, by the distribution to install."""
    absent = {name: [word for word in words if word not in found] for name, words in _COMMANDS.items()}
    return {name: words for name, words in absent.items() if words}


def _epilog(found: dict[str, EntryPoint]) -> str:
    absent = [f"`pip install {name}` adds {', '.join(words)}." for name, words in _missing(found).items()]
    begin = ["Start with `trimask demo`."] if "demo" in found else []
    more = ["`trimask COMMAND --help` says more of each command."] if found else []
    return "\n".join([*begin, *more, *absent, "Taking part in a study: `trimask-client --help`."])


def _not_here(command: str) -> str:
    """What to do about a command that is not installed, or not one at all."""
    found = _installed()
    for distribution, words in _missing(found).items():
        if command in words:
            return f"`trimask {command}` comes with {distribution}, which is not installed: pip install {distribution}"
    known = {*found, *(word for words in _COMMANDS.values() for word in words)}
    near = difflib.get_close_matches(command, sorted(known), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "`trimask --help` lists them."
    return f"there is no command {command!r}; {hint}"


@functools.cache
def _versions() -> str:
    """Every distribution of ours that is installed, with its version."""
    shown = []
    for name in _DISTRIBUTIONS:
        try:
            shown.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return "\n".join(shown)
