"""Node, the type checker and a plain web server, for tests of the device in the browser."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from trimask_cli.site.page import words
from trimask_patience import patience

__all__ = ["REPOSITORY", "WEB", "development_package", "node", "run_node", "serve_repository", "type_checker"]

REPOSITORY = Path(__file__).parents[2]
WEB = REPOSITORY / "client" / "web"
LEAST_NODE = 20


def _write_words() -> None:
    """The page's words on disk, where Node, its type checker and a plain web server look for them; nothing else does."""
    for name, content in words().items():
        path = WEB / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(exist_ok=True)
            half = path.with_suffix(f".{os.getpid()}")
            half.write_bytes(content)
            half.replace(path)


_write_words()


def node() -> str:
    """The node of this machine; a test without it fails and says what to do."""
    found = shutil.which("node")
    if found is None:
        pytest.fail("no node on this machine: `make system` installs it")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    number = re.match(r"v(\d+)", version)
    if number is None or int(number[1]) < LEAST_NODE:
        pytest.fail(
            f"node is {version.strip()}; the device library needs {LEAST_NODE} or newer: install it from nodejs.org"
        )
    return found


def run_node(
    *arguments: str | Path, seconds: float = 240, environment: Mapping[str, str] | None = None
) -> str:
    """What node prints; the test fails with it if node does."""
    done = subprocess.run(
        [node(), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(seconds),
        cwd=REPOSITORY,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode:
        pytest.fail(f"node {' '.join(map(str, arguments))}\n{done.stdout[-6000:]}{done.stderr[-3000:]}")
    return done.stdout


def type_checker() -> Path:
    """tsc of the version in client/web/package-lock.json; installed by npm where it is missing."""
    return development_package("typescript") / "bin" / "tsc"


def development_package(name: str) -> Path:
    """A package of client/web/package-lock.json; installed by npm where that version is missing."""
    wanted = json.loads((WEB / "package.json").read_text(encoding="utf-8"))["devDependencies"][name]
    home = WEB / "node_modules" / name
    with (WEB / ".install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        have = home / "package.json"
        if not have.exists() or json.loads(have.read_text(encoding="utf-8"))["version"] != wanted:
            npm = shutil.which("npm")
            if npm is None:
                pytest.fail("no npm on this machine: `make system` installs it")
            subprocess.run(
                [npm, "ci", "--no-audit", "--no-fund"], cwd=WEB, check=True, capture_output=True, timeout=200
            )
    return home


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@contextlib.contextmanager
def serve_repository() -> Iterator[str]:
    """The repository's files over HTTP on this machine, which browsers take for a safe place."""
    handler = functools.partial(_Quiet, directory=str(REPOSITORY))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(5)
