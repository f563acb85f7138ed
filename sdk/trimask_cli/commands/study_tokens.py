"""`trimask study token new|list|revoke`: researchers' tokens."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trimask_cli.commands.study_lifecycle import add_owner_options, owner_folder
from trimask_terminal.options import Subparsers, duration_ms, print_json, shown_time


def register_in(commands: Subparsers) -> None:
    """Add `token` to `trimask study`."""
    token = commands.add_parser("token", help="make, list and revoke researchers' tokens")
    kinds = token.add_subparsers(title="commands", metavar="COMMAND", required=True)
    new = kinds.add_parser("new", help="make a token; it is shown once")
    add_owner_options(new)
    new.add_argument("--name", required=True, help="who it is for")
    new.add_argument(
        "--scope",
        default="datasets",
        metavar="SCOPES",
        help="datasets, releases, owner (for the console), several with commas (default datasets)",
    )
    new.add_argument("--expires", type=duration_ms, default="90d", metavar="SPAN", help="default 90d")
    new.add_argument(
        "--out", type=Path, metavar="FILE", help="write the token to a file instead of showing it"
    )
    new.set_defaults(run=run_token_new)
    listed = kinds.add_parser("list", help="list a study's tokens, without the tokens")
    add_owner_options(listed)
    listed.set_defaults(run=run_token_list)
    revoke = kinds.add_parser("revoke", help="end a token now")
    add_owner_options(revoke)
    revoke.add_argument("token_id", metavar="ID", help="as `list` shows it, or its first digits")
    revoke.set_defaults(run=run_token_revoke)


def run_token_new(args: argparse.Namespace) -> int:
    """Make a token."""
    from trimask_cli import tokens
    from trimask_cli.study_file import read_signed
    from trimask_core.basics.clock import SystemClock

    study = read_signed(args.study).study
    scopes = [word.strip() for word in args.scope.split(",") if word.strip()]
    expires_ms = SystemClock().now_ms() + args.expires
    text, made = tokens.new(study, owner_folder(args), args.name, scopes, expires_ms, args.out)
    if args.json:
        print_json(made | ({} if args.out else {"token": text}))
        return 0
    if args.out is None:
        print(text)
    where = f"in {args.out}" if args.out else "shown now and never again"
    print(
        f"Token {made['id']} for {made['name']}: {', '.join(scopes)}, until {shown_time(expires_ms)}; {where}.",
        file=sys.stderr,
    )
    return 0


def run_token_list(args: argparse.Namespace) -> int:
    """List tokens."""
    from trimask_cli import tokens
    from trimask_cli.study_file import read_signed
    from trimask_terminal.study_view import make_console

    listed = tokens.listed(read_signed(args.study).study, owner_folder(args))
    if args.json:
        print_json(listed)
    else:
        make_console().print(tokens.render(listed))
    return 0


def run_token_revoke(args: argparse.Namespace) -> int:
    """Revoke a token."""
    from trimask_cli import tokens
    from trimask_cli.study_file import read_signed

    token_id = tokens.revoke(read_signed(args.study).study, owner_folder(args), args.token_id)
    if args.json:
        print_json({"id": token_id, "revoked": True})
    else:
        print(f"Token {token_id} is revoked.")
    return 0
