"""`trimask node audit`: the log on the screen, in a file, and proved whole."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.text import Text

from trimask_core.basics.errors import ConfigError, VerificationError
from trimask_core.study.party import load_party
from trimask_server.commands.operator import Operator
from trimask_server.runtime.audit import AuditEntry, AuditHead, ChainReport, verify_chain
from trimask_terminal.options import print_json, shown_time
from trimask_terminal.study_view import make_console


def run_audit(args: argparse.Namespace) -> int:
    """Show, check, export."""
    if (args.config is None) == (args.file is None):
        raise ConfigError("give --config node.toml for a running node, or --file LOG for an exported log")
    heads: list[AuditHead] = []
    if args.file is not None:
        if args.identity is None:
            raise ConfigError("--file needs --identity: the node's public identity, or its node.json")
        identity, entries = read_identity(args.identity), list(read_log(args.file))
        beside = args.file.with_name(f"{args.file.name}.head")
        if beside.exists():
            heads += read_heads(beside, identity)
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
        heads += read_heads(path, identity)
    if args.out is not None and entries:
        args.out.write_text("".join(f"{entry.to_json()}\n" for entry in entries), encoding="utf-8")
        last = entries[-1]
        head = AuditHead(last.sequence, last.hash, last.signature)
        args.out.with_name(f"{args.out.name}.head").write_text(head.to_json() + "\n", encoding="ascii")
    if args.verify:
        report = verify_chain(entries, identity, heads)
        words = report_words(report, heads)
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

    console = make_console()
    for entry in entries:
        if as_json:
            print(entry.to_json())
        else:
            console.print(line(entry), soft_wrap=True)


def _follow(args: argparse.Namespace, after: int) -> None:

    operator = Operator.of(args.config)
    while True:
        time.sleep(1.0)
        fresh = list(operator.audit(after))
        _show(fresh, as_json=args.json)
        after = fresh[-1].sequence if fresh else after


_LOUD = {"study_refused", "requests_refused", "log_cut_short", "keys_changed", "peer_log_rewritten"}


def line(entry: AuditEntry) -> Text:
    """One entry in a line."""
    details = json.loads(entry.details)
    words = " ".join(f"{key}={_word(value)}" for key, value in details.items())
    style = "yellow" if entry.kind in _LOUD else ""
    return Text.assemble(
        (f"{entry.sequence:>6}  {shown_time(entry.time_ms)}  ", "dim"),
        (f"{entry.kind:<20}", style),
        f"  {words}",
    )


def _word(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}:{count}" for key, count in value.items())
    if isinstance(value, list):
        return ",".join(map(str, value))
    text = str(value)
    return text[:12] if len(text) >= 32 and all(letter in "0123456789abcdef" for letter in text) else text


def read_log(path: Path) -> Iterator[AuditEntry]:
    """An exported log, an entry a line."""
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            if text.strip():
                try:
                    yield AuditEntry.from_json(text)
                except VerificationError as error:
                    raise ConfigError(f"{path}, line {number}: {error}") from None


def read_heads(path: Path, identity: bytes) -> list[AuditHead]:
    """Heads somebody kept: a head's own file, or what `trimask study status --json` printed; only this node's count."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = data["audit_heads"].values() if "audit_heads" in data else [data]
        heads = [AuditHead.from_json(json.dumps(item)) for item in found]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} has no audit head: {error}") from None
    return [head for head in heads if _is_of(head, identity)]


def _is_of(head: AuditHead, identity: bytes) -> bool:
    try:
        head.verify(identity)
    except VerificationError:
        return False
    return True


def read_identity(text: str) -> bytes:
    """A public identity: 64 hexadecimal digits, or a node's card (node.json)."""
    if Path(text).is_file():
        return load_party(Path(text)).identity
    try:
        identity = bytes.fromhex(text)
    except ValueError:
        identity = b""
    if len(identity) != 32:
        raise ConfigError("--identity must be 64 hexadecimal digits, or a node's card (node.json)")
    return identity


def report_words(report: ChainReport, heads: Iterable[AuditHead]) -> str:
    """The result in a sentence or two."""
    if not report.whole:
        return f"BROKEN at entry {report.broken_at}: {report.why}. {report.entries:,} entries before it are as they were."
    known = [head.sequence for head in heads]
    against = (
        f" It reaches the kept head {max(known)}." if known else " No kept head to compare its end with."
    )
    return f"Whole: {report.entries:,} entries, every hash and signature holds; head {report.last.hash.hex()}.{against}"
