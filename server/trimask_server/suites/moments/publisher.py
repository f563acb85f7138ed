"""From gathered totals to a dataset anybody can check: the noisy totals, and what each right provider signed and sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from trimask_core.study import Study
from trimask_server.collector.catalogue import Catalogue, Release
from trimask_server.collector.publication import Tally, place_files, remove_others, signed_manifest
from trimask_server.node.context import NodeContext
from trimask_server.suites.moments.gathering import Gathered
from trimask_server.suites.moments.release_ledger import ReleaseLedger

__all__ = ["publish"]

_FILE = "moments.json"


async def publish(
    node: NodeContext,
    ledger: ReleaseLedger,
    study: Study,
    release: Release,
    batch_ids: Sequence[bytes],
    gathered: Gathered,
    tally: Tally,
) -> str:
    """Publish one release; its dataset id. A repeat after a crash writes the same file again."""
    signed, data = node.studies.signed(study.id), Path(node.config.data)
    dataset_id = f"{study.id.hex()[:12]}-{release.number}"
    text = json.dumps(_content(study, release.number, gathered), indent=1).encode()
    catalogue = Catalogue(ledger.database)
    counted = await catalogue.counted(study.id, release.number)
    files = await node.workers.run(
        place_files, data, dataset_id, _FILE, lambda path: _write(path, text), counted
    )
    release = Release(release.number, gathered.accepted_count, release.blocks, release.state)
    more = {"batch_ids": [batch_id.hex() for batch_id in batch_ids]}
    body, signature = await signed_manifest(node, catalogue, signed, release, dataset_id, files, tally, more)
    await ledger.publish(study.id, release.number, dataset_id, body, signature)
    await node.workers.run(remove_others, data, dataset_id, files[0].sha256)
    node.log.info("published dataset=%s reports=%d batches=%d", dataset_id, release.rows, release.blocks)
    return dataset_id


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _content(study: Study, number: int, gathered: Gathered) -> dict[str, object]:
    firsts = study.moments.layout.firsts
    return {
        "format": "trimask-moments/1",
        "release": number,
        "accepted": gathered.accepted_count,
        "accepted_hash": gathered.accepted_hash.hex(),
        "columns": [column.name for column in study.moments.layout.columns],
        "first": gathered.totals[:firsts],
        "products": gathered.totals[firsts:],
        "deliveries": gathered.shown(),
    }
