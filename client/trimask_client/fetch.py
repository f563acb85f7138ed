"""Fetching the study of an invitation, from its collector or from beside its page; and whether it still takes answers.

A device that opens a link has never heard of the authority that the study's nodes have their certificates from: its roots
are in the study. So unless it is told whom to trust, the connection is encrypted but not authenticated. That is safe here
and nowhere else: the link has the study's hash, every byte of the answer is checked against it (the seed of B_0, where the
suite has one, by the commitment in the study, the approvals by the keys in it), and nothing is sent but that hash.
A man in the middle learns which study is asked for, and can only withhold it. The invitation is never sent
on such a connection. The same holds for study.json beside a page: an address with a short code is all that is sent.

What would be refused is reported before anything is sealed.
"""

from __future__ import annotations

import hashlib
import http
import http.client
import json
import ssl
from contextlib import closing
from urllib.parse import urlsplit

from google.protobuf.message import DecodeError

from trimask_client.transport import (
    Endpoint,
    H2Transport,
    Transport,
    Unreachable,
    tls_context,
)
from trimask_core.basics.encoding import canonical_json
from trimask_core.basics.errors import Refused, StudyError, TrimaskError, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study, check_study_id
from trimask_core.study.party import check_origin, short_code
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Invitation, Link
from trimask_core.submit.submission import page_of, read_receipt
from trimask_proto.v1.study_pb2 import (
    STUDY_STATE_CLOSED,
    STUDY_STATE_CLOSING,
    GetStudyRequest,
    GetStudyResponse,
    GetStudyStatusRequest,
    GetStudyStatusResponse,
)
from trimask_proto.v1.submission_pb2 import AskSubmissionRequest, AskSubmissionResponse

_LONGEST_STUDY = 4 << 20
_METHOD = "/trimask_proto.v1.StudyService/GetStudy"


def fetch_study(
    address: str,
    study_id: bytes,
    *,
    roots: str | None = None,
    tls_name: str = "",
    transport: Transport | None = None,
    timeout_seconds: float = 15.0,
) -> SignedStudy:
    """The study with this id from the collector at `address` (host:port), with its approvals verified.

    `roots` are authorities in PEM form, or "" for the system's: then the collector's certificate must come from them and
    carry `tls_name` (the host's, unless given). Without them the connection itself proves nothing, and need not.
    """
    request = GetStudyRequest(study_id=study_id, for_device=True).SerializeToString()
    name = tls_name or address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    endpoint = Endpoint(address, name, roots or "")
    if roots is not None and transport is not None:
        answer = transport.call(endpoint, _METHOD, request, timeout_seconds)
    else:
        with closing(H2Transport(context=tls_context if roots is not None else _of_anybody)) as own:
            answer = own.call(endpoint, _METHOD, request, timeout_seconds)
    try:
        text = GetStudyResponse.FromString(answer).signed_study
    except DecodeError:
        raise StudyError(f"{address} answered with something that is not a study") from None
    return _checked(text, study_id, address)


def fetch_linked(
    link: Link, *, roots: str | None = None, tls_name: str = "", timeout_seconds: float = 15.0
) -> SignedStudy:
    """The study of a link, from wherever the link leads, checked in the same way.

    A link that opens a page leads to the study.json beside it. Its host must be one the study names: the page of another
    would be no page of the study's.
    """
    if not link.on_web:
        return fetch_study(
            link.address, link.study_id, roots=roots, tls_name=tls_name, timeout_seconds=timeout_seconds
        )
    text = _get(f"{link.page}/study.json", roots, timeout_seconds)
    signed = _checked(text, link.study_id, link.address)
    if signed.study.web is None or link.address not in signed.study.web.hosts:
        raise StudyError(
            f"the study does not name {link.address} as a host of its page. Take no part there, and ask who invited you."
        )
    return signed


def fetch_of_receipt(text: str, *, timeout_seconds: float = 15.0) -> SignedStudy:
    """The study of a receipt (its file's text or its link), from where the receipt says, checked in the same way."""
    receipt, page = read_receipt(text), page_of(text)
    if not page:
        if not receipt.collector:
            raise StudyError("this receipt does not say where its study is; join the study first")
        return fetch_study(receipt.collector, receipt.study_id, timeout_seconds=timeout_seconds)
    origin, _, short = page.partition("/s/")
    try:
        check_origin(origin, "this receipt", development=True)
    except StudyError as error:
        raise VerificationError(str(error)) from None
    if short != short_code(receipt.study_id):
        raise VerificationError("this receipt was changed: its address is that of another study")
    return fetch_linked(Link(origin, receipt.study_id), timeout_seconds=timeout_seconds)


def _checked(text: bytes, study_id: bytes, address: str) -> SignedStudy:
    """The signed study in what somebody answered, if it is the one with this id."""
    try:
        canonical = canonical_json(json.loads(text)["study"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise StudyError(f"{address} answered with something that is not a study") from None
    # The hash first: nothing else of the answer is looked at before it is known to be the study of the link.
    if hashlib.sha256(canonical).digest() != study_id:
        raise StudyError(
            f"{address} answered with another study than that of the invitation. Take no part, and ask who invited you."
        )
    signed = SignedStudy.from_json(text)
    check_study_id(signed.study, study_id)
    signed.verify()
    if signed.needs_seed and not signed.mask_seed:
        raise StudyError(
            f"{address} gave the study without the seed that devices mask with; ask who invited you"
        )
    return signed


def _get(url: str, roots: str | None, timeout_seconds: float) -> bytes:
    """A file of a page's host. No redirection is followed: study.json is beside the page, or it is not there."""
    place = urlsplit(url)
    host = place.hostname or ""
    connection = (
        http.client.HTTPSConnection(host, place.port, timeout=timeout_seconds, context=_tls(roots))
        if place.scheme == "https"
        else http.client.HTTPConnection(host, place.port, timeout=timeout_seconds)
    )
    try:
        connection.request("GET", place.path, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        text = answer.read(_LONGEST_STUDY + 1)
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{host}: {error or type(error).__name__}") from None
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise StudyError(
            f"{host} has no study at this address (HTTP status {answer.status}); ask who invited you"
        )
    if len(text) > _LONGEST_STUDY:
        raise StudyError(f"{host} answered with more than a study can be")
    return text


def _tls(roots: str | None) -> ssl.SSLContext:
    """With authorities in PEM form or the system's (""): who answers is known. Without (None): only for what the caller
    checks against a hash it already has."""
    if roots is not None:
        return ssl.create_default_context(cadata=roots or None)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _of_anybody(_roots: str) -> ssl.SSLContext:
    """For gRPC, without checking who answers."""
    context = _tls(None)
    context.set_alpn_protocols(["h2"])
    return context


_STATUS = "/trimask_proto.v1.StudyService/GetStudyStatus"
_ADMITTED = "/trimask_proto.v1.SubmissionService/AskSubmission"
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
    endpoint = Endpoint.of(study, "collector")
    request = GetStudyStatusRequest(study_id=study.id).SerializeToString()
    try:
        answer = transport.call(endpoint, _STATUS, request, min(_ASK_SECONDS, timeout_seconds))
        state = GetStudyStatusResponse.FromString(answer).state
    except (TrimaskError, DecodeError):
        return
    if state in (STUDY_STATE_CLOSING, STUDY_STATE_CLOSED):
        raise Refused(Reason.STUDY_CLOSED, "this study accepts no more answers")


def refuse_used(study: Study, invitation: Invitation, transport: Transport, timeout_seconds: float) -> None:
    """`Refused` if R1, which is sent to first and so decides about an invitation, says that this one is used or over.

    Without an answer nothing is known, and a person may go on. The institution learns, a little sooner than by the
    submission, that this invitation is in hand; what it is shown admits nothing.
    """
    endpoint = Endpoint.of(study, "R1")
    request = AskSubmissionRequest(study_id=study.id, invitation=invitation.admit_nothing().to_bytes())
    try:
        answer = transport.call(
            endpoint, _ADMITTED, request.SerializeToString(), min(_ASK_SECONDS, timeout_seconds)
        )
        reason = AskSubmissionResponse.FromString(answer).reason
    except (TrimaskError, DecodeError):
        return
    if reason == Reason.INVITATION_USED:
        raise Refused(Reason.INVITATION_USED, "this invitation was used before, on another device")
    if reason == Reason.INVITATION_EXPIRED:
        raise Refused(
            Reason.INVITATION_EXPIRED, "this invitation has expired; ask who invited you for another"
        )
