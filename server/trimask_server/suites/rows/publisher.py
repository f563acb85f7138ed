"""From a release's factor to a dataset anybody can check: Parquet, and a signed manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trimask_core.rows.parquet_metadata import row_notes
from trimask_core.rows.rotation import Matrix
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_server.collector.publication import (
    Catalogue,
    Release,
    Tally,
    place_files,
    remove_others,
    signed_manifest,
)
from trimask_server.runtime.context import NodeContext
from trimask_server.suites.rows.factor_ledger import FactorLedger
from trimask_server.suites.rows.math import masked_release, with_publishing_noise

_FILE = "dataset.parquet"
_ROW_GROUP = 65_536


class Publisher:
    """Writes datasets. A crash before the ledger's commit leaves a folder that the next try removes."""

    def __init__(self, node: NodeContext, factors: FactorLedger) -> None:
        self._node = node
        self._factors = factors

    async def publish(self, signed: SignedStudy, release: Release, tally: Tally) -> str:
        """Publish one release; its dataset id."""
        node, study, data = self._node, signed.study, Path(self._node.config.data)
        factor = await self._factors.factor(study.id, release.number)
        dataset_id = f"{study.id.hex()[:12]}-{release.number}"
        stored_rows = study.attributes if node.config.compact_releases else release.rows
        scale = study.rows.publishing_steps * study.rows.grid.step
        noisy = await node.workers.run(with_publishing_noise, factor, release.rows, scale, node.source.seed())
        rows = await node.workers.run(masked_release, noisy, stored_rows, node.source.seed())
        catalogue = Catalogue(self._factors.database)
        counted = await catalogue.counted(study.id, release.number)
        files = await node.workers.run(
            place_files,
            data,
            dataset_id,
            _FILE,
            lambda path: write_parquet(study, rows, path, release.rows),
            counted,
        )
        body, signature = await signed_manifest(
            node,
            catalogue,
            signed,
            release,
            dataset_id,
            files,
            tally,
            {"stored_rows": stored_rows},
        )
        await self._factors.publish(study.id, release.number, dataset_id, body, signature)
        await node.workers.run(remove_others, data, dataset_id, files[0].sha256)
        node.log.info("published dataset=%s rows=%d blocks=%d", dataset_id, release.rows, release.blocks)
        return dataset_id


def write_parquet(study: Study, rows: Matrix, path: Path, people: int) -> None:
    """Write the masked rows of so many people; what they are not, and their noise, is the file's metadata."""
    columns: dict[str, Any] = {column.name: rows[:, i] for i, column in enumerate(study.schema.columns)}
    table = pa.table(columns).replace_schema_metadata(row_notes(study, people, "scaled"))
    # Masked values are noise to a compressor; plain encoding reads fastest.
    pq.write_table(table, path, row_group_size=_ROW_GROUP, compression="none", use_dictionary=False)
