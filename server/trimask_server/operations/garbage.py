"""What is left of studies that closed a while ago is erased, by whoever owns each table (`store.erasure`).

At a right or left provider: rows (already erased with their blocks), ids, hashes, plans, which invitation came with which
submission, the proposal, data keys. At the collector: plans, with the ids in them, the proposal, notes and counts. What
stays: the study's id, so that it can never be registered and filled again; at the collector also the published datasets,
whose manifests hold the signed study, the tokens that open them, the state of each release and the budget ledger. A study
that still answers questions from its budget is not touched.

Expired sealing keys that no row held needs any more are destroyed on the same round.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trimask_core.backoff import jitter
from trimask_server.right.rows import oldest_row_ms
from trimask_server.right.sealing_keys import SealingRing, forget_spent, load_ring, save_ring
from trimask_server.store.erasure import Erasers

if TYPE_CHECKING:
    from trimask_server.node.node import Node

__all__ = ["collect_forever", "collect_garbage"]

_ROUND_SECONDS = 3600.0
_DAY_MS = 24 * 3600 * 1000


async def collect_forever(node: Node, erasers: Erasers) -> None:
    """A round every hour or so; jittered, so that the nodes of an institution do not all vacuum at once."""
    while True:
        await node.clock.sleep(_ROUND_SECONDS * (0.5 + jitter(node.source)))
        await collect_garbage(node, erasers)


async def collect_garbage(node: Node, erasers: Erasers) -> list[bytes]:
    """One round; the studies that went."""
    now = node.clock.now_ms()
    gone = await node.studies.collect(erasers, now, round(node.config.keep_closed_days * _DAY_MS))
    for study_id, rows in gone.items():
        node.metrics.collected_studies.inc()
        node.metrics.erased_rows.labels("collected").inc(rows)
        node.log.info("collected study=%s: erased what was left of it, rows=%d", study_id.hex()[:12], rows)
    if gone:
        await node.database.scrub()
    await _forget_keys(node, now)
    return list(gone)


async def _forget_keys(node: Node, now_ms: int) -> None:
    ring = node.sealing
    if ring is None or all(item.state(now_ms) != "expired" for item in ring.keys):
        return
    kept = forget_spent(ring, now_ms, await node.database.read(oldest_row_ms))
    spent = len(ring.keys) - len(kept.keys)
    if not spent:
        return
    folder = Path(node.config.keys)
    gone = {item.key.public for item in ring.keys} - {item.key.public for item in kept.keys}
    try:
        # From the file, not from memory: a rotation may have been written there a moment ago.
        on_disk = load_ring(folder)
        save_ring(folder, SealingRing(item for item in on_disk.keys if item.key.public not in gone))
    except OSError as error:
        node.log.warning(
            "%d expired sealing keys could be destroyed, but the key folder is not writable (%s): remove them from "
            "sealing.keys by hand",
            spent,
            error.strerror,
        )
        return
    node.sealing = kept
    node.log.info("destroyed %d expired sealing keys that no row needs any more", spent)
