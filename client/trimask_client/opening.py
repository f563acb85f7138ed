"""Whether a study still accepts this person's answers: what would be refused is reported before anything is sealed."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from trimask_client.transport import Endpoint, Transport
from trimask_core.errors import Refused, TrimaskError
from trimask_core.invitation import Invitation
from trimask_core.refusals import Reason
from trimask_core.study import Study
from trimask_proto.v1.study_pb2 import (
    STUDY_STATE_CLOSED,
    STUDY_STATE_CLOSING,
    GetStudyStatusRequest,
    GetStudyStatusResponse,
)

__all__ = ["refuse_closed", "refuse_uninvited"]

_STATUS = "/trimask_proto.v1.StudyService/GetStudyStatus"
_ASK_SECONDS = 3.0


def refuse_uninvited(study: Study, invitation: Invitation | None, now_ms: int) -> None:
    """`Refused` where an invited study has no invitation here, or an expired one."""
    if study.admission != "invited":
        return
    if invitation is None:
        raise Refused(Reason.NO_INVITATION, "this study is for invited people; join with your invitation")
    if invitation.expires_ms <= now_ms:
        raise Refused(
            Reason.INVITATION_EXPIRED, "this invitation has expired; ask who invited you for another"
        )


def refuse_closed(study: Study, transport: Transport, timeout_seconds: float) -> None:
    """`Refused` if the collector can be asked and says that the study accepts no more answers.

    Only the collector says so; a false answer can only keep somebody from answering, which it could do anyway. Where
    it does not answer nothing is known, and a person may go on: right providers have the last word.
    """
    party = study.collector
    endpoint = Endpoint(party.address, party.tls_name, study.tls_roots)
    request = GetStudyStatusRequest(study_id=study.id).SerializeToString()
    try:
        answer = transport.call(endpoint, _STATUS, request, min(_ASK_SECONDS, timeout_seconds))
        state = GetStudyStatusResponse.FromString(answer).state
    except (TrimaskError, DecodeError):
        return
    if state in (STUDY_STATE_CLOSING, STUDY_STATE_CLOSED):
        raise Refused(Reason.STUDY_CLOSED, "this study accepts no more answers")
