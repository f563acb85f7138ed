"""`trimask privacy total`: what several releases, waves and studies of the same people cost them together."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from trimask_terminal.options import Subparsers, add_json, print_json

if TYPE_CHECKING:
    from trimask_core.study import Study

__all__ = ["register"]


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser("privacy", help="what several studies of the same people cost together")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    total = commands.add_parser(
        "total",
        help="epsilon and delta of several studies for a person who is in all of them",
        description="For a person who is in every study named: the privacy loss of all of them together, and of each "
        "alone. A study counts once, since a row is published once; name it again for every further wave of the same "
        "people. What a budget may ever pay for counts in full. A study without noise is refused: nothing limits it.",
    )
    total.add_argument(
        "studies", type=Path, nargs="+", metavar="STUDY", help="STUDY.json, or a dataset's folder"
    )
    total.add_argument(
        "--delta",
        type=float,
        metavar="D",
        help="at which epsilon is stated (default: the sum of the studies' own)",
    )
    add_json(total)
    total.set_defaults(run=run_total)


def run_total(args: argparse.Namespace) -> int:
    """Read, add up, print."""
    from trimask_theory.accounting.studies import total

    found = total([_study(path) for path in args.studies], args.delta)
    if args.json:
        print_json(found.to_dict())
        return 0
    from rich.table import Table

    from trimask_core.guarantee import factor_words
    from trimask_terminal.study_view import make_console

    table = Table(title=f"Epsilon at delta = {found.delta:.3g} for somebody in all of them")
    table.add_column("study")
    table.add_column("epsilon", justify="right")
    for title, epsilon in found.alone:
        table.add_row(title, f"{epsilon:.4g}")
    table.add_section()
    table.add_row("together", f"{found.epsilon:.4g}", style="bold")
    if found.basic is not None:
        table.add_row(
            "stated pairs, simply added", f"{found.basic[0]:.4g} (delta {found.basic[1]:.3g})", style="dim"
        )
    console = make_console()
    console.print(table)
    console.print(
        f"Whatever is published, a conclusion about a person becomes at most {factor_words(found.epsilon)} times as likely "
        f"as without that person's answers, but for a chance of {found.delta:.3g}. Neighbours: {found.neighbours}; "
        f"{found.basis}."
    )
    return 0


def _study(path: Path) -> Study:
    from trimask_cli.study_file import read_signed

    if path.is_dir():
        from trimask import Dataset

        return Dataset.open(path).study
    return read_signed(path).study
