"""The device's part: from answers to K1 sealed payloads, frozen.

What each right provider gets in its payload is for the study's suite; ids, withdrawal and sealing are the same for all.
None of it needs numpy. `upload_bytes` counts the payload, without what TLS and HTTP/2 add.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trimask_core.basics.encoding import decode_bytes, encode_bytes
from trimask_core.basics.errors import VerificationError
from trimask_core.basics.randomness import SEED_BYTES, RandomSource
from trimask_core.crypto.keys import (
    SEAL_OVERHEAD_BYTES,
    SEALINGS,
    Sealing,
    component_info,
    kind_of,
    seal,
    sealing_key_id,
)
from trimask_core.study.definition import Study
from trimask_core.submit.receipt import WITHDRAWAL_KEY_BYTES, submission_id_of
from trimask_core.suites import payloads_of

SUBMISSION_ID_BYTES = 16


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
