"""Researchers' tokens: what the owner asks of the collector."""

from __future__ import annotations

import grpc

from trimask_proto.v1 import admission_pb2, admission_pb2_grpc
from trimask_server.access.gate import require_owner
from trimask_server.access.tokens import Token, TokenStore
from trimask_server.node.context import NodeContext
from trimask_server.operations.callers import Context

__all__ = ["AdmissionOwnerServicer"]


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
