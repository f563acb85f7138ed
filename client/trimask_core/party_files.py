"""Small files of every party: a node's public card (node.json), and secrets of 32 bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from trimask_core.errors import ConfigError
from trimask_core.identity import SigningKey
from trimask_core.study import Party

__all__ = ["ADMISSION_KEY", "admission_key", "load_party", "read_secret", "role_of_name"]

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
