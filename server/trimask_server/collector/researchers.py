"""What the collector serves researchers, published datasets and their files; and the tokens that the owner gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_proto.v1 import admission_pb2, admission_pb2_grpc, dataset_pb2, dataset_pb2_grpc
from trimask_server.access.gate import require_access, require_owner
from trimask_server.access.tokens import Token, TokenStore
from trimask_server.collector.publication import Catalogue, dataset_folder
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.peer_identity import Context


class AdmissionOwnerServicer(admission_pb2_grpc.AdmissionOwnerServiceServicer):
    """Serves the owner."""

    def __init__(self, node: NodeContext, tokens: TokenStore) -> None:
        self._node = node
        self._tokens = tokens

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        admission_pb2_grpc.add_AdmissionOwnerServiceServicer_to_server(self, server)
        return admission_pb2.DESCRIPTOR.services_by_name["AdmissionOwnerService"].full_name

    async def CreateToken(
        self, request: admission_pb2.CreateTokenRequest, context: Context
    ) -> admission_pb2.CreateTokenResponse:
        node = self._node
        require_owner(node.config, context)
        study = node.studies.get(request.study_id)
        text, token = await self._tokens.create(
            study.id,
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
        require_owner(self._node.config, context)
        tokens = await self._tokens.list(request.study_id)
        if not tokens:  # of a study that was erased, those that open its datasets are still here
            self._node.studies.get(request.study_id)
        return admission_pb2.ListTokensResponse(tokens=[_summary(token) for token in tokens])

    async def RevokeToken(
        self, request: admission_pb2.RevokeTokenRequest, context: Context
    ) -> admission_pb2.RevokeTokenResponse:
        require_owner(self._node.config, context)
        await self._tokens.revoke(request.study_id, request.token_id, self._node.clock.now_ms())
        return admission_pb2.RevokeTokenResponse()


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

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        dataset_pb2_grpc.add_DatasetServiceServicer_to_server(self, server)
        return dataset_pb2.DESCRIPTOR.services_by_name["DatasetService"].full_name

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
        raise Refused(Reason.UNKNOWN_DATASET, f"there is no dataset {dataset_id!r} here")

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
                Reason.UNKNOWN_DATASET, f"dataset {request.dataset_id} has no file {request.file_name!r}"
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
