"""`trimask study check|paperwork|collusion`: what an owner reads of a study before anybody signs, and hands to a board.

`check` says what devices, operators and the app would refuse or find weak in a study or its definition. Its exit status: 0
nothing is weak, 1 something is, 2 it cannot be read or cannot be a study at all. `collusion` says who would have to collude
to recover answers, in a study or for numbers of providers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimask_terminal.options import Subparsers, add_json, print_json

if TYPE_CHECKING:
    from trimask_core.rows.collusion import Topology
    from trimask_core.study.definition import Study
    from trimask_core.study.weaknesses import Finding
    from trimask_core.suites import AnyReport


_OK, _WEAK = 0, 1
_STYLES = {"ok": "green", "weak": "yellow", "refused": "bold red"}


def register_in(commands: Subparsers) -> None:
    """Add it to the commands of `trimask study`."""
    check = commands.add_parser(
        "check",
        help="say what in a study is weak, and what would help",
        description="Every check on a line: ok; weak, which is said wherever the study is shown; or refused, which "
        "`trimask study new` makes with --allow-weak alone. Exit status: 0 nothing is weak, 1 something is, 2 it cannot "
        "be read or cannot be a study.",
    )
    check.add_argument("file", type=Path, metavar="FILE", help="STUDY.json, or a definition (.toml)")
    check.add_argument("--keys", type=Path, metavar="DIR", help="for a definition: folder with */node.json")
    check.add_argument("--party", type=Path, nargs="+", metavar="CARD", help="for a definition: nodes' cards")
    check.add_argument(
        "--right", type=int, metavar="K1", help="without cards: right providers (default 4; moments suite 2)"
    )
    check.add_argument(
        "--left", type=int, metavar="K2", help="without cards: left providers (default 2; moments suite 0)"
    )
    add_json(check)
    check.set_defaults(run=run_check)
    papers = commands.add_parser(
        "paperwork",
        help="drafts for an ethics board: consent sheet, data management plan, impact assessment, preregistration",
        description="Four drafts in Markdown from the signed study, whose sentences are those that people and institutions "
        "read. What a study cannot know is a line that begins with TO FILL IN.",
    )
    papers.add_argument("study", type=Path, metavar="STUDY.json", help="the study's file")
    papers.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="a folder that does not exist yet"
    )
    papers.add_argument("--language", default="en", help="of the consent sheet: en (default), de, ar or hi")
    papers.add_argument("--formula", default="", help="the model that is preregistered")
    papers.set_defaults(run=run_paperwork)


def run_paperwork(args: argparse.Namespace) -> int:
    """Write the drafts."""
    from trimask_cli.study_file import read_signed
    from trimask_core.basics.errors import ConfigError
    from trimask_core.explain.paperwork import paperwork
    from trimask_core.explain.sentences import LANGUAGES

    if args.language not in LANGUAGES:
        raise ConfigError(f"--language {args.language}: one of {', '.join(LANGUAGES)}")
    if args.out.exists():
        raise ConfigError(f"{args.out} exists already; give another --out")
    signed = read_signed(args.study)
    made = paperwork(signed, args.language, args.formula)
    args.out.mkdir(parents=True)
    for name, text in made.items():
        (args.out / name).write_text(text, encoding="utf-8")
        print(f"{args.out / name}: {text.count('TO FILL IN') - 1} lines to fill in")
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Read, check, print."""
    from trimask_cli.study_file import read_signed
    from trimask_core.basics.errors import ConfigError
    from trimask_core.study.weaknesses import findings, form_findings

    if args.file.suffix.lower() == ".toml":
        study, found = _drafted(args), []
    elif (args.keys, args.party, args.right, args.left) != (None, None, None, None):
        raise ConfigError(
            "a study names its parties; --keys, --party, --right and --left are for definitions"
        )
    else:
        study = read_signed(args.file).study
        found = [_claims(study)]
    found += [*findings(study), *form_findings(study)]
    if args.json:
        print_json(
            {"title": study.title, "ok": _status(found) == _OK, "checks": [_line(item) for item in found]}
        )
    else:
        _print(found)
    return _status(found)


def _status(found: list[Finding]) -> int:
    return _WEAK if any(item.weakness is not None for item in found) else _OK


def _line(item: Finding) -> dict[str, Any]:
    """JSON-ready."""
    weak = item.weakness
    return {
        "what": item.what,
        "state": "ok" if weak is None else "refused" if weak.severity == "refuse" else "weak",
        "number": None if weak is None else weak.to_dict()["number"],
        "words": item.words,
        "fix": None if weak is None else weak.fix,
    }


def _print(found: list[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from trimask_terminal.study_view import make_console

    table = Table(box=None, pad_edge=False)
    for heading in ("", "what was found", "what would help"):
        table.add_column(heading, header_style="dim")
    for line in map(_line, found):
        table.add_row(Text(line["state"], style=_STYLES[line["state"]]), line["words"], line["fix"] or "")
    make_console().print(table)


def _claims(study: Study) -> Finding:
    """What an operator's machine recomputes before it signs."""
    from trimask_core.basics.errors import StudyError
    from trimask_core.study.weaknesses import Finding, Weakness
    from trimask_theory.planning.study_plan import verify_guarantees

    try:
        verify_guarantees(study)
    except StudyError as error:
        fix = "Make the study again with `trimask study new`."
        return Finding("claims", str(error), Weakness("claims", 0.0, str(error), fix, "refuse"))
    return Finding("claims", "What it promises was recomputed on this machine, and holds.")


def _drafted(args: argparse.Namespace) -> Study:
    """The study a definition would make, with the parties given, or with as many as may be expected."""
    from trimask.simulation import expected_parties, study_with
    from trimask_cli.study_file import party_cards
    from trimask_core.basics.errors import ConfigError
    from trimask_theory.planning.study_definition import load_definition

    definition = load_definition(args.file)
    given = party_cards(args.keys, args.party)
    if given is not None and (args.right, args.left) != (None, None):
        raise ConfigError("the cards say how many parties there are; leave out --right and --left")
    plan = definition.collection
    return study_with(
        definition, given or expected_parties(plan.suite, plan.unmasking, args.right, args.left)
    )


def register_collusion(commands: Subparsers) -> None:
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
    from trimask_core.moments.study import MomentsCollusion
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
