"""One submission on this device: how far it has come, why not further, what happens next; and one round of asking right
providers, to take a sealed payload that they do not have yet, or to erase a submission.

Providers are asked at the same time. What one has answered is on disk as soon as it comes, so that a crash anywhere is a
repeat. The payload leaves the disk only after the receipt of every provider is on it.

A withdrawal has a record of its own. A block needs every provider's part, so one provider that erases its part keeps the
submission out of every block. It is too late only where all of them have it in a block; a provider that has, while
another has erased it, frees it again when the collector gives that block up, and is asked again until then.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from trimask_client.client import Client
from trimask_client.records import PROGRESS, QueueRecords
from trimask_client.transport import Unreachable
from trimask_core.basics.clock import Backoff
from trimask_core.basics.errors import Refused, TrimaskError
from trimask_core.basics.randomness import RandomSource
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.submit.submission import ProviderReceipt, ProviderWithdrawal, Receipt, SealedSubmission

if TYPE_CHECKING:
    from trimask_core.basics.clock import Clock

State = Literal["waiting", "refused", "sent", "damaged", "withdrawing", "withdrawn", "too_late"]
DONE: tuple[State, ...] = ("sent", "withdrawn", "too_late")
PAUSES_MS = Backoff(first=15_000, longest=6 * 3600 * 1000, least=0.5)


@dataclass(frozen=True)
class Entry:
    """`received_by` are the right providers whose receipts are here, of `providers` in all.

    Of a withdrawal, `withdrawn_by` are those that have signed that the submission is erased. `held`: the draft it was sealed
    from is still here, because no provider has accepted it yet. `why` is in English; `causes` says the same by role and code
    (see `cause_of`), for a program with texts of its own.
    """

    submission_id: bytes
    study_id: bytes
    title: str
    state: State
    received_by: tuple[str, ...] = ()
    providers: int = 0
    attempts: int = 0
    next_ms: int | None = None
    why: str = ""
    receipt: Receipt | None = None
    withdrawn_by: tuple[str, ...] = ()
    held: bool = False
    causes: tuple[tuple[str, str], ...] = ()

    def words(self, now_ms: int) -> str:
        """The sentence for a person."""
        if self.state == "sent":
            return f"Sent: all {self.providers} providers have signed for it. Keep the receipt."
        if self.state == "damaged":
            return f"Cannot be read: {self.why}. It will not be sent; discard it, and answer again if the study is open."
        if self.state in ("withdrawing", "withdrawn", "too_late"):
            return self._withdrawal(now_ms)
        got = f"{len(self.received_by)} of {self.providers} providers have it"
        if self.state == "refused":
            after = (
                "You can discard it, and answer again from your draft."
                if self.held
                else "You can discard it."
            )
            return (
                f"Refused, and will not be tried again: {self.why}. {got}; a part alone is random numbers and is never "
                f"used. {after}"
            )
        if self.next_ms is None:
            kept = (
                "the draft stays here, encrypted, until a first provider has accepted it"
                if self.held
                else "your answers themselves are not kept on this device"
            )
            return f"Sealed and waiting to be sent; {kept}."
        when = _span(self.next_ms - now_ms)
        return (
            f"Not sent yet ({got}): {self.why}. It will be tried again {when}, the same sealed bytes, so nothing is "
            "counted twice."
        )

    def _withdrawal(self, now_ms: int) -> str:
        if self.state == "too_late":
            return (
                "Could not be withdrawn: it is already being combined with other people's answers, and stays in. To take "
                "it out again could show which it was; the study's guarantee stays as it is."
            )
        if self.state == "withdrawn":
            if not self.withdrawn_by:
                return "Withdrawn before anything of it was sent: nothing has left this device."
            return f"Withdrawn: all {self.providers} providers have signed that it is erased and cannot come again."
        gone = f"{len(self.withdrawn_by)} of {self.providers} providers have erased it"
        use = "; without their parts it can no longer be used" if self.withdrawn_by else ""
        why = f": {self.why}" if self.why else ""
        when = (
            "" if self.next_ms is None else f" The others will be asked again {_span(self.next_ms - now_ms)}."
        )
        return f"Being withdrawn ({gone}{use}){why}.{when}"


def sent_entry(record: Mapping[str, Any]) -> Entry:
    """A submission that every right provider has signed for, from the record of its receipt."""
    receipt = Receipt.from_json(record["receipt"])
    roles = tuple(item.role for item in receipt.providers)
    return Entry(
        receipt.submission_id, receipt.study_id, record["title"], "sent", roles, len(roles), receipt=receipt
    )


def waiting_entry(submission_id: bytes, study: Study, progress: Mapping[str, Any], *, held: bool) -> Entry:
    """A submission that is to be sent, or was refused for good, from the record of how far sending has got."""
    return Entry(
        submission_id,
        study.id,
        study.title,
        "refused" if progress["final"] else "waiting",
        tuple(item["role"] for item in progress["receipts"]),
        len(study.right),
        progress["attempts"],
        progress["next_ms"],
        progress["why"],
        held=held,
        causes=tuple((role, code) for role, code in progress.get("causes", ())),
    )


def _span(milliseconds: int) -> str:
    minutes = -(-milliseconds // 60_000)
    if minutes <= 0:
        return "at the next opportunity"
    if minutes < 100:
        return f"in about {minutes} minute{'s' if minutes > 1 else ''}"
    return f"in about {-(-minutes // 60)} hours"


def cause_of(error: TrimaskError) -> str:
    """Why a provider has no part: a refusal's reason, "offline" if it was not reached, "untrusted" for a wrong answer."""
    if isinstance(error, Refused):
        return str(error.reason)
    return "offline" if isinstance(error, Unreachable) else "untrusted"


def send_payload(
    client: Client,
    submission_id: bytes,
    payload: Mapping[str, Any],
    records: QueueRecords,
    clock: Clock,
    source: RandomSource,
    signed: Callable[[str], None] | None = None,
) -> None:
    """Ask every provider whose receipt is missing, and write down what came of it; `signed` is told who has signed."""
    name = submission_id.hex()
    submission = SealedSubmission.from_record(payload)
    admission = base64.b64decode(payload["invitation"])
    progress = records.progress(name)
    if name not in records.vault.names(PROGRESS):
        # From here on a part of it may have been received, whether we know it or not.
        records.save(PROGRESS, name, progress)
    received = {item["role"]: ProviderReceipt.from_dict(item) for item in progress["receipts"]}
    errors: dict[str, TrimaskError] = {}
    missing = [k for k in range(1, len(submission.sealed) + 1) if f"R{k}" not in received]
    for provider, outcome in client.upload_each(submission, missing, admission):
        role = f"R{provider}"
        if isinstance(outcome, TrimaskError):
            errors[role] = outcome
            continue
        received[role] = outcome
        progress["receipts"] = [received[key].to_dict() for key in sorted(received, key=_number)]
        records.save(PROGRESS, name, progress)
        records.release_draft(name)
        if signed is not None:
            signed(client.study.party(role).address)
    if not errors:
        _finish(submission, client, received, payload, records)
        return
    refusals = [error for error in errors.values() if isinstance(error, Refused)]
    progress["final"] = any(error.reason.final for error in refusals)
    progress["attempts"] += 1
    progress["why"] = _why(errors)
    progress["causes"] = [(role, cause_of(errors[role])) for role in sorted(errors, key=_number)]
    # Never sooner than a provider asked for.
    asked_ms = max((error.retry_after_ms or 0 for error in refusals), default=0)
    pause_ms = max(asked_ms, round(PAUSES_MS.pause(progress["attempts"], source)))
    progress["next_ms"] = clock.now_ms() + pause_ms
    records.save(PROGRESS, name, progress)


def _why(errors: Mapping[str, TrimaskError]) -> str:
    """What went wrong where, in a line."""
    told = ((role, str(errors[role])) for role in sorted(errors, key=_number))
    return "; ".join(text if role in text else f"{role}: {text}" for role, text in told).rstrip(".")


def _finish(
    submission: SealedSubmission,
    client: Client,
    received: Mapping[str, ProviderReceipt],
    payload: Mapping[str, Any],
    records: QueueRecords,
) -> None:
    name = submission.submission_id.hex()
    receipt = client.receipt(submission, (received[key] for key in sorted(received, key=_number)))
    receipt.verify(client.study)
    record = {
        "receipt": receipt.to_json(),
        "title": client.study.title,
        "draft_id": payload["draft_id"],
        "invited": payload.get("invited", ""),
    }
    records.keep_receipt(name, record)


def _number(role: str) -> int:
    return int(role[1:])


def withdrawal_by_receipt(study: Study, receipt: Receipt) -> dict[str, Any]:
    """The record of a withdrawal by a receipt, of whichever device; `VerificationError` if it is not one of the study's."""
    receipt.verify(study)
    return _begun(study, receipt.withdrawal_key, receipt, {"invited": ""}, "")


def withdrawal_of_entry(
    study: Study, entry: Entry, payload: Mapping[str, Any], kept: Mapping[str, Any], *, tried: bool
) -> dict[str, Any]:
    """The record of a withdrawal of this device's own; complete at once if nothing of it has left the device.

    `kept` is what stands beside the receipt, or the payload where there is none yet.
    """
    key = bytes.fromhex(payload.get("withdrawal_key", ""))
    if entry.receipt is not None:
        key = key or entry.receipt.withdrawal_key
    invitation = payload.get("invitation", "")
    if tried or entry.receipt is not None:
        return _begun(study, key, entry.receipt, kept, invitation)
    return _record(study, key, None, kept.get("draft_id"), invitation) | {"state": "withdrawn"}


def _begun(
    study: Study, key: bytes, receipt: Receipt | None, kept: Mapping[str, Any], invitation: str
) -> dict[str, Any]:
    if not key:
        raise Refused(
            Reason.NO_WITHDRAWAL_KEY, "this receipt is without its withdrawal key; give the one you kept"
        )
    record = _record(study, key, receipt, kept.get("draft_id"), invitation)
    return record | {"invited": kept.get("invited", "")}


def _record(
    study: Study, key: bytes, receipt: Receipt | None, draft_id: str | None, invitation: str
) -> dict[str, Any]:
    """A new withdrawal, not sent yet. `invitation`: what admits the payload, kept with it, in base64."""
    return {
        "study_id": study.id.hex(),
        "title": study.title,
        "withdrawal_key": key.hex(),
        "invitation": invitation,
        "receipt": None if receipt is None else receipt.to_json(),
        "providers": len(study.right),
        "draft_id": draft_id,
        "state": "withdrawing",
        "confirmed": [],
        "attempts": 0,
        "next_ms": None,
        "why": "",
    }


def ask_providers(
    client: Client, record: dict[str, Any], now_ms: int, source: RandomSource
) -> dict[str, Any]:
    """The record after one attempt at every provider that has not confirmed yet."""
    confirmed = {item["role"]: ProviderWithdrawal.from_dict(item) for item in record["confirmed"]}
    key = bytes.fromhex(record["withdrawal_key"])
    admission = base64.b64decode(record.get("invitation", "")) or None
    errors: dict[str, TrimaskError] = {}
    providers = len(client.study.right)
    missing = [k for k in range(1, providers + 1) if f"R{k}" not in confirmed]
    for provider, outcome in client.each(missing, partial(client.withdraw, key, admission=admission)):
        if isinstance(outcome, TrimaskError):
            errors[f"R{provider}"] = outcome
        else:
            confirmed[outcome.role] = outcome
    late = sum(isinstance(e, Refused) and e.reason is Reason.ALREADY_IN_BLOCK for e in errors.values())
    state: State = "withdrawing"
    if len(confirmed) == providers:
        state = "withdrawn"
    elif late == providers:
        state = "too_late"
    attempts = record["attempts"] + 1
    return record | {
        "state": state,
        "confirmed": [confirmed[role].to_dict() for role in sorted(confirmed, key=_number)],
        "attempts": attempts,
        "next_ms": now_ms + round(PAUSES_MS.pause(attempts, source)) if state == "withdrawing" else None,
        "why": _why(errors),
    }


def withdrawal_entry(submission_id: bytes, record: dict[str, Any]) -> Entry:
    """How far it has come."""
    receipt = None if record["receipt"] is None else Receipt.from_json(record["receipt"])
    return Entry(
        submission_id,
        bytes.fromhex(record["study_id"]),
        record["title"],
        record["state"],
        () if receipt is None else tuple(item.role for item in receipt.providers),
        record["providers"],
        record["attempts"],
        record["next_ms"],
        record["why"],
        receipt,
        tuple(item["role"] for item in record["confirmed"]),
    )
