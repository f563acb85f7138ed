"""Releases and published datasets, whatever the suite: the table of releases, files placed whole, a signed manifest.

The table says which release a planned block joins, counts the block into it, and knows the one that a study with a budget
answers from.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.collusion import collusion_of
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.inclusion import COUNTED_FILE, Counted, CountedBlock
from trimask_server.collector.ledger import Block
from trimask_server.protocol.plans import split_ids
from trimask_server.runtime.context import NodeContext
from trimask_server.store.interface import Store, Transaction

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


@dataclass(frozen=True)
class PlacedFile:
    """A file in its final place."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Tally:
    """What went wrong on the way to a release: failed attempts, and refusals by node and reason."""

    failed_attempts: int
    refusals: Mapping[str, Mapping[str, int]]
    abandoned: Sequence[Block] = ()
    """Blocks that were given up before it: nothing of them is in it."""


def place_files(
    data: Path, dataset_id: str, name: str, write: Callable[[Path], None], counted: Counted
) -> tuple[PlacedFile, PlacedFile]:
    """Write a dataset's data file and its list of submissions to temporary files, then move them into place."""
    (data / "datasets").mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f"{dataset_id}.new-", dir=data / "datasets"))
    fresh.chmod(0o755)
    write(fresh / name)
    (fresh / COUNTED_FILE).write_bytes(counted.to_bytes())
    placed = _durable(fresh / name), _durable(fresh / COUNTED_FILE)
    folder = dataset_folder(data, dataset_id, placed[0].sha256)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    return placed


def _durable(path: Path) -> PlacedFile:
    with path.open("rb+") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    return PlacedFile(path.name, digest, path.stat().st_size)


def remove_others(data: Path, dataset_id: str, digest: str) -> None:
    """Remove a dataset's files left by publishers that did not commit."""
    kept = dataset_folder(data, dataset_id, digest)
    for folder in kept.parent.glob(f"{dataset_id}.*"):
        if folder != kept:
            shutil.rmtree(folder, ignore_errors=True)


async def signed_manifest(
    node: NodeContext,
    catalogue: Catalogue,
    signed: SignedStudy,
    release: Release,
    dataset_id: str,
    files: Sequence[PlacedFile],
    tally: Tally,
    more: Mapping[str, Any],
) -> tuple[bytes, bytes]:
    """The manifest of a release and the collector's signature; `more` is what its suite adds."""
    study = signed.study
    earlier = await catalogue.datasets(study.id)
    manifest = {
        "format": "trimask-manifest/1",
        "suite": study.suite.name,
        "dataset_id": dataset_id,
        "study_id": study.id.hex(),
        "title": study.title,
        "release": release.number,
        "published_ms": node.clock.now_ms(),
        "rows": release.rows,
        "columns": [asdict(column) for column in study.schema.columns],
        "sigma": study.protection.sigma,
        "guarantee": {
            "public": study.protection.public and study.protection.public.to_dict(),
            "collector": study.protection.collector and study.protection.collector.to_dict(),
        },
        "collusion": collusion_of(study).to_dict(),
        "counts": {
            "blocks": release.blocks,
            "rows": release.rows,
            "failed_attempts": tally.failed_attempts,
            "refusals": tally.refusals,
            "abandoned_blocks": [
                {"block": block.block_id.hex(), "rows": block.rows, "why": block.why}
                for block in tally.abandoned
            ],
        },
        "files": [{"name": file.name, "bytes": file.size, "sha256": file.sha256} for file in files],
        "signed_study": json.loads(signed.without_seed().to_json()),
        "previous": hashlib.sha256(earlier[-1][2]).hexdigest() if earlier else None,
        **more,
    }
    body = json.dumps(manifest, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
    return body, node.keys.identity.sign("manifest", body)


class OpenRelease(NamedTuple):
    """A release short of `release_rows`; `blocks` is 0 where it has not begun."""

    number: int
    rows: int
    blocks: int


def release_of_planned(tx: Transaction, study_id: bytes, block_id: bytes) -> OpenRelease | None:
    """The release that a planned block joins; None if the block was pooled or given up before."""
    block = tx.row("SELECT state FROM blocks WHERE block_id = ? AND study_id = ?", (block_id, study_id))
    if block is None:
        raise Refused(Reason.UNKNOWN_BLOCK, "that block was never planned")
    if block[0] != "planned":
        return None
    last = tx.row(
        "SELECT release_number, row_count, block_count, state FROM releases WHERE study_id = ?"
        " ORDER BY release_number DESC LIMIT 1",
        (study_id,),
    )
    if last is None:
        return OpenRelease(1, 0, 0)
    return OpenRelease(*last[:3]) if last[3] == "open" else OpenRelease(last[0] + 1, 0, 0)


def count_block(tx: Transaction, study_id: bytes, release: OpenRelease, rows: int, release_rows: int) -> None:
    """Count one more block with so many rows; the release is full from `release_rows` on."""
    total = release.rows + rows
    tx.run(
        "INSERT INTO releases (study_id, release_number, row_count, block_count, state)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (study_id, release_number) DO UPDATE SET"
        " row_count = excluded.row_count, block_count = excluded.block_count, state = excluded.state",
        (study_id, release.number, total, release.blocks + 1, "full" if total >= release_rows else "open"),
    )


def answers_state(tx: Transaction, study_id: bytes) -> tuple[str, int]:
    """(answerable, rows), (spent, rows), or (none, 0) while there is nothing to answer from."""
    row = tx.row(
        "SELECT state, row_count FROM releases WHERE study_id = ? AND state IN ('answerable', 'spent')",
        (study_id,),
    )
    return ("none", 0) if row is None else (str(row[0]), int(row[1]))


def end_answers(tx: Transaction, study_id: bytes) -> bool:
    """No question is answered from now on; whether one was until now."""
    return bool(
        tx.run("UPDATE releases SET state = 'spent' WHERE study_id = ? AND state = 'answerable'", (study_id,))
    )


def still_needed(tx: Transaction, study_id: bytes) -> bool:
    """Whether a release of the study is still being filled, waits to be published, or answers questions."""
    return (
        tx.row(
            "SELECT 1 FROM releases WHERE study_id = ? AND state IN ('open', 'full', 'answerable')",
            (study_id,),
        )
        is not None
    )
