"""Taking part from a browser: which hosts may show a study's page, the hash of the page's files, and origins.

A page is code that its host delivers again at every visit, so the owner of a host could change it for one visitor and read
that visitor's answers (docs/web.md). The signed study therefore names the hosts by exact origin, and nodes answer pages of
no other; and it names the hash of the files, so that anybody can fetch them and compare.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimask_core.basics.errors import ImpossibleStudy, StudyError

_NAME = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = rf"{_NAME}(?:\.{_NAME})*\.?|\[[0-9a-f:.]+\]"
_ORIGIN = re.compile(rf"(https?)://({_HOST})(?::([1-9][0-9]{{0,4}}))?")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_STANDARD = {"http": 80, "https": 443}
_CODE_BYTES = 5


@dataclass(frozen=True)
class Web:
    """[web] of a study: `hosts` are the origins that may show its page, `page_sha256` the hash of the page's files."""

    hosts: tuple[str, ...]
    page_sha256: str

    def __post_init__(self) -> None:
        if not self.hosts:
            raise ImpossibleStudy("web_hosts", "web.hosts must name one host at least; or take [web] out")
        for host in self.hosts:
            check_origin(host, "web.hosts", development=True)
        if len(set(self.hosts)) != len(self.hosts):
            raise ImpossibleStudy("web_hosts", "web.hosts names a host twice")
        if not isinstance(self.page_sha256, str) or not re.fullmatch("[0-9a-f]{64}", self.page_sha256):
            raise ImpossibleStudy(
                "page_sha256",
                "web.page_sha256 must be 64 lower-case hexadecimal digits; `trimask web check` prints them",
            )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {"hosts": list(self.hosts), "page_sha256": self.page_sha256}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Web:
        """Read what `to_dict` wrote."""
        hosts = data["hosts"]
        if not isinstance(hosts, list):
            raise StudyError("web.hosts must be a list of texts")
        return cls(tuple(hosts), data["page_sha256"])


def check_origin(text: object, field: str, *, development: bool = False) -> str:
    """The host name of an origin as browsers write it, https://host or https://host:port; `StudyError` for all else.

    `development` lets http through where it never leaves the machine: browsers take http://localhost for safe as well.
    """
    match = _ORIGIN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ImpossibleStudy(
            "web_origin",
            f"{field}: {str(text)[:80]!r} must be an origin in lower case, as https://survey.example or "
            "https://survey.example:8443: no path, no / at the end, no user, no *",
        )
    scheme, host, port = match[1], match[2], match[3]
    if scheme == "http" and not (development and host in _LOOPBACK):
        allowed = " (http is for http://localhost alone, to try a page out)" if development else ""
        raise ImpossibleStudy("web_origin", f"{field}: {text} must begin with https://{allowed}")
    if port is not None and (int(port) > 65535 or int(port) == _STANDARD[scheme]):
        raise ImpossibleStudy(
            "web_origin", f"{field}: {text} must have no port, as 443 of https, or another below 65536"
        )
    return host


def short_code(study_id: bytes) -> str:
    """What stands for a study in a web address: the first 40 bits of its id. The whole id is in the link's fragment."""
    return base64.b32encode(study_id[:_CODE_BYTES]).decode().lower()
