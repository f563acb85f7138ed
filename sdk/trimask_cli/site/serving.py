"""A site on this machine, to try it, with the headers that `trimask web export --headers` prints: plain HTTP on loopback,
which browsers take for safe."""

from __future__ import annotations

from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from trimask_cli.site.hosting import STUDY, headers_of
from trimask_cli.site.page import INDEX
from trimask_core.errors import ConfigError
from trimask_core.signed_study import SignedStudy

__all__ = ["site_server"]

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
            super().end_headers()

        def list_directory(self, _: Any) -> None:
            """Refuse: the list of studies is not public."""
            self.send_error(404)

        def log_message(self, *_: Any) -> None:
            """Log nothing: who opened what is private."""

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise ConfigError(f"cannot listen on 127.0.0.1:{port}: {error.strerror}") from None
