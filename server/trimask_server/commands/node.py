"""`trimask node`: what the operator of a node looks at and decides."""

from __future__ import annotations

import argparse
from pathlib import Path

from trimask_server.commands import node_audit, node_doctor, node_setup, node_store
from trimask_terminal.options import Subparsers, add_json, print_json, shown_time


def register(subparsers: Subparsers) -> None:
    """Add the command and its own commands."""
    parser = subparsers.add_parser(
        "node",
        help="make and operate a node: keys, check-up, studies to approve, draining, the audit log, backups, keys",
        description="For the operator of a running node, on its own machine: the certificate in the node's folder of keys "
        "(operator/) is the proof.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    node_setup.register(commands)
    node_doctor.register(commands)
    status = commands.add_parser("status", help="show the node's status")
    _config(status)
    status.set_defaults(run=run_status)

    studies = commands.add_parser(
        "studies", help="list the studies proposed to the node, or show one in plain words"
    )
    studies.add_argument("study", nargs="?", metavar="ID", help="the first digits of a study's id")
    _config(studies)
    studies.set_defaults(run=run_studies)

    approve = commands.add_parser("approve", help="sign a study with the node's identity")
    approve.add_argument("study", metavar="ID", help="the first digits of the study's id")
    approve.add_argument("--yes", action="store_true", help="do not ask")
    _config(approve)
    approve.set_defaults(run=run_approve)

    refuse = commands.add_parser(
        "refuse", help="refuse a study; if it is open, this node stops accepting submissions to it"
    )
    refuse.add_argument("study", metavar="ID", help="the first digits of the study's id")
    refuse.add_argument("--reason", required=True, help="why; shown to the study's owner")
    _config(refuse)
    refuse.set_defaults(run=run_refuse)

    drain = commands.add_parser(
        "drain", help="accept no new submissions and start no attempts; finish what is running"
    )
    drain.add_argument("--resume", action="store_true", help="take new work again")
    _config(drain)
    drain.set_defaults(run=run_drain)

    node_audit.register(commands)
    node_store.register(commands)
    node_store.register_sealing_key(commands)


def _config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the node's node.toml")
    add_json(parser)


def run_status(args: argparse.Namespace) -> int:
    """Show the node's status."""
    from rich.table import Table

    from trimask_server.commands.operator import Operator
    from trimask_terminal.study_view import make_console

    found = Operator.of(args.config).status()
    refusals = {item.reason: item.count for item in found.refusals}
    if args.json:
        print_json(
            {
                "name": found.name,
                "role": found.role,
                "identity": found.identity.hex(),
                "version": found.version,
                "started_ms": found.start_time_ms,
                "draining": found.draining,
                "studies": found.studies,
                "waiting": found.waiting,
                "allow_collectors": list(found.allow_collectors),
                "refusals": refusals,
                "audit_head": {
                    "sequence": found.audit_head.sequence,
                    "hash": found.audit_head.hash.hex(),
                    "signature": found.audit_head.signature.hex(),
                },
            }
        )
        return 0
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row(
        "node",
        f"{found.name} ({found.role}), version {found.version}, since {shown_time(found.start_time_ms)}",
    )
    table.add_row("identity", found.identity.hex())
    table.add_row("new work", "none: draining" if found.draining else "taken")
    table.add_row("studies", f"{found.studies} registered, {found.waiting} waiting for you")
    table.add_row("collectors", ", ".join(found.allow_collectors) or "any (allow_collectors is empty)")
    table.add_row(
        "refused", ", ".join(f"{reason} {count:,}" for reason, count in refusals.items()) or "nothing"
    )
    table.add_row("audit log", f"{found.audit_head.sequence:,} entries, head {found.audit_head.hash.hex()}")
    make_console().print(table)
    return 0


def run_studies(args: argparse.Namespace) -> int:
    """List the studies, or show one."""
    from rich.table import Table
    from rich.text import Text

    from trimask_core.suites import collusion_of
    from trimask_server.commands.operator import Operator
    from trimask_terminal import study_view
    from trimask_terminal.study_view import approval_words, decision_word, make_console, render, summary

    operator, console = Operator.of(args.config), make_console()
    if args.study is not None:
        proposal, signed = operator.show(args.study)
        decision = decision_word(proposal.decision)
        if args.json:
            print_json(
                summary(signed)
                | {
                    "role": proposal.role,
                    "decision": decision,
                    "reason": proposal.reason,
                    "state": proposal.state,
                }
            )
            return 0
        console.print(render(signed))
        console.print(Text())
        console.print(study_view.render_collusion(collusion_of(signed.study)))
        console.print(Text("\nIn plain words", style="bold"))
        for sentence in approval_words(signed.study, proposal.role):
            console.print(f"- {sentence}")
        said = f"{decision}: {proposal.reason}" if proposal.reason else decision
        console.print(
            f"\nYour decision: {said}" + (f"; the study is {proposal.state}" if proposal.state else "")
        )
        return 0
    found = operator.proposals()
    if args.json:
        print_json(
            [
                {
                    "id": item.study_id.hex(),
                    "title": item.title,
                    "collector": item.collector,
                    "role": item.role,
                    "decision": decision_word(item.decision),
                    "reason": item.reason,
                    "proposed_ms": item.propose_time_ms or None,
                    "state": item.state,
                }
                for item in found
            ]
        )
        return 0
    if not found:
        console.print("No study was proposed to this node yet.")
        return 0
    table = Table(box=None, pad_edge=False)
    for heading in ("study", "title", "run by", "this node is", "proposed", "decision", "state"):
        table.add_column(heading, header_style="dim", no_wrap=heading == "study")  # an id is copied whole
    for item in found:
        proposed = shown_time(item.propose_time_ms) if item.propose_time_ms else "by file"
        decision = decision_word(item.decision)
        table.add_row(
            item.study_id.hex()[:12], item.title, item.collector, item.role, proposed,
            f"{decision}: {item.reason}" if item.reason else decision, item.state or "-",
        )  # fmt: skip
    console.print(table)
    if any(decision_word(item.decision) == "waiting" for item in found):
        console.print(
            "\n`trimask node studies ID` says what a study asks and promises; then `approve ID` or `refuse ID`."
        )
    return 0


def run_approve(args: argparse.Namespace) -> int:
    """Approve a study at the node."""
    from trimask_server.commands.operator import Operator
    from trimask_terminal.study_view import agreed_to, make_console
    from trimask_theory.planning.study_plan import verify_guarantees

    operator, console = Operator.of(args.config), make_console()
    proposal, signed = operator.show(args.study)
    console.quiet = args.json
    if not agreed_to(
        signed.study, proposal.role, console, recompute=verify_guarantees, sure=args.yes or args.json
    ):
        console.print("Not approved; nothing was signed.")
        return 1
    operator.approve(signed.study.id)
    if args.json:
        print_json({"id": signed.study.id.hex(), "role": proposal.role, "decision": "approved"})
    console.print(f"Approved as {proposal.role}; the study's owner can gather the signature now.")
    return 0


def run_refuse(args: argparse.Namespace) -> int:
    """Refuse a study at the node."""
    from trimask_server.commands.operator import Operator

    operator = Operator.of(args.config)
    proposal, signed = operator.show(args.study)
    operator.refuse(signed.study.id, args.reason)
    if args.json:
        print_json(
            {"id": signed.study.id.hex(), "role": proposal.role, "decision": "refused", "reason": args.reason}
        )
    else:
        stopped = "; this node accepts no more submissions to it" if proposal.state == "open" else ""
        print(
            f"Refused {signed.study.title!r}{stopped}. The study's owner sees the reason with `trimask study approvals`."
        )
    return 0


def run_drain(args: argparse.Namespace) -> int:
    """Drain, or accept new work again."""
    from trimask_server.commands.operator import Operator

    running = Operator.of(args.config).drain(resume=args.resume)
    if args.json:
        print_json({"draining": not args.resume, "running": running})
    elif args.resume:
        print("New work is accepted again.")
    else:
        still = f"{running} tasks still run" if running else "nothing runs any more"
        print(
            f"Draining: no new submissions are accepted and no attempts started; devices and the collector wait. "
            f"{still.capitalize()}."
        )
    return 0
