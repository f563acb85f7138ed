"""A submission: the device's part, from answers to K1 sealed payloads, frozen; its receipts, and withdrawing by them.

What each right provider gets in its payload is for the study's suite; ids, withdrawal and sealing are the same for all.
None of it needs numpy. `upload_bytes` counts the payload, without what TLS and HTTP/2 add.

A submission's id is a hash of its withdrawal key. Whoever sees the id (every right provider and the collector do) cannot
find the key, and who shows the key needs no other proof; it is kept in the receipt. A provider that was shown the key
can only do what its owner asked for.

A receipt is each right provider's signed statement that a component is on its disk, or erased. It can be a link, which a
camera reads from one screen and opens on another device, in the app or on the survey page. Bytes rather than JSON, so
that the code stays coarse enough for a camera; the survey page writes and reads the same
(client/web/device/receipt.js). As with invitations everything secret is after the #, which browsers send to nobody:
https://HOST/s/SHORT#receipt.CODE where the study has a page, else trimask://HOST:PORT/receipt/CODE, where the collector
is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trimask_core.basics.encoding import decode_bytes, encode_bytes, read_json
from trimask_core.basics.errors import ParameterError, VerificationError
from trimask_core.basics.randomness import SEED_BYTES, RandomSource
from trimask_core.crypto.keys import (
    SEAL_OVERHEAD_BYTES,
    SEALINGS,
    Sealing,
    component_info,
    kind_of,
    seal,
    sealing_key_id,
    verify,
)
from trimask_core.study.definition import Study
from trimask_core.study.party import short_code
from trimask_core.suites import payloads_of

SUBMISSION_ID_BYTES = 16
WITHDRAWAL_KEY_BYTES = 32


@dataclass(frozen=True)
class SealedSubmission:
    """A random id and, for each right provider in order, its sealed component. Never edited after this.

    The id is the hash of `withdrawal_key`, which is in the receipt alone until it is used.
    """

    study_id: bytes
    submission_id: bytes
    sealed: tuple[bytes, ...] = field(repr=False)
    withdrawal_key: bytes = field(default=b"", repr=False)
    key_ids: tuple[bytes, ...] = ()  # which key each is sealed to; empty where that is not known

    def to_record(self) -> dict[str, Any]:
        """JSON-ready, for a device's encrypted store."""
        return {
            "study_id": self.study_id.hex(),
            "submission_id": self.submission_id.hex(),
            "sealed": [encode_bytes(part) for part in self.sealed],
            "withdrawal_key": self.withdrawal_key.hex(),
            "key_ids": [key_id.hex() for key_id in self.key_ids],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> SealedSubmission:
        """Read what `to_record` wrote."""
        return cls(
            bytes.fromhex(record["study_id"]),
            bytes.fromhex(record["submission_id"]),
            tuple(decode_bytes(part) for part in record["sealed"]),
            bytes.fromhex(record["withdrawal_key"]),
            tuple(bytes.fromhex(key_id) for key_id in record["key_ids"]),
        )


def build_submission(
    study: Study,
    answers: Mapping[str, object],
    source: RandomSource,
    sealing: Mapping[int, bytes] | None = None,
) -> SealedSubmission:
    """Everything a device sends, from what a person answered.

    `sealing` has newer keys of right providers (by k, from 1) to seal to in the place of those in the study.
    """
    return seal_payloads(study, payloads_of(study).payloads(study, answers, source), source, sealing)


def seal_payloads(
    study: Study,
    payloads: Sequence[bytes],
    source: RandomSource,
    sealing: Mapping[int, bytes] | None = None,
) -> SealedSubmission:
    """Payloads sealed to their right providers, under a fresh id and the key that withdraws it."""
    return seal_under(study, payloads, source.read(WITHDRAWAL_KEY_BYTES), sealing)


def seal_under(
    study: Study,
    payloads: Sequence[bytes],
    withdrawal_key: bytes,
    sealing: Mapping[int, bytes] | None = None,
) -> SealedSubmission:
    """The same under a withdrawal key that was drawn before."""
    submission_id = submission_id_of(study.id, withdrawal_key)
    keys = [(sealing or {}).get(k, provider.sealing) for k, provider in enumerate(study.right, 1)]
    if any(kind_of(key) != study.sealing for key in keys):
        raise VerificationError(
            "a sealing key is not of the kind that this study says: nothing is sealed to it"
        )
    sealed = tuple(
        seal(key, payload, component_info(study.binding, k, submission_id))
        for k, (key, payload) in enumerate(zip(keys, payloads, strict=True), 1)
    )
    key_ids = tuple(sealing_key_id(key) for key in keys)
    return SealedSubmission(study.id, submission_id, sealed, withdrawal_key, key_ids)


_VALUE_BYTES = 8
_KIND_BYTES = 1  # whether a seed or a vector follows
_STUDY_ID_BYTES = 32


def upload_bytes(values: int, providers: int, more: int = 0, sealing: Sealing = SEALINGS[0]) -> int:
    """Of a share of so many values: the vector for the last right provider, a seed for each of the others, all sealed.

    `more` bytes, in all of them together, go with the shares.
    """
    each = _KIND_BYTES + SEAL_OVERHEAD_BYTES[sealing] + _STUDY_ID_BYTES + SUBMISSION_ID_BYTES
    return _VALUE_BYTES * values + (providers - 1) * SEED_BYTES + providers * each + more


def upload_bytes_of(study: Study) -> int:
    """Of a submission to this study."""
    forms = [payloads_of(study).form_of(study, k) for k in range(1, len(study.right) + 1)]
    return upload_bytes(forms[-1].values, len(forms), sum(form.more for form in forms), study.sealing)


def submission_id_of(study_id: bytes, withdrawal_key: bytes) -> bytes:
    """The id of the submission that this key withdraws."""
    if len(withdrawal_key) != WITHDRAWAL_KEY_BYTES:
        raise ParameterError("withdrawal_key", f"{WITHDRAWAL_KEY_BYTES} bytes")
    return hashlib.sha256(b"trimask/v1/submission-id\0" + study_id + withdrawal_key).digest()[
        :SUBMISSION_ID_BYTES
    ]


def withdrawal_message(study_id: bytes, submission_id: bytes, withdraw_time_ms: int) -> bytes:
    """What a provider signs."""
    return study_id + submission_id + withdraw_time_ms.to_bytes(8, "big")


@dataclass(frozen=True)
class ProviderWithdrawal:
    """One right provider's signed statement that it holds nothing of a submission and never will."""

    role: str
    withdraw_time_ms: int
    signature: bytes

    def verify(self, study: Study, submission_id: bytes) -> None:
        """Raise `VerificationError` unless this provider signed it."""
        if not 0 <= self.withdraw_time_ms < 1 << 63:
            raise VerificationError(f"the withdrawal at {self.role} has an impossible time")
        message = withdrawal_message(study.id, submission_id, self.withdraw_time_ms)
        what = f"the withdrawal at {self.role}"
        verify(study.party(self.role).identity, "withdrawal", message, self.signature, what)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "role": self.role,
            "withdraw_time_ms": self.withdraw_time_ms,
            "signature": self.signature.hex(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ProviderWithdrawal:
        """Read what `to_dict` wrote."""
        return cls(data["role"], data["withdraw_time_ms"], bytes.fromhex(data["signature"]))


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

    def verify(self, study: Study, submission_id: bytes) -> None:
        """Raise `VerificationError` unless this provider signed it."""
        if not 0 <= self.receive_time_ms < 1 << 63:
            raise VerificationError(f"the receipt of {self.role} has an impossible time")
        message = receipt_digest_message(study.id, submission_id, self.sealed_hash, self.receive_time_ms)
        what = f"the receipt of {self.role}"
        verify(study.party(self.role).identity, "receipt", message, self.signature, what)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "role": self.role,
            "sealed_hash": self.sealed_hash.hex(),
            "receive_time_ms": self.receive_time_ms,
            "signature": encode_bytes(self.signature),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ProviderReceipt:
        """Read what `to_dict` wrote."""
        return cls(
            data["role"],
            bytes.fromhex(data["sealed_hash"]),
            int(data["receive_time_ms"]),
            decode_bytes(data["signature"]),
        )


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
        if [item.role for item in self.providers] != study.right_roles:
            raise VerificationError("this receipt does not have one signature of each right provider")
        for item in self.providers:
            item.verify(study, self.submission_id)

    def to_json(self) -> str:
        """The form a person keeps."""
        later = {"withdrawal_key": self.withdrawal_key.hex(), "collector": self.collector}
        return json.dumps(
            {
                "study_id": self.study_id.hex(),
                "submission_id": self.submission_id.hex(),
                "providers": [item.to_dict() for item in self.providers],
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
                tuple(map(ProviderReceipt.from_dict, data["providers"])),
                bytes.fromhex(data.get("withdrawal_key", "")),
                str(data.get("collector", "")),
            )
        except KeyError as error:
            raise VerificationError(f"this is not a receipt: it has no {error}") from None
        except (TypeError, AttributeError):
            raise VerificationError("this is not a receipt: it, or a field, is of the wrong kind") from None
        except (ValueError, RecursionError) as error:
            raise VerificationError(f"this is not a receipt: {error}") from None


_WEB, _APP = "#receipt.", "/receipt/"
_SCHEME = "trimask://"
_VERSION = b"\x01"
_STUDY, _SUBMISSION, _KEY, _HASH, _TIME, _SIGNATURE = 32, 16, 32, 32, 6, 64
_EACH = _HASH + _TIME + _SIGNATURE
_HEAD = len(_VERSION) + _STUDY + _SUBMISSION + _KEY


def receipt_link(study: Study, receipt: Receipt) -> str:
    """The link of a receipt with its withdrawal key; anybody who has it can withdraw."""
    if len(receipt.withdrawal_key) != _KEY:
        raise VerificationError("a receipt without its withdrawal key has no link; save or share its file")
    parts = (
        item.sealed_hash + item.receive_time_ms.to_bytes(_TIME, "big") + item.signature
        for item in receipt.providers
    )
    data = _VERSION + receipt.study_id + receipt.submission_id + receipt.withdrawal_key + b"".join(parts)
    code = base64.urlsafe_b64encode(data).decode().rstrip("=")
    if study.web is None:
        return f"{_SCHEME}{study.collector.address}{_APP}{code}"
    return f"{study.web.hosts[0]}/s/{short_code(study.id)}{_WEB}{code}"


def is_receipt(text: str) -> bool:
    """Whether this is meant as a receipt, as a file's text or as a link, rather than as an invitation."""
    text = text.strip()
    return text.startswith("{") or _WEB in text or (text.lower().startswith(_SCHEME) and _APP in text)


def page_of(text: str) -> str:
    """The page that a receipt's link opens, whose folder has the study (study.json); empty where it has none."""
    text = "".join(text.split())
    return text.partition(_WEB)[0].rstrip("/") if _WEB in text else ""


def read_receipt(text: str) -> Receipt:
    """A receipt from its file's text or its link; it is still to be verified. No `collector` if a page has the study."""
    text = text.strip()
    if text.startswith("{"):
        return Receipt.from_json(text)
    text = "".join(text.split())  # mail programs break long lines
    if _WEB in text:
        return _read_code(text.partition(_WEB)[2])
    if not text.lower().startswith(_SCHEME) or _APP not in text:
        raise VerificationError("this is not a receipt: give the file's text, or its link")
    address, _, code = text[len(_SCHEME) :].partition(_APP)
    return replace(_read_code(code), collector=address)


def _read_code(code: str) -> Receipt:
    try:
        data = base64.b64decode(code + "=" * (-len(code) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise VerificationError("this receipt has a character that does not belong in it") from None
    if data[:1] != _VERSION or len(data) <= _HEAD or (len(data) - _HEAD) % _EACH:
        raise VerificationError("this receipt is not whole")
    at = 1 + _STUDY
    study_id, submission_id = data[1:at], data[at : at + _SUBMISSION]
    providers = []
    for k, start in enumerate(range(_HEAD, len(data), _EACH), 1):
        time = start + _HASH
        signature = time + _TIME
        providers.append(
            ProviderReceipt(
                f"R{k}",
                data[start:time],
                int.from_bytes(data[time:signature], "big"),
                data[signature : start + _EACH],
            )
        )
    return Receipt(study_id, submission_id, tuple(providers), data[at + _SUBMISSION : _HEAD])
