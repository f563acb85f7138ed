"""One submission on this device: how far it has come, why not further, and what happens next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trimask_client.transport import Unreachable
from trimask_core.basics.clock import Backoff
from trimask_core.basics.errors import Refused, TrimaskError
from trimask_core.study.definition import Study
from trimask_core.submit.receipt import ProviderReceipt, Receipt

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


def receipt_record(receipt: ProviderReceipt) -> dict[str, Any]:
    """A JSON-ready form."""
    return {
        "role": receipt.role,
        "sealed_hash": receipt.sealed_hash.hex(),
        "receive_time_ms": receipt.receive_time_ms,
        "signature": receipt.signature.hex(),
    }


def provider_receipt(record: Mapping[str, Any]) -> ProviderReceipt:
    """Read what `receipt_record` wrote."""
    return ProviderReceipt(
        record["role"],
        bytes.fromhex(record["sealed_hash"]),
        record["receive_time_ms"],
        bytes.fromhex(record["signature"]),
    )
