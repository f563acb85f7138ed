"""The sealing keys a right provider uses now: replaced whole when their file changes, destroyed when no row needs them."""

from __future__ import annotations

from pathlib import Path

from trimask_core.errors import ConfigError
from trimask_core.refusals import Alarm
from trimask_server.node.context import NodeContext
from trimask_server.right.rows import oldest_row_ms
from trimask_server.right.sealing_keys import SealingRing, forget_spent, load_ring, save_ring

__all__ = ["CurrentKeyRing"]


class CurrentKeyRing:
    """The ring in use. `folder` is where its file is; None when the ring was given, not read."""

    def __init__(self, node: NodeContext, ring: SealingRing, folder: Path | None) -> None:
        self._node = node
        self._folder = folder
        self.ring = ring

    def reload(self) -> bool:
        """Reload the file; whether anything was new. An unusable file changes nothing."""
        node, held = self._node, self.ring
        if self._folder is None:
            return False
        try:
            fresh = load_ring(self._folder)
            # A row held here may need a key that is no longer in the file: better to refuse the file than to lose the row.
            gone = {item.key.public for item in held.keys if item.expire_ms is None} - {
                item.key.public for item in fresh.keys
            }
            if gone:
                raise ConfigError("sealing.keys lacks a key that was in use; restore it from your backup")  # noqa: TRY301
        except ConfigError as error:
            node.metrics.reloads.labels("refused").inc()
            node.refusals.count(Alarm.BAD_KEY_FILE)
            node.log.error("kept the old sealing keys: %s", error)  # noqa: TRY400 - the sentence says all
            return False
        before = [(item.key.public, item.activate_ms, item.expire_ms) for item in held.keys]
        if before == [(item.key.public, item.activate_ms, item.expire_ms) for item in fresh.keys]:
            return False
        self.ring = fresh
        node.metrics.reloads.labels("taken").inc()
        states = ", ".join(item.state(node.clock.now_ms()) for item in fresh.keys)
        node.log.info("loaded %d sealing keys: %s", len(fresh.keys), states)
        return True

    async def destroy_spent(self, now_ms: int) -> None:
        """Destroy expired keys that no row held here needs any more."""
        node, ring = self._node, self.ring
        if self._folder is None or all(item.state(now_ms) != "expired" for item in ring.keys):
            return
        kept = forget_spent(ring, now_ms, await node.database.read(oldest_row_ms))
        spent = len(ring.keys) - len(kept.keys)
        if not spent:
            return
        gone = {item.key.public for item in ring.keys} - {item.key.public for item in kept.keys}
        try:
            # From the file, not from memory: a rotation may have been written there a moment ago.
            on_disk = load_ring(self._folder)
            save_ring(self._folder, SealingRing(item for item in on_disk.keys if item.key.public not in gone))
        except OSError as error:
            node.log.warning(
                "%d expired sealing keys could be destroyed, but the key folder is not writable (%s): remove them from "
                "sealing.keys by hand",
                spent,
                error.strerror,
            )
            return
        self.ring = kept
        node.log.info("destroyed %d expired sealing keys that no row needs any more", spent)
