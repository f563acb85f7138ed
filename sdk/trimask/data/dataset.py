"""A published dataset on this machine: verified when opened, read a batch at a time."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimask.data.description import bibtex, dataset_notes, one_line, r_recipe, readme, summary, write_readme
from trimask.data.manifest import (
    MANIFEST_FILE,
    SIGNATURE_FILE,
    Manifest,
    Shown,
    file_sha256,
    read_counted,
    read_totals,
)
from trimask.data.metadata import (
    codebook,
    describe_dataset,
    question_labels,
    record_batch,
    row_schema,
    write_arrow,
    write_csv,
    write_labelled,
)
from trimask.data.rows import BATCH_ROWS, derived_rows, stored_batches, stored_gram
from trimask.errors import MissingExtra, ParameterError, VerificationError
from trimask.moments.moments import (
    ClippedShare,
    Moments,
    ObservedMoments,
    ObservedRows,
    Units,
    check_units,
    original_map,
)
from trimask_theory.moments.noise_law import Matrix

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl  # type: ignore[import-not-found, unused-ignore]  # an extra, checked only where installed
    import pyarrow as pa

    from trimask_core.study.definition import Study, SuiteName
    from trimask_core.study.derived import Column
    from trimask_core.study.guarantee import Guarantee
    from trimask_core.submit.release_files import Counted, Standing
    from trimask_core.submit.submission import Receipt


MANY_CLIPPED = 0.05
"""A share of clipped rows that is warned of: a study does not say what it expects, and from here bias shows
(docs/theory/verified-moments.md#ball-accuracy)."""


class Dataset(Shown):
    """One release of a study, verified.

    Open a folder with `Dataset.open`, or pull one with `Connection.dataset`. Every `trimask.fit` takes it.

    Attributes
    ----------
    moments : Moments
        What every fit starts from.
    study : Study
        The study, whose approvals have been verified.
    guarantee : Guarantee, optional
        What the release promises towards the public; None in exact mode.

    Examples
    --------
    >>> import trimask
    >>> dataset = trimask.Dataset.open("out/demo/rows")  # from `make demo`
    >>> dataset.names[0], dataset.suite
    ('one', 'rows')
    >>> dataset.gram().loc["one", "one"].round(6) == dataset.rows
    np.True_
    >>> dataset.cite().startswith("@misc{trimask-")
    True
    """

    def __init__(self, manifest: Manifest, folder: Path) -> None:
        self._manifest = manifest
        self._folder = folder
        # Read and checked at once: the signatures of a small file, where a bad one is to be refused when opened.
        self._totals = read_totals(self.path, manifest) if manifest.suite == "moments" else None
        self._counted = read_counted(folder, manifest, self._totals)
        self._warn_of_clipping()

    @classmethod
    def open(cls, folder: str | Path, *, study_id: str | bytes | None = None) -> Dataset:
        """Open and verify a folder with dataset.parquet (or moments.json), counted.bin, manifest.json and manifest.sig.

        Parameters
        ----------
        folder : str or Path
            Such as `trimask pull` or `make demo` writes.
        study_id : str or bytes, optional
            Pins the study: another one is refused.

        Returns
        -------
        Dataset

        Raises
        ------
        VerificationError
            A signature, a hash or a number does not agree.
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

    def _warn_of_clipping(self) -> None:
        share = self.clipped if self.suite == "moments" and self.study.pilot is None else None
        if share is not None and share.interval()[0] > MANY_CLIPPED:
            warnings.warn(
                f"about {share} of the rows were shrunk to the study's ball, more than {MANY_CLIPPED:.0%}: estimates are "
                "of shrunk rows, and biased by that",
                stacklevel=3,
            )

    def save(self, folder: str | Path) -> Path:
        """Copy the dataset, manifest and signature to a folder that `Dataset.open` reads, with a README for people.

        Parameters
        ----------
        folder : str or Path
            Made where it is missing.

        Returns
        -------
        Path
            The folder.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for entry in self._manifest.files:
            source, target = self._folder / entry.name, folder / entry.name
            if not (target.exists() and target.samefile(source)):
                shutil.copyfile(source, target)
        (folder / MANIFEST_FILE).write_bytes(self._manifest.raw)
        (folder / SIGNATURE_FILE).write_bytes(self._manifest.signature)
        write_readme(self._manifest, folder)
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
    def suite(self) -> SuiteName:
        """How it was collected: "rows" or "moments"."""
        return self._manifest.suite

    @property
    def path(self) -> Path:
        """The Parquet file, in scaled units, for tools that read it in place; moments.json in the moments suite."""
        return self._folder / self._manifest.data_file

    @property
    def study(self) -> Study:
        """The study, whose approvals have been verified."""
        return self._manifest.study

    @property
    def rows(self) -> int:
        """Rows masked together (a compact release stores fewer); people, in the moments suite."""
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
        """The study's privacy noise in scaled units: on every value, or in the moments suite on every sum of squares
        (of the honest providers together); 0 in exact mode.
        """
        return self._manifest.sigma

    @property
    def guarantee(self) -> Guarantee | None:
        """What the release promises towards the public; None in exact mode."""
        return self._manifest.guarantee("public")

    @property
    def counted(self) -> Counted:
        """Which submissions the release counts, by the ids that are in people's receipts."""
        return self._counted

    def standing(self, receipt: Receipt) -> Standing:
        """Whether a person's submission is in this release.

        Parameters
        ----------
        receipt : Receipt
            What the person's device keeps.

        Returns
        -------
        str
            "counted", "refused" by the right providers' check, or "absent".

        Raises
        ------
        VerificationError
            Unless every right provider signed the receipt.
        """
        receipt.verify(self.study)
        return self._counted.standing(receipt.submission_id)

    def batches(self, batch_rows: int = BATCH_ROWS) -> Iterator[Matrix]:
        """The stored rows in scaled units, a batch at a time; never the whole file in memory.

        The moments suite stores none: there they are derived from the moments (`trimask.data.rows`).

        Parameters
        ----------
        batch_rows : int
            At most so many rows at a time.

        Returns
        -------
        iterator of arrays
        """
        if self.suite == "moments":
            yield from derived_rows(self.moments, bytes.fromhex(self._manifest.sha256), batch_rows)
            return
        yield from stored_batches(self.path, self._manifest, batch_rows)

    @cached_property
    def moments(self) -> Moments:
        """What every fit starts from: the Gram matrix in scaled units, on average without noise, and its noise's law.

        It is moved onto what the schema knows, once, here: see `trimask.moments.identities`.
        """
        return self._observed.moments(f"dataset {self.id} (suite {self.suite})")

    @cached_property
    def _observed(self) -> ObservedRows | ObservedMoments:
        if self._totals is not None:
            totals = self._totals
            return ObservedMoments.of_totals(self.study, totals.first, totals.products, self.rows)
        return ObservedRows(self.study, stored_gram(self.path, self._manifest), self.rows)

    @property
    def clipped(self) -> ClippedShare | None:
        """The share of people whose row was shrunk to the study's ball; None where the study has none."""
        observed = self._observed
        return observed.clipped if isinstance(observed, ObservedMoments) else None

    def gram(self, units: Units = "original") -> pd.DataFrame:
        """An unbiased estimate of X^T X that agrees with what the schema knows.

        Of a weighted study: of the weighted sums, brought to the effective number of people.

        Parameters
        ----------
        units : "original" or "scaled"
            The study's own units, or every column in [-1, 1].

        Returns
        -------
        DataFrame
            A row and a column a column of the study.
        """
        import pandas as pd

        check_units(units)
        gram = self.moments.gram
        if units == "original":
            change = original_map(self.columns)
            gram = change.T @ gram @ change
        return pd.DataFrame(gram.copy(), index=pd.Index(self.names), columns=pd.Index(self.names))

    def metadata(self, licence: str | None = None) -> dict[str, Any]:
        """What this dataset is, as DCAT JSON-LD: see `trimask.data.metadata`.

        Parameters
        ----------
        licence : str, optional
            The address of a licence to state.

        Returns
        -------
        dict
            JSON-ready.
        """
        return describe_dataset(self._manifest, licence)

    def cite(self) -> str:
        """A BibTeX entry: id, hash of the manifest, guarantee, and the version of this package."""
        return bibtex(self._manifest)

    def r_recipe(self, data: str = "dataset.csv") -> str:
        """R code that fits a linear model to the CSV file `to_csv` wrote, with the noise taken off.

        Parameters
        ----------
        data : str
            The file's name in the code.

        Returns
        -------
        str
        """
        return r_recipe(self._manifest, data)

    def _blocks(self, units: Units) -> Iterator[Matrix]:
        check_units(units)
        change = original_map(self.columns) if units == "original" else None
        for block in self.batches():
            yield block if change is None else block @ change

    def to_pandas(self, units: Units = "original") -> pd.DataFrame:
        """The stored rows, noise and all. They are not people: only their sums of products mean anything.

        Parameters
        ----------
        units : "original" or "scaled"
            The study's own units, or every column in [-1, 1].

        Returns
        -------
        DataFrame
            A column a column of the study; its metadata says what rows are not, and how to take their noise off.
        """
        import pandas as pd

        rows = np.concatenate([np.empty((0, len(self.columns))), *self._blocks(units)])
        frame = pd.DataFrame(rows, columns=pd.Index(self.names))
        frame.attrs.update(dataset_notes(self._manifest, units))
        return frame

    def to_arrow(self, units: Units = "original") -> pa.Table:
        """The stored rows as an Arrow table, a record batch a batch read; `units` and warning as of `to_pandas`."""
        import pyarrow as pa

        schema = row_schema(self.names, dataset_notes(self._manifest, units))
        batches = [record_batch(block, schema) for block in self._blocks(units)]
        return pa.Table.from_batches(batches, schema=schema)

    def to_polars(self, units: Units = "original") -> pl.DataFrame:
        """The stored rows as a Polars frame (the extra `polars`); `units` and warning as of `to_pandas`."""
        try:
            polars = import_module("polars")
        except ImportError:
            raise MissingExtra("polars", "Dataset.to_polars") from None
        frame: pl.DataFrame = polars.from_arrow(self.to_arrow(units))
        return frame

    def to_csv(self, path: str | Path, units: Units = "original") -> Path:
        """Write the stored rows as CSV, a batch at a time; every value can be read back exactly.

        Beside it go NAME.json, which says what the rows are not and how to take their noise off, and, in original units,
        NAME.README.md with a recipe in R that does. `path` is the file, `units` are as in `to_pandas`.
        """
        check_units(units)
        path = Path(path)
        if units == "original":
            path.with_name(f"{path.name}.README.md").write_text(
                readme(self._manifest, path.name), encoding="utf-8"
            )
        return write_csv(path, self.names, self._blocks(units), dataset_notes(self._manifest, units))

    def to_arrow_file(self, path: str | Path, units: Units = "original") -> Path:
        """Write the stored rows to `path`, an Arrow IPC file, a batch at a time; `units` and warning as of `to_pandas`."""
        check_units(units)
        return write_arrow(Path(path), self.names, self._blocks(units), dataset_notes(self._manifest, units))

    def to_file(self, path: str | Path, of: Any = "rows", alpha: float = 0.05) -> Path:
        """Write the stored rows, the codebook or a table as a Stata (.dta) or SPSS (.sav) file (the extra `stata`).

        Variables and values are labelled with the study's questions. Rows are in original units, and what they are not is in
        the file; they are all in memory at once.

        Parameters
        ----------
        path : str or Path
            The file to write; its suffix decides.
        of : "rows", "codebook", result or DataFrame
            What is written: of a result of `trimask.fit` its table, with its notes.
        alpha : float
            One minus the level of a result's intervals.

        Returns
        -------
        Path
            The file.
        """
        labels = question_labels(self.columns, self.study.schema)
        if isinstance(of, str) and of == "rows":
            notes = dataset_notes(self._manifest, "original")
            title = "Derived rows, not people" if self.suite == "moments" else "Masked rows, not people"
            kept = [f"{name}: {words}" for name, words in notes.items() if name != "trimask"]
            written = write_labelled(
                Path(path), self.to_pandas(), labels, f"{title}: {self.id}", [notes["trimask"], *kept]
            )
            warnings.warn(f"{written.name}: {notes['trimask']}", stacklevel=2)
            return written
        if isinstance(of, str) and of == "codebook":
            frame = codebook(self.columns, self.study.schema)
            return write_labelled(Path(path), frame, labels, f"Codebook of {self.id}", [self.cite()])
        frame = of.table(alpha) if hasattr(of, "table") else of
        if not hasattr(frame, "columns"):
            raise ParameterError("of", "'rows', 'codebook', a result or a table", of)
        told = [words for words in (getattr(of, "caution", ""), *getattr(of, "notes", ())) if words]
        return write_labelled(
            Path(path), frame, labels, getattr(of, "title", f"Table of {self.id}"), [*told, self.cite()]
        )

    def __repr__(self) -> str:
        return f"<Dataset {one_line(self._manifest)}>"

    def __str__(self) -> str:
        weighted = self.study.weight is not None
        return summary(self._manifest, self.clipped, self.moments.rows if weighted else self.rows)
