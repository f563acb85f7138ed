"""A node's configuration: TOML to a frozen dataclass; a key nobody knows fails with the nearest one that exists."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from trimask_core.errors import ConfigError
from trimask_core.identity import SigningKey
from trimask_core.sealing import SealingKey
from trimask_server.right.key_ring import load_ring

__all__ = ["NodeConfig", "NodeKeys", "NodeRole", "load_config", "load_keys"]

NodeRole = Literal["collector", "right", "left"]
_TOML_TYPES: dict[str, tuple[type, ...]] = {
    "Path": (str,),
    "str": (str,),
    "float": (int, float),
    "int": (int,),
    "bool": (bool,),
}
_TYPE_WORDS = {
    "Path": "a path",
    "str": "text",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
}


@dataclass(frozen=True)
class NodeConfig:
    """What a node program needs to know. Paths are relative to the file.

    `listen` is where devices and researchers come in (TLS), `peer_listen` where nodes and the owner do (mutual TLS),
    `http_listen` where health, metrics and (on a collector) the status page are: plain HTTP, so loopback or a proxy's.
    docs/operations.md says what each of the others does.
    """

    name: str
    data: Path
    keys: Path
    peer_listen: str
    listen: str = ""
    owner_tls_name: str = "owner.trimask.local"
    log_format: str = "text"
    poll_seconds: float = 0.5
    attempt_timeout_seconds: float = 120.0
    mask_threads: int = 1
    compact_releases: bool = False
    http_listen: str = ""
    reload_seconds: float = 30.0
    keep_closed_days: float = 30.0
    max_concurrent_submissions: int = 1024
    rate_limit_per_second: float = 0.0
    rate_limit_burst: int = 200


@dataclass(frozen=True)
class NodeKeys:
    """A node's identity, sealing key (right providers), and TLS material."""

    identity: SigningKey
    sealing: SealingKey | None
    certificate: bytes
    private_key: bytes
    roots: bytes

    def __repr__(self) -> str:
        return f"NodeKeys({self.identity!r})"


def load_config(path: Path, role: NodeRole) -> NodeConfig:
    """Read and check a configuration file."""
    try:
        data = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    return read_config(data, path.parent, role)


def read_config(data: Mapping[str, Any], base: Path, role: NodeRole) -> NodeConfig:
    """The configuration in a parsed TOML table."""
    if role not in get_args(NodeRole):
        raise ConfigError(f"role must be one of {', '.join(get_args(NodeRole))}")
    known = {item.name: item for item in fields(NodeConfig)}
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            raise ConfigError(f"unknown setting {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    values: dict[str, Any] = {}
    for name, item in known.items():
        if name not in data:
            continue
        value = data[name]
        if not isinstance(value, _TOML_TYPES[str(item.type)]) or (
            isinstance(value, bool) and item.type != "bool"
        ):
            raise ConfigError(f"setting {name!r} must be {_TYPE_WORDS[str(item.type)]}")
        values[name] = base / str(value) if item.type == "Path" else value
    needed = ["name", "data", "keys", "peer_listen"] + ([] if role == "left" else ["listen"])
    for name in needed:
        if name not in values:
            raise ConfigError(f"setting {name!r} is missing")
    config = NodeConfig(**values)
    if config.log_format not in ("text", "json"):
        raise ConfigError("setting 'log_format' must be 'text' or 'json'")
    return config


def load_keys(folder: Path, role: NodeRole) -> NodeKeys:
    """The key files `trimask keys` writes."""

    def read(name: str) -> bytes:
        try:
            return (folder / name).read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot read {folder / name}: {error.strerror}; `trimask keys` makes it"
            ) from None

    def secret(name: str) -> bytes:
        try:
            return bytes.fromhex(read(name).decode().strip())
        except ValueError:
            raise ConfigError(f"{folder / name} must hold 64 hexadecimal digits") from None

    return NodeKeys(
        identity=SigningKey(secret("identity.key")),
        sealing=load_ring(folder).keys[0].key if role == "right" else None,
        certificate=read("tls.pem"),
        private_key=read("tls.key"),
        roots=read("ca.pem"),
    )
