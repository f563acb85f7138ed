"""`trimask node init|card`: a node from nothing, and what its operator hands to a study's owner."""

from __future__ import annotations

import argparse
from pathlib import Path

from trimask_terminal.options import Subparsers, add_json, print_json


def register(commands: Subparsers) -> None:
    """Add both to the commands of `trimask node`."""
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
    init.set_defaults(run=run_init)

    card = commands.add_parser(
        "card",
        help="print the node's public identity, for study owners, with a fingerprint to read aloud",
        description="Print the node's card (name, addresses, public keys) and its fingerprint. The owner makes studies of "
        "cards; `trimask study show` and `trimask node studies ID` print the same fingerprint.",
    )
    card.add_argument("--config", type=Path, required=True, metavar="FILE", help="the node's node.toml")
    card.add_argument("--out", type=Path, metavar="FILE", help="write the card there, for the owner")
    add_json(card)
    card.set_defaults(run=run_card)


def run_init(args: argparse.Namespace) -> int:
    """Make what is missing, and say what comes next."""
    from trimask_core.study.party import fingerprint
    from trimask_server.local.keys import own_card
    from trimask_server.local.own_node import OwnNode, make_own_node

    node = OwnNode(
        name=args.name,
        dns_name=args.dns,
        organisation=args.organisation,
        data=args.data,
        address="" if args.name.startswith("L") else _reached(args.dns, args.listen),
        peer_address=_reached(args.dns, args.peer_listen),
        listen=args.listen,
        peer_listen=args.peer_listen,
        http_listen=args.http_listen,
        owner_tls_name=args.owner_dns,
        https_listen=args.https_listen,
        https=args.https or _origin(args.dns, args.https_listen),
    )
    done = make_own_node(args.folder, node)
    keys = args.folder / "keys"
    mark = fingerprint(own_card(keys))
    if args.json:
        print_json({"files": done, "fingerprint": mark})
        return 0
    for path, what in done.items():
        print(f"{what}  {path}")
    config = args.folder / "node.toml"
    print(
        f"\nFingerprint of {args.name}, to read to the study's owner: {mark}\n"
        "Next:\n"
        f"  1. have {keys / 'tls.csr'} signed for {args.dns} (or let your ACME client make tls.key and tls.pem), and put\n"
        f"     the chain into {keys / 'tls.pem'} and the authorities of the study's nodes into {keys / 'ca.pem'}\n"
        f"  2. trimask node doctor --config {config}\n"
        f"  3. trimask node card --config {config} --out {args.name}.json     for the study's owner"
    )
    return 0


def run_card(args: argparse.Namespace) -> int:
    """Print or write the card."""
    import json

    from trimask_core.crypto.sealing import SEALINGS
    from trimask_core.study.party import fingerprint
    from trimask_server.local.keys import own_card
    from trimask_server.settings.config import load_config

    card = own_card(load_config(args.config).keys)
    if args.out is not None:
        args.out.write_text(json.dumps(card.to_dict(), indent=1) + "\n", encoding="utf-8")
    if args.json:
        print_json({**card.to_dict(), "fingerprint": fingerprint(card)})
        return 0
    print(f"node          {card.name}, run by {card.organisation}")
    print(f"for devices   {card.address or '-'}")
    print(f"for browsers  {card.https or '-'}")
    print(f"for nodes     {card.peer_address}")
    print(f"TLS name      {card.tls_name}")
    print(f"fingerprint   {fingerprint(card)}")
    if card.sealing_hybrid:
        print(f"  ... where answers are sealed {SEALINGS[1]}: {fingerprint(card.sealing_as(SEALINGS[1]))}")
    if args.out is not None:
        print(f"\nThe card is in {args.out}: send it to the study's owner, and read the fingerprint to them.")
    return 0


def _reached(dns_name: str, listen: str) -> str:
    """Where others reach a node that listens somewhere."""
    return f"{dns_name}:{listen.rpartition(':')[2]}"


def _origin(dns_name: str, listen: str) -> str:
    """Where browsers reach a node that listens somewhere, as they write it."""
    if not listen:
        return ""
    port = listen.rpartition(":")[2]
    return f"https://{dns_name}" if port == "443" else f"https://{dns_name}:{port}"
