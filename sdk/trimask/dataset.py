"""A published dataset on this machine: verified when opened, read a batch at a time."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimask.errors import MissingExtra, ParameterError, VerificationError
from trimask.export import record_batch, row_schema, write_arrow, write_csv
from trimask.manifest import DATA_FILE, Manifest
from trimask.metadata import describe_dataset
from trimask.moments import Matrix, Moments, Units, check_units, original_map

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl  # type: ignore[import-not-found, unused-ignore]  # an extra, checked only where installed
    import pyarrow as pa

    from trimask_core.guarantee import Guarantee
    from trimask_core.schema import Column
    from trimask_core.study import Study

__all__ = ["MANIFEST_FILE", "SIGNATURE_FILE", "Dataset", "file_sha256"]

MANIFEST_FILE = "manifest.json"
SIGNATURE_FILE = "manifest.sig"
_BATCH_ROWS = 65_536

_IS_AND_IS_NOT = """\
  is      second moments: sums, means, variances, covariances, and every model made of them, such as
          least squares and principal components, on the columns the study declared
  is not  people. Rows are not people: each mixes all rows of the release, so no row stands for anybody,
          and order and single values mean nothing. Nothing nonlinear (a filter, a square, a logarithm,
          a count of values) can be computed from them"""


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hex, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Dataset:
    """One release of a study. Open a folder with `Dataset.open`, or pull one with `Connection.dataset`."""

    def __init__(self, manifest: Manifest, folder: Path) -> None:
        self._manifest = manifest
        self._folder = folder

    @classmethod
    def open(cls, folder: str | Path, *, study_id: str | bytes | None = None) -> Dataset:
        """Open and verify a folder with dataset.parquet, manifest.json and manifest.sig.

        `study_id` pins the study. Raises `VerificationError` if a signature, a hash or a number does not
        agree.
        """
        folder = Path(folder)
        for name in (MANIFEST_FILE, SIGNATURE_FILE):
            if not (folder / name).is_file():
                raise ParameterError("folder", f"a dataset folder; {name} is missing", str(folder))
        manifest = Manifest.read(
            (folder / MANIFEST_FILE).read_bytes(), (folder / SIGNATURE_FILE).read_bytes(), study_id=study_id
        )
        for entry in manifest.files:
            path = folder / entry.name
            if not path.is_file():
                raise VerificationError(f"{entry.name} is missing from the dataset folder")
            size = path.stat().st_size
            if size != entry.bytes:
                raise VerificationError(
                    f"{entry.name} has {size:,} bytes where the manifest says {entry.bytes:,}"
                )
            if file_sha256(path) != entry.sha256:
                raise VerificationError(f"{entry.name} is not the file the manifest was signed for")
        return cls(manifest, folder)

    def save(self, folder: str | Path) -> Path:
        """Copy the dataset, manifest and signature, to a folder that `Dataset.open` reads."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for entry in self._manifest.files:
            source, target = self._folder / entry.name, folder / entry.name
            if not (target.exists() and target.samefile(source)):
                shutil.copyfile(source, target)
        (folder / MANIFEST_FILE).write_bytes(self._manifest.raw)
        (folder / SIGNATURE_FILE).write_bytes(self._manifest.signature)
        return folder

    @property
    def manifest(self) -> Manifest:
        """The verified manifest."""
        return self._manifest

    @property
    def id(self) -> str:
        """Such as 3f2a9c01d4e5-1."""
        return self._manifest.dataset_id

    @property
    def path(self) -> Path:
        """The Parquet file, in scaled units, for tools that read it in place."""
        return self._folder / DATA_FILE

    @property
    def study(self) -> Study:
        """The study, whose approvals have been verified."""
        return self._manifest.study

    @property
    def rows(self) -> int:
        """Rows masked together (a compact release stores fewer)."""
        return self._manifest.rows

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, with the centers and half-ranges that lead back to original units."""
        return self._manifest.columns

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return [column.name for column in self.columns]

    @property
    def sigma(self) -> float:
        """Standard deviation of the privacy noise on every value, scaled units; 0 in exact mode."""
        return self._manifest.sigma

    @property
    def guarantee(self) -> Guarantee | None:
        """What the release promises towards the public; None in exact mode."""
        return self._manifest.guarantee("public")

    def batches(self, batch_rows: int = _BATCH_ROWS) -> Iterator[Matrix]:
        """The stored rows in scaled units, a batch at a time; never the whole file in memory."""
        for block in self._stored(batch_rows):
            _require_finite(block)
            yield block.copy(order="F")

    def _stored(self, batch_rows: int = _BATCH_ROWS) -> Iterator[Matrix]:
        """The batches, unchecked, in one buffer that the next batch overwrites: fresh memory costs as much as reading."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.path) as file:
            names, count = list(file.schema_arrow.names), file.metadata.num_rows
            if names != self.names or count != self._manifest.stored_rows:
                raise VerificationError(f"{DATA_FILE} has other columns or rows than the manifest says")
            buffer = np.empty((min(batch_rows, count), len(names)), order="F")
            for batch in file.iter_batches(batch_size=batch_rows):
                block = buffer[: batch.num_rows]
                for j in range(len(names)):
                    block[:, j] = batch.column(j).to_numpy(zero_copy_only=False)
                yield block

    @cached_property
    def moments(self) -> Moments:
        """What every fit starts from: the Gram matrix, noise removed, in scaled units."""
        gram = np.zeros((len(self.columns),) * 2)
        with np.errstate(over="ignore", invalid="ignore"):  # said below, in words
            for block in self._stored():
                gram += block.T @ block  # numpy sees the transpose and calls dsyrk: half the work of dgemm
        # A value that is not finite makes its column's square so; one look here spares one at every value.
        _require_finite(gram)
        gram = (gram + gram.T) / 2 - self.rows * self.sigma**2 * np.eye(len(gram))
        gram.flags.writeable = False
        label = f"dataset {self.id}"
        return Moments(self.study.schema, gram, self.rows, self.sigma, self.study.protection, label)

    def gram(self, units: Units = "original") -> pd.DataFrame:
        """An unbiased estimate of X^T X: Y^T Y - rows sigma^2 I, then mapped to the units."""
        import pandas as pd

        check_units(units)
        gram = self.moments.gram
        if units == "original":
            change = original_map(self.columns)
            gram = change.T @ gram @ change
        return pd.DataFrame(gram.copy(), index=pd.Index(self.names), columns=pd.Index(self.names))

    def metadata(self, licence: str | None = None) -> dict[str, Any]:
        """What this dataset is, as DCAT JSON-LD: see `trimask.metadata`."""
        return describe_dataset(self._manifest, licence)

    def _blocks(self, units: Units) -> Iterator[Matrix]:
        check_units(units)
        change = original_map(self.columns) if units == "original" else None
        for block in self.batches():
            yield block if change is None else block @ change

    def to_pandas(self, units: Units = "original") -> pd.DataFrame:
        """The stored rows, noise and all. They are not people: only their sums of products mean anything."""
        import pandas as pd

        rows = np.concatenate([np.empty((0, len(self.columns))), *self._blocks(units)])
        return pd.DataFrame(rows, columns=pd.Index(self.names))

    def to_arrow(self, units: Units = "original") -> pa.Table:
        """The stored rows as an Arrow table, a record batch a batch read; same warning as `to_pandas`."""
        import pyarrow as pa

        schema = row_schema(self.names)
        batches = [record_batch(block, schema) for block in self._blocks(units)]
        return pa.Table.from_batches(batches, schema=schema)

    def to_polars(self, units: Units = "original") -> pl.DataFrame:
        """The stored rows as a Polars frame (the extra `polars`); same warning as `to_pandas`."""
        try:
            polars = import_module("polars")
        except ImportError:
            raise MissingExtra("polars", "Dataset.to_polars") from None
        frame: pl.DataFrame = polars.from_arrow(self.to_arrow(units))
        return frame

    def to_csv(self, path: str | Path, units: Units = "original") -> Path:
        """Write the stored rows as CSV, a batch at a time; every value can be read back exactly."""
        check_units(units)
        return write_csv(Path(path), self.names, self._blocks(units))

    def to_arrow_file(self, path: str | Path, units: Units = "original") -> Path:
        """Write the stored rows as an Arrow IPC file, a batch at a time; same warning as `to_pandas`."""
        check_units(units)
        return write_arrow(Path(path), self.names, self._blocks(units))

    def _head(self) -> str:
        day = datetime.fromtimestamp(self._manifest.published_ms / 1000, UTC).date().isoformat()
        size = f"{self.rows:,} rows x {len(self.columns)} columns"
        return f"{self.id}: {self._manifest.title}, {size}, published {day}"

    def __repr__(self) -> str:
        return f"<Dataset {self._head()}; rows are not people>"

    def __str__(self) -> str:
        promise = (
            "none: exact mode, masked without differential privacy"
            if self.guarantee is None
            else str(self.guarantee)
        )
        lines = [
            f"Dataset {self._head()}",
            f"  columns {', '.join(self.names)}",
            f"  noise   sigma = {self.sigma:.4g} in scaled units (every column in [-1, 1])",
            f"  promise {promise}",
            _IS_AND_IS_NOT,
        ]
        return "\n".join(lines)


def _require_finite(values: Matrix) -> None:
    if not np.all(np.isfinite(values)):
        raise VerificationError(f"{DATA_FILE} has values that are not finite numbers")
