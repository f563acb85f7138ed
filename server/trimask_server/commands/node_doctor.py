"""`trimask node doctor`: checks everything a node needs, and says what to do where something is wrong."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, cast

from trimask_terminal.options import Subparsers, add_json, print_json

if TYPE_CHECKING:
    from trimask_server.settings.config import NodeRole


_STYLES = {"ok": "green", "warning": "yellow", "wrong": "bold red"}


def register(commands: Subparsers) -> None:
    """Add it to the commands of `trimask node`."""
    doctor = commands.add_parser(
        "doctor",
        help="look at files, ports, certificate, store, clock and peers, and say what to do",
        description="Look at everything a node needs, whether it runs or not: each line is ok, or says what to do. Run it "
        "as the node's user. Exit status: 0 everything is in order, 1 something is to be done, 2 it could not look.",
    )
    doctor.add_argument("--config", type=Path, required=True, metavar="FILE", help="the node's node.toml")
    doctor.add_argument(
        "--study", type=Path, metavar="STUDY.json", help="also reach the parties of this study"
    )
    doctor.add_argument(
        "--party", type=Path, nargs="+", default=[], metavar="CARD", help="also reach these nodes"
    )
    add_json(doctor)
    doctor.set_defaults(run=run_doctor)


def run_doctor(args: argparse.Namespace) -> int:
    """Examine, print, and say it by the exit status."""
    from rich.table import Table
    from rich.text import Text

    from trimask_core.study.party import load_party, role_of_name
    from trimask_core.study.signed import SignedStudy
    from trimask_server.commands.doctor import examine
    from trimask_server.settings.config import load_config
    from trimask_terminal.study_view import make_console

    name = load_config(args.config).name
    role = cast("NodeRole", role_of_name(name))
    config = load_config(args.config, role)
    parties = [load_party(path) for path in args.party]
    if args.study is not None:
        study = SignedStudy.from_json(args.study.read_text(encoding="utf-8")).study
        parties += [party for party in study.parties.values() if party.name != name]
    found = list(examine(config, role, parties))
    in_order = all(finding.level == "ok" for finding in found)
    if args.json:
        print_json({"node": name, "ok": in_order, "checks": [finding.to_dict() for finding in found]})
        return 0 if in_order else 1
    table = Table(box=None, show_header=False, pad_edge=False)
    for column in range(3):
        table.add_column(overflow="fold", no_wrap=column == 0)
    for finding in found:
        said = Text(finding.said)
        if finding.fix:
            said.append(f"\n-> {finding.fix}", style="bold")
        table.add_row(Text(finding.level, style=_STYLES[finding.level]), finding.about, said)
    console = make_console()
    console.print(table)
    wrong = sum(finding.level != "ok" for finding in found)
    console.print(f"\n{name}: everything is in order." if in_order else f"\n{name}: {wrong} to look at.")
    return 0 if in_order else 1
