"""The published Parquet file says by itself what its rows are not, and how to take their noise off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from trimask.simulation import drafted
from trimask_cli.study_file import bundled_definition
from trimask_core.submit.release_files import row_notes
from trimask_server.suites.rows.suite import write_parquet
from trimask_theory.planning.study_definition import load_definition


def test_the_parquet_file_carries_its_notes(tmp_path: Path) -> None:
    study = drafted(load_definition(bundled_definition()))
    rows = np.random.default_rng(1).standard_normal((9, len(study.schema.columns)))
    write_parquet(study, rows, tmp_path / "dataset.parquet", 1024)
    found = pq.read_schema(tmp_path / "dataset.parquet").metadata
    notes = {name.decode(): text.decode() for name, text in found.items()}
    assert notes == row_notes(study, 1024, "scaled")
    assert notes["sigma"] == repr(study.protection.sigma)
    assert notes["rows"] == "1024"  # people, though a compact release stores fewer rows
    assert "Rows are not people" in notes["trimask"]
    assert np.array_equal(
        np.column_stack(
            [column.to_numpy() for column in pq.read_table(tmp_path / "dataset.parquet").columns]
        ),
        rows,
    )
