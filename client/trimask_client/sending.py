"""One attempt at sending a sealed payload to the right providers that do not have it yet.

What was received is on disk before the next provider is asked, so that a crash anywhere is a repeat. The payload leaves the
disk only after the receipt of every provider is on it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from trimask_client.client import Client
from trimask_client.entry import PAUSES_MS, cause_of, provider_receipt, receipt_record
from trimask_client.queue_records import PROGRESS, QueueRecords
from trimask_core.errors import Refused, TrimaskError
from trimask_core.randomness import RandomSource
from trimask_core.receipt import ProviderReceipt
from trimask_core.submission import SealedSubmission

if TYPE_CHECKING:
    from trimask_core.clock import Clock

__all__ = ["send_payload"]


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
