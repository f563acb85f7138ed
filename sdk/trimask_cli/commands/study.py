"""`trimask study`: make a study, approve it, look at it, and run it."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from trimask_cli.commands import (
    budget,
    study_admission,
    study_check,
    study_course,
    study_from_csv,
    study_institutions,
)
from trimask_terminal.options import Subparsers, add_json, print_json
from trimask_terminal.outcome import made

if TYPE_CHECKING:
    from trimask_core.collusion import AnyReport
    from trimask_core.rows.collusion import Topology

__all__ = ["register"]


def register(subparsers: Subparsers) -> None:
    """Add the command and its own commands."""
    parser = subparsers.add_parser("study", help="make, approve, show, open and close a study")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    example = commands.add_parser("example", help="print the bundled study definition, to start from")
    example.add_argument(
        "--suite", choices=("rows", "moments"), default="rows", help="the way of collecting (default rows)"
    )
    example.add_argument(
        "--people",
        type=int,
        metavar="N",
        help="for a release of so many people (default 1024): a rehearsal needs fewer",
    )
    example.set_defaults(run=run_example)

    study_from_csv.register_in(commands)

    xlsform = commands.add_parser(
        "import-xlsform",
        help="make a definition of an XLSForm",
        description="Carry an XLSForm's questions over into a study definition, and list what could not be. The privacy and "
        "collection settings are left to be filled in.",
    )
    xlsform.add_argument(
        "form",
        type=Path,
        metavar="FORM",
        help="an .xlsx, or a folder with survey.csv, choices.csv and settings.csv",
    )
    xlsform.add_argument(
        "--out", type=Path, required=True, metavar="FILE.toml", help="where the definition goes"
    )
    xlsform.set_defaults(run=run_import_xlsform)

    new = commands.add_parser("new", help="make a study from its definition and its parties")
    new.add_argument("definition", type=Path, metavar="FILE.toml", help="the study's definition")
    new.add_argument(
        "--keys", type=Path, metavar="DIR", help="folder with */node.json, as `trimask keys` makes it"
    )
    new.add_argument(
        "--party", type=Path, nargs="+", metavar="CARD", help="nodes' cards (node.json), one by one"
    )
    new.add_argument(
        "--roots", type=Path, metavar="CA.pem", help="authorities the nodes' certificates come from"
    )
    new.add_argument(
        "--owner",
        type=Path,
        metavar="DIR",
        help="the owner's folder, whose admission.key signs invitations; made if it is missing (default: KEYS/owner)",
    )
    new.add_argument(
        "--out", type=Path, default=Path("study.json"), metavar="FILE", help="default study.json"
    )
    new.add_argument(
        "--allow-weak",
        action="store_true",
        help="make it also with a weakness that is refused otherwise, such as a delta above one in the people of a release",
    )
    new.set_defaults(run=run_new)

    approve = commands.add_parser("approve", help="add a party's signed approval to a study")
    _study_argument(approve)
    approve.add_argument("--keys", type=Path, required=True, metavar="DIR", help="the party's folder of keys")
    approve.add_argument("--yes", action="store_true", help="do not ask")
    approve.set_defaults(run=run_approve)

    show = commands.add_parser("show", help="show a study in words")
    _study_argument(show)
    add_json(show)
    show.set_defaults(run=run_show)

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

    status = commands.add_parser("status", help="ask the collector how far collection has come")
    _study_argument(status)
    status.add_argument(
        "--watch", action="store_true", help="keep asking until the study is closed; Ctrl-C ends it"
    )
    status.add_argument(
        "--every", type=float, default=2.0, metavar="SECONDS", help="how often, with --watch (default 2)"
    )
    add_json(status)
    status.set_defaults(run=run_status)

    study_course.register_in(commands)
    study_check.register_in(commands)
    study_admission.register(commands)
    study_institutions.register_in(commands)
    budget.register_in(commands)


def _study_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, metavar="STUDY.json", help="the study's file")


def run_example(args: argparse.Namespace) -> int:
    """Print the bundled definition."""
    from trimask_cli.study_file import bundled_definition

    print(bundled_definition(args.suite, args.people), end="")
    return 0


def run_import_xlsform(args: argparse.Namespace) -> int:
    """Import, and say what was lost and what to look at; 1 if nothing usable is left."""
    from trimask_cli.xlsform.convert import convert
    from trimask_cli.xlsform.definition_text import definition_text
    from trimask_cli.xlsform.workbook import read_workbook

    imported = convert(read_workbook(args.form))
    for heading, items in (
        ("Could not be carried over:", imported.lost),
        ("To check or fill in:", imported.check),
    ):
        if items:
            print(heading)
            print("\n".join(f"  - {item}" for item in items))
    if not imported.questions:
        print("Nothing usable is left; no definition was written.")
        return 1
    args.out.write_text(definition_text(imported, args.form.name), encoding="utf-8")
    count = sum(len(item.get("rows", [item])) for item in imported.questions if item["kind"] != "heading")
    print(
        f"{args.out}: {count} question{'s' if count != 1 else ''}, {len(imported.attributes)} attributes. "
        "Fill in [privacy] and [collection], and read it before anybody signs it."
    )
    return 0


def run_new(args: argparse.Namespace) -> int:
    """Make a study and say what to do next."""
    from trimask_cli import study_file
    from trimask_core.clock import SystemClock
    from trimask_core.errors import ConfigError, StudyError
    from trimask_core.form_checks import form_findings
    from trimask_core.randomness import SystemRandom
    from trimask_core.signed_study import SignedStudy
    from trimask_core.study_checks import weaknesses
    from trimask_terminal.study_view import make_console, render
    from trimask_theory.study_plan import create_study, load_definition

    definition = load_definition(args.definition)
    parties = study_file.party_cards(args.keys, args.party)
    roots = args.roots or (args.keys and args.keys / "authority" / "ca.pem")
    if parties is None or roots is None:
        raise ConfigError("give --keys DIR, or --party CARD ... with --roots CA.pem")
    study = create_study(
        definition,
        parties.collector,
        parties.right,
        parties.left,
        roots.read_text(encoding="ascii"),
        SystemClock().now_ms(),
        SystemRandom(),
        study_file.owner_public_key(args.owner or (args.keys and args.keys / "owner"), make=True),
    )
    texts = [found.weakness for found in form_findings(study) if found.weakness is not None]
    refused = [item for item in (*weaknesses(study), *texts) if item.severity == "refuse"]
    if refused and not args.allow_weak:
        said = " ".join(f"{item.why} {item.fix}" for item in refused)
        raise StudyError(f"{said} Or make it all the same with --allow-weak; everybody is then shown this")
    whole = SignedStudy(study)
    # The seed of B_0 stays with the owner: the file goes to the providers, who must not have it.
    signed = whole.without_seed() if whole.needs_seed else whole
    study_file.write_signed(args.out, signed, replace=False)
    kept = ""
    if whole.needs_seed:
        study_file.write_seed(study_file.seed_file(args.out), whole.mask_seed)
        kept = f"; {study_file.seed_file(args.out)} stays with you"
    made(study_id=study.id.hex(), file=args.out, seed_file=study_file.seed_file(args.out) if kept else None)
    console = make_console()
    console.print(render(signed))
    for item in texts:
        console.print(f"Note: {item.why} {item.fix}", soft_wrap=True)
    console.print(
        f"\nWritten to {args.out}, for every party{kept}. Every party runs\n"
        f"  trimask study approve {args.out} --keys ITS_OWN_FOLDER\n"
        f"(or, where the nodes run already, `trimask study propose {args.out}` takes it to their operators),\n"
        f"and then the owner\n"
        f"  trimask study open {args.out} --owner {(args.keys or Path('KEYS')) / 'owner'}",
        soft_wrap=True,
    )
    return 0


def run_approve(args: argparse.Namespace) -> int:
    """Explain what is approved, ask for confirmation, and sign."""
    from trimask_cli import signing, study_file
    from trimask_core.clock import SystemClock
    from trimask_terminal.approval import agreed_to
    from trimask_terminal.study_view import make_console
    from trimask_theory.study_plan import verify_guarantees

    signed = study_file.read_signed(args.study)
    role = signing.role_in(signed.study, args.keys)
    console = make_console()
    if not agreed_to(signed.study, role, console, recompute=verify_guarantees, sure=args.yes):
        console.print("Not approved; nothing was written.")
        return 1
    signed = signed.with_approval(signing.sign(signed.study, args.keys, SystemClock().now_ms()))
    study_file.write_signed(args.study, signed, replace=True)
    made(study_id=signed.study.id.hex(), role=role, missing=list(signed.missing))
    missing = ", ".join(signed.missing)
    console.print(
        f"Approved as {role}. " + (f"Still missing: {missing}." if missing else "Every party has approved.")
    )
    return 0


def run_show(args: argparse.Namespace) -> int:
    """Show a study."""
    from trimask_cli.study_file import read_signed
    from trimask_terminal.study_view import make_console, render, summary

    signed = read_signed(args.study)
    if args.json:
        print_json(summary(signed))
    else:
        make_console().print(render(signed))
    return 0


def run_collusion(args: argparse.Namespace) -> int:
    """The collusion report of a study, or of numbers of providers."""
    report = _report(args)
    if args.json:
        print_json(report.to_dict())
        return 0
    from trimask_cli.study_file import read_signed
    from trimask_core.rows.collusion import CollusionReport
    from trimask_core.suite_words import words_of
    from trimask_terminal.collusion_view import render
    from trimask_terminal.study_view import make_console

    console = make_console()
    console.print(render(report))
    if args.study is not None:
        study = read_signed(args.study).study
        console.print("\n".join(words_of(study).honest_people(study)), soft_wrap=True)
    if args.suggest and isinstance(report, CollusionReport):
        names = ", ".join(f'"{node}"' for node in report.topology.unmasking)
        console.print(f"\nIn the study's definition, under [collection]:\n  unmasking = [{names}]")
    return 0


def _report(args: argparse.Namespace) -> AnyReport:
    from dataclasses import replace

    from trimask_cli.study_file import read_signed
    from trimask_core.collusion import collusion_of
    from trimask_core.errors import ConfigError
    from trimask_core.moments.collusion import MomentsCollusion
    from trimask_core.rows import collusion

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
    from trimask_core.errors import ConfigError
    from trimask_core.rows import collusion

    if args.study is None:
        if args.right is None or args.left is None:
            raise ConfigError("give a study, or --right K1 --left K2")
        unmasking = tuple(args.unmasking or collusion.default_unmasking(args.right, args.left))
        return collusion.Topology(right=args.right, left=args.left, unmasking=unmasking)
    return read_signed(args.study).study.rows.topology


def run_status(args: argparse.Namespace) -> int:
    """Ask the collector."""
    from trimask_cli import owner
    from trimask_cli.study_file import read_signed
    from trimask_terminal.study_view import make_console

    study = read_signed(args.study).study
    if args.watch:
        import time

        from trimask_cli.status_watch import watch

        watch(
            study,
            lambda: owner.study_status(study),
            make_console(),
            every_seconds=max(0.1, args.every),
            as_json=args.json,
            pause=time.sleep,
        )
        return 0
    status = owner.study_status(study)
    if args.json:
        print_json({"study_id": study.id.hex(), **asdict(status)})
    else:
        make_console().print(owner.render_status(study, status))
    return 0
