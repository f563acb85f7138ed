"""The state of a submission after its receipt: right providers check rows later, and tell anybody who has the receipt.

A provider is sent only the hash in its own receipt: no withdrawal key, and nothing it did not have.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from trimask_client.transport import Endpoint, Transport, Unreachable
from trimask_core.errors import Refused, VerificationError
from trimask_core.receipt import Receipt
from trimask_core.study import Study
from trimask_proto.v1.submission_pb2 import AskSubmissionRequest, AskSubmissionResponse

__all__ = ["ask_submission", "submission_words"]

_ASK = "/trimask_proto.v1.SubmissionService/AskSubmission"
_NO_ANSWER = "unreachable"


def ask_submission(
    study: Study, receipt: Receipt, transport: Transport, timeout_seconds: float = 15.0
) -> dict[str, str]:
    """By right provider: "" if it has the submission or has used it, else the reason why not ("unreachable": no answer)."""
    receipt.verify(study)
    found = {}
    for item in receipt.providers:
        party = study.party(item.role)
        request = AskSubmissionRequest(
            study_id=study.id, submission_id=receipt.submission_id, sealed_hash=item.sealed_hash
        )
        endpoint = Endpoint(party.address, party.tls_name, study.tls_roots)
        try:
            answer = transport.call(endpoint, _ASK, request.SerializeToString(), timeout_seconds)
            found[item.role] = AskSubmissionResponse.FromString(answer).reason
        except Refused as error:
            found[item.role] = str(error.reason)
        except Unreachable:
            found[item.role] = _NO_ANSWER
        except DecodeError:
            raise VerificationError(
                f"{item.role} answered with something that is not about a submission"
            ) from None
    return found


def submission_words(found: dict[str, str]) -> str:
    """A sentence for a person. It rests on what the providers answer; a published dataset's list is signed."""
    refused = {role: reason for role, reason in found.items() if reason not in ("", _NO_ANSWER)}
    silent = [role for role, reason in found.items() if reason == _NO_ANSWER]
    more = f" {', '.join(silent)} did not answer." if silent else ""
    if not refused:
        return "No right provider that answered has refused it." + more
    why = ", ".join(f"{role}: {reason}" for role, reason in refused.items())
    if set(refused.values()) <= {"unknown_study", "unknown_submission"}:
        return f"Not there any more ({why}): the study may be over, or the provider was restored from a backup.{more}"
    return f"Refused after it was taken in ({why}): it is erased and will not be counted.{more}"
