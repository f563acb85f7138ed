"""From batches that were added up to what a right provider delivers: noisy, blinded, and committed to before it is sent.

A provider's values are its share of the totals plus its noise plus masks that cancel over all providers, modulo P. The
collector adds all providers' values up and reads them as signed numbers; it learns the noisy totals and nothing else.
Every value is a function of the provider's secret and of what is asked, so that a repeat sends the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimask_core.moments.field import P, draw
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.noise import EntryNoise
from trimask_core.noise import RoundedGaussian
from trimask_core.randomness import Stream, derive_key
from trimask_core.sealing import SealingKey

__all__ = [
    "add_noise",
    "add_up",
    "blind",
    "exchange_key_message",
    "verdict_message",
]


def verdict_message(study_id: bytes, batch_id: bytes, accepted: bytes) -> bytes:
    """What a provider signs (context "batch-verdict") before anything is added up."""
    return study_id + batch_id + accepted


def exchange_key_message(study_id: bytes, role: str, public: bytes) -> bytes:
    """What a provider signs (context "exchange-key") with its exchange key."""
    return study_id + public + role.encode()


def add_up(layout: MomentsLayout, shares: Sequence[Sequence[int]], reports: int, *, first: bool) -> list[int]:
    """A provider's share of the totals: those of x_0's row, then the products; `first` is R_1, who has the constants."""
    proof = [0] * (layout.elements - layout.products.stop)
    elements = [sum(column) % P for column in zip(*shares, strict=True)]
    if not elements:
        elements = [0] * layout.products.stop
    z, products = layout.totals_of([*elements, *proof], reports if first else 0)
    return [*z, *products]


def add_noise(totals: Sequence[int], noises: Sequence[EntryNoise], stream: Stream) -> list[int]:
    """The totals on each entry's grid, with one provider's rounded noise (docs/theory/verified-moments.md#noise)."""
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
