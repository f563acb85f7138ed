"""What a participant may ask after the receipt: the state of a submission, and what the study's private answers have cost.

Right providers check rows later, and tell anybody who has the receipt: each is sent only the hash in its own receipt, no
withdrawal key, and nothing it did not have. Of the cost the collector tells anybody; a device asks it the way it submits:
over TLS, by the addresses in the signed study.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from google.protobuf.message import DecodeError

from trimask_client.transport import Endpoint, Transport, Unreachable
from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.submit.submission import Receipt
from trimask_proto.v1.release_pb2 import GetBudgetRequest, GetBudgetResponse, Purses
from trimask_proto.v1.submission_pb2 import AskSubmissionRequest, AskSubmissionResponse

_ASK = "/trimask_proto.v1.SubmissionService/AskSubmission"
_NO_ANSWER = "unreachable"


def ask_submission(
    study: Study, receipt: Receipt, transport: Transport, timeout_seconds: float = 15.0
) -> dict[str, str]:
    """By right provider: "" if it has the submission or has used it, else the reason why not ("unreachable": no answer)."""
    receipt.verify(study)
    found = {}
    for item in receipt.providers:
        request = AskSubmissionRequest(
            study_id=study.id, submission_id=receipt.submission_id, sealed_hash=item.sealed_hash
        )
        endpoint = Endpoint.of(study, item.role)
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


_GET_BUDGET = "/trimask_proto.v1.ReleaseService/GetBudget"
_STATES = ("unknown", "collecting", "answering", "closed")
_ENTRY_STATES = ("unknown", "reserved", "answered", "failed")


@dataclass(frozen=True)
class SpentBudget:
    """`entries` are (time in ms, mechanism, cost, state), oldest first; amounts are words, such as "epsilon 0.5"."""

    state: str
    total: str
    spent: str
    left: str
    rows: int
    entries: tuple[tuple[int, str, str, str], ...]

    def words(self) -> str:
        """Plain text, a line an answer."""
        head = {
            "collecting": "Answers are still being collected; nothing can be asked yet.",
            "answering": f"Questions about {self.rows} people together are answered until the budget is spent.",
            "closed": "No further question is answered, and what answers came from is erased.",
        }.get(self.state, "The collector gives no state this program knows.")
        lines = [head, f"Budget: {self.total}. Spent: {self.spent}. Left: {self.left}."]
        for time_ms, mechanism, cost, state in self.entries:
            when = datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
            lines.append(f"- {when}: {mechanism.replace('_', ' ')}, {cost} ({state})")
        return "\n".join(lines)


def ask_budget(study: Study, transport: Transport, timeout_seconds: float = 15.0) -> SpentBudget:
    """Ask the study's collector; `Refused` for a study that has no budget."""
    if study.protection.budget is None:
        raise Refused(
            Reason.NO_BUDGET, "this study has no budget: it publishes a dataset and answers no questions"
        )
    endpoint = Endpoint.of(study, "collector")
    request = GetBudgetRequest(study_id=study.id).SerializeToString()
    try:
        found = GetBudgetResponse.FromString(transport.call(endpoint, _GET_BUDGET, request, timeout_seconds))
    except DecodeError:
        raise VerificationError("the collector answered with something that is not a budget") from None
    return SpentBudget(
        state=_word(_STATES, found.state),
        total=_purses(found.total),
        spent=_purses(found.spent),
        left=_purses(found.left),
        rows=found.rows,
        entries=tuple(
            (item.reserve_time_ms, item.mechanism, _purses(item.cost), _word(_ENTRY_STATES, item.state))
            for item in found.entries
        ),
    )


def _word(words: tuple[str, ...], number: int) -> str:
    return words[number] if 0 <= number < len(words) else words[0]


def _purses(message: Purses) -> str:
    named = (
        ("epsilon", message.epsilon if message.HasField("epsilon") else None),
        ("delta", message.delta if message.HasField("delta") else None),
        ("mu", message.mu if message.HasField("mu") else None),
    )
    return ", ".join(f"{name} {value:.4g}" for name, value in named if value is not None) or "nothing"
