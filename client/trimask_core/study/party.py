"""The institutions of a study: addresses, public keys, a node's public card (node.json) and secrets of 32 bytes.

A node's public keys are also thirty digits that two people can read to each other over the telephone. Whoever could make
another card with the same digits would have to try about 2^99 keys. They stand for the identity, the sealing key (of a
right provider) and the TLS name, so they change when the sealing key does, and in no other way.

A study's page is code that its host delivers again at every visit, so the owner of a host could change it for one visitor
and read that visitor's answers (docs/web.md). The signed study therefore names the hosts by exact origin, and nodes answer
pages of no other; and it names the hash of the files, so that anybody can fetch them and compare.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trimask_core.basics.encoding import decode_bytes, encode_bytes
from trimask_core.basics.errors import ConfigError, ImpossibleStudy, StudyError
from trimask_core.crypto.keys import SEALINGS, Sealing, SigningKey

ADMISSION_KEY = "admission.key"
_ROLE = re.compile(r"(collector)|R([1-9]\d*)|L([1-9]\d*)")


def role_of_name(name: str) -> str:
    """collector, right or left, from a node's name in the study: collector, R1.., L1.."""
    match = _ROLE.fullmatch(name)
    if match is None:
        raise ConfigError(f"{name!r} is not a node's name: use collector, R1, R2, ... or L1, L2, ...")
    return "collector" if match[1] else "right" if match[2] else "left"


def load_party(path: Path) -> Party:
    """A node's public card."""
    try:
        data: Mapping[str, object] = json.loads(path.read_text(encoding="utf-8"))
        return Party.from_dict(data)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not a node's card (node.json): {error}") from None


def admission_key(owner: Path) -> SigningKey:
    """The key with which an owner signs invitations and orders, from the owner's folder."""
    path = owner / ADMISSION_KEY
    if not path.exists():
        raise ConfigError(
            f"{path} is missing: the owner signs invitations and orders with it; `trimask study new` makes it"
        )
    return SigningKey(read_secret(path))


def read_secret(path: Path) -> bytes:
    """A 32-byte secret from its file of 64 hexadecimal digits."""
    try:
        secret = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != 32:
        raise ConfigError(f"{path} must hold 64 hexadecimal digits")
    return secret


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


@dataclass(frozen=True)
class Party:
    """A collector or provider: where it listens, the name its TLS certificate carries, and its keys."""

    name: str
    organisation: str
    address: str
    peer_address: str
    tls_name: str
    identity: bytes
    sealing: bytes = b""
    # Where browsers reach it, an origin such as "https://r1.example:8443"; empty where they do not.
    https: str = ""
    # On a node's card alone, which has a key of each kind; in a study `sealing` is of the study's kind.
    sealing_hybrid: bytes = b""

    def __post_init__(self) -> None:
        for name in ("name", "organisation", "address", "peer_address", "tls_name", "https"):
            if not isinstance(getattr(self, name), str):
                raise StudyError(f"a party's {name} must be text")
        if self.https:
            check_origin(self.https, f"https of {self.name}")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        hybrid = {"sealing_hybrid": encode_bytes(self.sealing_hybrid)} if self.sealing_hybrid else {}
        return {
            "name": self.name,
            "organisation": self.organisation,
            "address": self.address,
            "peer_address": self.peer_address,
            "tls_name": self.tls_name,
            "identity": encode_bytes(self.identity),
            "sealing": encode_bytes(self.sealing),
            "https": self.https,
            **hybrid,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Party:
        """Read what `to_dict` wrote."""
        keys = ("identity", "sealing", "sealing_hybrid")
        return cls(**{**data, **{key: decode_bytes(data[key]) for key in keys if key in data}})

    def sealing_as(self, kind: Sealing) -> Party:
        """The party as it stands in a study of this kind; refused if its card has no such key."""
        if kind == "classical" or not self.sealing:
            return replace(self, sealing_hybrid=b"")
        if not self.sealing_hybrid:
            raise StudyError(
                f"{self.name}: its card has no hybrid sealing key. Its operator runs `trimask node rotate-sealing-key` and "
                'sends the new card; or set [collection] sealing = "classical", which a quantum computer may open one day'
            )
        return replace(self, sealing=self.sealing_hybrid, sealing_hybrid=b"")


_GROUPS, _DIGITS = 6, 5


def fingerprint(party: Party) -> str:
    """Six groups of five digits; of a card with keys of both kinds, those it has in a study that does not say which."""
    party = party.sealing_as(SEALINGS[0]) if party.sealing_hybrid else party
    parts = [b"trimask-card/1", party.identity, party.sealing, party.tls_name.encode()]
    text = b"".join(len(part).to_bytes(2, "big") + part for part in parts)
    number = int.from_bytes(hashlib.sha256(text).digest(), "big")
    digits = f"{number % 10 ** (_GROUPS * _DIGITS):0{_GROUPS * _DIGITS}d}"
    return " ".join(digits[at : at + _DIGITS] for at in range(0, len(digits), _DIGITS))
