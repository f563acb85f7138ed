"""`trimask study`: make a study, approve it, look at it, and run it."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from trimask_cli.commands import (
    release,
    study_check,
    study_drafts,
    study_institutions,
    study_invitations,
    study_lifecycle,
)
from trimask_terminal.options import Subparsers, add_json, print_json
from trimask_terminal.running import made

if TYPE_CHECKING:
    from trimask_core.study.definition import Study
    from trimask_theory.planning.definition import StudyDefinition


def register(subparsers: Subparsers) -> None:
    """Add the command and its own commands."""
    parser = subparsers.add_parser("study", help="make, approve, show, open and close a study")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    example = commands.add_parser("example", help="print the bundled study definition, to start from")
    example.add_argument(
        "--suite",
        choices=("moments", "rows"),
        default="moments",
        help="the way of collecting (default moments)",
    )
    example.add_argument(
        "--people",
        type=int,
        metavar="N",
        help="for a release of so many people (default 2048): a rehearsal needs fewer",
    )
    example.set_defaults(run=run_example)

    study_drafts.register_in(commands)
    study_drafts.register_next(commands)
    study_drafts.register_import(commands)

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
        help="the owner's folder, whose admission.key signs invitations and orders; made if missing (default: KEYS/owner)",
    )
    new.add_argument(
        "--out", type=Path, default=Path("study.json"), metavar="FILE", help="default study.json"
    )
    new.add_argument(
        "--pilot", type=Path, metavar="FILE.csv",
        help="people like those who will be asked, whose rows may be used: what shrinking rows to row_norm takes from "
        "estimates is averaged over them, and signed with the study, so that intervals correct it; or the folder of an "
        "earlier wave's dataset (trimask study next)",
    )  # fmt: skip
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

    study_check.register_collusion(commands)

    status = commands.add_parser("status", help="ask the collector how far collection has come")
    _study_argument(status)
    status.add_argument(
        "--watch",
        action="store_true",
        help="keep asking until the study is closed, or the collector is away for 5 minutes",
    )
    status.add_argument(
        "--every", type=float, default=2.0, metavar="SECONDS", help="how often, with --watch (default 2)"
    )
    add_json(status)
    status.set_defaults(run=run_status)

    study_lifecycle.register_in(commands)
    study_check.register_in(commands)
    study_invitations.register_in(commands)
    study_invitations.register_tokens(commands)
    study_institutions.register_in(commands)
    release.register_budget(commands)


def _study_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, metavar="STUDY.json", help="the study's file")


def run_example(args: argparse.Namespace) -> int:
    """Print the bundled definition."""
    from trimask_cli.study_file import bundled_definition

    print(bundled_definition(args.suite, args.people), end="")
    return 0


def run_new(args: argparse.Namespace) -> int:
    """Make a study and say what to do next."""
    from trimask_cli import study_file
    from trimask_core.basics.clock import SystemClock
    from trimask_core.basics.errors import ConfigError, StudyError
    from trimask_core.basics.randomness import SystemRandom
    from trimask_core.study.signed import SignedStudy
    from trimask_core.study.weaknesses import form_findings, weaknesses
    from trimask_terminal.study_view import make_console, render
    from trimask_theory.planning.study_definition import load_definition
    from trimask_theory.planning.study_plan import create_study

    definition = load_definition(args.definition)
    parties = study_file.party_cards(args.keys, args.party)
    roots = args.roots or (args.keys and args.keys / "authority" / "ca.pem")
    if parties is None or roots is None:
        raise ConfigError("give --keys DIR, or --party CARD ... with --roots CA.pem")
    if args.owner is not None and not args.owner.is_dir():
        raise ConfigError(
            f"--owner {args.owner}: there is no such folder; make it, or give the one of `trimask keys`"
        )
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
    if args.pilot is not None:
        study = _with_pilot(study, args.pilot, definition)
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


def _with_pilot(study: Study, pilot: Path, definition: StudyDefinition) -> Study:
    """Corrected by a file of people, or by an earlier wave's release."""
    if pilot.is_dir():
        from trimask import Dataset
        from trimask.moments.waves import corrected_by

        earlier = Dataset.open(pilot)
        return corrected_by(study, earlier.moments, earlier.manifest.sha256)
    from trimask_client.table import read_people
    from trimask_theory.planning.pilot import with_pilot

    return with_pilot(study, read_people(pilot, definition.schema, definition.form).answers)


def run_approve(args: argparse.Namespace) -> int:
    """Explain what is approved, ask for confirmation, and sign."""
    from trimask_cli import owner, study_file
    from trimask_core.basics.clock import SystemClock
    from trimask_terminal.study_view import agreed_to, make_console
    from trimask_theory.planning.study_plan import verify_guarantees

    signed = study_file.read_signed(args.study)
    role = owner.role_in(signed.study, args.keys)
    console = make_console()
    if not agreed_to(signed.study, role, console, recompute=verify_guarantees, sure=args.yes):
        console.print("Not approved; nothing was written.")
        return 1
    signed = signed.with_approval(owner.sign(signed.study, args.keys, SystemClock().now_ms()))
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


def run_status(args: argparse.Namespace) -> int:
    """Ask the collector."""
    from trimask_cli import owner
    from trimask_cli.status_watch import render_status, watch
    from trimask_cli.study_file import read_signed
    from trimask_terminal.study_view import make_console

    study = read_signed(args.study).study
    if args.watch:
        import time

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
        make_console().print(render_status(study, status))
    return 0
