"""A node's configuration: TOML to a frozen dataclass; an unknown key is an error that names the nearest known one.

The version that runs here is read once: the collector asks every node for it several times a second.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import ipaddress
import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from trimask_core.basics.errors import ConfigError

NodeRole = Literal["collector", "right", "left"]
_TOML_TYPES: dict[str, tuple[type, ...]] = {
    "Path": (str,),
    "str": (str,),
    "float": (int, float),
    "int": (int,),
    "bool": (bool,),
    "tuple[str, ...]": (list,),
}
TYPE_WORDS = {
    "Path": "a path",
    "str": "text",
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "tuple[str, ...]": "a list of texts",
}
STORE_URL_VARIABLE = "TRIMASK_STORE_URL"
# The least that each number may be, and what must be above zero: a loop that waits for nothing blocks the node.
_LEAST = {
    "max_attempts": 1, "mask_threads": 1, "max_concurrent_submissions": 1, "max_submission_bytes": 1024,
    "rate_limit_burst": 1, "rate_limit_per_second": 0, "keep_closed_days": 0,
}  # fmt: skip
_POSITIVE = ("poll_seconds", "attempt_timeout_seconds", "reload_seconds")
_LISTENERS = ("listen", "peer_listen", "worker_listen", "https_listen", "http_listen")
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not listened on


@dataclass(frozen=True)
class StoreConfig:
    """The [store] table. Without `url` the store is a SQLite file in the data folder.

    `url` is postgresql://user@host/database; one with a password is better kept in a file of its own, named by
    `url_file`, or in the environment variable TRIMASK_STORE_URL, which goes before both. `schema` is the node's own on
    that server, by default after its name.
    """

    url: str = field(default="", repr=False)  # may have a password in it
    url_file: str = ""
    schema: str = ""


@dataclass(frozen=True)
class NodeConfig:
    """What a node program needs to know. Paths are relative to the file.

    `listen` is where devices and researchers come in (TLS), `peer_listen` where nodes and the owner do (mutual TLS),
    `https_listen` where browsers do (HTTPS), `http_listen` where health, metrics and (on a collector) the status page are:
    plain HTTP, so loopback or a proxy's.
    Where several processes run one node, `listen` and `peer_listen` are the same for all of them and each has a
    `worker_listen` of its own, which peers reach at `worker_address`. docs/node-file.md says what the others do.
    `allow_collectors` names the collectors whose studies are taken, by identity (hex) or TLS name; empty takes any.
    """

    name: str
    data: Path
    keys: Path
    peer_listen: str
    listen: str = ""
    owner_tls_name: str = "owner.trimask.local"
    worker_listen: str = ""
    worker_address: str = ""
    log_format: str = "text"
    poll_seconds: float = 0.5
    attempt_timeout_seconds: float = 120.0
    max_attempts: int = 30
    mask_threads: int = 1
    compact_releases: bool = False
    allow_collectors: tuple[str, ...] = ()
    http_listen: str = ""
    https_listen: str = ""
    reload_seconds: float = 30.0
    keep_closed_days: float = 30.0
    max_concurrent_submissions: int = 1024
    max_submission_bytes: int = 131_072
    rate_limit_per_second: float = 20.0
    rate_limit_burst: int = 200
    proxies: tuple[str, ...] = ()
    store: StoreConfig = StoreConfig()

    @property
    def own_address(self) -> str:
        """Where peers reach this very process, if the node has several; else empty."""
        return self.worker_address or self.worker_listen


def load_config(path: Path, role: NodeRole | None = None) -> NodeConfig:
    """Read and check a configuration file; without a role, what holds for a node of any."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    try:
        return read_config(data, path.parent, role)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def read_config(data: Mapping[str, Any], base: Path, role: NodeRole | None) -> NodeConfig:
    """The configuration in a parsed TOML table."""
    if role is not None and role not in get_args(NodeRole):
        raise ConfigError(f"role must be one of {', '.join(get_args(NodeRole))}")
    values = _read_table(NodeConfig, data, base)
    values["store"] = _read_store(data.get("store", {}), base)
    needed = ["name", "data", "keys", "peer_listen"] + (["listen"] if role in ("collector", "right") else [])
    for name in needed:
        if name not in values:
            raise ConfigError(f"setting {name!r} is missing")
    config = NodeConfig(**values)
    if not config.name.strip():
        raise ConfigError("setting 'name' must not be empty: collector, R1, R2, ... or L1, L2, ...")
    _check_numbers(config)
    _check_ports(config)
    for proxy in config.proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError as error:
            raise ConfigError(f"setting 'proxies': {error}; give IP addresses or networks") from None
    if config.log_format not in ("text", "json"):
        raise ConfigError("setting 'log_format' must be 'text' or 'json'")
    if config.https_listen and role == "left":
        raise ConfigError("setting 'https_listen': a left provider serves no browsers; take it out")
    return config


def _check_numbers(config: NodeConfig) -> None:
    for name, least in _LEAST.items():
        value = getattr(config, name)
        if not math.isfinite(value) or value < least:
            raise ConfigError(f"setting {name!r} is {value}, and must be {least} or more")
    for name in _POSITIVE:
        value = getattr(config, name)
        if not math.isfinite(value) or value <= 0:
            raise ConfigError(f"setting {name!r} is {value}, and must be above 0")


def _check_ports(config: NodeConfig) -> None:
    """No two settings may ask for one port. Whether an address is one at all is found when it is listened on."""
    seen: list[tuple[str, str, str]] = []
    for name in _LISTENERS:
        host, _, port = getattr(config, name).rpartition(":")
        host = host.strip("[]")
        if not port.strip("0"):
            continue
        for other, place, number in seen:
            if port == number and (host == place or host in _EVERYWHERE or place in _EVERYWHERE):
                raise ConfigError(
                    f"settings {other!r} and {name!r} have the same port {port}: give each its own"
                )
        seen.append((name, host, port))


def _read_table(
    kind: type[NodeConfig | StoreConfig], data: Mapping[str, Any], base: Path, of: str = ""
) -> dict[str, Any]:
    """The values of a table's settings; `of` is how the table's settings are named in messages."""
    known = {item.name: item for item in fields(kind)}
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            raise ConfigError(
                f"unknown setting {of + key!r}" + (f"; did you mean {of + near[0]!r}?" if near else "")
            )
    values: dict[str, Any] = {}
    for name, item in known.items():
        if name not in data or str(item.type) not in _TOML_TYPES:
            continue
        value = data[name]
        if not isinstance(value, _TOML_TYPES[str(item.type)]) or (
            isinstance(value, bool) and item.type != "bool"
        ):
            raise ConfigError(f"setting {of + name!r} must be {TYPE_WORDS[str(item.type)]}")
        if isinstance(value, list):
            if not all(isinstance(word, str) for word in value):
                raise ConfigError(f"setting {of + name!r} must be {TYPE_WORDS[str(item.type)]}")
            value = tuple(value)
        values[name] = base / str(value) if item.type == "Path" else value
    return values


def _read_store(data: Any, base: Path) -> StoreConfig:
    """The [store] table, with the address wherever it is kept."""
    if not isinstance(data, Mapping):
        raise ConfigError("setting 'store' must be a table: [store] and below it url, url_file or schema")
    config = StoreConfig(**_read_table(StoreConfig, data, base, "store."))
    if config.url and config.url_file:
        raise ConfigError("give 'store.url' or 'store.url_file', not both")
    url = config.url
    if config.url_file:
        path = base / config.url_file
        try:
            url = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigError(f"cannot read {path} (store.url_file): {error.strerror}") from None
    url = os.environ.get(STORE_URL_VARIABLE, "").strip() or url
    if url and not url.startswith(("postgresql://", "postgres://")):
        raise ConfigError(
            "'store.url' must begin with postgresql://; leave it out for a SQLite file in the data folder"
        )
    if config.schema and not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", config.schema):
        raise ConfigError("'store.schema' must be lower-case letters, digits and underscores, at most 63")
    return replace(config, url=url)


VERSION = importlib.metadata.version("trimask-server")
