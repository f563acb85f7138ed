"""A study's folder on a host, the headers to send with it, and whether a host serves the page that the study names.

Anybody may compare, file for file. What this shows is what the host gave to this program, now; it could give other files to
others. A site on this machine, to try it, has the headers that `trimask web export --headers` prints: plain HTTP on
loopback, which browsers take for safe.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import ssl
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trimask_cli.site.page import INDEX, NOT_FOUND, POLICY, SUMS, page_hash, sums_of
from trimask_core.basics.errors import ConfigError, ConnectionFailed, VerificationError
from trimask_core.study.definition import Study
from trimask_core.study.party import Web, short_code
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Link

STUDY = "study.json"
_SCRIPTS = re.compile(r"script-src 'self' ('sha256-[^']+')")


def require_web(study: Study) -> Web:
    """What the study says of its page; `ConfigError` if it has none."""
    if study.web is None:
        raise ConfigError("this study has no [web]: people take part in it from the app alone")
    return study.web


def write_site(out: Path, signed: SignedStudy, files: dict[str, bytes], *, replace: bool = False) -> Path:
    """Everything a host serves for a study, below `out`/s; the study's folder.

    The study must be whole, every party having signed it, and name this very page.
    """
    study = signed.verify()
    web, found = require_web(study), page_hash(files)
    if signed.needs_seed and not signed.mask_seed:
        raise ConfigError(
            "give the study as devices get it (`trimask study open` writes it as ….device.json)"
        )
    if found != web.page_sha256:
        raise ConfigError(
            f"the study names another page ({web.page_sha256[:16]}…) than this version of trimask has ({found[:16]}…): use "
            "the version it was made with, or give --page DIR with that page's files"
        )
    folder = out / "s" / short_code(study.id)
    if folder.exists() and any(folder.iterdir()) and not replace:
        raise ConfigError(f"{folder} is there already; --replace writes over it")
    for name, content in {**files, SUMS: sums_of(files), STUDY: signed.to_json().encode() + b"\n"}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def headers_of(study: Study, files: dict[str, bytes]) -> dict[str, str]:
    """What a host should send with every file. The policy is the page's own, narrowed to this study's nodes; framing can be
    forbidden by a header alone. How long a file may be kept is its name's affair: `caching`."""
    scripts = _SCRIPTS.search(files[INDEX].decode())  # a page of somebody's own has no script in its index
    nodes = sorted({party.https for party in (study.collector, *study.right)})
    policy = POLICY.format(scripts=scripts[1] if scripts else "", connect=" ".join(nodes)).replace(" ;", ";")
    return {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Strict-Transport-Security": "max-age=31536000",
    }


_FOR_EVER, _ASK_AGAIN = "public, max-age=31536000, immutable", "no-cache"
_HASHED = r"\.[0-9a-f]{12}\.[a-z0-9]+$"  # as `page_of` names what never changes


def caching(path: str) -> str:
    """How long a browser may keep a file: for ever where its name has its hash, else it asks each time."""
    return _FOR_EVER if re.search(_HASHED, path) else _ASK_AGAIN


def server_words(study: Study, files: dict[str, bytes], server: str) -> str:
    """Settings of nginx or Caddy that send these headers, compress, speak HTTP/2 and let files be kept.

    A link that leads nowhere is answered with what it may lack; one in which a message has made %23 of # is mended."""
    place, headers = f"/s/{short_code(study.id)}", headers_of(study, files)
    host = require_web(study).hosts[0]
    if server == "nginx":
        name = urlsplit(host).hostname
        kinds = "text/css text/javascript application/javascript application/json image/svg+xml"
        return "\n".join(
            [
                "server {",
                "  listen 443 ssl http2;  # from nginx 1.25.1 on: listen 443 ssl; http2 on;",
                f"  server_name {name};",
                f"  ssl_certificate /etc/ssl/{name}.pem;",
                f"  ssl_certificate_key /etc/ssl/{name}.key;",
                "  root /srv/site;",
                f"  error_page 404 {place}/{NOT_FOUND};",
                f"  gzip on; gzip_vary on; gzip_comp_level 9; gzip_types {kinds};",
                f"  location {place}/ {{",
                "    access_log off;  # who opened the page is nobody's business",
                f'    set $kept "{_ASK_AGAIN}";',
                f'    if ($uri ~ "{_HASHED}") {{ set $kept "{_FOR_EVER}"; }}',
                "    add_header Cache-Control $kept;",
                *(f'    add_header {name} "{value}" always;' for name, value in headers.items()),
                "  }",
                f'  location ~ "^{place}/?#([\\w.-]+)$" {{ access_log off; return 302 {place}/#$1; }}',
                "}",
            ]
        )
    return "\n".join(
        [
            f"{host} {{",
            "  root * /srv/site",
            "  encode gzip",
            *(f'  header {place}/* {name} "{value}"' for name, value in headers.items()),
            f'  @kept path_regexp "{_HASHED}"',
            f'  header @kept Cache-Control "{_FOR_EVER}"',
            f'  @asked not path_regexp "{_HASHED}"',
            f'  header @asked Cache-Control "{_ASK_AGAIN}"',
            f'  @mended path_regexp mended "^{place}/?#([\\w.-]+)$"',
            f"  redir @mended {place}/#{{re.mended.1}} 302",
            "  handle_errors {",
            f"    rewrite * {place}/{NOT_FOUND}",
            f"    header Cache-Control {_ASK_AGAIN}",
            "    file_server",
            "  }",
            "  file_server",
            "}",
        ]
    )


Read = Callable[[str], bytes]
_MOST_BYTES = 8 << 20
_MOST_FILES = 2000


def check_files(study: Study, read: Read) -> list[str]:
    """The page's files, every one held against the study's hash; `VerificationError` for the first that differs."""
    sums = read(SUMS)
    if hashlib.sha256(sums).hexdigest() != require_web(study).page_sha256:
        raise VerificationError(f"{SUMS} is not that of the page the study names")
    listed = [line.partition("  ") for line in sums.decode().splitlines()]
    for digest, _, path in listed:
        if hashlib.sha256(read(path)).hexdigest() != digest:
            raise VerificationError(f"{path} is another file than the page's")
    served = SignedStudy.from_json(read(STUDY))
    if served.study.id != study.id:
        raise VerificationError(f"{STUDY} is another study")
    served.verify()
    return [path for _, _, path in listed][:_MOST_FILES]


def from_folder(folder: Path) -> Read:
    """Reads an exported folder."""

    def read(path: str) -> bytes:
        try:
            return (folder / path).read_bytes()
        except OSError as error:
            raise ConfigError(f"{folder / path}: {error.strerror}") from None

    return read


def from_host(study: Study, host: str, roots: Path | None = None, timeout_seconds: float = 20.0) -> Read:
    """Reads from one of the study's hosts, as a browser would."""
    if host not in require_web(study).hosts:
        raise ConfigError(f"{host}: the study names {', '.join(require_web(study).hosts)}")
    place, base = urlsplit(host), urlsplit(Link(host, study.id).page).path
    context = ssl.create_default_context(cafile=roots)

    def read(path: str) -> bytes:
        name = place.hostname or ""
        connection = (
            http.client.HTTPSConnection(name, place.port, timeout=timeout_seconds, context=context)
            if place.scheme == "https"
            else http.client.HTTPConnection(name, place.port, timeout=timeout_seconds)
        )
        try:
            connection.request("GET", f"{base}/{path if path != 'index.html' else ''}")
            answer = connection.getresponse()
            body = answer.read(_MOST_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionFailed(f"{host}: {error or type(error).__name__}") from None
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK or len(body) > _MOST_BYTES:
            raise VerificationError(f"{host} does not serve {path} (HTTP status {answer.status})")
        return body

    return read


_TYPES = {".js": "text/javascript", ".svg": "image/svg+xml", ".json": "application/json", "": "text/plain"}


def site_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Bound and not yet serving. A folder without its last / is redirected, as other servers do."""
    if not (folder / "s").is_dir():
        raise ConfigError(f"{folder} has no s/; `trimask web export STUDY.json --out {folder}` writes it")
    known: dict[str, dict[str, str]] = {}

    def headers(path: str) -> dict[str, str]:
        """Of the study whose folder a path leads into; of one exported while this runs, too."""
        code = path.removeprefix("/s/").partition("/")[0]
        place = folder / "s" / code
        if code not in known and code.isalnum() and (place / INDEX).is_file():
            study = SignedStudy.from_json((place / STUDY).read_text(encoding="utf-8")).study
            known[code] = headers_of(study, {INDEX: (place / INDEX).read_bytes()})
            known[code].pop("Strict-Transport-Security")  # which plain HTTP has no use for
        return known.get(code, {})

    class Handler(SimpleHTTPRequestHandler):
        extensions_map = SimpleHTTPRequestHandler.extensions_map | _TYPES

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def end_headers(self) -> None:
            for name, value in headers(self.path).items():
                self.send_header(name, value)
            self.send_header("Cache-Control", caching(self.path))
            super().end_headers()

        def do_GET(self) -> None:
            """A link that a message has made %23 of # in is mended."""
            before, mark, code = self.path.partition("%23")
            if not mark:
                super().do_GET()
                return
            self.send_response(302)
            self.send_header("Location", f"/{before.strip('/')}/#{code}")
            self.end_headers()

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            """What leads nowhere says what a link may lack, as the printed settings have it."""
            page = next(iter(sorted(folder.glob(f"s/*/{NOT_FOUND}"))), None)
            if code != 404 or page is None:
                super().send_error(code, message, explain)
                return
            text, self.path = page.read_bytes(), "/"  # nothing of it is kept under this name
            self.send_response(404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def list_directory(self, _: Any) -> None:
            """Refuse: the list of studies is not public."""
            self.send_error(404)

        def log_message(self, *_: Any) -> None:
            """Log nothing: who opened what is private."""

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise ConfigError(f"cannot listen on 127.0.0.1:{port}: {error.strerror}") from None
