"""Published datasets, whatever the suite: files placed whole, a signed manifest, and how far a study has come.

What the collector serves researchers, published datasets and their files; and the tokens that the owner gives them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.release_files import COUNTED_FILE, Counted, CountedBlock, split_ids
from trimask_core.suites import collusion_of
from trimask_proto.v1 import admission_pb2, admission_pb2_grpc, dataset_pb2, dataset_pb2_grpc
from trimask_server.access.permissions import require_access
from trimask_server.access.tokens import Token, TokenStore
from trimask_server.collector.ledger import pending_rows
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.tls import Context
from trimask_server.store import release_table
from trimask_server.store.interface import Store, Transaction
from trimask_server.store.release_table import NEEDED, Block, Release, ReleaseState


class AdmissionOwnerServicer(admission_pb2_grpc.AdmissionOwnerServiceServicer):
    """Serves the owner."""

    def __init__(
        self, node: NodeContext, tokens: TokenStore, scheduled: Callable[[bytes], Awaitable[bool]]
    ) -> None:
        self._node = node
        self._tokens = tokens
        self._scheduled = scheduled

    async def CreateToken(
        self, request: admission_pb2.CreateTokenRequest, context: Context
    ) -> admission_pb2.CreateTokenResponse:
        node = self._node
        await self._refuse_unknown(request.study_id)
        text, token = await self._tokens.create(
            request.study_id,
            request.name,
            tuple(request.scopes),
            node.clock.now_ms(),
            request.expire_time_ms,
            node.source,
        )
        return admission_pb2.CreateTokenResponse(token=text, summary=_summary(token))

    async def ListTokens(
        self, request: admission_pb2.ListTokensRequest, context: Context
    ) -> admission_pb2.ListTokensResponse:
        tokens = await self._tokens.list(request.study_id)
        if not tokens:  # of a study that was erased, those that open its datasets are still here
            await self._refuse_unknown(request.study_id)
        return admission_pb2.ListTokensResponse(tokens=[_summary(token) for token in tokens])

    async def RevokeToken(
        self, request: admission_pb2.RevokeTokenRequest, context: Context
    ) -> admission_pb2.RevokeTokenResponse:
        await self._tokens.revoke(request.study_id, request.token_id, self._node.clock.now_ms())
        return admission_pb2.RevokeTokenResponse()

    async def _refuse_unknown(self, study_id: bytes) -> None:
        """Unless the study is here, or is to open at a time: researchers may be given their tokens before."""
        if not await self._scheduled(study_id):
            self._node.studies.get(study_id)


def _summary(token: Token) -> admission_pb2.TokenSummary:
    return admission_pb2.TokenSummary(
        token_id=token.id,
        name=token.name,
        scopes=token.scopes,
        create_time_ms=token.create_time_ms,
        expire_time_ms=token.expire_time_ms,
        revoke_time_ms=token.revoke_time_ms,
    )


_READ_BYTES = 2 << 20


class DatasetServicer(dataset_pb2_grpc.DatasetServiceServicer):
    """Published datasets."""

    def __init__(self, node: NodeContext, catalogue: Catalogue) -> None:
        self._node = node
        self._catalogue = catalogue

    async def ListDatasets(
        self, request: dataset_pb2.ListDatasetsRequest, context: Context
    ) -> dataset_pb2.ListDatasetsResponse:
        summaries = []
        # A request for one study is refused with the reason; a list leaves out what the caller may not see.
        for study in self._node.studies.all():
            if study.id == request.study_id and study.access == "token":
                require_access(self._node.config, context, study.id, "datasets")
        for dataset_id, study_id, body, _ in await self._catalogue.datasets(request.study_id):
            manifest = json.loads(body)
            if not self._may(study_id, manifest, context):
                continue
            summaries.append(
                dataset_pb2.DatasetSummary(
                    dataset_id=dataset_id,
                    study_id=study_id,
                    title=manifest["title"],
                    rows=manifest["rows"],
                    columns=len(manifest["columns"]),
                    publish_time_ms=manifest["published_ms"],
                )
            )
        return dataset_pb2.ListDatasetsResponse(datasets=summaries)

    def _require(self, study_id: bytes, manifest: dict[str, Any], context: Context) -> None:
        # From the manifest, which outlives the study: one that closed long ago is no longer known here.
        if manifest["signed_study"]["study"].get("access", "public") == "token":
            require_access(self._node.config, context, study_id, "datasets")

    def _may(self, study_id: bytes, manifest: dict[str, Any], context: Context) -> bool:
        try:
            self._require(study_id, manifest, context)
        except Refused:
            return False
        return True

    async def _find(self, dataset_id: str, context: Context) -> tuple[bytes, bytes]:
        for found, study_id, manifest, signature in await self._catalogue.datasets():
            if found == dataset_id:
                self._require(study_id, json.loads(manifest), context)
                return manifest, signature
        raise Refused(Reason.UNKNOWN_NAME, f"there is no dataset {dataset_id!r} here")

    async def GetManifest(
        self, request: dataset_pb2.GetManifestRequest, context: Context
    ) -> dataset_pb2.GetManifestResponse:
        manifest, signature = await self._find(request.dataset_id, context)
        return dataset_pb2.GetManifestResponse(manifest=manifest, signature=signature)

    async def ReadFile(
        self, request: dataset_pb2.ReadFileRequest, context: Context
    ) -> dataset_pb2.ReadFileResponse:
        manifest, _ = await self._find(request.dataset_id, context)
        # Only names in the signed manifest: a path cannot lead out of the dataset's folder.
        listed = json.loads(manifest)["files"]
        files = {item["name"]: item for item in listed}
        if request.file_name not in files:
            raise Refused(
                Reason.UNKNOWN_NAME, f"dataset {request.dataset_id} has no file {request.file_name!r}"
            )
        file = files[request.file_name]
        if request.offset > file["bytes"]:
            raise Refused(Reason.MALFORMED, f"offset must be at most {file['bytes']}, where the file ends")
        folder = dataset_folder(Path(self._node.config.data), request.dataset_id, listed[0]["sha256"])
        path = folder / request.file_name
        limit = min(request.max_bytes or _READ_BYTES, _READ_BYTES)
        return dataset_pb2.ReadFileResponse(
            content=await self._node.workers.run(_read, path, request.offset, limit)
        )


def _read(path: Path, offset: int, limit: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(limit)


def dataset_folder(data: Path, dataset_id: str, digest: str) -> Path:
    """Where a dataset's files are.

    The hash of its first file is in the path: a publisher that lost its lease overwrites no other's files.
    """
    return data / "datasets" / f"{dataset_id}.{digest[:16]}"


@dataclass(frozen=True)
class Progress:
    """Complete submissions that wait, are in a block being worked on, and are pooled and in no published release."""

    pending: int
    masking: int
    pooled: int


@dataclass(frozen=True)
class Catalogue:
    """What there is of a study's releases and datasets."""

    database: Store

    async def releases(self, study_id: bytes) -> list[Release]:
        """All releases, in order."""
        return await self.database.read(lambda tx: release_table.find_releases(tx, study_id))

    async def progress(self, study_id: bytes) -> Progress:
        """How far a study's submissions are, all at one moment: none is counted twice, or not at all, on its way."""

        def read(tx: Transaction) -> Progress:
            pooled = release_table.find_releases(tx, study_id, NEEDED)
            return Progress(
                pending_rows(tx, study_id),
                release_table.planned_rows(tx, study_id),
                sum(release.rows for release in pooled),
            )

        return await self.database.read(read)

    async def people(self, study_id: bytes) -> int:
        """Complete submissions so far, in any state, also those of past releases."""
        there = await self.progress(study_id)
        past = [release for release in await self.releases(study_id) if release.state not in NEEDED]
        return there.pending + there.masking + there.pooled + sum(release.rows for release in past)

    async def counted(self, study_id: bytes, number: int) -> Counted:
        """Which submissions a release counts, block by block in the order they were planned."""
        blocks = await self.database.read(lambda tx: release_table.blocks_of(tx, study_id, number))
        return Counted(
            tuple(
                # Where a suite marks who was accepted, what right providers signed is in its totals.
                CountedBlock.of(
                    block.block_id,
                    split_ids(block.submission_ids),
                    None if block.accepted is None else [mark == 1 for mark in block.accepted],
                    block.bound if block.accepted is None else b"",
                )
                for block in blocks
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
    sent_together: Mapping[str, int]
    """How many of the study's people came together to each right provider, from who has their answers."""
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
            "sent_together": tally.sent_together,
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


def record_dataset(
    tx: Transaction,
    audit: AuditLog | None,
    study_id: bytes,
    number: int,
    dataset_id: str,
    manifest: bytes,
    signature: bytes,
) -> None:
    """A release is published, with this dataset."""
    release_table.move(tx, study_id, number, ReleaseState.PUBLISHED)
    tx.run(
        "INSERT INTO datasets (dataset_id, study_id, release_number, manifest, signature) VALUES (?, ?, ?, ?, ?)",
        (dataset_id, study_id, number, manifest, signature),
    )
    if audit is not None:
        audit.append(tx, "dataset_published", study=study_id.hex(), dataset=dataset_id)
