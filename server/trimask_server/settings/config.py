"""A node's configuration: TOML to a frozen dataclass; an unknown key is an error that names the nearest known one.

docs/node-file.md is written from the words beside each setting.

The version that runs here is read once: the collector asks every node for it several times a second.
"""

from __future__ import annotations

import importlib.metadata
import ipaddress
import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from trimask_core.basics.errors import ConfigError
from trimask_core.basics.typed_table import nearest
from trimask_core.study.party import role_of_name

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


def _said(words: str, *, default: Any = MISSING, repr: bool = True) -> Any:  # noqa: A002 - as `field` has it
    """A setting and what docs/node-file.md says of it."""
    return field(default=default, repr=repr, metadata={"words": words})


@dataclass(frozen=True)
class StoreConfig:
    """The [store] table. Without `url` the store is a SQLite file in the data folder."""

    url: str = _said(
        "`postgresql://user@host/database`. The environment variable `TRIMASK_STORE_URL` goes before it and before "
        "`url_file`",
        default="",
        repr=False,
    )  # may have a password in it
    url_file: str = _said("a file with that address in it, where it has a password", default="")
    schema: str = _said(
        "the node's own schema on that server, after `name` when left out: lower-case letters, digits and underscores",
        default="",
    )


@dataclass(frozen=True)
class NodeConfig:
    """What a node program needs to know. Paths are relative to the file.

    Where several processes run one node, `listen` and `peer_listen` are the same for all of them and each has a
    `worker_listen` of its own.
    """

    name: str = _said("the node's name, as `R2`: in logs, and of its schema in PostgreSQL")
    data: Path = _said("folder of the store and of published datasets")
    keys: Path = _said(
        "folder of the keys ([deployment](deployment.md#3-keys)); a right provider of the moments suite writes its "
        "ledgers there"
    )
    peer_listen: str = _said("where nodes and the owner connect: mutual TLS")
    listen: str = _said(
        "where devices and researchers connect: TLS; required, except on left providers", default=""
    )
    storage_key_command: tuple[str, ...] = _said(
        "a program and its arguments that prints the [master keys](operations.md#master-key) of the store, from a key "
        "management service or hardware module; left out, they are in `storage.keys`",
        default=(),
    )
    owner_tls_name: str = _said(
        "the DNS name in the owner's certificate: on the collector, and on right providers that sign invitations or "
        "tell which were used; one owner for all studies of a node",
        default="owner.trimask.local",
    )
    worker_listen: str = _said(
        "where peers reach this process if [several](operations.md#several-workers) run the node", default=""
    )
    worker_address: str = _said("the address under which they reach it, if it differs", default="")
    log_format: str = _said("`text`, or `json` for machines", default="text")
    poll_seconds: float = _said(
        "on the collector: how often right providers are asked what came, while something does; else a quarter as "
        "often",
        default=0.5,
    )
    attempt_timeout_seconds: float = _said(
        "on the collector: the most time for an attempt at a block, or for the check of a batch; then a new one "
        "begins",
        default=120.0,
    )
    max_attempts: int = _said(
        "on the collector: how often a block, or a check of rows, may fail before it is given up; failures of a node "
        "that is unreachable or out of disk do not count",
        default=30,
    )
    mask_threads: int = _said("threads for matrix products and other long computations", default=1)
    compact_releases: bool = _said(
        "on the collector, rows suite: publish as many rows as there are attributes, with the same moments, in place "
        "of one a person",
        default=False,
    )
    allow_collectors: tuple[str, ...] = _said(
        "collectors whose studies are accepted, by identity (hex) or TLS name; any when left out", default=()
    )
    http_listen: str = _said(
        "health, metrics and (collector) status pages: plain HTTP, so loopback or behind a proxy. `trimask keys "
        "--http` writes it",
        default="",
    )
    https_listen: str = _said(
        "on the collector and right providers: where browsers come in, for studies with `[web]` "
        "([web](web.md#nodes)). `trimask keys --https` writes it",
        default="",
    )
    reload_seconds: float = _said("how often key files are checked for changes", default=30.0)
    keep_closed_days: float = _said("after so long, what is left of a closed study is erased", default=30.0)
    max_concurrent_submissions: int = _said(
        "more at once are refused with `overloaded`; also bounds what waits for the store", default=1024
    )
    max_submission_bytes: int = _said(
        "the largest message on the public port; a study whose submissions may be larger (8 bytes a column) is "
        "refused (`study_too_large`)",
        default=131_072,
    )
    rate_limit_per_second: float = _said(
        "calls a second on the public port from one IPv4 address or IPv6 /64 (people behind one router share it); 0 "
        "for no limit",
        default=20.0,
    )
    rate_limit_burst: int = _said("how many such calls may come at once", default=200)
    proxies: tuple[str, ...] = _said(
        "IP addresses or networks of proxies in front of this node, behind which everybody has one address: calls are"
        " not limited by address then, and the proxy limits",
        default=(),
    )
    store: StoreConfig = _said("the table `[store]`, below", default=StoreConfig())

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


def load_own_config(path: Path) -> tuple[NodeConfig, NodeRole]:
    """A node's configuration, and its role, which its name says."""
    role = cast("NodeRole", role_of_name(load_config(path).name))
    return load_config(path, role), role


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
            raise ConfigError(
                f"unknown setting {of + key!r}; {nearest(of + key, [of + name for name in known])}"
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
