"""`trimask node`: the commands with which an operator makes and runs a node. What each does is in the modules beside it."""

from __future__ import annotations

import argparse
import datetime as dt
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from trimask_terminal.options import Subparsers, add_json, duration_ms

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def register(subparsers: Subparsers) -> None:
    """Add the command and its own commands."""
    parser = subparsers.add_parser(
        "node",
        help="make and operate a node: keys, check-up, studies to approve, draining, the audit log, backups, keys",
        description="For the operator of a running node, on its own machine: the certificate in the node's folder of keys "
        "(operator/) is the proof.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_init(commands)
    _add_card(commands)
    _add_doctor(commands)
    _add_operating(commands)
    _add_audit(commands)
    _add_store(commands)
    _add_sealing_key(commands)


def _run(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """What a command runs, imported only then: much comes with it, and the `trimask` program makes every parser."""

    def run(args: argparse.Namespace) -> int:
        done: int = getattr(import_module(f"trimask_server.commands.{module}"), function)(args)
        return done

    return run


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the node's node.toml")


def _add_init(commands: Subparsers) -> None:
    init = commands.add_parser(
        "init",
        help="make a node's keys, settings, certificate request and card",
        description="Make the keys of one node where it will run, its node.toml, a certificate request for your authority, "
        "and the card for study owners. What is there already is kept: run it again to make what is missing. Run it as the "
        "user that runs the node.",
    )
    init.add_argument(
        "folder", type=Path, metavar="DIR", help="folder for node.toml and keys/, such as /etc/trimask"
    )
    init.add_argument("--name", required=True, metavar="NAME", help="collector, R1, R2, ... or L1, L2, ...")
    init.add_argument(
        "--dns", required=True, metavar="NAME", help="the DNS name of the node, as r2.example.org"
    )
    init.add_argument("--organisation", required=True, help="who runs it; participants are shown this")
    init.add_argument(
        "--data", type=Path, default=Path("data"), metavar="DIR", help="where its store goes (default data)"
    )
    init.add_argument(
        "--listen", default="0.0.0.0:7400", metavar="HOST:PORT", help="for devices (default 0.0.0.0:7400)"
    )
    init.add_argument(
        "--peer-listen",
        default="0.0.0.0:7401",
        metavar="HOST:PORT",
        help="for nodes and the owner (default 0.0.0.0:7401)",
    )
    init.add_argument(
        "--http-listen",
        default="127.0.0.1:7402",
        metavar="HOST:PORT",
        help="health and metrics (default 127.0.0.1:7402)",
    )
    init.add_argument(
        "--https-listen",
        default="",
        metavar="HOST:PORT",
        help="for browsers, in studies with [web], such as 0.0.0.0:443 (default: none)",
    )
    init.add_argument(
        "--https",
        default="",
        metavar="ORIGIN",
        help="where browsers reach it (default https://NAME with the port of --https-listen)",
    )
    init.add_argument(
        "--owner-dns", default="", metavar="NAME", help="collector: the name in the owner's certificate"
    )
    add_json(init)
    init.set_defaults(run=_run("node_setup", "run_init"))


def _add_card(commands: Subparsers) -> None:
    card = commands.add_parser(
        "card",
        help="print the node's public identity, for study owners, with a fingerprint to read aloud",
        description="Print the node's card (name, addresses, public keys) and its fingerprint. The owner makes studies of "
        "cards; `trimask study show` and `trimask node studies ID` print the same fingerprint.",
    )
    _add_config(card)
    card.add_argument("--out", type=Path, metavar="FILE", help="write the card there, for the owner")
    add_json(card)
    card.set_defaults(run=_run("node_setup", "run_card"))


def _add_doctor(commands: Subparsers) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="look at files, ports, certificate, store, clock and peers, and say what to do",
        description="Look at everything a node needs, whether it runs or not: each line is ok, or says what to do. Run it "
        "as the node's user. Exit status: 0 everything is in order, 1 something is to be done, 2 it could not look.",
    )
    _add_config(doctor)
    doctor.add_argument(
        "--study", type=Path, metavar="STUDY.json", help="also reach the parties of this study"
    )
    doctor.add_argument(
        "--party", type=Path, nargs="+", default=[], metavar="CARD", help="also reach these nodes"
    )
    add_json(doctor)
    doctor.set_defaults(run=_run("doctor", "run_doctor"))


def _add_operating(commands: Subparsers) -> None:
    status = commands.add_parser("status", help="show the node's status")
    _add_config(status)
    add_json(status)
    status.set_defaults(run=_run("operator", "run_status"))

    studies = commands.add_parser(
        "studies", help="list the studies proposed to the node, or show one in plain words"
    )
    studies.add_argument("study", nargs="?", metavar="ID", help="the first digits of a study's id")
    _add_config(studies)
    add_json(studies)
    studies.set_defaults(run=_run("operator", "run_studies"))

    approve = commands.add_parser("approve", help="sign a study with the node's identity")
    approve.add_argument("study", metavar="ID", help="the first digits of the study's id")
    approve.add_argument("--yes", action="store_true", help="do not ask")
    _add_config(approve)
    add_json(approve)
    approve.set_defaults(run=_run("operator", "run_approve"))

    refuse = commands.add_parser(
        "refuse", help="refuse a study; if it is open, this node stops accepting submissions to it"
    )
    refuse.add_argument("study", metavar="ID", help="the first digits of the study's id")
    refuse.add_argument("--reason", required=True, help="why; shown to the study's owner")
    _add_config(refuse)
    add_json(refuse)
    refuse.set_defaults(run=_run("operator", "run_refuse"))

    drain = commands.add_parser(
        "drain", help="accept no new submissions and start no attempts; finish what is running"
    )
    drain.add_argument("--resume", action="store_true", help="take new work again")
    _add_config(drain)
    add_json(drain)
    drain.set_defaults(run=_run("operator", "run_drain"))


def _add_audit(commands: Subparsers) -> None:
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
    audit.set_defaults(run=_run("node_audit", "run_audit"))


def _add_store(commands: Subparsers) -> None:
    backup = commands.add_parser(
        "backup",
        help="write the node's store to a file, while it runs",
        description="Write one state of the node's store to a file, while the node runs. The file has no keys in it: keep "
        "the folder of keys too, apart from it.",
    )
    _add_config(backup)
    backup.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="a file that does not exist yet"
    )
    backup.set_defaults(run=_run("node_store", "run_backup"))

    restore = commands.add_parser(
        "restore",
        help="replace the store of a stopped node by a backup's",
        description="Replace the store of a stopped node by a backup's. When it runs again the collector tells a right "
        "provider of every block since, so that no row is used twice; rows that came in after the backup are lost.",
    )
    _add_config(restore)
    restore.add_argument("--from", type=Path, required=True, metavar="FILE", dest="file", help="the backup")
    restore.add_argument("--force", action="store_true", help="replace a store that is not empty")
    restore.add_argument(
        "--keep-factors",
        action="store_true",
        help="collector: keep what was pooled and not published in the backup. Only if nothing was published or "
        "answered since it was made; otherwise the same rows are published twice",
    )
    restore.add_argument(
        "--ledger-kept",
        action="store_true",
        help="right provider: the folder `moments` beside its keys is the one the node last ran with, not a copy. Without "
        "it nothing more is delivered of the moments studies in the backup: the same reports could get fresh noise",
    )
    restore.set_defaults(run=_run("node_store", "run_restore"))

    rotate = commands.add_parser(
        "rotate-storage-key",
        help="wrap the store's data keys under a fresh master key",
        description="Add a master key to storage.keys and wrap every data key of the store under it; the node may run. "
        "Older master keys are kept, for backups made before, until --destroy-retired.",
    )
    _add_config(rotate)
    rotate.add_argument(
        "--destroy-retired",
        action="store_true",
        help="then destroy the older master keys: backups and database logs from before cannot be read ever again",
    )
    rotate.set_defaults(run=_run("node_store", "run_rotate"))


def _add_sealing_key(commands: Subparsers) -> None:
    rotate = commands.add_parser(
        "rotate-sealing-key",
        help="make a right provider's next sealing keys",
        description="Make a new sealing key of each kind, hybrid and classical. They are pending at first, so that every "
        "process of the node has them before a device does, then devices that ask seal to them; the old ones are still "
        "accepted for --overlap after that. A device that stays offline longer loses what it sealed, so let the overlap "
        "exceed that.",
    )
    _add_config(rotate)
    rotate.add_argument(
        "--overlap",
        type=parse_span,
        default="30d",
        metavar="TIME",
        help="how long the old key stays valid (30d)",
    )
    rotate.add_argument(
        "--pending", type=parse_span, default="10m", metavar="TIME", help="until the new key is used (10m)"
    )
    rotate.set_defaults(run=_run("node_store", "run_rotate_sealing_key"))


def _since(text: str) -> int:
    """Milliseconds since 1970 of a day, or of a span before now."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        try:
            return int(dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp() * 1000)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a day") from None
    return int(dt.datetime.now(dt.UTC).timestamp() * 1000) - duration_ms(text)


def parse_span(text: str) -> int:
    """Milliseconds from "30d", "12h", "10m" or "45s"."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError("give a number and a unit, such as 30d, 12h, 10m or 45s")
    return int(match[1]) * _UNITS[match[2]] * 1000
