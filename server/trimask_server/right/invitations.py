"""A right provider that admits people to a study: it signs the invitations that the owner has drawn.

It sees only public keys, and stores only how many it signed: nobody can find out later who was invited, and no invitation
can be revoked. Every right provider, this one too, binds each to the first submission that comes with it and counts them.
The binding lasts as long as the study is kept.
"""

from __future__ import annotations

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.submit.invitation import Admission, invited_message
from trimask_proto.v1 import admission_pb2, admission_pb2_grpc
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.tls import Context
from trimask_server.store.interface import Transaction


def bind(tx: Transaction, admission: Admission, now_ms: int) -> None:
    """Bind an invitation, known by its public key, to its submission, unless it has expired or is bound to another."""
    if admission.expires_ms <= now_ms:
        raise Refused(Reason.INVITATION_EXPIRED, "this invitation has expired; ask for another")
    key, submission_id = (admission.study_id, admission.public_key), admission.submission_id
    tx.run(
        "INSERT INTO invitations (study_id, invitation_id, submission_id) VALUES (?, ?, ?)"
        " ON CONFLICT (study_id, invitation_id) DO NOTHING",
        (*key, submission_id),
    )
    bound = tx.row("SELECT submission_id FROM invitations WHERE study_id = ? AND invitation_id = ?", key)
    if bound is None or bytes(bound[0]) != submission_id:
        raise Refused(Reason.INVITATION_USED, "this invitation was used before, for another submission")


def why_refused(tx: Transaction, admission: Admission, now_ms: int) -> Reason | None:
    """Why an invitation would bring no submission of a person's who has sent none; None if it would."""
    if admission.expires_ms <= now_ms:
        return Reason.INVITATION_EXPIRED
    key = (admission.study_id, admission.public_key)
    used = tx.row("SELECT 1 FROM invitations WHERE study_id = ? AND invitation_id = ?", key)
    return None if used is None else Reason.INVITATION_USED


def count_used(tx: Transaction, study_id: bytes) -> int:
    """How many came with a submission."""
    row = tx.row("SELECT count(*) FROM invitations WHERE study_id = ?", (study_id,))
    return 0 if row is None else int(row[0])


def used_after(tx: Transaction, study_id: bytes, last: bytes, limit: int) -> list[bytes]:
    """The public keys of those used, in order, from the one after `last` on."""
    rows = tx.rows(
        "SELECT invitation_id FROM invitations WHERE study_id = ? AND invitation_id > ? ORDER BY invitation_id LIMIT ?",
        (study_id, last, limit),
    )
    return [bytes(row[0]) for row in rows]


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase which invitation came with which submission, and how many were signed: the study takes none any more."""
    tx.run("DELETE FROM invitations WHERE study_id = ?", (study_id,))
    tx.run("DELETE FROM invitations_made WHERE study_id = ?", (study_id,))
    return 0


MOST_INVITATIONS = 1000
_KEY_BYTES = 32
_PAGE = 8192


def _require_invited(study: Study) -> None:
    if study.admission != "invited":
        raise Refused(Reason.NOT_YOUR_ROLE, "this study is open: anybody may submit, and one link is for all")


class InvitationServicer(admission_pb2_grpc.InvitationServiceServicer):
    """Serves the owner."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node

    async def used(self, study_id: bytes) -> int:
        """How many invitations to a study were used here."""
        return await self._node.database.read(lambda tx: count_used(tx, study_id))

    async def ListUsedInvitations(
        self, request: admission_pb2.ListUsedInvitationsRequest, context: Context
    ) -> admission_pb2.ListUsedInvitationsResponse:
        study = self._node.studies.get(request.study_id)
        _require_invited(study)
        answer = admission_pb2.ListUsedInvitationsResponse(used=await self.used(study.id))
        if request.with_keys:
            if not study.reminders:
                raise Refused(
                    Reason.NOT_YOUR_ROLE,
                    "people were not told that the owner sees which invitations were used: this study has no reminders",
                )
            if len(request.page_token) not in (0, _KEY_BYTES):
                raise Refused(Reason.MALFORMED, "page_token must be one that this provider gave")
            keys = await self._node.database.read(
                lambda tx: used_after(tx, study.id, request.page_token, _PAGE)
            )
            answer.public_keys = b"".join(keys)
            answer.next_page_token = keys[-1] if len(keys) == _PAGE else b""
        return answer

    async def SignInvitations(
        self, request: admission_pb2.SignInvitationsRequest, context: Context
    ) -> admission_pb2.SignInvitationsResponse:
        node = self._node
        study = node.studies.get(request.study_id)
        _require_invited(study)
        if study.admission_signer != study.role_of(node.keys.identity.public):
            raise Refused(
                Reason.NOT_YOUR_ROLE, f"invitations to this study are signed by {study.admission_signer}"
            )
        if await node.studies.state_now(study.id) not in ("open", "paused"):
            raise Refused(Reason.STUDY_CLOSED, "this study accepts no more submissions")
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
        return admission_pb2.SignInvitationsResponse(signatures=await node.workers.run(sign), made=made)
