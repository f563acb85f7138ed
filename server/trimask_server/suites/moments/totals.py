"""From batches that were added up to what a right provider delivers: noisy, blinded, and committed to before it is sent.

A provider's values are its share of the totals plus its noise plus masks that cancel over all providers, modulo P. The
collector adds all providers' values up and reads them as signed numbers; it learns the noisy totals and nothing else.
Every value is a function of the provider's secret and of what is asked, so that a repeat sends the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimask_core.errors import VerificationError
from trimask_core.moments.field import P, draw, pack, signed, unpack
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.noise import EntryNoise
from trimask_core.noise import RoundedGaussian
from trimask_core.randomness import Stream, derive_key
from trimask_core.sealing import SealingKey

__all__ = [
    "AddedBatch",
    "accepted_hash",
    "add_noise",
    "add_up",
    "asked_hash",
    "blind",
    "commitment_message",
    "decode",
    "exchange_key_message",
    "read_values",
    "release_hash",
    "values_hash",
    "verdict_message",
]


def accepted_hash(study_id: bytes, batch_id: bytes, ids: Sequence[bytes], accepted: Sequence[bool]) -> bytes:
    """Which reports a batch has, and which of them were accepted."""
    flags = b"".join(name + bytes([good]) for name, good in zip(ids, accepted, strict=True))
    return hashlib.sha256(b"trimask/v1/accepted\0" + study_id + batch_id + flags).digest()


def verdict_message(study_id: bytes, batch_id: bytes, accepted: bytes) -> bytes:
    """What a provider signs (context "batch-verdict") before anything is added up."""
    return study_id + batch_id + accepted


def exchange_key_message(study_id: bytes, role: str, public: bytes) -> bytes:
    """What a provider signs (context "exchange-key") with its exchange key."""
    return study_id + public + role.encode()


@dataclass(frozen=True)
class AddedBatch:
    """A batch whose accepted reports are added up: how many, and the hash of which."""

    batch_id: bytes
    accepted_hash: bytes
    accepted_count: int


def release_hash(study_id: bytes, number: int, batches: Sequence[AddedBatch]) -> bytes:
    """Names the set of reports a release is of."""
    parts = b"".join(batch.batch_id + batch.accepted_hash for batch in batches)
    return hashlib.sha256(b"trimask/v1/release set\0" + study_id + number.to_bytes(4, "big") + parts).digest()


def asked_hash(study_id: bytes, number: int, batch_ids: bytes, question: bytes) -> bytes:
    """Names what the collector asks for: a release of these batches, or a private answer from them."""
    asked = study_id + number.to_bytes(4, "big") + len(batch_ids).to_bytes(8, "big") + batch_ids + question
    return hashlib.sha256(b"trimask/v1/totals asked\0" + asked).digest()


def add_up(layout: MomentsLayout, shares: Sequence[Sequence[int]], reports: int, *, first: bool) -> list[int]:
    """A provider's share of the totals: z_1..z_q, then the products; `first` is R_1, who has the constants."""
    proof = [0] * (layout.elements - layout.products.stop)
    elements = [sum(column) % P for column in zip(*shares, strict=True)]
    if not elements:
        elements = [0] * layout.products.stop
    z, products = layout.totals_of([*elements, *proof], reports if first else 0)
    return [*z, *products]


def add_noise(totals: Sequence[int], noises: Sequence[EntryNoise], stream: Stream) -> list[int]:
    """The totals on each entry's grid, with one provider's rounded Gaussian noise (note 6.5)."""
    gaussian = RoundedGaussian(_StreamSource(stream))
    return [
        ((total << noise.shift) + (gaussian.sample(noise.sigma) if noise.sigma else 0)) % P
        for total, noise in zip(totals, noises, strict=True)
    ]


@dataclass(frozen=True)
class _StreamSource:
    """A stream where a source of randomness is asked for: noise that is the same at every repeat."""

    stream: Stream

    def read(self, count: int) -> bytes:
        return self.stream.read(count)

    def seed(self) -> bytes:
        return self.stream.read(32)


def blind(
    values: Sequence[int], provider: int, own: SealingKey, publics: Mapping[int, bytes], context: bytes
) -> list[int]:
    """The values plus this provider's pairwise masks, which cancel in the sum over all providers.

    Shares are uniform already; the masks keep a provider's delivery so whatever devices sent, and cost nothing.
    """
    blinded = list(values)
    for other, public in publics.items():
        if other == provider:
            continue
        low, high = sorted((provider, other))
        label = b"moments blinding" + context + low.to_bytes(2, "big") + high.to_bytes(2, "big")
        stream = Stream(derive_key(own.agree(public), label), b"moments blinding")
        sign = 1 if provider == low else -1
        blinded = [(value + sign * draw(stream)) % P for value in blinded]
    return blinded


def values_hash(values: Sequence[int], salt: bytes) -> bytes:
    """The commitment to a delivery."""
    return hashlib.sha256(b"trimask/v1/totals\0" + salt + pack(values)).digest()


def commitment_message(asked: bytes, role: str, accepted: bytes, count: int, values: bytes) -> bytes:
    """What a provider signs (context "totals"): what is asked (its hash), and its word for the answer."""
    return asked + accepted + count.to_bytes(8, "big") + values + role.encode()


def read_values(data: bytes, count: int) -> list[int]:
    """A delivery's values; another number of them is refused."""
    values = unpack(data)
    if len(values) != count:
        raise VerificationError(f"a delivery of this study has {count} values, not {len(values)}")
    return values


def decode(deliveries: Sequence[Sequence[int]]) -> list[int]:
    """The noisy totals: the masks and shares cancel in the sum modulo P, which is read as signed."""
    return [signed(sum(parts)) for parts in zip(*deliveries, strict=True)]
