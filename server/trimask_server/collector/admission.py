"""What the owner asks of the collector about people: invitations for those who submit, tokens for those who read.

Invitations are keys that the owner draws; their public halves are signed, and only how many is kept: it cannot be told later
who was invited, and none can be taken back. Right providers bind each to the first submission that comes with it.
"""

from __future__ import annotations

import grpc

from trimask_core.admission import invited_message
from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_proto.v1 import admission_pb2, admission_pb2_grpc
from trimask_server.access.gate import require_owner
from trimask_server.access.tokens import Token, TokenStore
from trimask_server.node.context import NodeContext
from trimask_server.operations.callers import Context
from trimask_server.store.interface import Transaction

__all__ = ["MOST_INVITATIONS", "AdmissionOwnerServicer", "erase_study"]

MOST_INVITATIONS = 1000
_KEY_BYTES = 32


class AdmissionOwnerServicer(admission_pb2_grpc.AdmissionOwnerServiceServicer):
    """Serves the owner."""

    def __init__(self, node: NodeContext, tokens: TokenStore) -> None:
        self._node = node
        self._tokens = tokens

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        admission_pb2_grpc.add_AdmissionOwnerServiceServicer_to_server(self, server)
        return admission_pb2.DESCRIPTOR.services_by_name["AdmissionOwnerService"].full_name

    async def CreateInvitations(
        self, request: admission_pb2.CreateInvitationsRequest, context: Context
    ) -> admission_pb2.CreateInvitationsResponse:
        node = self._node
        require_owner(node.config, context)
        study = node.studies.get(request.study_id)
        if study.admission != "invited":
            raise Refused(
                Reason.STUDY_OPEN, "this study is open: anybody may submit, and one link is for all"
            )
        if await node.studies.state_now(study.id) != "open":
            raise Refused(Reason.STUDY_CLOSED, "this study takes no more submissions")
        count, odd = divmod(len(request.public_keys), _KEY_BYTES)
        if odd or not 1 <= count <= MOST_INVITATIONS:
            raise Refused(
                Reason.MALFORMED, f"public_keys must be 1 to {MOST_INVITATIONS} keys of {_KEY_BYTES} bytes"
            )
        if not node.clock.now_ms() < request.expire_time_ms < 1 << 48:
            raise Refused(Reason.MALFORMED, "expire_time_ms must be in the future")

        def sign() -> bytes:
            keys = (
                request.public_keys[at : at + _KEY_BYTES] for at in range(0, count * _KEY_BYTES, _KEY_BYTES)
            )
            return b"".join(
                node.keys.identity.sign("invited", invited_message(study.id, key, request.expire_time_ms))
                for key in keys
            )

        def note(tx: Transaction) -> int:
            tx.run(
                "INSERT INTO invitations_made (study_id, count) VALUES (?, ?)"
                " ON CONFLICT (study_id) DO UPDATE SET count = invitations_made.count + excluded.count",
                (study.id, count),
            )
            node.audit.append(
                tx,
                "invitations_made",
                study=study.id.hex(),
                count=count,
                expires_ms=request.expire_time_ms,
            )
            row = tx.row("SELECT count FROM invitations_made WHERE study_id = ?", (study.id,))
            return 0 if row is None else int(row[0])

        # Counted before they leave: a crash in between counts invitations nobody has, never the other way round.
        made = await node.database.write(note)
        return admission_pb2.CreateInvitationsResponse(signatures=await node.workers.run(sign), made=made)

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


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase how many invitations were made."""
    tx.run("DELETE FROM invitations_made WHERE study_id = ?", (study_id,))
    return 0
