"""The totals of a release: each right provider's noise on them, in whole numbers, and what providers sign about them.

In the coordinates of the Frobenius norm the noise is isotropic: deviation sigma on the diagonal of the scaled moments and
sigma/sqrt(2) off it, where first moments are the row of x_0 = 1. A total of whole numbers z_j z_l is w_j w_l times the
scaled one. Any h honest providers together have the deviation sigma, so each adds sigma/sqrt(h).

A total is published on the grid of 2^-shift of a step, so that a deviation rounded up to whole numbers stays within 0.4 %
of what was asked for where a step is coarse (levels of a choice have w = 1): shares of the total are multiplied by
2^shift, a rounded Gaussian of whole deviation is added, and the reader of the sum divides. A study without noise has no
shift.

Every delivery is published with its salt, its hash and the provider's signature over that hash, what was asked and which
reports it is of. So anybody with the study can check that the published totals are the sum of what each right provider
committed to, whatever the collector says.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from trimask_core.basics.errors import VerificationError
from trimask_core.moments.field import pack, signed, unpack

SMALLEST = 4
"""No provider's noise on an entry has a smaller deviation: the guarantee of several honest providers counts on it."""
_FINE = 256
"""Deviations of at least this many steps: rounding one up adds less than 0.4 %."""


@dataclass(frozen=True, slots=True)
class EntryNoise:
    """One provider's noise on one entry: a rounded Gaussian of whole `sigma`, in units of 2^-shift of a step."""

    sigma: int
    shift: int

    @property
    def deviation(self) -> float:
        """The standard deviation in whole steps of the total, without the rounding's 1/12."""
        return math.ldexp(self.sigma, -self.shift)

    def variance(self, providers: int) -> float:
        """The variance of the published entry, in squared steps: every provider's noise and its rounding.

        A rounded Gaussian has variance sigma^2 + 1/12, up to a term of exp(-2 pi^2 sigma^2).
        """
        if not self.sigma:
            return 0.0
        return math.ldexp(providers * (self.sigma**2 + 1 / 12), -2 * self.shift)


def entry_noise(sigma: float, width: int, other: int, honest: int, diagonal: bool) -> EntryNoise:
    """One provider's noise on the total of z_j z_l, rounded up, with the smallest shift at which it is 256 or more."""
    if sigma == 0:
        return EntryNoise(0, 0)
    # The last factor is above the roundings of this line.
    asked = sigma * width * other / math.sqrt(honest * (1 if diagonal else 2)) * (1 + 2.0**-48)
    shift = max(0, math.ceil(math.log2(_FINE / asked)))
    return EntryNoise(max(SMALLEST, math.ceil(math.ldexp(asked, shift))), shift)


def release_noise(widths: Sequence[int], sigma: float, honest: int) -> list[EntryNoise]:
    """The noise of a release's totals: z_1..z_q (the row of x_0, whose width is 1), then the products, row by row."""
    first = [entry_noise(sigma, width, 1, honest, diagonal=False) for width in widths]
    return first + [
        entry_noise(sigma, width, other, honest, diagonal=place == 0)
        for j, width in enumerate(widths)
        for place, other in enumerate(widths[j:])
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
