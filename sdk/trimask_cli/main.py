"""The `trimask` program: one module a command, imported when it is called for."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from trimask_core.errors import TrimaskError

__all__ = ["main"]

# Where each command registers itself. A module here imports argparse and little else at its top, so that
# `trimask --help` and a mistyped option answer at once; what a command needs it imports when it runs.
_MODULES = {
    "demo": "trimask_cli.demo",
    "plan": "trimask_cli.commands.plan",
    "keys": "trimask_cli.commands.keys",
    "study": "trimask_cli.commands.study",
    "pull": "trimask_cli.commands.pull",
    "receipt": "trimask_cli.commands.receipt",
    "node": "trimask_cli.commands.operator",
    "release": "trimask_cli.commands.release",
    "collector": "trimask_cli.commands.node",
    "right": "trimask_cli.commands.node",
    "left": "trimask_cli.commands.node",
}
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser with one command, or with all of them when no known one is named."""
    parser = argparse.ArgumentParser(
        prog="trimask",
        description="Collect personal data without anybody ever holding it.",
        epilog="Start with `trimask demo`. `trimask COMMAND --help` says more of each command.",
    )
    parser.add_argument("--version", action="version", version=f"trimask {version('trimask')}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    wanted = [_MODULES[command]] if command in _MODULES else dict.fromkeys(_MODULES.values())
    for name in wanted:
        importlib.import_module(name).register(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; what went wrong is one line on stderr and exit status 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    args = build_parser(arguments[0] if arguments else None).parse_args(arguments)
    try:
        status = int(args.run(args) or 0)
        sys.stdout.flush()  # here, where a reader that has gone is still ours to handle
    except TrimaskError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except (
        BrokenPipeError
    ):  # the reader of our output has gone: point stdout elsewhere, or exit flushes into it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.filename is None:
            raise
        return _fail(f"{error.filename}: {error.strerror}")
    return status


def _fail(message: str) -> int:
    print(f"trimask: {' '.join(message.split())}", file=sys.stderr)
    return EXIT_ERROR


if __name__ == "__main__":
    sys.exit(main())
