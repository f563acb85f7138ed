"""The node programs: `trimask collector|right|left --config FILE`."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import uvloop

from trimask_core.clock import SystemClock
from trimask_core.errors import ConfigError
from trimask_server.node.context import make_context
from trimask_server.node.host import Host
from trimask_server.operations.garbage import collect_forever
from trimask_server.operations.key_files import look_at_keys
from trimask_server.operations.logs import make_handler
from trimask_server.operations.signals import serve_until_signal
from trimask_server.operations.tracing import configure_tracing
from trimask_server.programs.claim import claim_node
from trimask_server.programs.roles import Node, assemble, erasers_of
from trimask_server.settings.config import NodeConfig, NodeRole, load_config
from trimask_server.store.interface import StoreError

__all__ = ["run_node", "start_node"]


async def start_node(role: NodeRole, config: NodeConfig) -> Node:
    """A node of the given role, serving. A start that fails leaves nothing in the audit log."""
    claim = claim_node(role, config)
    try:
        warnings = look_at_keys(config.keys, SystemClock().now_ms())
        host = Host(make_context(role, config))
    except BaseException:
        claim.release()
        raise
    host.at_end(claim.release)
    try:
        await host.load()
        node = assemble(host)
        await host.serve(node.services)
        for warning in warnings:
            host.log.warning("%s", warning)
        # A crash between an erasure's commit and its scrub leaves the old pages on disk: finish it now.
        await host.context.database.scrub()
        node.services.begin()
        rounds = collect_forever(host.context, erasers_of(role), node.services.after_collection)
        host.spawn(rounds, "collecting garbage")
    except BaseException:
        await host.stop(0)  # a port that was taken, say: leave nothing half started
        raise
    return node


def run_node(role: NodeRole, config_path: Path, worker_listen: str = "", http_listen: str = "") -> int:
    """Run a node, or one worker of it, until SIGTERM or SIGINT."""
    config = load_config(config_path, role)
    if worker_listen:
        config = replace(config, worker_listen=worker_listen)
    if http_listen:
        config = replace(config, http_listen=http_listen)
    configure_tracing(config.name, role)
    logging.basicConfig(
        handlers=[make_handler(config.log_format)]
    )  # what libraries warn of is a line like any other

    async def start() -> Host:
        try:
            return (await start_node(role, config)).host
        except StoreError as error:
            where = "[store] url of node.toml" if config.store.url else str(config.data)
            raise ConfigError(
                f"cannot write the store of {config.name} in {where}: {error}; `trimask node doctor` says more"
            ) from None

    uvloop.run(serve_until_signal(start))
    return 0
