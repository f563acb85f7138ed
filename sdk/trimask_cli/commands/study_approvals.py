"""`trimask study propose|approvals`: to every node's operator, and their decisions back."""

from __future__ import annotations

import argparse

from trimask_cli.commands.study_lifecycle import add_owner_options, owner_folder
from trimask_terminal.options import Subparsers, print_json


def register_in(commands: Subparsers) -> None:
    """Add `propose` and `approvals` to `trimask study`."""
    propose = commands.add_parser(
        "propose", help="send a study to every node's operator, through the collector"
    )
    add_owner_options(propose)
    propose.set_defaults(run=run_propose)

    approvals = commands.add_parser("approvals", help="gather what operators decided into the study's file")
    add_owner_options(approvals)
    approvals.set_defaults(run=run_approvals)


def run_propose(args: argparse.Namespace) -> int:
    """Send the study to every node's operator."""
    from trimask_cli import proposing, study_file
    from trimask_terminal.study_view import make_console

    signed = study_file.read_signed(args.study)
    parties = proposing.propose(signed, owner_folder(args))
    if args.json:
        print_json(proposing.decisions(parties))
        return 0
    console = make_console()
    console.print(proposing.render(signed, parties))
    console.print(
        f"\nOperators run `trimask node studies`, then `trimask node approve {signed.study.id.hex()[:12]}` (or refuse).\n"
        f"`trimask study approvals {args.study}` says what they decided.",
        soft_wrap=True,
    )
    return 0


def run_approvals(args: argparse.Namespace) -> int:
    """Gather the decisions; status 0 once every party has approved."""
    from trimask_cli import proposing, study_file
    from trimask_terminal.study_view import make_console

    before = study_file.read_signed(args.study)
    signed, parties = proposing.gather(before, owner_folder(args))
    if signed != before:
        study_file.write_signed(args.study, signed, replace=True)
    if args.json:
        print_json({"missing": list(signed.missing), "parties": proposing.decisions(parties)})
    else:
        console = make_console()
        console.print(proposing.render(signed, parties))
        missing = ", ".join(signed.missing)
        console.print(
            f"Still missing: {missing}." if missing else "Every party has approved; it can be opened."
        )
    return 1 if signed.missing else 0
