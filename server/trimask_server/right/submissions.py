"""Accepting components from devices; and who erases a study at a provider.

A left provider has the same tables, with no row of a person in them.
"""

from __future__ import annotations

import grpc

from trimask_core.basics.errors import InvitationError, Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.sealing import PayloadForm, component_info, sealing_key_message
from trimask_core.study.definition import Study
from trimask_core.submit.invitation import Admission
from trimask_core.submit.receipt import (
    receipt_digest_message,
    receipt_message,
    submission_id_of,
    withdrawal_message,
)
from trimask_core.submit.submission import SUBMISSION_ID_BYTES
from trimask_core.suites import payloads_of
from trimask_proto.v1 import submission_pb2, submission_pb2_grpc
from trimask_server.access import proposals
from trimask_server.right import invitations, rows
from trimask_server.right.opener import Opener, OpeningKeys, Parcel
from trimask_server.right.row_intake import WithdrawalStore
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import CurrentKeyRing, expired_key
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.peer_identity import Context
from trimask_server.store import data_keys
from trimask_server.store.interface import Erasers


class SubmissionServicer(submission_pb2_grpc.SubmissionServiceServicer):
    """Opens, checks, stores, then signs: a receipt means the component is on disk."""

    def __init__(self, node: NodeContext, key_ring: CurrentKeyRing, rows: RowStore, opener: Opener) -> None:
        self._node = node
        self._key_ring = key_ring
        self._rows = rows
        self._opener = opener
        self._forms: dict[bytes, PayloadForm] = {}
        node.studies.on_forget.append(lambda study_id: self._forms.pop(study_id, None))
        self._withdrawals = WithdrawalStore(node.database, node.audit)
        node.studies.on_forget.append(self._withdrawals.forget)

    def add_to(self, server: grpc.aio.Server) -> str:
        """Serve."""
        submission_pb2_grpc.add_SubmissionServiceServicer_to_server(self, server)
        return submission_pb2.DESCRIPTOR.services_by_name["SubmissionService"].full_name

    async def Submit(
        self, request: submission_pb2.SubmitRequest, context: Context
    ) -> submission_pb2.SubmitResponse:
        node = self._node
        study = node.studies.get(request.study_id)
        if len(request.submission_id) != SUBMISSION_ID_BYTES:
            raise Refused(Reason.MALFORMED, f"submission_id must have {SUBMISSION_ID_BYTES} bytes")
        sealed = request.sealed_component
        form = self._form(study)
        if len(sealed) > 8 * form.values + form.more + 1024:
            raise Refused(Reason.OVERSIZED_MESSAGE, "the sealed component is larger than this study's rows")
        admission = _admission(study, request.submission_id, request.invitation)
        if admission is not None and not admission.covers(form.provider, len(study.right), sealed):
            raise Refused(
                Reason.BAD_INVITATION,
                "this invitation was used for another submission than the bytes that came",
            )
        ring = self._key_ring.ring
        now_ms = node.clock.now_ms()
        try:
            ring.refuse_expired_id(request.sealing_key_id, now_ms)
            await self._opener.use_live(OpeningKeys(node.keys.identity, ring.accepting(now_ms)))
            parcel = Parcel(study.id, study.binding, request.submission_id, form, now_ms, sealed)
            opened = await self._opener.open(parcel)
        except (VerificationError, Refused) as error:
            received = await self._rows.refuse_conflict(study.id, request.submission_id, sealed)
            if isinstance(error, VerificationError):
                info = component_info(study.binding, form.provider, request.submission_id)
                if not ring.is_expired_for(sealed, info, now_ms):
                    raise Refused(Reason.TAMPERED_COMPONENT, str(error)) from None
                error = expired_key()
            if received is None:
                raise error from None
            # It was stored before its key expired and the answer was lost: it gets its receipt.
            message = receipt_message(study.id, request.submission_id, sealed, received)
            signature = node.keys.identity.sign("receipt", message)
            return submission_pb2.SubmitResponse(receive_time_ms=received, signature=signature)
        # A repeat is recognised where it is written, in the same transaction.
        received = await self._rows.insert(
            study.id, request.submission_id, sealed, now_ms, opened.digest, admission
        )
        signature = opened.signature
        if received != now_ms:  # a repeat: the receipt is for when it first came
            message = receipt_digest_message(study.id, request.submission_id, opened.digest, received)
            signature = node.keys.identity.sign("receipt", message)
        return submission_pb2.SubmitResponse(receive_time_ms=received, signature=signature)

    def _form(self, study: Study) -> PayloadForm:
        """The form of this provider's components of a study; computed once."""
        form = self._forms.get(study.id)
        if form is None:
            provider = int(study.role_of(self._node.keys.identity.public)[1:])
            form = self._forms[study.id] = payloads_of(study).form_of(study, provider)
        return form

    async def GetSealingKeys(
        self, request: submission_pb2.GetSealingKeysRequest, context: Context
    ) -> submission_pb2.GetSealingKeysResponse:
        node = self._node
        records = []
        for item in self._key_ring.ring.active(node.clock.now_ms()):
            message = sealing_key_message(item.key.public, item.activate_ms, item.expire_ms or 0)
            records.append(
                submission_pb2.SealingKeyRecord(
                    public_key=item.key.public,
                    activate_time_ms=item.activate_ms,
                    expire_time_ms=item.expire_ms or 0,
                    signature=node.keys.identity.sign("sealing-key", message),
                )
            )
        return submission_pb2.GetSealingKeysResponse(keys=records)

    async def AskSubmission(
        self, request: submission_pb2.AskSubmissionRequest, context: Context
    ) -> submission_pb2.AskSubmissionResponse:
        study = self._node.studies.get(request.study_id)
        reason = await self._rows.why_refused(study.id, request.submission_id, request.sealed_hash)
        return submission_pb2.AskSubmissionResponse(reason="" if reason is None else str(reason))

    async def Withdraw(
        self, request: submission_pb2.WithdrawRequest, context: Context
    ) -> submission_pb2.WithdrawResponse:
        node = self._node
        study = node.studies.get(request.study_id)
        # The id is derived from the key, so the key is the proof: nothing else has to be compared.
        submission_id = submission_id_of(study.id, request.withdrawal_key)
        withdrawn = await self._withdrawals.withdraw(
            study.id,
            submission_id,
            node.clock.now_ms(),
            invited=study.admission == "invited",
            admission=_admission(study, submission_id, request.invitation) if request.invitation else None,
        )
        node.log.info("withdrawn study=%s", study.id.hex()[:12])
        message = withdrawal_message(study.id, submission_id, withdrawn)
        return submission_pb2.WithdrawResponse(
            withdraw_time_ms=withdrawn, signature=node.keys.identity.sign("withdrawal", message)
        )


def _admission(study: Study, submission_id: bytes, data: bytes) -> Admission | None:
    """The admission that an invited study needs, with both signatures verified.

    The store checks whether it has expired or was used.
    """
    if study.admission != "invited":
        return None
    if not data:
        raise Refused(
            Reason.NO_INVITATION, "this study is for invited people; open the link of your invitation"
        )
    try:
        admission = Admission.from_bytes(study.id, submission_id, data)
        admission.verify(study.admits)
    except InvitationError as error:
        raise Refused(Reason.BAD_INVITATION, str(error)) from None
    except VerificationError:
        raise Refused(
            Reason.BAD_INVITATION, "this invitation was not signed for this study, or not for this submission"
        ) from None
    return admission


ERASERS = Erasers(
    (
        rows.erase_study,
        invitations.erase_study,
        proposals.erase_study,
        data_keys.erase_study,
    ),
)
