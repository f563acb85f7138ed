"""`trimask node audit`: the log on the screen, in a file, and proved whole."""

from __future__ import annotations

import argparse
import datetime as dt
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from trimask_terminal.options import Subparsers, add_json, duration_ms, print_json

if TYPE_CHECKING:
    from trimask_server.runtime.audit import AuditEntry


def register(commands: Subparsers) -> None:
    """Add the command to those of `trimask node`."""
    audit = commands.add_parser(
        "audit",
        help="read the audit log, check it, export it",
        description="Read the node's audit log. --verify recomputes the whole chain and every signature and compares its "
        "end with the heads that were kept; status 1 if anything is amiss. An exported log is checked anywhere with --file "
        "and --identity, without the node.",
    )
    audit.add_argument("--config", type=Path, metavar="FILE", help="the node's node.toml")
    audit.add_argument(
        "--file", type=Path, metavar="LOG", help="an exported log instead of the running node's"
    )
    audit.add_argument(
        "--identity", metavar="HEX|CARD", help="with --file: the node's public identity, or its node.json"
    )
    audit.add_argument("--verify", action="store_true", help="check every hash and signature")
    audit.add_argument(
        "--heads", type=Path, nargs="+", default=[], metavar="FILE",
        help="heads kept elsewhere, such as `trimask study status --json` prints: the log must reach them",
    )  # fmt: skip
    audit.add_argument(
        "--since", type=_since, metavar="TIME", help="show entries from a day (2026-11-01) or span (7d) on"
    )
    audit.add_argument(
        "--out",
        type=Path,
        metavar="LOG",
        help="export the whole log, an entry a line, and its head",
    )
    audit.add_argument("--follow", action="store_true", help="go on showing entries as they come")
    add_json(audit)
    audit.set_defaults(run=run_audit)


def _since(text: str) -> int:
    """Milliseconds since 1970 of a day, or of a span before now."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        try:
            return int(dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp() * 1000)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a day") from None
    return int(dt.datetime.now(dt.UTC).timestamp() * 1000) - duration_ms(text)


def run_audit(args: argparse.Namespace) -> int:
    """Show, check, export."""
    from trimask_core.basics.errors import ConfigError
    from trimask_server.commands import audit_view
    from trimask_server.commands.operator import Operator
    from trimask_server.runtime.audit import AuditHead, verify_chain

    if (args.config is None) == (args.file is None):
        raise ConfigError("give --config node.toml for a running node, or --file LOG for an exported log")
    heads: list[AuditHead] = []
    if args.file is not None:
        if args.identity is None:
            raise ConfigError("--file needs --identity: the node's public identity, or its node.json")
        identity, entries = audit_view.read_identity(args.identity), list(audit_view.read_log(args.file))
        beside = args.file.with_name(f"{args.file.name}.head")
        if beside.exists():
            heads += audit_view.read_heads(beside, identity)
    else:
        operator = Operator.of(args.config)
        identity, kept = (
            operator.identity,
            operator.kept_head(),
        )  # the head first: the log only grows meanwhile
        entries = list(operator.audit())
        if kept is not None:
            heads.append(kept)
    for path in args.heads:
        heads += audit_view.read_heads(path, identity)
    if args.out is not None and entries:
        args.out.write_text("".join(f"{entry.to_json()}\n" for entry in entries), encoding="utf-8")
        last = entries[-1]
        head = AuditHead(last.sequence, last.hash, last.signature)
        args.out.with_name(f"{args.out.name}.head").write_text(head.to_json() + "\n", encoding="ascii")
    if args.verify:
        report = verify_chain(entries, identity, heads)
        words = audit_view.report_words(report, heads)
        if args.json:
            print_json(
                {
                    "whole": report.whole,
                    "entries": report.entries,
                    "broken_at": report.broken_at,
                    "why": report.why,
                    "head": report.last.hash.hex(),
                    "identity": identity.hex(),
                    "heads_compared": [head.sequence for head in heads],
                }
            )
        else:
            print(words)
        return 0 if report.whole else 1
    if args.out is not None and not args.json:
        print(f"{len(entries):,} entries in {args.out}, its head in {args.out}.head")
        return 0
    _show(
        (entry for entry in entries if args.since is None or entry.time_ms >= args.since), as_json=args.json
    )
    if args.follow and args.config is not None:
        _follow(args, entries[-1].sequence if entries else 0)
    return 0


def _show(entries: Iterable[AuditEntry], *, as_json: bool) -> None:
    from trimask_server.commands import audit_view
    from trimask_terminal.study_view import make_console

    console = make_console()
    for entry in entries:
        if as_json:
            print(entry.to_json())
        else:
            console.print(audit_view.line(entry), soft_wrap=True)


def _follow(args: argparse.Namespace, after: int) -> None:
    import time

    from trimask_server.commands.operator import Operator

    operator = Operator.of(args.config)
    while True:
        time.sleep(1.0)
        fresh = list(operator.audit(after))
        _show(fresh, as_json=args.json)
        after = fresh[-1].sequence if fresh else after
