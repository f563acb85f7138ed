"""`trimask web export|check|serve`: the page on which people take part from a browser."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from trimask_core.basics.errors import ConfigError
from trimask_terminal.options import Subparsers, add_json, print_json


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    web = subparsers.add_parser(
        "web", help="write and check the page on which people take part from a browser"
    )
    commands = web.add_subparsers(title="commands", metavar="COMMAND", required=True)

    export = commands.add_parser(
        "export",
        help="write a study's page as static files, for any web server",
        description="Write DIR/s/CODE: the page's files, SHA256SUMS, and study.json. Who hosts them could change them and "
        "read what is answered there, so host them with somebody who is no party of the study.",
    )
    _study(export)
    export.add_argument(
        "--out", type=Path, metavar="DIR", help="the site's root; may be left out with --headers"
    )
    export.add_argument("--replace", action="store_true", help="write over what is there")
    export.add_argument(
        "--headers",
        choices=("nginx", "caddy"),
        help="print the headers the web server should send, as its settings",
    )
    _page(export)
    add_json(export)
    export.set_defaults(run=run_export)

    check = commands.add_parser(
        "check",
        help="hold the page against the study's hash; without a study, print the page's hash",
        description="Fetch every file from the hosts a study names, or read an exported folder, and compare. It shows what "
        "the host gave to this program: a host could give other files to others. Without a study, print the hash of the "
        "page that comes with trimask, for [web] page_sha256 of a study: the same on every machine.",
    )
    _study(check, nargs="?")
    _page(check)
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


def _study(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    parser.add_argument(
        "study", type=Path, nargs=nargs, metavar="STUDY.json", help="the study, as devices get it"
    )


def _page(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--page",
        type=Path,
        metavar="DIR",
        help="a page of your own, or another version's files, in place of those here",
    )


def _files(args: argparse.Namespace) -> dict[str, bytes]:
    from trimask_cli.site.page import page_of

    return page_of(args.page or _page_folder())


def run_export(args: argparse.Namespace) -> int:
    """Write the site, or print what its server should send, or both."""
    from trimask_cli.site.hosting import headers_of, require_web, server_words, write_site
    from trimask_cli.study_file import read_signed
    from trimask_core.basics.errors import ConfigError
    from trimask_core.submit.invitation import Link

    if args.out is None and args.headers is None:
        raise ConfigError("give --out DIR, the site's root, or --headers nginx|caddy")
    signed = read_signed(args.study)
    study, files = signed.study, _files(args)
    web = require_web(study)
    pages = [Link(host, study.id).page for host in web.hosts]
    folder = None if args.out is None else write_site(args.out, signed, files, replace=args.replace)
    if args.json:
        told = {"files": len(files), "page_sha256": web.page_sha256, "pages": pages}
        print_json({"folder": folder and str(folder), **told, "headers": headers_of(study, files)})
        return 0
    if folder is not None:
        print(f"{len(files) + 2} files in {folder}, page {web.page_sha256}")
        print(f"Serve {args.out} so that it is found at {' and '.join(pages)}")
        more = "" if args.headers else "--headers nginx (or caddy) prints the headers to send with it. "
        print(f"{more}`trimask web check {args.study}` looks at what is served.")
    if args.headers is not None:
        print(server_words(study, files, args.headers))
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Compare; or print the page's own hash."""
    from trimask_cli.site.hosting import check_files, from_folder, from_host, require_web
    from trimask_cli.site.page import page_hash
    from trimask_cli.study_file import read_signed

    if args.study is None:
        page = _files(args)
        sizes = {"files": len(page), "bytes": sum(map(len, page.values()))}
        if args.json:
            print_json({"page_sha256": page_hash(page), **sizes})
        else:
            print(page_hash(page))
        return 0
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
    from trimask_cli.site.hosting import site_server
    from trimask_core.study.signed import SignedStudy

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


def _page_folder() -> Path:
    """The folder with index.html: beside trimask_client in its wheel, in client/web in a checkout."""
    import trimask_client

    own = Path(trimask_client.__file__).parent
    for folder in (own / "web", own.parent / "web"):
        if (folder / "index.html").is_file():
            return folder
    raise ConfigError("the files of the survey page are missing here: reinstall trimask-client")
