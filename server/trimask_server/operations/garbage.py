"""What is left of studies that closed a while ago is erased.

At a right or left provider: rows (already erased with their blocks), ids, hashes, plans, data keys. At the collector:
plans, with the ids in them, and notes. What stays: the study's id, so that it can never be registered and filled again; at
the collector also the published datasets, whose manifests hold the signed study, the state of each release and the budget
ledger. A study that still answers questions from its budget is not touched.

Expired sealing keys that no row held needs any more are destroyed on the same round.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trimask_server.right.sealing_keys import SealingRing, forget_spent, load_ring, save_ring
from trimask_server.store.database import Transaction

if TYPE_CHECKING:
    from trimask_server.node.node import Node

__all__ = ["collect_forever", "collect_garbage"]

_ROUND_SECONDS = 3600.0
_DAY_MS = 24 * 3600 * 1000
_UNFINISHED = ("open", "full", "answerable")


async def collect_forever(node: Node) -> None:
    """A round every hour or so; jittered, so that the nodes of an institution do not all vacuum at once."""
    while True:
        share = int.from_bytes(node.source.read(4), "big") / 2**32
        await node.clock.sleep(_ROUND_SECONDS * (0.5 + share))
        await collect_garbage(node)


async def collect_garbage(node: Node) -> list[bytes]:
    """One round; the studies that went."""
    now = node.clock.now_ms()
    closed = [study.id for study in node.studies.all() if node.studies.state(study.id) == "closed"]
    limit = now - round(node.config.keep_closed_days * _DAY_MS)
    collector = node.role == "collector"

    def note(tx: Transaction) -> None:
        for study_id in closed:
            tx.run(
                "INSERT INTO closures (study_id, closed_ms) VALUES (?, ?) ON CONFLICT (study_id) DO NOTHING",
                (study_id, now),
            )

    def erase(tx: Transaction) -> list[tuple[bytes, int]]:
        gone = []
        due = tx.rows(
            "SELECT closures.study_id FROM closures JOIN studies ON studies.study_id = closures.study_id"
            " WHERE studies.state = 'closed' AND collected_ms IS NULL AND closed_ms <= ?",
            (limit,),
        )
        for (study_id,) in due:
            if collector and tx.row(
                "SELECT 1 FROM releases WHERE study_id = ? AND state IN (?, ?, ?)", (study_id, *_UNFINISHED)
            ):
                continue
            rows = _erase_collector(tx, study_id) if collector else _erase_provider(tx, study_id)
            tx.run(
                "UPDATE studies SET state = 'collected', signed_study = '' WHERE study_id = ?", (study_id,)
            )
            tx.run("UPDATE closures SET collected_ms = ? WHERE study_id = ?", (now, study_id))
            gone.append((study_id, rows))
        return gone

    if closed:
        await node.database.write(note)
    gone = await node.database.write(erase)
    for study_id, rows in gone:
        node.studies.forget(study_id)
        node.metrics.collected_studies.inc()
        node.metrics.erased_rows.labels("collected").inc(rows)
        node.log.info("collected study=%s: erased what was left of it, rows=%d", study_id.hex()[:12], rows)
    if gone:
        await node.database.scrub()
    await _forget_keys(node, now)
    return [study_id for study_id, _ in gone]


def _erase_provider(tx: Transaction, study_id: bytes) -> int:
    rows = tx.run("DELETE FROM submissions WHERE study_id = ?", (study_id,))
    tx.run("DELETE FROM blocks WHERE study_id = ?", (study_id,))
    tx.run("DELETE FROM data_keys WHERE study_id = ?", (study_id,))
    return rows


def _erase_collector(tx: Transaction, study_id: bytes) -> int:
    tx.run("DELETE FROM blocks WHERE study_id = ?", (study_id,))
    tx.run("DELETE FROM notes WHERE study_id = ?", (study_id,))
    tx.run("DELETE FROM progress WHERE study_id = ?", (study_id,))
    tx.run("DELETE FROM data_keys WHERE study_id = ?", (study_id,))
    tx.run("DELETE FROM provider_generations WHERE study_id = ?", (study_id,))
    tx.run("DELETE FROM jobs WHERE job_key = ?", (study_id,))
    tx.run("UPDATE releases SET factor = NULL WHERE study_id = ?", (study_id,))
    return 0


async def _forget_keys(node: Node, now_ms: int) -> None:
    ring = node.sealing
    if ring is None or all(item.state(now_ms) != "expired" for item in ring.keys):
        return
    row = await node.database.read(
        lambda tx: tx.row("SELECT min(receive_time_ms) FROM submissions WHERE payload IS NOT NULL")
    )
    kept = forget_spent(ring, now_ms, None if row is None else row[0])
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
