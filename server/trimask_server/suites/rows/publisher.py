"""From a release's factor to a dataset anybody can check: Parquet, and a signed manifest."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trimask_core.rows import collusion
from trimask_core.rows.rotation import Matrix
from trimask_core.study import SignedStudy, Study
from trimask_server.collector.catalogue import Catalogue, Release, dataset_folder
from trimask_server.node.context import NodeContext
from trimask_server.protocol.pool import masked_release
from trimask_server.suites.rows.factor_ledger import FactorLedger

__all__ = ["Publisher", "write_parquet"]

_FILE = "dataset.parquet"
_ROW_GROUP = 65_536


class Publisher:
    """Writes datasets. A crash before the ledger's commit leaves a folder that the next try removes."""

    def __init__(self, node: NodeContext, factors: FactorLedger) -> None:
        self._node = node
        self._factors = factors

    async def publish(
        self, signed: SignedStudy, release: Release, failed_attempts: int, refusals: dict[str, dict[str, int]]
    ) -> str:
        """Publish one release; its dataset id."""
        node, study = self._node, signed.study
        factor = await self._factors.factor(study.id, release.number)
        dataset_id = f"{study.id.hex()[:12]}-{release.number}"
        stored_rows = study.attributes if node.config.compact_releases else release.rows
        rows = await node.workers.run(masked_release, factor, stored_rows, node.source.seed())
        digest, size = await node.workers.run(write_parquet, study, rows, Path(node.config.data), dataset_id)
        earlier = await Catalogue(self._factors.database).datasets(study.id)
        manifest = {
            "format": "trimask-manifest/1",
            "dataset_id": dataset_id,
            "study_id": study.id.hex(),
            "title": study.title,
            "release": release.number,
            "published_ms": node.clock.now_ms(),
            "rows": release.rows,
            "stored_rows": stored_rows,
            "columns": [asdict(column) for column in study.schema.columns],
            "sigma": study.protection.sigma,
            "guarantee": {
                "public": study.protection.public and study.protection.public.to_dict(),
                "collector": study.protection.collector and study.protection.collector.to_dict(),
            },
            "collusion": collusion.report(study.topology).to_dict(),
            "counts": {
                "blocks": release.blocks,
                "rows": release.rows,
                "failed_attempts": failed_attempts,
                "refusals": refusals,
            },
            "files": [{"name": _FILE, "bytes": size, "sha256": digest}],
            "signed_study": json.loads(signed.without_seed().to_json()),
            "previous": hashlib.sha256(earlier[-1][2]).hexdigest() if earlier else None,
        }
        body = json.dumps(manifest, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
        signature = node.keys.identity.sign("manifest", body)
        await self._factors.publish(study.id, release.number, dataset_id, body, signature)
        await node.workers.run(_remove_others, Path(node.config.data), dataset_id, digest)
        node.log.info("published dataset=%s rows=%d blocks=%d", dataset_id, release.rows, release.blocks)
        return dataset_id


def _remove_others(data: Path, dataset_id: str, digest: str) -> None:
    """Remove what publishers that did not come to their commit have left of a dataset."""
    kept = dataset_folder(data, dataset_id, digest)
    for folder in kept.parent.glob(f"{dataset_id}.*"):
        if folder != kept:
            shutil.rmtree(folder, ignore_errors=True)


def write_parquet(study: Study, rows: Matrix, data: Path, dataset_id: str) -> tuple[str, int]:
    """Write the masked rows beside their final place and move them there whole; (SHA-256, bytes)."""
    (data / "datasets").mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f"{dataset_id}.new-", dir=data / "datasets"))
    fresh.chmod(0o755)
    path = fresh / _FILE
    columns: dict[str, Any] = {column.name: rows[:, i] for i, column in enumerate(study.schema.columns)}
    # Masked values are noise to a compressor; plain encoding reads fastest.
    pq.write_table(
        pa.table(columns), path, row_group_size=_ROW_GROUP, compression="none", use_dictionary=False
    )
    with path.open("rb+") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    folder = dataset_folder(data, dataset_id, digest)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    return digest, (folder / _FILE).stat().st_size
