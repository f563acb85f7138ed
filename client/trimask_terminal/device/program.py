"""The `trimask-client` program: its commands and options. Exit statuses are those of `trimask` (`exits`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from trimask_terminal.device import taking_part
from trimask_terminal.device.taking_part import with_queue
from trimask_terminal.options import add_json, seconds
from trimask_terminal.running import (
    SHELLS,
    CommandParser,
    exit_program,
    json_everywhere,
    print_completion,
    run_program,
)


def run() -> NoReturn:
    """The program as a process of its own."""
    exit_program(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; what went wrong is one line on stderr."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) == 2 and arguments[0] == "--completion" and arguments[1] in SHELLS:
        return print_completion(build_parser(), arguments[1])
    return run_program(build_parser(), arguments)


def build_parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="trimask-client",
        description="Take part in a study: your answers are split among institutions, none of which is given them whole.",
    )
    parser.add_argument("--version", action="version", version=f"trimask-client {version('trimask-client')}")
    parser.add_argument("--completion", choices=SHELLS, help="print the shell's completion script")
    parser.add_argument("--home", help="folder of this device (default: $TRIMASK_HOME, or ~/.trimask)")
    parser.add_argument(
        "--timeout", type=seconds, default=15.0, help="seconds to wait for a provider (default: 15)"
    )
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=CommandParser
    )

    join = commands.add_parser("join", help="read an invitation's study, check it, keep it")
    join.add_argument(
        "study", help="the invitation's link (https://... or trimask://...), or the signed study's file"
    )
    join.add_argument(
        "--ca",
        metavar="FILE",
        help="authorities (PEM) the collector's certificate must come from, or 'system'; the link's hash checks the study "
        "in any case",
    )
    join.add_argument(
        "--tls-name", default="", help="with --ca: the name its certificate carries (default: the host's)"
    )
    join.add_argument("--id", help="the study id in the invitation; a study with another is refused")
    join.add_argument("--yes", action="store_true", help="do not ask for the id to be compared by eye")
    join.add_argument(
        "--known-only",
        action="store_true",
        help="refuse a study with an institution that no directory here names",
    )
    join.set_defaults(run=with_queue(taking_part.join))

    known = commands.add_parser(
        "institutions", help="the directories by which this device knows institutions"
    )
    known.add_argument(
        "add", nargs="?", type=Path, metavar="FILE", help="a directory to add, institutions.json"
    )
    known.add_argument(
        "--keeper", metavar="KEY", help="with FILE: the keeper's key it must be signed with, 64 digits"
    )
    known.add_argument(
        "--yes", action="store_true", help="do not ask for the keeper's key to be compared by eye"
    )
    known.set_defaults(run=with_queue(taking_part.institutions))

    answer = commands.add_parser("answer", help="mask, split and seal answers; they wait to be sent")
    answer.add_argument(
        "answers",
        nargs="*",
        metavar="NAME=VALUE",
        help="by question if the study has a form, else by attribute; several choices as 'NAME=a b', dates as 2001-12-31",
    )
    answer.add_argument("--file", type=Path, help="a JSON object of answers, or - for standard input")
    answer.add_argument("--study", default="", help="the first digits of a study id, if several are joined")
    answer.add_argument("--again", action="store_true", help="answer a study a second time")
    answer.add_argument(
        "--agree",
        action="store_true",
        help="do not ask: the person has read the study's consent, agrees to it, and may take part",
    )
    answer.add_argument("--send", action="store_true", help="and send at once")
    answer.set_defaults(run=with_queue(taking_part.answer))

    send = commands.add_parser("send", help="send what waits and is due")
    send.add_argument("--now", action="store_true", help="do not wait for the time of the next attempt")
    send.set_defaults(run=with_queue(taking_part.send))

    status = commands.add_parser("status", help="what was sent, what waits, why, and what happens next")
    add_json(status)
    status.add_argument(
        "--ask",
        action="store_true",
        help="ask right providers whether what was sent was refused by their check since",
    )
    status.set_defaults(run=with_queue(taking_part.status))

    budget = commands.add_parser(
        "budget", help="what was asked of a study so far, at what cost, and what is left"
    )
    budget.add_argument("--study", default="", help="the first digits of a study id, if several are joined")
    add_json(budget)
    budget.set_defaults(run=with_queue(taking_part.budget))

    receipt = commands.add_parser("receipt", help="show, save or verify a receipt")
    receipt.add_argument("submission", nargs="?", default="", help="the first digits of a submission id")
    receipt.add_argument("--out", type=Path, help="write it to a file that only you can read")
    receipt.add_argument(
        "--link",
        action="store_true",
        help="as a link that the app or the study's page opens on another device; it can withdraw",
    )
    receipt.add_argument(
        "--import",
        dest="imported",
        metavar="RECEIPT",
        help="keep a receipt made on another device: its file or its link",
    )
    receipt.add_argument(
        "--verify", type=Path, metavar="RECEIPT", help="check the signatures of a saved receipt"
    )
    receipt.add_argument(
        "--study", type=Path, help="with --verify or --import: the signed study (default: a joined one)"
    )
    receipt.add_argument(
        "--shown", action="store_true", help="without the key that withdraws it: a copy to show to others"
    )
    receipt.set_defaults(run=with_queue(taking_part.receipt))

    withdraw = commands.add_parser(
        "withdraw", help="have a submission erased at every provider, while that is possible"
    )
    withdraw.add_argument("submission", nargs="?", default="", help="the first digits of a submission id")
    withdraw.add_argument("--receipt", type=Path, help="a receipt kept from this or another device")
    withdraw.add_argument(
        "--study", type=Path, help="with --receipt: the signed study, if it is not joined here"
    )
    withdraw.add_argument("--yes", action="store_true", help="do not ask; it cannot be undone")
    withdraw.set_defaults(run=with_queue(taking_part.withdraw))

    table = commands.add_parser(
        "send-table", help="submit everybody in a table, for an institution that has it"
    )
    table.add_argument("study", type=Path, help="the signed study's file")
    table.add_argument("table", type=Path, metavar="people.csv", help="a line a person, a column a question")
    table.add_argument(
        "--invitations",
        type=Path,
        metavar="links.csv",
        help="one a person, in order, if the study is for invited people",
    )
    table.add_argument("--id", help="the study id you were given; a study with another is refused")
    table.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="receipts, refusals and how far it has come (default: beside the table, ending in .sent); after a crash the "
        "same command goes on from there",
    )
    table.add_argument(
        "--agree", action="store_true", help="do not ask: all people in the table have agreed to take part"
    )
    table.set_defaults(run=taking_part.send_table)
    json_everywhere(parser)
    return parser
