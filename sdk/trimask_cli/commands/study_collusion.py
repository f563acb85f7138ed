"""`trimask study collusion`: who would have to collude to recover answers, in a study or for numbers of providers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from trimask_terminal.options import Subparsers, add_json, print_json

if TYPE_CHECKING:
    from trimask_core.rows.collusion import Topology
    from trimask_core.suites import AnyReport


def register_in(commands: Subparsers) -> None:
    """Add it to the commands of `trimask study`."""
    collusion = commands.add_parser("collusion", help="list who would have to collude to recover answers")
    collusion.add_argument(
        "study", type=Path, nargs="?", metavar="STUDY.json", help="a study, or give --right, --left"
    )
    collusion.add_argument("--right", type=int, metavar="K1", help="right providers")
    collusion.add_argument("--left", type=int, metavar="K2", help="left providers; 0: the moments suite")
    collusion.add_argument(
        "--unmasking", nargs="+", metavar="NODE", help="who unmasks R1, R2, ... (default: a ring)"
    )
    collusion.add_argument(
        "--suggest", action="store_true", help="find the best unmasking nodes for these numbers"
    )
    add_json(collusion)
    collusion.set_defaults(run=run_collusion)


def run_collusion(args: argparse.Namespace) -> int:
    """The collusion report of a study, or of numbers of providers."""
    report = _report(args)
    if args.json:
        print_json(report.to_dict())
        return 0
    from trimask_cli.study_file import read_signed
    from trimask_core.explain.statement import honest_people
    from trimask_core.rows.collusion import CollusionReport
    from trimask_terminal.study_view import make_console, render_collusion

    console = make_console()
    console.print(render_collusion(report))
    if args.study is not None:
        study = read_signed(args.study).study
        console.print("\n".join(honest_people(study)), soft_wrap=True)
    if args.suggest and isinstance(report, CollusionReport):
        names = ", ".join(f'"{node}"' for node in report.topology.unmasking)
        console.print(f"\nIn the study's definition, under [collection]:\n  unmasking = [{names}]")
    return 0


def _report(args: argparse.Namespace) -> AnyReport:
    from dataclasses import replace

    from trimask_cli.study_file import read_signed
    from trimask_core.basics.errors import ConfigError
    from trimask_core.moments.collusion import MomentsCollusion
    from trimask_core.rows import collusion
    from trimask_core.suites import collusion_of

    study = None if args.study is None else read_signed(args.study).study
    if study is not None and (args.right, args.left, args.unmasking) != (None, None, None):
        raise ConfigError("a study says who its providers are; give either a study or numbers")
    if args.left == 0 or (study is not None and study.suite.name == "moments"):
        if args.suggest or args.unmasking:
            raise ConfigError("in the moments suite nothing is masked, so nobody unmasks")
        if study is None and (args.right is None or args.right < 2):
            raise ConfigError("the moments suite needs two right providers at least: give --right K1")
        return MomentsCollusion(args.right, 1) if study is None else collusion_of(study)
    topology = _topology(args)
    if args.suggest:
        better = collusion.suggest(topology.right, topology.left)
        topology = replace(topology, unmasking=better.unmasking)
    return collusion.report(topology)


def _topology(args: argparse.Namespace) -> Topology:
    from trimask_cli.study_file import read_signed
    from trimask_core.basics.errors import ConfigError
    from trimask_core.rows import collusion

    if args.study is None:
        if args.right is None or args.left is None:
            raise ConfigError("give a study, or --right K1 --left K2")
        unmasking = tuple(args.unmasking or collusion.default_unmasking(args.right, args.left))
        return collusion.Topology(right=args.right, left=args.left, unmasking=unmasking)
    return read_signed(args.study).study.rows.topology
