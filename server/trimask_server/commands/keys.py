"""`trimask keys`: a development authority, and every node's and the owner's keys, in one command."""

from __future__ import annotations

import argparse
from pathlib import Path

from trimask_terminal.options import Subparsers


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "keys",
        help="make a development authority and every node's keys",
        description="Make a development authority, and a folder of keys and settings for every node and the "
        "owner. In production each institution makes its own node's keys and shares node.json alone.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder to create")
    parser.add_argument(
        "--suite",
        choices=("moments", "rows"),
        default="moments",
        help="how many nodes a study of it has, if --right and --left do not say (default moments)",
    )
    parser.add_argument("--right", type=int, metavar="K1", help="right providers (moments 2, rows 4)")
    parser.add_argument("--left", type=int, metavar="K2", help="left providers (moments none, rows 2)")
    parser.add_argument("--host", default="127.0.0.1", help="address the nodes listen on (default 127.0.0.1)")
    parser.add_argument(
        "--base-port", type=int, default=7400, metavar="PORT", help="first port (default 7400)"
    )
    parser.add_argument(
        "--operator",
        action="store_true",
        help="DIR is a node's folder of keys made before: add its operator's certificate and nothing else",
    )
    parser.add_argument(
        "--http",
        action="store_true",
        help="give every node an HTTP port on loopback: health, metrics, status page",
    )
    parser.add_argument(
        "--https",
        action="store_true",
        help="give the collector and right providers an HTTPS port for browsers, for studies with [web]",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the keys and say what to do with them."""
    from rich.console import Console
    from rich.table import Table

    from trimask_server.local import keys

    if args.operator:
        keys.make_operator(args.folder)
        print(
            f"The operator's certificate is in {args.folder / 'operator'}; restart the node, which reads it then."
        )
        return 0
    right, left = (2, 0) if args.suite == "moments" else (4, 2)
    places = keys.node_places(
        right if args.right is None else args.right,
        left if args.left is None else args.left,
        args.host,
        args.base_port,
        http=args.http,
        https=args.https,
    )
    parties = keys.make_keys(args.folder, places)
    table = Table(title=f"Keys in {args.folder}", title_justify="left", box=None, pad_edge=False)
    browsers = ["browsers"] if args.https else []
    for heading in ("node", "devices and researchers", *browsers, "nodes and owner", "certificate's name"):
        table.add_column(heading)
    for party in parties.values():
        places_of = [
            party.address,
            *([party.https] if args.https else []),
            party.peer_address,
            party.tls_name,
        ]
        table.add_row(party.name, *(place or "-" for place in places_of))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        "\nEach folder is one party's own: give it to that party and to nobody else. Then\n"
        f"  trimask collector --config {args.folder / 'collector' / 'node.toml'}  (right, left: likewise)\n"
        f"  trimask study new FILE.toml --keys {args.folder}",
        markup=False,
        soft_wrap=True,
    )
    return 0
