"""One round of asking right providers: to take a sealed payload that they do not have yet, or to erase a submission.

What was received is on disk before the next provider is asked, so that a crash anywhere is a repeat. The payload leaves the
disk only after the receipt of every provider is on it.

A withdrawal has a record of its own. A block needs every provider's part, so one provider that erases its part keeps the
submission out of every block. It is too late only where all of them have it in a block; a provider that has, while
another has erased it, frees it again when the collector gives that block up, and is asked again until then.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from trimask_client.client import Client
from trimask_client.queue_entry import PAUSES_MS, Entry, State, cause_of, provider_receipt, receipt_record
from trimask_client.records import PROGRESS, QueueRecords
from trimask_core.basics.errors import Refused, TrimaskError
from trimask_core.basics.randomness import RandomSource
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.submit.receipt import ProviderReceipt, ProviderWithdrawal, Receipt
from trimask_core.submit.submission import SealedSubmission

if TYPE_CHECKING:
    from trimask_core.basics.clock import Clock


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
    sealed = tuple(base64.b64decode(part) for part in payload["sealed"])
    key = bytes.fromhex(payload.get("withdrawal_key", ""))
    key_ids = tuple(bytes.fromhex(key_id) for key_id in payload.get("key_ids", ()))
    submission = SealedSubmission(client.study.id, submission_id, sealed, key, key_ids)
    admission = base64.b64decode(payload.get("invitation", ""))
    progress = records.progress(name)
    if name not in records.vault.names(PROGRESS):
        # From here on a part of it may have been received, whether we know it or not.
        records.save(PROGRESS, name, progress)
    received = {item["role"]: provider_receipt(item) for item in progress["receipts"]}
    failures: list[str] = []
    causes: list[tuple[str, str]] = []
    asked_ms = 0
    for provider in range(1, len(sealed) + 1):
        role = f"R{provider}"
        if role in received:
            continue
        try:
            received[role] = client.upload(submission, provider, admission)
        except TrimaskError as error:
            failures.append(str(error) if role in str(error) else f"{role}: {error}")
            causes.append((role, cause_of(error)))
            if isinstance(error, Refused):
                asked_ms = max(asked_ms, error.retry_after_ms or 0)
            if isinstance(error, Refused) and error.reason.final:
                progress["final"] = True
                break
            if admission and not received:
                # The first provider decides which submission an invitation is for: used twice, it then counts once,
                # not never.
                break
            continue
        progress["receipts"] = [receipt_record(received[key]) for key in sorted(received, key=_number)]
        records.save(PROGRESS, name, progress)
        records.release_draft(name)
        if signed is not None:
            signed(client.study.party(role).address)
    if len(received) == len(sealed):
        _finish(submission, client, received, payload, records)
        return
    progress["attempts"] += 1
    progress["why"], progress["causes"] = "; ".join(failures).rstrip("."), causes
    # Never sooner than a provider asked for.
    pause_ms = max(asked_ms, round(PAUSES_MS.pause(progress["attempts"], source)))
    progress["next_ms"] = clock.now_ms() + pause_ms
    records.save(PROGRESS, name, progress)


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
    failures, late = [], 0
    providers = len(client.study.right)
    for provider in range(1, providers + 1):
        role = f"R{provider}"
        if role in confirmed:
            continue
        try:
            confirmed[role] = client.withdraw(key, provider, admission)
        except TrimaskError as error:
            late += isinstance(error, Refused) and error.reason is Reason.ALREADY_IN_BLOCK
            failures.append(str(error) if role in str(error) else f"{role}: {error}")
    state: State = "withdrawing"
    if len(confirmed) == providers:
        state = "withdrawn"
    elif late == providers:
        state = "too_late"
    attempts = record["attempts"] + 1
    return record | {
        "state": state,
        "confirmed": [
            confirmed[role].to_dict() for role in sorted(confirmed, key=lambda role: int(role[1:]))
        ],
        "attempts": attempts,
        "next_ms": now_ms + round(PAUSES_MS.pause(attempts, source)) if state == "withdrawing" else None,
        "why": "; ".join(failures).rstrip("."),
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
