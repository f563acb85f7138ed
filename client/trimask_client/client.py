"""`Client(study).submit(answers)`: everything a device does, in one call.

A right provider's answer about its sealing keys is checked before one is used.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import DecodeError

from trimask_client.records import Unfinished
from trimask_client.submission_status import SpentBudget, ask_budget, ask_submission
from trimask_client.transport import Endpoint, H2Transport, Transport, Unreachable, at_once
from trimask_core.basics.clock import Backoff
from trimask_core.basics.errors import (
    ApprovalError,
    InvitationError,
    Refused,
    TrimaskError,
    VerificationError,
)
from trimask_core.basics.randomness import RandomSource, SystemRandom
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import PUBLIC_KEY_BYTES, Sealing, sealing_key_message, verify
from trimask_core.explain.statement import explain_study
from trimask_core.study.definition import Study, check_study_id
from trimask_core.study.signed import SignedStudy, check_claims
from trimask_core.submit.institutions import Directory, Standing, known_parties, require_known
from trimask_core.submit.invitation import Invitation
from trimask_core.submit.submission import (
    ProviderReceipt,
    ProviderWithdrawal,
    Receipt,
    SealedSubmission,
    build_submission,
    submission_id_of,
)
from trimask_proto.v1.submission_pb2 import (
    GetSealingKeysResponse,
    SubmitRequest,
    SubmitResponse,
    WithdrawRequest,
    WithdrawResponse,
)

T = TypeVar("T")


def newest_key(answer: bytes, identity: bytes, role: str, kind: Sealing) -> bytes:
    """The newest key of a kind in it, which the provider's identity signed."""
    try:
        listed = GetSealingKeysResponse.FromString(answer).keys
    except DecodeError:
        raise VerificationError(f"{role} answered with something that is not a list of keys") from None
    keys = [key for key in listed if len(key.public_key) == PUBLIC_KEY_BYTES[kind]]
    if not keys or min(keys[0].activate_time_ms, keys[0].expire_time_ms) < 0:
        raise VerificationError(f"{role} has no usable sealing key")
    newest = keys[0]
    message = sealing_key_message(newest.public_key, newest.activate_time_ms, newest.expire_time_ms)
    verify(identity, "sealing-key", message, newest.signature, f"the sealing key of {role}")
    return newest.public_key


SUBMIT_METHOD = "/trimask_proto.v1.SubmissionService/Submit"
_SEALING_KEYS = "/trimask_proto.v1.SubmissionService/GetSealingKeys"
_KEYS_SECONDS = 3.0
_PAUSES = Backoff(first=0.4, longest=10.0)  # seconds
_LONGEST_ASKED = 30.0
_WITHDRAW = "/trimask_proto.v1.SubmissionService/Withdraw"


class Client:
    """Takes part in one study, for a program that is online; `Queue` is for one that is not always.

    `prepare` masks, splits and seals. From then on the payload is frozen, and `send` may be repeated: the same bytes
    give the same receipt, and no provider counts them twice. `submit` does both.

    Parameters
    ----------
    study : SignedStudy, str or Path
        The study with every party's signature, or its file. Missing signatures and noise that does not give what the
        study promises are refused (`unchecked` says what of the promise a device cannot work out).
    study_id : bytes or str, optional
        The id in the invitation. Give it: then no other study, however well signed, is taken for this one.
    invitation : Invitation, optional
        Signs what is uploaded, for a study that admits only people it invited; it does not leave the device.
    institutions : Directory or an iterable of them
        The directories by which this device knows institutions (`parties`).
    refuse_unknown : bool
        Take part only if these directories name every party.
    folder : str or Path, optional
        Where a submission is kept, encrypted, until every provider has accepted it: after a failure or a crash another
        client with this folder goes on with it (`resume`, or `submit` with the same answers).
    transport : Transport, optional
        How bytes travel; HTTP/2 by h2 by default.
    source : RandomSource, optional
        Where randomness comes from; the system's cryptographic generator by default.
    attempts : int
        How often a provider is tried in one call, with growing pauses.
    timeout_seconds : float
        For one call to a provider.
    sleep : callable
        Waits so many seconds between attempts.

    Attributes
    ----------
    study : Study
        The verified study.
    refusals : Counter
        What providers refused, by reason.

    Examples
    --------
    >>> with Client("study.json") as client:
    ...     receipt = client.submit({"hours": 7.5, "active": True})
    >>> [provider.role for provider in receipt.providers]
    ['R1', 'R2', 'R3']
    """

    def __init__(
        self,
        study: SignedStudy | str | Path,
        *,
        study_id: bytes | str | None = None,
        invitation: Invitation | None = None,
        institutions: Directory | Iterable[Directory] = (),
        refuse_unknown: bool = False,
        folder: str | Path | None = None,
        transport: Transport | None = None,
        source: RandomSource | None = None,
        attempts: int = 6,
        timeout_seconds: float = 15.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if isinstance(study, Study):
            raise ApprovalError("give the signed study, with its approvals: a device checks them")
        if isinstance(study, (str, Path)):
            study = SignedStudy.from_json(Path(study).read_text(encoding="utf-8"))
        if study_id is not None:
            check_study_id(study.study, study_id)
        self.study = study.verify()
        self.unchecked = check_claims(self.study)
        self._institutions = (institutions,) if isinstance(institutions, Directory) else tuple(institutions)
        if refuse_unknown:
            require_known(self.study, self._institutions)
        if invitation is not None:
            if invitation.study_id != self.study.id:
                raise InvitationError("this invitation is to another study")
            invitation.verify(self.study.admits)
        self.invitation = invitation
        self.refusals: Counter[str] = Counter()
        # Newer keys of right providers, by k; the study's key where there is none.
        self.sealing: dict[int, bytes] = {}
        self._asked_for_keys = False
        self._transport = transport or H2Transport()
        self._source = source or SystemRandom()
        self._unfinished = Unfinished(self.study.id, self.invited, folder, self._source)
        self._counting = threading.Lock()
        self._attempts = attempts
        self._timeout = timeout_seconds
        self._sleep = sleep

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connections."""
        self._transport.close()

    def explain(self) -> str:
        """What this study asks, promises and rests on, in words, to be read before answering."""
        return explain_study(self.study, checked=True, parties=self.parties)

    @property
    def parties(self) -> tuple[Standing, ...]:
        """The study's institutions, and which of them this device knows."""
        return known_parties(self.study, self._institutions)

    def budget(self) -> SpentBudget:
        """What private answers about this study have cost so far, and what is left."""
        return ask_budget(self.study, self._transport, self._timeout)

    def ask(self, receipt: Receipt) -> dict[str, str]:
        """Whether right providers refused a submission after they gave its receipt: by role, "" or the reason."""
        return ask_submission(self.study, receipt, self._transport, self._timeout)

    def submit(self, answers: Mapping[str, object]) -> Receipt:
        """Mask, split, seal and upload.

        After a failure call it again with the same answers: the same submission goes on to the providers it has not
        reached, until all have accepted it or one refused. A second submission would be refused where the first was
        accepted, and the invitation wasted. Another client can do so if both were given the same `folder`.

        Parameters
        ----------
        answers : mapping
            By attribute. For a study with a form, `study.form.answers(...)` makes them of answers to its questions.

        Returns
        -------
        Receipt
            Signed by every right provider, and verified. It can withdraw the submission: keep it secret.

        Raises
        ------
        AnswerError
            An answer is missing or out of bounds; the message names the attribute. Nothing was sent.
        Unreachable
            A provider could not be reached.
        Refused
            A provider refused; `reason` says why.
        """

        def make() -> SealedSubmission:
            if not self._asked_for_keys:
                self.refresh_keys()
            return self.prepare(answers)

        return self._go_on(self._unfinished.begin(answers, make))

    def resume(self) -> tuple[Receipt, ...]:
        """Go on with what an earlier `submit` could not finish, of this client or another with the same folder and
        invitation; the receipts, none if nothing was unfinished."""
        return tuple(self._go_on(submission) for submission in self._unfinished.all())

    def _go_on(self, submission: SealedSubmission) -> Receipt:
        receipts, error = self._try_all(submission)
        if error is None:
            receipt = self._complete(submission, receipts)
            self._unfinished.drop(submission)
            return receipt
        if isinstance(error, Refused) and error.reason.final:
            self._unfinished.drop(submission)  # a provider will never have it, so it is counted nowhere
        elif self._unfinished.folder is not None:
            error.add_note(
                f"It is kept in {self._unfinished.folder}: submit the same answers again, or call resume()."
            )
        else:
            error.add_note(
                "Submit the same answers again on this Client: the submission is kept nowhere else, and another would be "
                "refused where this one was accepted. Client(..., folder=...) keeps it on disk."
            )
        raise error

    @property
    def invited(self) -> str:
        """The public half of its invitation, by which providers know it, in hexadecimal digits; empty without one."""
        return "" if self.invitation is None else self.invitation.key.public.hex()

    def refresh_keys(self) -> dict[int, bytes]:
        """Ask every right provider for its newest sealing key; those that answered, by k. Others keep the one they had.

        The identity in the study signs the key, so nobody between can slip in another. Worth doing when the network is
        there, before answers are sealed: a payload sealed to a key that has expired when it arrives is lost.
        """
        self._asked_for_keys = True
        for k, party in enumerate(self.study.right, 1):
            endpoint = Endpoint.of(self.study, f"R{k}")
            try:
                answer = self._transport.call(endpoint, _SEALING_KEYS, b"", min(_KEYS_SECONDS, self._timeout))
                self.sealing[k] = newest_key(answer, party.identity, f"R{k}", self.study.sealing)
            except (Unreachable, Refused):
                continue  # unreachable, or too old for this call: keep the key we have
            except VerificationError:
                self.refusals["bad_sealing_key"] += 1
        return dict(self.sealing)

    def prepare(self, answers: Mapping[str, object]) -> SealedSubmission:
        """The sealed components. A bad answer raises `AnswerError` naming the attribute; nothing is clipped silently."""
        return build_submission(self.study, answers, self._source, sealing=self.sealing)

    def send(self, submission: SealedSubmission) -> Receipt:
        """Upload a frozen submission to every right provider; safe to repeat after any failure."""
        if submission.study_id != self.study.id:
            raise Refused(Reason.UNKNOWN_STUDY, "this submission was sealed for another study")
        receipts, error = self._try_all(submission)
        if error is not None:
            raise error
        return self._complete(submission, receipts)

    def _try_all(self, submission: SealedSubmission) -> tuple[list[ProviderReceipt], TrimaskError | None]:
        """Every receipt in order; or those there are, and why there are not all."""
        admission = self.admission_of(submission)
        receipts: dict[int, ProviderReceipt] = {}
        errors: dict[int, TrimaskError] = {0: Unreachable("no attempt was made; give attempts >= 1")}
        for attempt in range(1, self._attempts + 1):
            errors = {}
            missing = [k for k in range(1, len(submission.sealed) + 1) if k not in receipts]
            for provider, outcome in self._upload_each(submission, missing, admission):
                if isinstance(outcome, TrimaskError):
                    errors[provider] = outcome
                else:
                    receipts[provider] = outcome
            # A refusal stands unless the provider says when to come again (it is full, or being restarted).
            asked = [0 if isinstance(one, Unreachable) else _asked(one) for one in errors.values()]
            if not errors or None in asked or attempt == self._attempts:
                break
            most = max(ms or 0 for ms in asked)
            self._sleep(min(most / 1000, _LONGEST_ASKED) + _PAUSES.pause(attempt, self._source))
        ordered = [receipts[k] for k in sorted(receipts)]
        if not errors:
            return ordered, None
        for error in errors.values():
            self._count(error)
        # What will not pass says more than what may.
        first = min(
            errors, key=lambda k: (_asked(errors[k]) is not None, isinstance(errors[k], Unreachable), k)
        )
        return ordered, errors[first]

    def upload_each(
        self, submission: SealedSubmission, providers: Sequence[int], admission: bytes
    ) -> Iterator[tuple[int, ProviderReceipt | TrimaskError]]:
        """One attempt at each of these right providers: its verified receipt or what went wrong, as they come.

        The first of all is asked alone: where people are invited it decides which of two submissions under one invitation
        is counted (docs/governance.md), and what it refuses for good nobody else is sent. Then all at once, so that one
        that hangs holds up no other.
        """
        for provider, outcome in self._upload_each(submission, providers, admission):
            if isinstance(outcome, TrimaskError):
                self._count(outcome)
            yield provider, outcome

    def _upload_each(
        self, submission: SealedSubmission, providers: Sequence[int], admission: bytes
    ) -> Iterator[tuple[int, ProviderReceipt | TrimaskError]]:
        upload = partial(self._upload, submission, admission=admission)
        if providers[:1] == [1]:
            for provider, outcome in self.each([1], upload):
                yield provider, outcome
                refused = isinstance(outcome, Refused) and outcome.reason.final
                if refused or (admission and isinstance(outcome, TrimaskError)):
                    return
        yield from self.each([k for k in providers if k != 1], upload)

    def each(
        self, providers: Sequence[int], ask: Callable[[int], T]
    ) -> Iterator[tuple[int, T | TrimaskError]]:
        """What all of these right providers answer to the same question, asked at once, or what went wrong."""

        def attempt(provider: int) -> T | TrimaskError:
            try:
                return ask(provider)
            except TrimaskError as error:
                return error

        for place, outcome in at_once([partial(attempt, provider) for provider in providers]):
            yield providers[place], outcome

    def _count(self, error: TrimaskError) -> None:
        if not isinstance(error, VerificationError):
            with self._counting:
                self.refusals[error.reason if isinstance(error, Refused) else Reason.UNREACHABLE] += 1

    def _complete(self, submission: SealedSubmission, receipts: Iterable[ProviderReceipt]) -> Receipt:
        receipt = self.receipt(submission, receipts)
        receipt.verify(self.study)
        return receipt

    def receipt(self, submission: SealedSubmission, receipts: Iterable[ProviderReceipt]) -> Receipt:
        """The receipt to keep: every provider's, with the key to withdraw and where the study can be fetched."""
        return Receipt(
            submission.study_id,
            submission.submission_id,
            tuple(receipts),
            submission.withdrawal_key,
            self.study.collector.address,
        )

    def withdraw(
        self, withdrawal_key: bytes, provider: int, admission: bytes | None = None
    ) -> ProviderWithdrawal:
        """One attempt at one right provider (1..K1): its signed word that the submission is erased there, verified.

        `Refused` with reason already_in_block if it is too late there. `Queue.withdraw` asks all of them, and again.
        `admission`: the bytes kept with the submission (`admission_of`); in an invited study a provider that the submission
        has not reached wants to see them. Without them this client's own invitation signs.
        """
        role = f"R{provider}"
        submission_id = submission_id_of(self.study.id, withdrawal_key)
        if admission is None:
            own = self.invitation
            admission = b"" if own is None else own.admit_withdrawal(submission_id).to_bytes()
        request = WithdrawRequest(study_id=self.study.id, withdrawal_key=withdrawal_key, invitation=admission)
        try:
            answer = self._transport.call(
                Endpoint.of(self.study, role), _WITHDRAW, request.SerializeToString(), self._timeout
            )
            response = WithdrawResponse.FromString(answer)
        except TrimaskError as error:
            self._count(error)
            raise
        except DecodeError:
            raise VerificationError(f"{role} answered with something that is not a withdrawal") from None
        word = ProviderWithdrawal(role, response.withdraw_time_ms, response.signature)
        word.verify(self.study, submission_id)
        return word

    def admission_of(self, submission: SealedSubmission) -> bytes:
        """What this client's invitation signs for a submission, to be kept and sent with it; empty without an invitation."""
        return b"" if self.invitation is None else self.invitation.admit(submission).to_bytes()

    def upload(
        self, submission: SealedSubmission, provider: int, admission: bytes | None = None
    ) -> ProviderReceipt:
        """One attempt at one right provider (1..K1): its receipt, verified. What a queue is built on.

        `admission`: the bytes kept with the submission (`admission_of`); without them this client's own invitation signs.
        """
        if submission.study_id != self.study.id:
            raise Refused(Reason.UNKNOWN_STUDY, "this submission was sealed for another study")
        try:
            return self._upload(submission, provider, admission)
        except TrimaskError as error:
            self._count(error)
            raise

    def _upload(
        self, submission: SealedSubmission, provider: int, admission: bytes | None
    ) -> ProviderReceipt:
        endpoint, request = self.upload_request(submission, provider, admission)
        answer = self._transport.call(endpoint, SUBMIT_METHOD, request, self._timeout)
        receipt = self.read_upload(submission, provider, answer)
        receipt.verify(self.study, submission.submission_id)
        return receipt

    def upload_request(
        self, submission: SealedSubmission, provider: int, admission: bytes | None = None
    ) -> tuple[Endpoint, bytes]:
        """Where and what to send to one right provider (1..K1): for programs that make the call themselves."""
        request = self.submit_request(submission, provider, admission)
        return Endpoint.of(self.study, f"R{provider}"), request.SerializeToString()

    def submit_request(
        self, submission: SealedSubmission, provider: int, admission: bytes | None = None
    ) -> SubmitRequest:
        """The message of `upload_request`."""
        return SubmitRequest(
            study_id=submission.study_id,
            submission_id=submission.submission_id,
            sealed_component=submission.sealed[provider - 1],
            invitation=self.admission_of(submission) if admission is None else admission,
            sealing_key_id=submission.key_ids[provider - 1] if submission.key_ids else b"",
        )

    def read_upload(self, submission: SealedSubmission, provider: int, response: bytes) -> ProviderReceipt:
        """The receipt in a right provider's answer to `upload_request`; its signature is for `receipt` to verify."""
        try:
            read = SubmitResponse.FromString(response)
        except DecodeError:
            raise VerificationError(f"R{provider} answered with something that is not a receipt") from None
        digest = hashlib.sha256(submission.sealed[provider - 1]).digest()
        return ProviderReceipt(f"R{provider}", digest, read.receive_time_ms, read.signature)


def _asked(error: TrimaskError) -> int | None:
    """How long a provider asks to wait before it is tried again, in milliseconds; None where it does not."""
    return error.retry_after_ms if isinstance(error, Refused) else None
