"""What every published dataset has, whatever the suite: files placed whole, and a signed manifest."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trimask_core.collusion import collusion_of
from trimask_core.counted import COUNTED_FILE, Counted
from trimask_core.signed_study import SignedStudy
from trimask_server.collector.catalogue import Catalogue, Release, dataset_folder
from trimask_server.collector.ledger import Block
from trimask_server.node.context import NodeContext

__all__ = ["PlacedFile", "Tally", "place_files", "remove_others", "signed_manifest"]


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
