"""The institutions of a study: addresses, public keys, a node's public card (node.json) and secrets of 32 bytes.

A node's public keys are also thirty digits that two people can read to each other over the telephone. Whoever could make
another card with the same digits would have to try about 2^99 keys. They stand for the identity, the sealing key (of a
right provider) and the TLS name, so they change when the sealing key does, and in no other way.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimask_core.basics.encoding import decode_bytes, encode_bytes
from trimask_core.basics.errors import ConfigError, StudyError
from trimask_core.crypto.identity import SigningKey
from trimask_core.study.web import check_origin


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

    def __post_init__(self) -> None:
        for name in ("name", "organisation", "address", "peer_address", "tls_name", "https"):
            if not isinstance(getattr(self, name), str):
                raise StudyError(f"a party's {name} must be text")
        if self.https:
            check_origin(self.https, f"https of {self.name}")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "name": self.name,
            "organisation": self.organisation,
            "address": self.address,
            "peer_address": self.peer_address,
            "tls_name": self.tls_name,
            "identity": encode_bytes(self.identity),
            "sealing": encode_bytes(self.sealing),
            "https": self.https,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Party:
        """Read what `to_dict` wrote."""
        return cls(
            **{**data, "identity": decode_bytes(data["identity"]), "sealing": decode_bytes(data["sealing"])}
        )


_GROUPS, _DIGITS = 6, 5


def fingerprint(party: Party) -> str:
    """Six groups of five digits."""
    parts = [b"trimask-card/1", party.identity, party.sealing, party.tls_name.encode()]
    text = b"".join(len(part).to_bytes(2, "big") + part for part in parts)
    number = int.from_bytes(hashlib.sha256(text).digest(), "big")
    digits = f"{number % 10 ** (_GROUPS * _DIGITS):0{_GROUPS * _DIGITS}d}"
    return " ".join(digits[at : at + _DIGITS] for at in range(0, len(digits), _DIGITS))


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
