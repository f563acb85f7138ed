"""Whether a host serves the page that a study names, file for file: for the owner, for parties, for anybody.

What this shows is what the host gave to this program, now. A host could give other files to others.
"""

from __future__ import annotations

import hashlib
import http.client
import ssl
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from trimask_cli.site.hosting import STUDY, require_web
from trimask_cli.site.page import SUMS
from trimask_core.errors import ConfigError, ConnectionFailed, TrimaskError, VerificationError
from trimask_core.invitation import Link
from trimask_core.signed_study import SignedStudy
from trimask_core.study import Study

__all__ = ["check_files", "from_folder", "from_host"]

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
            raise _not_there(host, path, answer.status)
        return body

    return read


def _not_there(host: str, path: str, status: int) -> TrimaskError:
    return VerificationError(f"{host} does not serve {path} (HTTP status {status})")
