"""The collector's releases and published datasets, as everybody asks for them, whatever the study's suite."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trimask_core.counted import Counted, CountedBlock
from trimask_server.protocol.plans import split_ids
from trimask_server.store.interface import Store, Transaction

__all__ = ["Catalogue", "Progress", "Release", "dataset_folder"]

_UNPUBLISHED = ("open", "full", "answerable")


def dataset_folder(data: Path, dataset_id: str, digest: str) -> Path:
    """Where a dataset's files are.

    The hash of its first file is in the path: a publisher that lost its lease overwrites no other's files.
    """
    return data / "datasets" / f"{dataset_id}.{digest[:16]}"


@dataclass(frozen=True)
class Release:
    """A release being filled (open), complete and held back (full), or published."""

    number: int
    rows: int
    blocks: int
    state: str


@dataclass(frozen=True)
class Progress:
    """Complete submissions that wait, are in a block being worked on, and are pooled and in no published release."""

    pending: int
    masking: int
    pooled: int


@dataclass(frozen=True)
class Catalogue:
    """Reads the tables that suites write (`releases`, `datasets`, and `blocks` once they are pooled)."""

    database: Store

    async def releases(self, study_id: bytes) -> list[Release]:
        """All releases, in order."""
        return await self.database.read(
            lambda tx: [
                Release(*row)
                for row in tx.rows(
                    "SELECT release_number, row_count, block_count, state FROM releases WHERE study_id = ?"
                    " ORDER BY release_number",
                    (study_id,),
                )
            ]
        )

    async def progress(self, study_id: bytes) -> Progress:
        """How far a study's submissions are, all at one moment: none is counted twice, or not at all, on its way."""

        def read(tx: Transaction) -> Progress:
            def total(column: str, rest: str) -> int:
                row = tx.row(f"SELECT sum({column}) FROM {rest}", (study_id,))  # noqa: S608 - words of this module
                return int((row and row[0]) or 0)

            marks = ", ".join(f"'{state}'" for state in _UNPUBLISHED)
            return Progress(
                total("pending_rows", "progress WHERE study_id = ?"),
                total("row_count", "blocks WHERE study_id = ? AND state = 'planned'"),
                total("row_count", f"releases WHERE study_id = ? AND state IN ({marks})"),
            )

        return await self.database.read(read)

    async def counted(self, study_id: bytes, number: int) -> Counted:
        """Which submissions a release counts, block by block in the order they were planned."""
        rows = await self.database.read(
            lambda tx: tx.rows(
                "SELECT block_id, submission_ids, accepted, bound FROM blocks WHERE study_id = ? AND release_number = ?"
                " ORDER BY sequence",
                (study_id, number),
            )
        )
        return Counted(
            tuple(
                # Where a suite marks who was accepted, what right providers signed is in its totals.
                CountedBlock.of(
                    bytes(row[0]),
                    split_ids(bytes(row[1])),
                    row[2] and [mark == 1 for mark in row[2]],
                    b"" if row[2] else bytes(row[3] or b""),
                )
                for row in rows
            )
        )

    async def datasets(self, study_id: bytes = b"") -> list[tuple[str, bytes, bytes, bytes]]:
        """(dataset id, study id, manifest, signature), oldest first."""
        condition = "WHERE study_id = ?" if study_id else ""
        return await self.database.read(
            lambda tx: [
                (row[0], row[1], row[2], row[3])
                for row in tx.rows(
                    f"SELECT dataset_id, study_id, manifest, signature FROM datasets {condition} ORDER BY sequence",  # noqa: S608
                    (study_id,) if study_id else (),
                )
            ]
        )
