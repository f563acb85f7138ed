"""The rows of a release as a file of another format, written a batch at a time: never all of them in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trimask.moments import Matrix

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["record_batch", "row_schema", "write_arrow", "write_csv", "write_notes"]


def row_schema(names: Sequence[str], notes: Mapping[str, str] | None = None) -> pa.Schema:
    """Every column a double; `notes` are metadata of the table."""
    import pyarrow as pa

    return pa.schema([(name, pa.float64()) for name in names], metadata=dict(notes) if notes else None)


def record_batch(block: Matrix, schema: pa.Schema) -> pa.RecordBatch:
    """A block of rows in Arrow's form."""
    import pyarrow as pa

    columns = [pa.array(np.ascontiguousarray(block[:, j])) for j in range(block.shape[1])]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def write_notes(path: Path, notes: Mapping[str, str]) -> None:
    """What a file of rows is and is not, in a file NAME.json beside it."""
    path.with_name(f"{path.name}.json").write_text(json.dumps(dict(notes), indent=1), encoding="utf-8")


def write_csv(
    path: Path, names: Sequence[str], blocks: Iterable[Matrix], notes: Mapping[str, str] | None = None
) -> Path:
    """As CSV with a heading; every value can be read back exactly. `notes` go into a file NAME.json beside it."""
    from pyarrow import csv

    if notes:
        write_notes(path, notes)
    schema = row_schema(names)
    with csv.CSVWriter(path, schema) as writer:
        for block in blocks:
            writer.write_batch(record_batch(block, schema))
    return path


def write_arrow(
    path: Path, names: Sequence[str], blocks: Iterable[Matrix], notes: Mapping[str, str] | None = None
) -> Path:
    """As an Arrow IPC file, which readers map into memory without parsing; `notes` are its metadata."""
    import pyarrow as pa

    schema = row_schema(names, notes)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for block in blocks:
            writer.write_batch(record_batch(block, schema))
    return path
