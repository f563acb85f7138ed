"""A study's folder on a host, and the headers the host should send with it."""

from __future__ import annotations

import re
from pathlib import Path

from trimask_cli.site.page import INDEX, POLICY, SUMS, page_hash, sums_of
from trimask_core.errors import ConfigError
from trimask_core.signed_study import SignedStudy
from trimask_core.study import Study
from trimask_core.web import Web, short_code

__all__ = ["headers_of", "require_web", "server_words", "write_site"]

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
    forbidden by a header alone."""
    scripts = _SCRIPTS.search(files[INDEX].decode())
    if scripts is None:
        raise ConfigError(f"{INDEX} has no content security policy")
    nodes = sorted({party.https for party in (study.collector, *study.right)})
    policy = POLICY.format(scripts=scripts[1], connect=" ".join(nodes))
    return {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Strict-Transport-Security": "max-age=31536000",
        "Cache-Control": "no-cache",
    }


def server_words(study: Study, files: dict[str, bytes], server: str) -> str:
    """The same as settings of nginx or Caddy."""
    place, headers = f"/s/{short_code(study.id)}", headers_of(study, files)
    if server == "nginx":
        lines = [f'  add_header {name} "{value}" always;' for name, value in headers.items()]
        return "\n".join(
            [
                f"location {place}/ {{",
                "  access_log off;  # who opened the page is nobody's business",
                *lines,
                "}",
            ]
        )
    lines = [f'  header {place}/* {name} "{value}"' for name, value in headers.items()]
    return "\n".join(
        [f"{study.web.hosts[0] if study.web else ''} {{", "  root * /srv/site", *lines, "  file_server", "}"]
    )
