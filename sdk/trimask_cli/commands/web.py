"""`trimask web hash|export|headers|check|serve`: the page on which people take part from a browser."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from trimask_terminal.options import Subparsers, add_json, print_json

__all__ = ["register"]


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    web = subparsers.add_parser(
        "web", help="write and check the page on which people take part from a browser"
    )
    commands = web.add_subparsers(title="commands", metavar="COMMAND", required=True)

    hashed = commands.add_parser(
        "hash",
        help="print the hash of the page, for [web] page_sha256 of a study",
        description="Print the SHA-256 of the page's SHA256SUMS: the same for every study, and on every machine.",
    )
    _page(hashed)
    add_json(hashed)
    hashed.set_defaults(run=run_hash)

    export = commands.add_parser(
        "export",
        help="write a study's page as static files, for any web server",
        description="Write DIR/s/CODE: the page's files, SHA256SUMS, and study.json. Who hosts them could change them and "
        "read what is answered there, so host them with somebody who is no party of the study.",
    )
    _study(export)
    export.add_argument("--out", type=Path, required=True, metavar="DIR", help="the site's root")
    export.add_argument("--replace", action="store_true", help="write over what is there")
    _page(export)
    add_json(export)
    export.set_defaults(run=run_export)

    headers = commands.add_parser(
        "headers", help="print the headers a web server should send, as its settings"
    )
    _study(headers)
    headers.add_argument(
        "--for", dest="server", choices=("nginx", "caddy"), default="nginx", help="default nginx"
    )
    _page(headers)
    add_json(headers)
    headers.set_defaults(run=run_headers)

    check = commands.add_parser(
        "check",
        help="fetch the page from its hosts and hold every file against the study's hash",
        description="Fetch every file from the hosts a study names, or read an exported folder, and compare. It shows what "
        "the host gave to this program: a host could give other files to others.",
    )
    _study(check)
    check.add_argument(
        "--folder", type=Path, metavar="DIR", help="an exported folder, DIR/s/CODE, in place of the hosts"
    )
    check.add_argument("--ca", type=Path, metavar="FILE", help="authorities (PEM) in place of the system's")
    add_json(check)
    check.set_defaults(run=run_check)

    serve = commands.add_parser(
        "serve",
        help="serve an exported site on this machine, to try it",
        description="Serve DIR on http://localhost:PORT, on loopback alone, until stopped. A study must name "
        "http://localhost:PORT in [web] hosts for its nodes to answer such a page.",
    )
    serve.add_argument("site", type=Path, metavar="DIR", help="what `trimask web export` wrote")
    serve.add_argument("--port", type=int, default=8000, help="default 8000")
    serve.set_defaults(run=run_serve)


def _study(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, metavar="STUDY.json", help="the study, as devices get it")


def _page(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--page", type=Path, metavar="DIR", help="the page's files, in place of those that come with trimask"
    )


def _files(args: argparse.Namespace) -> dict[str, bytes]:
    from trimask_cli.site.page import page_of
    from trimask_client.page_files import page_folder

    return page_of(args.page or page_folder())


def run_hash(args: argparse.Namespace) -> int:
    """Print it."""
    from trimask_cli.site.page import page_hash

    files = _files(args)
    if args.json:
        print_json(
            {"page_sha256": page_hash(files), "files": len(files), "bytes": sum(map(len, files.values()))}
        )
    else:
        print(page_hash(files))
    return 0


def run_export(args: argparse.Namespace) -> int:
    """Write the site."""
    from trimask_cli.site.hosting import require_web, write_site
    from trimask_cli.study_file import read_signed
    from trimask_core.invitation import Link

    signed = read_signed(args.study)
    web, files = require_web(signed.study), _files(args)
    folder = write_site(args.out, signed, files, replace=args.replace)
    pages = [Link(host, signed.study.id).page for host in web.hosts]
    if args.json:
        print_json(
            {"folder": str(folder), "files": len(files), "page_sha256": web.page_sha256, "pages": pages}
        )
        return 0
    print(f"{len(files) + 2} files in {folder}, page {web.page_sha256}")
    print(f"Serve {args.out} so that it is found at {' and '.join(pages)}")
    print(
        f"`trimask web headers {args.study}` has the headers, `trimask web check {args.study}` looks at what is served."
    )
    return 0


def run_headers(args: argparse.Namespace) -> int:
    """Print the settings."""
    from trimask_cli.site.hosting import headers_of, require_web, server_words
    from trimask_cli.study_file import read_signed

    study, files = read_signed(args.study).study, _files(args)
    require_web(study)
    if args.json:
        print_json(headers_of(study, files))
    else:
        print(server_words(study, files, args.server))
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Compare."""
    from trimask_cli.site.checking import check_files, from_folder, from_host
    from trimask_cli.site.hosting import require_web
    from trimask_cli.study_file import read_signed

    study = read_signed(args.study).study
    web = require_web(study)
    if args.folder is not None:
        found = {str(args.folder): check_files(study, from_folder(args.folder))}
    else:
        found = {host: check_files(study, from_host(study, host, args.ca)) for host in web.hosts}
    if args.json:
        print_json(
            {"page_sha256": web.page_sha256, "checked": {place: len(files) for place, files in found.items()}}
        )
        return 0
    for place, files in found.items():
        print(f"{place}: {len(files)} files and the study, as the study says (page {web.page_sha256[:16]}…)")
    return 0


def run_serve(args: argparse.Namespace) -> int:
    """Serve until told to stop."""
    from trimask_cli.site.serving import site_server
    from trimask_core.signed_study import SignedStudy

    with site_server(args.site, args.port) as server:
        origin = f"http://localhost:{server.server_port}"
        for path in sorted(args.site.glob("s/*/study.json")):
            study = SignedStudy.from_json(path.read_text(encoding="utf-8")).study
            print(f"{origin}/s/{path.parent.name}  {study.title}")
            if study.web is None or origin not in study.web.hosts:
                print(f"  its nodes will refuse this page: the study does not name {origin}")
        print(f"Serving {args.site} on {origin}; Ctrl-C ends it.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.2)
    return 0
