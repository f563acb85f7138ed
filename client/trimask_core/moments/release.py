"""What providers sign about the totals they deliver, and how deliveries become noisy totals: for nodes and researchers.

Every delivery is published with its salt, its hash and the provider's signature over that hash, what was asked and which
reports it is of. So anybody with the study can check that the published totals are the sum of what each right provider
committed to, whatever the collector says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from trimask_core.errors import VerificationError
from trimask_core.moments.field import pack, signed, unpack

__all__ = [
    "COMMITMENTS",
    "TOTALS",
    "AddedBatch",
    "accepted_hash",
    "asked_hash",
    "commitment_message",
    "commitments_message",
    "decode",
    "read_values",
    "release_hash",
    "values_hash",
]

COMMITMENTS = "totals-commitments"
TOTALS = "totals"
"""The context of a provider's signature over `commitment_message`."""


@dataclass(frozen=True)
class AddedBatch:
    """A batch whose accepted reports are added up: how many, and the hash of which."""

    batch_id: bytes
    accepted_hash: bytes
    accepted_count: int


def accepted_hash(study_id: bytes, batch_id: bytes, ids: Sequence[bytes], accepted: Sequence[bool]) -> bytes:
    """Which reports a batch has, and which of them were accepted."""
    flags = b"".join(name + bytes([good]) for name, good in zip(ids, accepted, strict=True))
    return hashlib.sha256(b"trimask/v1/accepted\0" + study_id + batch_id + flags).digest()


def release_hash(study_id: bytes, number: int, batches: Sequence[AddedBatch]) -> bytes:
    """The hash of the set of reports in a release."""
    parts = b"".join(batch.batch_id + batch.accepted_hash for batch in batches)
    return hashlib.sha256(b"trimask/v1/release set\0" + study_id + number.to_bytes(4, "big") + parts).digest()


def asked_hash(study_id: bytes, number: int, batch_ids: bytes, question: bytes = b"") -> bytes:
    """The hash of what is asked: the totals of these batches (their ids, joined) for a release, or a question about them."""
    asked = study_id + number.to_bytes(4, "big") + len(batch_ids).to_bytes(8, "big") + batch_ids + question
    return hashlib.sha256(b"trimask/v1/totals asked\0" + asked).digest()


def values_hash(values: Sequence[int], salt: bytes) -> bytes:
    """The commitment to a delivery."""
    return hashlib.sha256(b"trimask/v1/totals\0" + salt + pack(values)).digest()


def commitment_message(asked: bytes, role: str, accepted: bytes, count: int, values: bytes) -> bytes:
    """What a provider signs (context `TOTALS`): the hash of what is asked, and its commitment to the answer."""
    return asked + accepted + count.to_bytes(8, "big") + values + role.encode()


def commitments_message(asked: bytes, accepted: bytes, count: int, values: Sequence[bytes]) -> bytes:
    """What a provider signs (context `COMMITMENTS`) with its delivery: the commitments of R_1, R_2, ... that it has seen.

    Otherwise a provider that knew what the others delivered could, with the collector's help, commit again to a total of
    its choice, unnoticed. So all providers' deliveries name the same commitments, or the release is refused.
    """
    whole = hashlib.sha256(b"".join(values)).digest()
    return asked + accepted + count.to_bytes(8, "big") + len(values).to_bytes(2, "big") + whole


def read_values(data: bytes, count: int) -> list[int]:
    """A delivery's values; another number of them is refused."""
    values = unpack(data)
    if len(values) != count:
        raise VerificationError(f"a delivery of this study has {count} values, not {len(values)}")
    return values


def decode(deliveries: Sequence[Sequence[int]]) -> list[int]:
    """The noisy totals: the masks and shares cancel in the sum modulo P, which is read as signed."""
    return [signed(sum(parts)) for parts in zip(*deliveries, strict=True)]
