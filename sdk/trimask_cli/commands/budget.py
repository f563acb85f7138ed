"""`trimask study budget` and `trimask study end-releases`: the ledger of a study that gives private answers."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from trimask_terminal.options import Subparsers, add_json, print_json


def register_in(commands: Subparsers) -> None:
    """Add both to the commands of `trimask study`."""
    budget = commands.add_parser(
        "budget", help="what was spent on private answers, on which, and what is left; anybody may ask"
    )
    budget.add_argument("study", type=Path, metavar="STUDY.json", help="the study's file")
    add_json(budget)
    budget.set_defaults(run=run_budget)

    end = commands.add_parser(
        "end-releases",
        help="end private answers before the budget is spent, and erase the data they come from",
        description="Every right provider's share of the totals that answers come from is erased permanently. Answers "
        "already given can still be fetched.",
    )
    end.add_argument("study", type=Path, metavar="STUDY.json", help="the study's file")
    end.add_argument("--owner", type=Path, required=True, metavar="DIR", help="the owner's folder of keys")
    end.add_argument("--yes", action="store_true", help="do not ask")
    end.set_defaults(run=run_end)


def run_budget(args: argparse.Namespace) -> int:
    """Ask the collector."""
    import trimask
    from trimask import release
    from trimask_cli.study_file import read_signed
    from trimask_core.study.definition import Study

    study: Study = read_signed(args.study).verify()
    party = study.collector
    with trimask.connect(party.address, roots=study.tls_roots or None, tls_name=party.tls_name) as connection:
        status = release.budget(connection, study.id)
    if args.json:
        print_json({"study_id": study.id.hex(), **asdict(status)})
    else:
        print(status)
    return 0


def run_end(args: argparse.Namespace) -> int:
    """Close and erase."""
    import sys

    from trimask_cli import owner
    from trimask_cli.study_file import read_signed
    from trimask_core.basics.errors import ConfigError

    study = read_signed(args.study).verify()
    if not args.yes:
        if not sys.stdin.isatty():
            raise ConfigError(
                "what is erased does not come back: give --yes to end the answers of this study"
            )
        question = f"No question about “{study.title}” can be asked after this, ever. End it? [y/N] "
        if input(question).strip().lower() not in ("y", "yes"):
            raise ConfigError("nothing was ended")
    owner.end_releases(study, args.owner)
    print(f"Ended: study {study.id.hex()}'s totals are erased; answers already given can still be fetched.")
    return 0
