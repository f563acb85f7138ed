"""`trimask study invite|invitations|token new|list|revoke`: who may submit, and who may read what is published."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trimask_cli.commands.study_lifecycle import add_owner_options, owner_folder
from trimask_terminal.options import Subparsers, duration_ms, print_json, shown_time


def register_in(commands: Subparsers) -> None:
    """Add `invite` and `invitations` to `trimask study`."""
    invite = commands.add_parser(
        "invite",
        help="make invitations, or print an open study's link",
        description="Make single-use invitations to an invited study, signed with the owner's key or by the right provider "
        "that admits, and write them as links, a table, QR codes, or as a sheet to print. They cannot be listed again or "
        "revoked. An open study has one link for everybody.",
    )
    add_owner_options(invite)
    invite.add_argument("--count", type=int, metavar="N", help="how many (an invited study)")
    invite.add_argument(
        "--expires", type=duration_ms, metavar="SPAN", help="for how long, such as 30d (default 30d)"
    )
    invite.add_argument("--csv", type=Path, metavar="FILE", help="write number, link and expiry as a table")
    invite.add_argument("--links", type=Path, metavar="FILE", help="write one link a line")
    invite.add_argument("--qr", type=Path, metavar="FOLDER", help="write a QR code a file")
    invite.add_argument("--qr-format", choices=("svg", "png"), default="svg", help="default svg")
    invite.add_argument("--sheet", type=Path, metavar="FILE.html", help="write a page of QR codes to print")
    invite.add_argument(
        "--host",
        default="",
        metavar="ORIGIN",
        help="which host's page the links open (a study with [web]; default: the first it names)",
    )
    invite.add_argument(
        "--app", action="store_true", help="links for the app alone (trimask://), also where there is a page"
    )
    invite.set_defaults(run=run_invite)

    used = commands.add_parser(
        "invitations",
        help="how many invitations were used at each right provider, and which were not",
        description="Ask every right provider, directly, how many invitations were used. With --made, the files that "
        "`invite` wrote, say which of them were not used, to remind people; for that the study needs `reminders = true`, "
        "so that people know. The comparison is made here: the nodes do not see who was invited.",
    )
    add_owner_options(used)
    used.add_argument(
        "--made",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="what `invite` wrote with --csv or --links, or a mail merge of it",
    )
    used.add_argument(
        "--unused", type=Path, metavar="FILE", help="write the lines of --made that were not used"
    )
    used.set_defaults(run=run_invitations)


def run_invite(args: argparse.Namespace) -> int:
    """Make invitations and write them down."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from trimask_cli import invitations, study_file
    from trimask_core.basics.clock import SystemClock
    from trimask_core.basics.errors import ConfigError

    study = study_file.read_signed(args.study).study
    # What cannot be written is found out before anything is signed: an invitation is made once.
    for path in (args.csv, args.links, args.sheet):
        if path is not None and path.exists():
            raise ConfigError(f"{path} exists already; invitations are never written over")
    if args.qr is not None and args.qr.exists() and any(args.qr.iterdir()):
        raise ConfigError(f"{args.qr} is not empty; give a new folder")
    address = invitations.link_address(study, args.host, for_app=args.app)
    invited = study.admission == "invited"
    if not invited and (args.count is not None or args.expires is not None):
        raise ConfigError(
            "this study is open: anybody may submit with its one link, so there is nothing to count or to expire. "
            'Leave --count and --expires out; a study for invited people has admission = "invited"'
        )
    if invited and (args.count is None or args.count < 1):
        raise ConfigError("say how many invitations: --count N")
    count = args.count if invited else 1
    expires_ms = SystemClock().now_ms() + (args.expires or duration_ms("30d"))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(file=sys.stderr), disable=args.json or count < 20) as progress:
        signing = progress.add_task("signing", total=count)
        links = (
            invitations.make_invitations(
                study,
                owner_folder(args),
                count,
                expires_ms,
                lambda done: progress.update(signing, completed=done),
                address,
            )
            if invited
            else [invitations.open_link(study, address)]
        )
        if args.csv is not None:
            invitations.write_csv(args.csv, links)
        if args.links is not None:
            invitations.write_links(args.links, links)
        if args.qr is not None or args.sheet is not None:
            drawing = progress.add_task("QR codes", total=count)
            codes = invitations.draw_codes(links, lambda done: progress.update(drawing, completed=done))
            if args.qr is not None:
                invitations.write_codes(args.qr, codes, args.qr_format)
            if args.sheet is not None:
                invitations.write_sheet(args.sheet, study, links, codes)
    written = [str(path) for path in (args.csv, args.links, args.qr, args.sheet) if path is not None]
    if args.json:
        print_json(
            {
                "study_id": study.id.hex(),
                "admission": study.admission,
                "count": count,
                "expires_ms": expires_ms if invited else None,
                "written": written,
                "links": [] if written else [str(link) for link in links],
            }
        )
    elif written:
        what = (
            f"{count:,} invitations, until {shown_time(expires_ms)}"
            if invited
            else f"The study's link, {links[0]}"
        )
        print(f"{what}: {', '.join(written)}")
        if invited:
            print(
                "Each takes one submission. They are kept nowhere else: a lost one is replaced, not found again."
            )
    else:
        print("\n".join(str(link) for link in links))
    return 0


def run_invitations(args: argparse.Namespace) -> int:
    """Ask every right provider; status 1 if one did not answer or they differ."""
    from trimask_cli import invitations, study_file
    from trimask_core.basics.clock import SystemClock
    from trimask_core.basics.errors import ConfigError

    study = study_file.read_signed(args.study).study
    if args.unused is not None and args.made is None:
        raise ConfigError("--unused needs --made FILE, what `trimask study invite` wrote")
    made = [] if args.made is None else [invitations.read_made(path, study.id) for path in args.made]
    use = invitations.ask(study, owner_folder(args), with_keys=bool(made))
    found = invitations.compare(made, use, SystemClock().now_ms())
    if args.unused is not None:
        invitations.write_unused(args.unused, found)
    if args.json:
        print_json(found.to_dict() | {"study_id": study.id.hex()})
    else:
        print("\n".join(found.lines(args.unused)))
    return 0 if use.agree else 1


def register_tokens(commands: Subparsers) -> None:
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
    from trimask_cli import owner
    from trimask_cli.study_file import read_signed
    from trimask_core.basics.clock import SystemClock

    study = read_signed(args.study).study
    scopes = [word.strip() for word in args.scope.split(",") if word.strip()]
    expires_ms = SystemClock().now_ms() + args.expires
    text, made = owner.new_token(study, owner_folder(args), args.name, scopes, expires_ms, args.out)
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
    from trimask_cli import owner
    from trimask_cli.study_file import read_signed
    from trimask_terminal.study_view import make_console

    listed = owner.tokens(read_signed(args.study).study, owner_folder(args))
    if args.json:
        print_json(listed)
    else:
        make_console().print(owner.render_tokens(listed))
    return 0


def run_token_revoke(args: argparse.Namespace) -> int:
    """Revoke a token."""
    from trimask_cli import owner
    from trimask_cli.study_file import read_signed

    token_id = owner.revoke_token(read_signed(args.study).study, owner_folder(args), args.token_id)
    if args.json:
        print_json({"id": token_id, "revoked": True})
    else:
        print(f"Token {token_id} is revoked.")
    return 0
