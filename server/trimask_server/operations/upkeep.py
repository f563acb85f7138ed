"""What a node does by itself, besides its work: look at its store, its certificate and its key files now and then."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trimask_core.errors import ConfigError
from trimask_server.operations.readiness import check_readiness
from trimask_server.right.sealing_keys import load_ring

if TYPE_CHECKING:
    from trimask_server.node.node import Node

__all__ = ["follow_readiness", "reload_keys", "watch_key_files"]

_READINESS_SECONDS = 5.0
_WARN_EVERY_MS = 24 * 3600 * 1000


async def follow_readiness(node: Node) -> None:
    """gRPC health says what /readyz says, and a certificate that runs out is in the log once a day."""
    warned_ms: int | None = None
    while True:
        found = await check_readiness(node)
        await node.health.set(serving=found.ready)
        now = node.clock.now_ms()
        if found.warnings and (warned_ms is None or now - warned_ms >= _WARN_EVERY_MS):
            warned_ms = now
            for warning in found.warnings:
                node.log.warning("%s", warning)
        await node.clock.sleep(_READINESS_SECONDS)


def reload_keys(node: Node) -> bool:
    """Take over renewed certificates and sealing keys; whether anything was new. What is unusable changes nothing."""
    return any((_reload_certificate(node), _reload_sealing(node)))


def _reload_sealing(node: Node) -> bool:
    if node.sealing is None:
        return False
    try:
        fresh = load_ring(Path(node.config.keys))
        # A row held here may need a key that is no longer in the file: better to refuse the file than to lose the row.
        gone = {item.key.public for item in node.sealing.keys if item.expire_ms is None} - {
            item.key.public for item in fresh.keys
        }
        if gone:
            raise ConfigError("sealing.keys lacks a key that was in use; restore it from your backup")  # noqa: TRY301
    except ConfigError as error:
        node.metrics.reloads.labels("refused").inc()
        node.refusals.count("bad_key_file")
        node.log.error("kept the old sealing keys: %s", error)  # noqa: TRY400 - the sentence says all
        return False
    before = [(item.key.public, item.activate_ms, item.expire_ms) for item in node.sealing.keys]
    if before == [(item.key.public, item.activate_ms, item.expire_ms) for item in fresh.keys]:
        return False
    node.sealing = fresh
    node.metrics.reloads.labels("taken").inc()
    states = ", ".join(item.state(node.clock.now_ms()) for item in fresh.keys)
    node.log.info("took over %d sealing keys: %s", len(fresh.keys), states)
    return True


def _reload_certificate(node: Node) -> bool:
    try:
        fresh = node.certificates.reload(node.clock.now_ms())
    except ConfigError as error:
        node.metrics.reloads.labels("refused").inc()
        node.refusals.count("bad_certificate_file")
        node.log.error("kept the old certificate: %s", error)  # noqa: TRY400 - the sentence says all
        return False
    if fresh:
        node.peers.renew(node.certificates.material)
        node.metrics.reloads.labels("taken").inc()
        days = node.certificates.days_left(node.clock.now_ms())
        node.log.info("took over a renewed certificate, which expires in %.0f days", days)
    return fresh


async def watch_key_files(node: Node) -> None:
    """Reload when a file changed: what renews a certificate need not know how to send a signal."""
    while True:
        await node.clock.sleep(node.config.reload_seconds)
        if node.certificates.changed():
            reload_keys(node)
