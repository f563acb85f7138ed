"""The record of a withdrawal, and one round of asking every right provider to erase a submission.

A block needs every provider's part, so one provider that erases its part keeps the submission out of every block. It is
too late only where all of them have it in a block; a provider that has, while another has erased it, frees it again when
the collector gives that block up, and is asked again until then.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from trimask_client.client import Client
from trimask_client.entry import PAUSES_MS, Entry, State
from trimask_core.errors import Refused, TrimaskError
from trimask_core.randomness import RandomSource
from trimask_core.receipt import Receipt
from trimask_core.refusals import Reason
from trimask_core.study import Study
from trimask_core.withdrawal import ProviderWithdrawal

__all__ = ["ask_providers", "withdrawal_by_receipt", "withdrawal_entry", "withdrawal_of_entry"]


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
