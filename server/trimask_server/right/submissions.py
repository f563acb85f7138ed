"""Accepting components from devices; and who erases a study at a provider.

A left provider has the same tables, with no row of a person in them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from trimask_core.basics.errors import InvitationError, Refused, TrimaskError, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import (
    SEAL_OVERHEAD_BYTES,
    PayloadForm,
    component_info,
    sealing_key_message,
)
from trimask_core.study.definition import Study
from trimask_core.submit.invitation import Admission
from trimask_core.submit.submission import (
    SUBMISSION_ID_BYTES,
    receipt_digest_message,
    submission_id_of,
    withdrawal_message,
)
from trimask_core.suites import payloads_of
from trimask_proto.v1 import submission_pb2, submission_pb2_grpc
from trimask_server.access import governance
from trimask_server.right import invitations, rows
from trimask_server.right.row_intake import WithdrawalStore
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import (
    CurrentKeyRing,
    Opened,
    OpeningKeys,
    Parcel,
    expired_key,
    open_all,
    open_parcel,
)
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.interceptors import reason_of
from trimask_server.runtime.tls import Context
from trimask_server.store import data_keys
from trimask_server.store.interface import Erasers

MOST_TOGETHER = 64
"""Submissions a message of SubmitMany."""


class SubmissionServicer(submission_pb2_grpc.SubmissionServiceServicer):
    """Opens, checks, stores, then signs: a receipt means the component is on disk."""

    def __init__(self, node: NodeContext, key_ring: CurrentKeyRing, rows: RowStore) -> None:
        self._node = node
        self._key_ring = key_ring
        self._rows = rows
        self._forms: dict[bytes, PayloadForm] = {}
        node.studies.on_forget.append(lambda study_id: self._forms.pop(study_id, None))
        self._withdrawals = WithdrawalStore(node.database, node.audit)
        node.studies.on_forget.append(self._withdrawals.forget)

    async def Submit(
        self, request: submission_pb2.SubmitRequest, context: Context
    ) -> submission_pb2.SubmitResponse:
        study = self._node.studies.get(request.study_id)
        parcel, admission = self._read(study, request, self._node.clock.now_ms())
        try:
            self._key_ring.ring.refuse_expired_id(request.sealing_key_id, parcel.receive_time_ms)
            opened = open_parcel(self._live_keys(parcel.receive_time_ms), parcel)
        except (VerificationError, Refused) as error:
            return await self._known_or_refused(study, parcel, error)
        # A repeat is recognised where it is written, in the same transaction.
        received = await self._rows.insert(
            study.id, parcel.submission_id, parcel.sealed, parcel.receive_time_ms, opened.digest, admission
        )
        return self._receipt(parcel, opened, received)

    # Each message of the stream comes here as a call of its own (`runtime.inbound_limits`).
    async def SubmitMany(  # type: ignore[override]
        self, request: submission_pb2.SubmitManyRequest, context: Context
    ) -> submission_pb2.SubmitManyResponse:
        node = self._node
        study, now_ms = node.studies.get(request.study_id), node.clock.now_ms()
        if not 1 <= len(request.submissions) <= MOST_TOGETHER:
            raise Refused(Reason.MALFORMED, f"a message has 1 to {MOST_TOGETHER} submissions")
        if any(one.study_id not in (b"", study.id) for one in request.submissions):
            raise Refused(Reason.MALFORMED, "all submissions of a message are to one study")
        outcomes = await self._take_in(study, request.submissions, now_ms)
        answer, refused = submission_pb2.SubmitManyResponse(), Counter[str]()
        for outcome in outcomes:
            if isinstance(outcome, submission_pb2.SubmitResponse):
                answer.outcomes.add(receipt=outcome)
                continue
            if not isinstance(outcome, TrimaskError):
                raise outcome
            reason = reason_of(outcome)
            again = outcome.retry_after_ms if isinstance(outcome, Refused) else None
            answer.outcomes.add(reason=str(reason), message=str(outcome), retry_after_ms=again or 0)
            node.refusals.count(reason, study.id)
            refused[reason] += 1
        if refused:
            node.log.warning("refused rpc=SubmitMany of=%d reasons=%s", len(outcomes), dict(refused))
        return answer

    async def _take_in(
        self, study: Study, requests: Sequence[submission_pb2.SubmitRequest], now_ms: int
    ) -> list[submission_pb2.SubmitResponse | Exception]:
        """Open and store many; the receipt of each, or why it was refused."""
        outcomes: dict[int, submission_pb2.SubmitResponse | Exception] = {}
        refused: dict[int, TrimaskError] = {}
        read: dict[int, tuple[Parcel, Admission | None]] = {}
        for place, request in enumerate(requests):
            try:
                read[place] = self._read(study, request, now_ms)
                self._key_ring.ring.refuse_expired_id(request.sealing_key_id, now_ms)
            except TrimaskError as refusal:
                refused[place] = refusal
        whole = {place: parcel for place, (parcel, _) in read.items() if place not in refused}
        opened: dict[int, Opened] = {}
        for place, answer in zip(
            whole, await open_all(self._live_keys(now_ms), list(whole.values())), strict=True
        ):
            if isinstance(answer, Opened):
                opened[place] = answer
            else:
                refused[place] = VerificationError(answer)
        for place, error in refused.items():
            try:
                if place not in read:
                    raise error
                outcomes[place] = await self._known_or_refused(study, read[place][0], error)
            except TrimaskError as refusal:
                outcomes[place] = refusal
        rows = [
            (read[place][0].submission_id, read[place][0].sealed, one.digest, read[place][1])
            for place, one in opened.items()
        ]
        stored = await self._rows.insert_all(study.id, now_ms, rows) if rows else []
        for (place, one), received in zip(opened.items(), stored, strict=True):
            outcomes[place] = (
                self._receipt(read[place][0], one, received) if isinstance(received, int) else received
            )
        return [outcomes[place] for place in range(len(requests))]

    def _read(
        self, study: Study, request: submission_pb2.SubmitRequest, now_ms: int
    ) -> tuple[Parcel, Admission | None]:
        """What came, and what admits it, before anything is opened."""
        if len(request.submission_id) != SUBMISSION_ID_BYTES:
            raise Refused(Reason.MALFORMED, f"submission_id must have {SUBMISSION_ID_BYTES} bytes")
        sealed = request.sealed_component
        form = self._form(study)
        if len(sealed) > 8 * form.values + form.more + SEAL_OVERHEAD_BYTES[study.sealing] + 1024:
            raise Refused(Reason.OVERSIZED_MESSAGE, "the sealed component is larger than this study's rows")
        admission = _admission(study, request.submission_id, request.invitation)
        if admission is not None and not admission.covers(form.provider, len(study.right), sealed):
            raise Refused(
                Reason.BAD_INVITATION,
                "this invitation was used for another submission than the bytes that came",
            )
        return Parcel(
            study.id, study.binding, request.submission_id, form, now_ms, sealed, study.sealing
        ), admission

    def _live_keys(self, now_ms: int) -> OpeningKeys:
        return OpeningKeys(self._node.keys.identity, self._key_ring.ring.accepting(now_ms))

    async def _known_or_refused(
        self, study: Study, parcel: Parcel, problem: TrimaskError
    ) -> submission_pb2.SubmitResponse:
        """What does not open is refused, unless it was stored before its key expired and the answer was lost: that gets
        its receipt."""
        received = await self._rows.refuse_conflict(study.id, parcel.submission_id, parcel.sealed)
        if isinstance(problem, VerificationError):
            if not self._key_ring.ring.is_expired_for(
                parcel.sealed, _info(parcel), parcel.receive_time_ms, study.sealing
            ):
                raise Refused(Reason.TAMPERED_COMPONENT, str(problem)) from None
            problem = expired_key()
        if received is None:
            raise problem from None
        return self._signed_receipt(parcel, hashlib.sha256(parcel.sealed).digest(), received)

    def _receipt(self, parcel: Parcel, opened: Opened, received: int) -> submission_pb2.SubmitResponse:
        if received != parcel.receive_time_ms:  # a repeat: the receipt is for when it first came
            return self._signed_receipt(parcel, opened.digest, received)
        if parcel.form.suite in self._key_ring.checked_soon:
            self._key_ring.just_opened.keep(_info(parcel), opened.digest, opened.payload)
        return submission_pb2.SubmitResponse(receive_time_ms=received, signature=opened.signature)

    def _signed_receipt(self, parcel: Parcel, digest: bytes, received: int) -> submission_pb2.SubmitResponse:
        message = receipt_digest_message(parcel.study_id, parcel.submission_id, digest, received)
        signature = self._node.keys.identity.sign("receipt", message)
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
        # Those of the older kind first: a device from before there were two takes the first.
        for item in sorted(self._key_ring.ring.active(node.clock.now_ms()), key=lambda item: item.key.kind):
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
        if request.invitation:
            reason = await self._why_not_admitted(study, request.invitation)
        else:
            reason = await self._rows.why_refused(study.id, request.submission_id, request.sealed_hash)
        return submission_pb2.AskSubmissionResponse(reason="" if reason is None else str(reason))

    async def _why_not_admitted(self, study: Study, invitation: bytes) -> Reason | None:
        """Told only to whoever has the invitation's key: a public key alone asks nothing."""
        admission = _admission(study, b"", invitation)
        if admission is None:
            return None
        now_ms = self._node.clock.now_ms()
        return await self._node.database.read(lambda tx: invitations.why_refused(tx, admission, now_ms))

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
        info = component_info(study.binding, self._form(study).provider, submission_id)
        self._key_ring.just_opened.forget(info)
        node.log.info("withdrawn study=%s", study.id.hex()[:12])
        message = withdrawal_message(study.id, submission_id, withdrawn)
        return submission_pb2.WithdrawResponse(
            withdraw_time_ms=withdrawn, signature=node.keys.identity.sign("withdrawal", message)
        )


def _info(parcel: Parcel) -> bytes:
    return component_info(parcel.binding, parcel.form.provider, parcel.submission_id)


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
        governance.erase_study,
        data_keys.erase_study,
    ),
)
