"""`trimask study institutions`: make, extend and verify a signed directory of institutions."""

from __future__ import annotations

import argparse
from pathlib import Path

from trimask_terminal.options import Subparsers, add_json, print_json


def register_in(commands: Subparsers) -> None:
    """Add the commands to those of `trimask study`."""
    parser = commands.add_parser(
        "institutions", help="keep a signed directory of institutions, by which devices know them"
    )
    kinds = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    sign = kinds.add_parser(
        "sign",
        help="make a directory of nodes' cards, or add to one, and sign it",
        description="Put the identities of nodes' cards (node.json) into a directory and sign it. Whoever keeps a directory "
        "first makes sure of each institution by other means: a visit, a call, its own pages. A directory that exists is "
        "extended, and an institution of the same name gets its new key.",
    )
    sign.add_argument("directory", type=Path, metavar="institutions.json", help="the directory, new or not")
    sign.add_argument("--keeper", required=True, metavar="NAME", help="who keeps it")
    sign.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="the keeper's key; made if it is missing"
    )
    sign.add_argument(
        "--card", type=Path, nargs="+", default=[], metavar="CARD", help="nodes' cards to put in"
    )
    sign.add_argument("--contact", default="", help="how these institutions are reached")
    sign.add_argument("--remove", nargs="+", default=[], metavar="NAME", help="institutions to take out")
    sign.set_defaults(run=run_sign)
    check = kinds.add_parser("verify", help="check a directory's signature and list who is in it")
    check.add_argument("directory", type=Path, metavar="institutions.json", help="the directory")
    check.add_argument("--keeper-key", metavar="KEY", help="the keeper's public key it must be of, 64 digits")
    check.add_argument(
        "--study", type=Path, metavar="STUDY.json", help="also say which of its parties are in it"
    )
    add_json(check)
    check.set_defaults(run=run_verify)


def run_sign(args: argparse.Namespace) -> int:
    """Make or extend, sign, write."""
    from trimask_cli.study_file import obtain_key
    from trimask_core.study.party import load_party
    from trimask_core.submit.institutions import Directory, Institution

    key = obtain_key(args.key)
    listed: dict[str, Institution] = {}
    if args.directory.exists():
        before = Directory.from_json(args.directory.read_text(encoding="utf-8"))
        before.verify(key.public)
        listed = {item.name: item for item in before.institutions if item.name not in args.remove}
    for path in args.card:
        party = load_party(path)
        name = party.organisation or party.name
        listed[name] = Institution(name, party.identity, args.contact)
    book = Directory(args.keeper, key.public, tuple(listed.values())).signed_with(key)
    args.directory.write_text(book.to_json(), encoding="utf-8")
    print(f"{args.directory}: {len(book.institutions)} institutions, signed by {args.keeper} with the key")
    print(f"  {key.public.hex()}")
    print(
        "Tell people this key by another way than the file: `trimask-client institutions FILE --keeper KEY`."
    )
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """0 if the signature holds and, with a study, every party is in it; 1 if one is not."""
    from trimask_cli.study_file import read_signed
    from trimask_core.submit.institutions import Directory, known_parties

    book = Directory.from_json(args.directory.read_text(encoding="utf-8"))
    book.verify(None if args.keeper_key is None else bytes.fromhex(args.keeper_key))
    parties = () if args.study is None else known_parties(read_signed(args.study).study, (book,))
    unknown = [item for item in parties if item.known_as is None]
    if args.json:
        print_json(
            {
                "keeper": book.keeper,
                "keeper_key": book.keeper_key.hex(),
                "institutions": [item.to_dict() for item in book.institutions],
                "unknown": [item.role for item in unknown],
            }
        )
        return 1 if unknown else 0
    print(f"Kept and signed by {book.keeper}, key {book.keeper_key.hex()}.")
    for item in book.institutions:
        print(f"  {item.identity.hex()[:16]}  {item.name}  {item.contact}".rstrip())
    for standing in parties:
        said = f"is {standing.known_as}" if standing.known_as else "is NOT in this directory"
        print(f"{standing.role}: {standing.organisation} {said}.")
    return 1 if unknown else 0
