"""Receipts: each right provider's signed statement that a component is on its disk."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any

from trimask_core.errors import VerificationError
from trimask_core.identity import verify
from trimask_core.strict_json import read_json
from trimask_core.study import Study
from trimask_core.withdrawal import WITHDRAWAL_KEY_BYTES, submission_id_of

__all__ = ["ProviderReceipt", "Receipt", "receipt_digest_message", "receipt_message"]


def receipt_message(study_id: bytes, submission_id: bytes, sealed: bytes, receive_time_ms: int) -> bytes:
    """What a provider signs."""
    return receipt_digest_message(study_id, submission_id, hashlib.sha256(sealed).digest(), receive_time_ms)


def receipt_digest_message(
    study_id: bytes, submission_id: bytes, digest: bytes, receive_time_ms: int
) -> bytes:
    """The same, from the hash of the sealed component."""
    return study_id + submission_id + digest + receive_time_ms.to_bytes(8, "big")


@dataclass(frozen=True)
class ProviderReceipt:
    """One provider's receipt."""

    role: str
    sealed_hash: bytes
    receive_time_ms: int
    signature: bytes


@dataclass(frozen=True)
class Receipt:
    """All K1 receipts of one submission: proof that it was accepted, without anything about the answers.

    With its `withdrawal_key` it can be withdrawn until it is pooled, by anybody who has the receipt; `shown` is a copy
    without it, to be given to others. `collector` is where the study can be fetched.
    """

    study_id: bytes
    submission_id: bytes
    providers: tuple[ProviderReceipt, ...]
    withdrawal_key: bytes = field(default=b"", repr=False)
    collector: str = ""

    @property
    def shown(self) -> Receipt:
        """A copy that proves as much and cannot withdraw."""
        return replace(self, withdrawal_key=b"")

    def verify(self, study: Study) -> None:
        """Raise `VerificationError` unless every right provider of `study` signed."""
        if self.study_id != study.id:
            raise VerificationError("this receipt is for another study")
        key = self.withdrawal_key
        if key and (
            len(key) != WITHDRAWAL_KEY_BYTES or submission_id_of(self.study_id, key) != self.submission_id
        ):
            raise VerificationError("the withdrawal key of this receipt is for another submission")
        if [item.role for item in self.providers] != [f"R{k}" for k in range(1, len(study.right) + 1)]:
            raise VerificationError("this receipt does not have one signature of each right provider")
        for item in self.providers:
            if not 0 <= item.receive_time_ms < 1 << 63:
                raise VerificationError(f"the receipt of {item.role} has an impossible time")
            message = receipt_digest_message(
                self.study_id, self.submission_id, item.sealed_hash, item.receive_time_ms
            )
            verify(
                study.party(item.role).identity,
                "receipt",
                message,
                item.signature,
                f"the receipt of {item.role}",
            )

    def to_json(self) -> str:
        """The form a person keeps."""
        later = {"withdrawal_key": self.withdrawal_key.hex(), "collector": self.collector}
        return json.dumps(
            {
                "study_id": self.study_id.hex(),
                "submission_id": self.submission_id.hex(),
                "providers": [
                    {
                        "role": item.role,
                        "sealed_hash": item.sealed_hash.hex(),
                        "receive_time_ms": item.receive_time_ms,
                        "signature": base64.b64encode(item.signature).decode(),
                    }
                    for item in self.providers
                ],
            }
            | {name: value for name, value in later.items() if value},
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        """Read what `to_json` wrote."""
        try:
            data: dict[str, Any] = read_json(text)
            return cls(
                bytes.fromhex(data["study_id"]),
                bytes.fromhex(data["submission_id"]),
                tuple(
                    ProviderReceipt(
                        item["role"],
                        bytes.fromhex(item["sealed_hash"]),
                        int(item["receive_time_ms"]),
                        base64.b64decode(item["signature"], validate=True),
                    )
                    for item in data["providers"]
                ),
                bytes.fromhex(data.get("withdrawal_key", "")),
                str(data.get("collector", "")),
            )
        except KeyError as error:
            raise VerificationError(f"this is not a receipt: it has no {error}") from None
        except (TypeError, AttributeError):
            raise VerificationError("this is not a receipt: it, or a field, is of the wrong kind") from None
        except (ValueError, RecursionError) as error:
            raise VerificationError(f"this is not a receipt: {error}") from None
