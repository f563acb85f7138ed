"""Every setting of node.toml, in words. `python -m trimask_server.settings.reference` writes docs/node-file.md.

Which settings there are, their types and defaults come from the classes that the file is read into; only the words are
here, and a setting without words is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from trimask_server.settings.config import TYPE_WORDS, NodeConfig, StoreConfig

NODE_WORDS: Mapping[str, str] = {
    "name": "the node's name, as `R2`: in logs, and of its schema in PostgreSQL",
    "data": "folder of the store and of published datasets",
    "keys": "folder of the keys ([deployment](deployment.md#3-keys)); a right provider of the moments suite writes its "
    "ledgers there",
    "peer_listen": "where nodes and the owner connect: mutual TLS",
    "listen": "where devices and researchers connect: TLS; required, except on left providers",
    "owner_tls_name": "the DNS name in the owner's certificate: on the collector, and on right providers that sign "
    "invitations or tell which were used; one owner for all studies of a node",
    "allow_collectors": "collectors whose studies are accepted, by identity (hex) or TLS name; any when left out",
    "worker_listen": "where peers reach this process if [several](operations.md#several-workers) run the node",
    "worker_address": "the address under which they reach it, if it differs",
    "poll_seconds": "on the collector: how often a study is checked for work when nothing woke its driver",
    "attempt_timeout_seconds": "on the collector: the most time for an attempt at a block, or for the check of a batch; "
    "then a new one begins",
    "max_attempts": "on the collector: how often a block, or a check of rows, may fail before it is given up; failures of a "
    "node that is unreachable or out of disk do not count",
    "mask_threads": "threads for matrix products and other long computations",
    "compact_releases": "on the collector, rows suite: publish as many rows as there are attributes, with the same "
    "moments, in place of one a person",
    "http_listen": "health, metrics and (collector) status pages: plain HTTP, so loopback or behind a proxy. "
    "`trimask keys --http` writes it",
    "https_listen": "on the collector and right providers: where browsers come in, for studies with `[web]`: HTTPS, with "
    "`https.pem` and `https.key` of the key folder where they are there, else `tls.pem` ([web](web.md#nodes)). "
    "`trimask keys --https` writes it",
    "log_format": "`text`, or `json` for machines",
    "reload_seconds": "how often key files are checked for changes",
    "keep_closed_days": "after so long, what is left of a closed study is erased",
    "max_concurrent_submissions": "more at once are refused with `overloaded`; also bounds what waits for the store",
    "max_submission_bytes": "the largest message on the public port, by the length it announces; a study whose submissions "
    "may be larger (8 bytes a column) is refused `study_too_large` when it is proposed",
    "rate_limit_per_second": "calls a second on the public port from one IPv4 address or IPv6 /64; 0 for no limit, as "
    "`trimask keys` writes where the node listens on loopback. People behind one router share an address",
    "rate_limit_burst": "how many such calls may come at once",
    "proxies": "IP addresses or networks of proxies in front of this node. Behind one, everybody has its address: calls "
    "are neither limited by address nor counted as one caller's when places are short, and the proxy limits",
    "store": "the table `[store]`, below",
}
STORE_WORDS: Mapping[str, str] = {
    "url": "`postgresql://user@host/database`. The environment variable `TRIMASK_STORE_URL` goes before it and before "
    "`url_file`",
    "url_file": "a file with that address in it, where it has a password",
    "schema": "the node's own schema on that server, after `name` when left out: lower-case letters, digits and underscores",
}
_HEAD = """# The node file

Every setting of `node.toml`, written by `python -m trimask_server.settings.reference` from what reads the file; a test holds
this page to it. `trimask keys` writes the first ones. An unknown setting is refused with the name of the nearest known one.
Paths are relative to the file.
"""
_STORE = """## `[store]`

Without `url` or `url_file` the store is a SQLite file in `data`.
"""


def render_page() -> str:
    """docs/node-file.md."""
    return "\n".join([_HEAD, _table(NodeConfig, NODE_WORDS), _STORE, _table(StoreConfig, STORE_WORDS)])


def _table(kind: type[NodeConfig | StoreConfig], words: Mapping[str, str]) -> str:
    lines = ["| setting | value | default | what it does |", "|---|---|---|---|"]
    known = {item.name: item for item in fields(kind)}
    if known.keys() != words.keys():
        raise KeyError(f"words and settings differ in {sorted(known.keys() ^ words.keys())}")
    for name, item in known.items():
        shown = TYPE_WORDS.get(str(item.type), "a table")
        lines.append(f"| `{name}` | {shown} | {_default(item.default)} | {words[name]} |")
    return "\n".join(lines) + "\n"


def _default(value: Any) -> str:
    if value is MISSING:
        return "required"
    if isinstance(value, StoreConfig) or value in ("", ()):
        return ""
    if isinstance(value, bool):
        return f"`{'true' if value else 'false'}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


if __name__ == "__main__":
    print(render_page(), end="")
