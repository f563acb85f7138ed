"""A site on this machine, to try it: plain HTTP on loopback, which browsers take for safe."""

from __future__ import annotations

from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from trimask_core.errors import ConfigError

__all__ = ["site_server"]

_TYPES = {".js": "text/javascript", ".svg": "image/svg+xml", ".json": "application/json", "": "text/plain"}
_HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cache-Control": "no-cache",
}


def site_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Bound and not yet serving. A folder without its last / is redirected, as other servers do."""
    if not (folder / "s").is_dir():
        raise ConfigError(f"{folder} has no s/; `trimask web export STUDY.json --out {folder}` writes it")

    class Handler(SimpleHTTPRequestHandler):
        extensions_map = SimpleHTTPRequestHandler.extensions_map | _TYPES

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def end_headers(self) -> None:
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            super().end_headers()

        def list_directory(self, _: Any) -> None:
            """Which studies there are is nobody's business."""
            self.send_error(404)

        def log_message(self, *_: Any) -> None:
            """Who opened what is not written down."""

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise ConfigError(f"cannot listen on 127.0.0.1:{port}: {error.strerror}") from None
