"""The catalogue of refusals: every reason a party gives, its gRPC status, whether to ask again, what a person is told.

A reason travels as text under `REASON_KEY` in a call's trailing metadata, and logs, counts and metrics use the same text.
A node of a later version may send a reason this version does not list: `read_reason` keeps its text and lets the gRPC
status say whether to ask again. docs/refusals.md is written from it.
"""

from __future__ import annotations

import re
from enum import IntEnum, StrEnum

REASON_KEY = "trimask-reason"
RETRY_KEY = "retry-after-ms"
_WORD = re.compile(r"[a-z][a-z0-9_]{0,59}")


class Retry(StrEnum):
    """Whether the same request may be accepted later."""

    NEVER = "never"  # waiting does not help
    LATER = "later"  # something has to change first: a study opens, a node is repaired
    SOON = "soon"  # the node itself asks for patience: a caller with time left repeats the call


class Status(IntEnum):
    """gRPC's status codes but for OK, by the names and numbers of the gRPC specification."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16

    @property
    def retry(self) -> Retry:
        """What a reason that is not listed means for the caller.

        Only what is wrong with the request itself is final: a refusal wrongly held final costs a person their answers,
        one wrongly repeated costs a call every few hours.
        """
        if self in (Status.INVALID_ARGUMENT, Status.ALREADY_EXISTS, Status.OUT_OF_RANGE):
            return Retry.NEVER
        return Retry.SOON if self is Status.UNAVAILABLE else Retry.LATER


_NEVER, _LATER, _SOON = Retry.NEVER, Retry.LATER, Retry.SOON
_INVALID, _EXISTS = Status.INVALID_ARGUMENT, Status.ALREADY_EXISTS
_NOT_FOUND, _DENIED, _NOT_NOW = Status.NOT_FOUND, Status.PERMISSION_DENIED, Status.FAILED_PRECONDITION
_EXHAUSTED, _ABORTED, _AWAY = Status.RESOURCE_EXHAUSTED, Status.ABORTED, Status.UNAVAILABLE
_NO_LOGIN = Status.UNAUTHENTICATED


class Reason(StrEnum):
    """Why a request is refused.

    `status` is the gRPC status it is answered with, `retry` whether to ask again, `meaning` one sentence on it. `told` is
    the key of the texts for a person, in every language of the app (`problem.<told>.title`, `.text`, `.advice`); None for
    what no participant's device can meet.
    """

    status: Status
    retry: Retry
    meaning: str
    told: str | None

    def __new__(
        cls, text: str, status: Status, retry: Retry, meaning: str, told: str | None = None
    ) -> Reason:
        member = str.__new__(cls, text)
        member._value_ = text
        member.status, member.retry, member.meaning, member.told = status, retry, meaning, told
        return member

    @property
    def final(self) -> bool:
        """Whether the refusal stands, however long one waits."""
        return self.retry is Retry.NEVER

    # fmt: off
    # A submission, and what a device asks for
    UNKNOWN_STUDY = "unknown_study", _NOT_FOUND, _LATER, "The node does not know the study, or not yet.", "unknown_study"
    STUDY_CLOSED = "study_closed", _NOT_NOW, _NEVER, "The study accepts no more submissions.", "closed"
    STUDY_PAUSED = (
        "study_paused", _AWAY, _LATER, "What is there is being counted or combined.", "busy")
    STUDY_REFUSED = "study_refused", _NOT_NOW, _LATER, "The node's operator has refused the study.", "stopped"
    NO_INVITATION = "no_invitation", _DENIED, _NEVER, "The study is for invited people; no invitation was sent.", "uninvited"
    BAD_INVITATION = "bad_invitation", _DENIED, _NEVER, "The invitation is not for this study, or this submission.", "link"
    INVITATION_EXPIRED = "invitation_expired", _DENIED, _NEVER, "The invitation has expired.", "expired"
    INVITATION_USED = "invitation_used", _EXISTS, _NEVER, "The invitation was used for another submission.", "used"
    CONFLICTING_SUBMISSION = (
        "conflicting_submission", _EXISTS, _NEVER, "The submission id was used before with other bytes.", "unaccepted")
    SUBMISSION_WITHDRAWN = (
        "submission_withdrawn", _EXISTS, _NEVER, "The submission was withdrawn and cannot be sent again.", "withdrawn")
    OUT_OF_FRAME = (
        "out_of_frame", _NOT_NOW, _NEVER, "The row's noise columns are not what a device adds; it is left out and erased.",
        "unaccepted")
    WRONG_TAGS = (
        "wrong_tags", _NOT_NOW, _NEVER, "A component's tags do not fit its device's keys; the row is left out and erased.",
        "unaccepted")
    INCOMPLETE_SUBMISSION = (
        "incomplete_submission", _NOT_NOW, _NEVER, "A right provider did not get its part in time; others erased theirs.",
        "unaccepted")
    TAMPERED_COMPONENT = (
        "tampered_component", _INVALID, _NEVER, "The sealed component does not open, or is not signed right.", "unaccepted")
    EXPIRED_KEY = "expired_key", _NOT_NOW, _NEVER, "It is sealed to a key that the provider retired.", "retired"
    ALREADY_IN_BLOCK = (
        "already_in_block", _NOT_NOW, _LATER, "The row is in a block and cannot be withdrawn, unless the block is given up.",
        "combined")
    TOO_MANY_WITHDRAWALS = (
        "too_many_withdrawals", _EXHAUSTED, _LATER, "The provider keeps too many withdrawals of submissions it never had.",
        "busy")
    OVERSIZED_MESSAGE = "oversized_message", _EXHAUSTED, _NEVER, "The message is larger than allowed.", "unaccepted"
    SLOW_MESSAGE = "slow_message", Status.DEADLINE_EXCEEDED, _LATER, "The message took too long to arrive.", "busy"
    MALFORMED = "malformed", _INVALID, _NEVER, "A field of the request is not valid.", "unaccepted"
    # Raised on the device itself
    ALREADY_ANSWERED = "already_answered", _EXISTS, _NEVER, "This device has answered the study.", "answered"
    UNKNOWN_SUBMISSION = "unknown_submission", _NOT_FOUND, _NEVER, "This device has no such submission.", "missing"
    NO_WITHDRAWAL_KEY = "no_withdrawal_key", _INVALID, _NEVER, "The receipt is without its withdrawal key.", "keyless"
    # The node, whatever it is asked
    DRAINING = "draining", _AWAY, _SOON, "The node is about to stop and takes no new work.", "busy"
    OVERLOADED = "overloaded", _EXHAUSTED, _SOON, "The node has as many calls under way as it can hold.", "busy"
    RATE_LIMITED = "rate_limited", _EXHAUSTED, _LATER, "Too many calls came from this address.", "busy"
    STORE_UNAVAILABLE = "store_unavailable", _AWAY, _LATER, "The node's database is full or unreachable.", "busy"
    UNREACHABLE = "unreachable", _AWAY, _SOON, "Another node did not answer.", "busy"
    INTERNAL_ERROR = "internal_error", Status.INTERNAL, _LATER, "The node failed; its log says why.", "busy"
    NOT_SERVED = "not_served", Status.UNIMPLEMENTED, _LATER, "This port of this node does not serve the call.", "misplaced"
    # Whatever is asked: the message says which
    UNKNOWN_NAME = "unknown_name", _NOT_FOUND, _LATER, "The study has no such token, dataset or file."
    NOT_YET = "not_yet", _NOT_NOW, _LATER, "An order of the owner, the end of a draw or of the study comes first."
    # Who may call
    NOT_YOUR_ROLE = "not_your_role", _DENIED, _LATER, "Caller, token or node does not have the right role.", "misplaced"
    WRONG_ORIGIN = "wrong_origin", _DENIED, _NEVER, "A page called that the study does not name in [web]."
    BAD_TOKEN = (
        "bad_token", _NO_LOGIN, _LATER, "A token of the study's owner is needed, neither revoked nor expired.")
    BAD_SIGNATURE = "bad_signature", _DENIED, _LATER, "A signature, a hash or an invariant does not hold.", "untrusted"
    # Studies: proposing, approving, admitting
    NOT_APPROVED = "not_approved", _DENIED, _LATER, "A party's approval of the study is missing or wrong.", "unapproved"
    COLLECTOR_NOT_ALLOWED = (
        "collector_not_allowed", _DENIED, _LATER, "The node's operator does not list the collector in allow_collectors.")
    STUDY_TOO_LARGE = (
        "study_too_large", _NOT_NOW, _LATER, "Submissions of the study are larger than the node's max_submission_bytes.")
    TOO_MANY_PROPOSALS = "too_many_proposals", _EXHAUSTED, _LATER, "Too many studies wait for the node's operator."
    # Blocks and attempts, between nodes
    UNKNOWN_BLOCK = "unknown_block", _NOT_FOUND, _LATER, "The node was given no plan for the block."
    UNKNOWN_ROW = "unknown_row", _NOT_NOW, _LATER, "The plan names a submission the provider does not hold."
    ROW_NOT_CHECKED = "row_not_checked", _NOT_NOW, _LATER, "A row of the block was not checked, or not accepted."
    DRAW_OVER = "draw_over", _NOT_NOW, _NEVER, "The draw is over, or was abandoned by the study's owner."
    OUT_OF_STEP = "out_of_step", _NOT_NOW, _NEVER, "The node, or others, have another plan, check or draw, or are past it."
    BLOCK_ERASED = "block_erased", _NOT_NOW, _NEVER, "The block is pooled, and its rows are erased."
    ATTEMPT_TIMEOUT = "attempt_timeout", Status.DEADLINE_EXCEEDED, _LATER, "The attempt took too long; a new one begins."
    PEER_RESTARTED = "peer_restarted", _ABORTED, _LATER, "A node was restarted during the attempt; a new one begins."
    WRONG_SHAPE = "wrong_shape", _INVALID, _NEVER, "A block or matrix has a size it may not have, or holds NaN or infinity."
    GRAM_CHANGED = "gram_changed", _ABORTED, _LATER, "Left masking changed the Gram matrix."
    NOT_AS_SENT = "not_as_sent", _ABORTED, _LATER, "A component of a row is not the one its device has tagged."
    IMPLAUSIBLE_SUM = "implausible_sum", _ABORTED, _LATER, "The components of a block do not add up to rows."
    IMPLAUSIBLE_ANSWERS = (
        "implausible_answers", _ABORTED, _NEVER, "The answers of a block weigh more than answers in range can.")
    CONTENT_LOST = "content_lost", _NOT_NOW, _NEVER, "The node has lost what it should hold: an attempt, a release's factor."
    LEASE_LOST = "lease_lost", _ABORTED, _LATER, "Another worker has the job, or it is done."
    # Batches and totals of the moments suite
    BATCH_DISAGREED = "batch_disagreed", _ABORTED, _NEVER, "Right providers signed different results; the batch is erased."
    BATCH_LOST = "batch_lost", _NOT_NOW, _NEVER, "The provider has no total for the batch."
    BATCH_RELEASED = "batch_released", _NOT_NOW, _NEVER, "The reports were delivered before, in another release."
    LEDGER_LOST = "ledger_lost", _NOT_NOW, _LATER, "The provider's ledger of deliveries, kept with its keys, is lost or old."
    STORE_RESTORED = "store_restored", _NOT_NOW, _LATER, "The provider's store is older than a release it delivered."
    # Datasets and private answers
    NO_BUDGET = "no_budget", _NOT_NOW, _NEVER, "The study publishes datasets and answers no questions.", "no_budget"
    BUDGET_SPENT = "budget_spent", _NOT_NOW, _NEVER, "The budget cannot pay for this; it is never refilled."
    TOO_FEW_ROWS = "too_few_rows", _NOT_NOW, _NEVER, "Too few rows came; they are erased."
    BAD_QUESTION = "bad_question", _INVALID, _NEVER, "The study cannot answer this under this id; it cost nothing."
    NOT_RESERVED = "not_reserved", _NOT_NOW, _LATER, "The answer's price was not reserved."
    RELEASE_FAILED = "release_failed", Status.INTERNAL, _NEVER, "The answer failed after it was paid; the price is spent."
    # fmt: on


class Alarm(StrEnum):
    """What a node counts besides refusals, without a request. `meaning` is one sentence on it."""

    meaning: str

    def __new__(cls, text: str, meaning: str) -> Alarm:
        member = str.__new__(cls, text)
        member._value_ = text
        member.meaning = meaning
        return member

    BAD_PRODUCTS = "bad_products", "A report's products are not those of its answers; it was left out."
    BAD_BITS = "bad_bits", "An answer of a report is outside its range; it was left out."
    BAD_LINEAR = "bad_linear", "A report chose no level or two, or lies outside the ball; it was left out."
    PEER_LOG_REWRITTEN = "peer_log_rewritten", "A provider's audit log was cut short or rewritten."
    BAD_AUDIT_HEAD = "bad_audit_head", "The signature of a provider's audit head does not verify."
    BAD_KEY_FILE = "bad_key_file", "The file of sealing keys cannot be used; the old keys are kept."
    BAD_CERTIFICATE_FILE = (
        "bad_certificate_file",
        "The new certificate cannot be used; the old one is kept.",
    )


class Unlisted(str):  # noqa: SLOT000 - it has one attribute, and `str` cannot have slots that are not empty
    """A reason that came over the wire and is not in this version's catalogue."""

    status: Status

    def __new__(cls, text: str, status: Status) -> Unlisted:
        """Keep the text, with the gRPC status it came with."""
        made = super().__new__(cls, text)
        made.status = status
        return made

    @property
    def retry(self) -> Retry:
        """What the status says."""
        return self.status.retry

    @property
    def final(self) -> bool:
        """Whether the refusal stands, as the status says."""
        return self.retry is Retry.NEVER

    @property
    def told(self) -> None:
        """There are no texts for it."""


AnyReason = Reason | Unlisted
_LISTED = {str(reason): reason for reason in Reason}


def read_reason(text: str | bytes | None, status: str) -> AnyReason:
    """The reason that came with the gRPC status named `status`.

    Without a reason, or with something that is not a word, the status's own name in small letters is the reason.
    """
    code = Status.__members__.get(status, Status.UNKNOWN)
    word = text.decode("utf-8", "replace") if isinstance(text, bytes) else text or ""
    if not _WORD.fullmatch(word):
        word = code.name.lower()
    return _LISTED.get(word) or Unlisted(word, code)


def attempt_counter(reason: AnyReason) -> str:
    """The name under which the collector counts that a node gave an attempt up."""
    return f"attempt_{reason}"
