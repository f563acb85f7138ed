"""`trimask study token new|list|revoke`: researchers' tokens, and the owner's calls about them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from trimask_cli.owner import add_owner_options, owner_channel, owner_folder
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import ConfigError
from trimask_core.study.definition import Study
from trimask_proto.v1 import admission_pb2
from trimask_proto.v1.admission_pb2_grpc import AdmissionOwnerServiceStub
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
    from trimask_cli.study_file import read_signed
    from trimask_core.basics.clock import SystemClock

    study = read_signed(args.study).study
    scopes = [word.strip() for word in args.scope.split(",") if word.strip()]
    expires_ms = SystemClock().now_ms() + args.expires
    text, made = new(study, owner_folder(args), args.name, scopes, expires_ms, args.out)
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
    from trimask_cli.study_file import read_signed
    from trimask_terminal.study_view import make_console

    listed = list_tokens(read_signed(args.study).study, owner_folder(args))
    if args.json:
        print_json(listed)
    else:
        make_console().print(render(listed))
    return 0


def run_token_revoke(args: argparse.Namespace) -> int:
    """Revoke a token."""
    from trimask_cli.study_file import read_signed

    token_id = revoke(read_signed(args.study).study, owner_folder(args), args.token_id)
    if args.json:
        print_json({"id": token_id, "revoked": True})
    else:
        print(f"Token {token_id} is revoked.")
    return 0


_SECONDS = 30.0
_DIGITS = 4


def new(
    study: Study, owner: Path, name: str, scopes: list[str], expires_ms: int, out: Path | None
) -> tuple[str, dict[str, Any]]:
    """A new token and how it is listed; written to `out`, for its owner's eyes, if given."""
    descriptor = None
    if out is not None:  # before the token is made: it is shown once
        try:
            descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise ConfigError(f"{out} exists already; give another --out") from None
    request = admission_pb2.CreateTokenRequest(
        study_id=study.id, name=name, scopes=scopes, expire_time_ms=expires_ms
    )
    try:
        with owner_channel(study, owner) as channel:
            made = AdmissionOwnerServiceStub(channel).CreateToken(request, timeout=_SECONDS)
    except BaseException:
        if out is not None:
            out.unlink()
        raise
    if descriptor is not None:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(made.token + "\n")
    return made.token, _entry(made.summary)


def list_tokens(study: Study, owner: Path) -> list[dict[str, Any]]:
    """A study's tokens."""
    request = admission_pb2.ListTokensRequest(study_id=study.id)
    with owner_channel(study, owner) as channel:
        found = AdmissionOwnerServiceStub(channel).ListTokens(request, timeout=_SECONDS)
    return [_entry(item) for item in found.tokens]


def revoke(study: Study, owner: Path, token_id: str) -> str:
    """End a token, named by its id or by enough of its first digits; its whole id."""
    found = [
        item["id"]
        for item in list_tokens(study, owner)
        if len(token_id) >= _DIGITS and item["id"].startswith(token_id)
    ]
    if len(found) > 1:
        raise ConfigError(f"{len(found)} tokens begin with {token_id}; give more of its digits")
    token_id = found[0] if found else token_id
    request = admission_pb2.RevokeTokenRequest(study_id=study.id, token_id=token_id)
    with owner_channel(study, owner) as channel:
        AdmissionOwnerServiceStub(channel).RevokeToken(request, timeout=_SECONDS)
    return token_id


def render(entries: list[dict[str, Any]]) -> Table | Text:
    """Tokens as a table."""
    if not entries:
        return Text("No tokens yet; `trimask study token new` makes one.")
    table = Table(box=None, pad_edge=False)
    for heading in ("id", "for", "scopes", "made", "until", "state"):
        table.add_column(heading, header_style="dim", no_wrap=heading == "id")  # an id is copied whole
    for item in entries:
        table.add_row(
            item["id"],
            item["name"],
            ", ".join(item["scopes"]),
            shown_time(item["created_ms"]),
            shown_time(item["expires_ms"]),
            Text(item["state"], style="green" if item["state"] == "valid" else "red"),
        )
    return table


def _entry(item: admission_pb2.TokenSummary) -> dict[str, Any]:
    over = item.expire_time_ms <= SystemClock().now_ms()
    return {
        "id": item.token_id,
        "name": item.name,
        "scopes": list(item.scopes),
        "created_ms": item.create_time_ms,
        "expires_ms": item.expire_time_ms,
        "state": "revoked" if item.revoke_time_ms else "expired" if over else "valid",
    }
